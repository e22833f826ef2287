"""MurmurHash3_x64_128, the hash of the datasketches library (seed 9001) and of Guava's Bloom filters (seed 0).

64-bit sums and products wrap on purpose.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)


@kernel
def _rotate(value: Any, count: int) -> Any:
    return (value << np.uint64(count)) | (value >> np.uint64(64 - count))


@kernel
def _finish(k: Any) -> Any:
    k = (k ^ (k >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    k = (k ^ (k >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return k ^ (k >> np.uint64(33))


@kernel
def _word(data: Array, start: int, stop: int) -> Any:
    """Up to eight bytes as an unsigned little-endian number."""
    word = np.uint64(0)
    for i in range(start, stop):
        word |= np.uint64(data[i]) << np.uint64(8 * (i - start))
    return word


@kernel
def murmur3_x64_128(data: Array, offsets: Array, seed: int, low: Array, high: Array) -> None:
    """Write both halves (uint64 [n]) of the hash of each byte string data[offsets[i]:offsets[i + 1]] (uint8)."""
    for i in range(low.size):
        start, stop = int(offsets[i]), int(offsets[i + 1])
        h1 = np.uint64(seed)
        h2 = np.uint64(seed)
        position = start
        while stop - position >= 16:
            h1 ^= _rotate(_word(data, position, position + 8) * _C1, 31) * _C2
            h1 = (_rotate(h1, 27) + h2) * np.uint64(5) + np.uint64(0x52DCE729)
            h2 ^= _rotate(_word(data, position + 8, position + 16) * _C2, 33) * _C1
            h2 = (_rotate(h2, 31) + h1) * np.uint64(5) + np.uint64(0x38495AB5)
            position += 16
        if stop - position > 8:
            h2 ^= _rotate(_word(data, position + 8, stop) * _C2, 33) * _C1
        h1 ^= _rotate(_word(data, position, min(position + 8, stop)) * _C1, 31) * _C2
        h1 ^= np.uint64(stop - start)
        h2 ^= np.uint64(stop - start)
        h1 += h2
        h2 += h1
        h1 = _finish(h1)
        h2 = _finish(h2)
        h1 += h2
        low[i] = h1
        high[i] = h2 + h1


@kernel
def bloom_set(low: Array, high: Array, probes: int, words: Array) -> None:
    """Set the bits of hashes in a Bloom filter of uint64 words, as Guava's MURMUR128_MITZ_64 places them."""
    bits = np.uint64(words.size * 64)
    for i in range(low.size):
        combined = low[i]
        for _ in range(probes):
            bit = (combined & np.uint64(0x7FFFFFFFFFFFFFFF)) % bits
            words[np.int64(bit >> np.uint64(6))] |= np.uint64(1) << (bit & np.uint64(63))
            combined += high[i]


@kernel
def bloom_contains(low: Array, high: Array, probes: int, words: Array, out: Array) -> None:
    """Write for each hash whether all its bits are set: bool [n]."""
    bits = np.uint64(words.size * 64)
    for i in range(low.size):
        combined = low[i]
        found = True
        for _ in range(probes):
            bit = (combined & np.uint64(0x7FFFFFFFFFFFFFFF)) % bits
            if (words[np.int64(bit >> np.uint64(6))] >> (bit & np.uint64(63))) & np.uint64(1) == 0:
                found = False
                break
            combined += high[i]
        out[i] = found
