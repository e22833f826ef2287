"""Ids in the fewest bits: packing and unpacking.

Value i of width w lies in bits [i * w, (i + 1) * w) of a little-endian bit stream held in uint64 words. One zero word
follows the last, so that reading never has to ask whether a value crosses into a word that exists.
"""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

WORD_BITS = 64


def words_needed(num_values: int, bits: int) -> int:
    """Return the number of uint64 words that hold `num_values` values of a width, with the zero word behind them."""
    return -(-num_values * bits // WORD_BITS) + 1


@kernel
def pack(values: Array, bits: int, words: Array) -> None:
    """Pack unsigned values [n] below 2**bits into zeroed uint64 words [words_needed(n, bits)]."""
    for i in range(values.size):
        value = np.uint64(values[i])
        position = np.uint64(i) * np.uint64(bits)
        word = np.int64(position >> np.uint64(6))
        shift = position & np.uint64(63)
        words[word] |= value << shift
        words[word + 1] |= (value >> np.uint64(1)) >> (np.uint64(63) - shift)


@kernel
def unpack(words: Array, bits: int, start: int, out: Array) -> None:
    """Unpack values start … start + out.size - 1 into `out`, an unsigned array wide enough."""
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for i in range(out.size):
        position = np.uint64(start + i) * np.uint64(bits)
        word = np.int64(position >> np.uint64(6))
        shift = position & np.uint64(63)
        low = words[word] >> shift
        high = (words[word + 1] << np.uint64(1)) << (np.uint64(63) - shift)
        out[i] = (low | high) & mask


@kernel
def unpack_at(words: Array, bits: int, indices: Array, out: Array) -> None:
    """Unpack the values at `indices` [n] into `out` [n]."""
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for i in range(indices.size):
        position = np.uint64(indices[i]) * np.uint64(bits)
        word = np.int64(position >> np.uint64(6))
        shift = position & np.uint64(63)
        low = words[word] >> shift
        high = (words[word + 1] << np.uint64(1)) << (np.uint64(63) - shift)
        out[i] = (low | high) & mask
