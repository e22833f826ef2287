"""HyperLogLog registers, bit for bit as the stream-lib library keeps them, so that its sketches can be read and merged.

hashes: uint32. A sketch has 2**log2m registers; the first log2m bits of a hash choose one, the position of the first one bit
in the rest is its candidate value. 32-bit arithmetic is done in uint64 and cut off, which wraps in the same way everywhere.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


@kernel
def _finish_hash(h: Any) -> Any:
    h ^= h >> np.uint64(13)
    h = (h * np.uint64(_M)) & np.uint64(_MASK)
    return h ^ (h >> np.uint64(15))


@kernel
def hash_longs(values: Array, out: Array) -> None:
    """Hash int64 values, given as uint64: MurmurHash 2 of the low, then the high half, unseeded."""
    m = np.uint64(_M)
    mask = np.uint64(_MASK)
    for i in range(len(values)):
        k = ((values[i] & mask) * m) & mask
        k ^= k >> np.uint64(24)
        h = (k * m) & mask
        k = ((values[i] >> np.uint64(32)) * m) & mask
        k ^= k >> np.uint64(24)
        h = (h * m) & mask
        h ^= (k * m) & mask
        out[i] = _finish_hash(h)


@kernel
def hash_bytes(offsets: Array, data: Array, out: Array) -> None:
    """Hash byte strings data[offsets[i]:offsets[i + 1]] (uint8): MurmurHash 2 with seed -1, tail bytes signed."""
    m = np.uint64(_M)
    mask = np.uint64(_MASK)
    for i in range(len(out)):
        start = np.int64(offsets[i])
        length = np.int64(offsets[i + 1]) - start
        h = mask ^ np.uint64(length)
        whole = length // 4 * 4
        for j in range(start, start + whole, 4):
            k = np.uint64(data[j]) | np.uint64(data[j + 1]) << np.uint64(8)
            k |= np.uint64(data[j + 2]) << np.uint64(16) | np.uint64(data[j + 3]) << np.uint64(24)
            k = (k * m) & mask
            k ^= k >> np.uint64(24)
            k = (k * m) & mask
            h = ((h * m) & mask) ^ k
        if whole < length:
            for j in range(whole, length):
                # Unlike elsewhere the last byte is the lowest, and bytes from 128 on count as negative.
                byte = np.int64(data[start + j])
                signed = byte - 256 if byte >= 128 else byte
                h ^= np.uint64((signed << (8 * (length - 1 - j))) & np.int64(_MASK))
            h = (h * m) & mask
        out[i] = _finish_hash(h)


@kernel
def register_candidates(hashes: Array, log2m: int, positions: Array, ranks: Array) -> None:
    """Write the register of each hash (uint16 or wider) and its candidate value (uint8)."""
    bits = np.uint64(log2m)
    guard = (np.uint64(1) << (bits - np.uint64(1))) + np.uint64(1)
    for i in range(len(hashes)):
        h = np.uint64(hashes[i])
        positions[i] = h >> (np.uint64(32) - bits)
        rest = ((h << bits) & np.uint64(_MASK)) | guard
        # leading zeros by halves, without branches: hashes take any of them
        rank = np.uint64(1)
        for half in (16, 8, 4, 2, 1):
            shift = np.uint64(half) * np.uint64(rest >> np.uint64(32 - half) == 0)
            rank += shift
            rest <<= shift
        ranks[i] = rank


@kernel
def raise_registers(groups: Array, rows: Array, positions: Array, ranks: Array, log2m: int, registers: Array) -> None:
    """Raise the register of each row's value in its group; rows[i] tells which candidate row i has.

    registers: uint8 [number of groups << log2m].
    """
    bits = np.uint64(log2m)
    for i in range(len(rows)):
        row = np.uint64(rows[i])
        cell = (np.uint64(groups[i]) << bits) + np.uint64(positions[row])
        if ranks[row] > registers[cell]:
            registers[cell] = ranks[row]
