"""Bytes of primary keys: columns put together, UUIDs read, MD5.

A list of byte strings is `data` uint8 and `offsets` [n + 1], as everywhere.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_MASK32 = np.uint64(0xFFFFFFFF)
_DASHES = np.array([8, 4, 4, 4, 12], np.int64)
_SHIFTS = np.array([7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21], np.int64)
_SINES = np.floor(np.abs(np.sin(np.arange(1, 65))) * 2.0**32).astype(np.uint64)


@kernel
def append_fixed(values: Array, positions: Array, out: Array) -> None:
    """Write row i of values (uint8 [n, width]) at out[positions[i]], and move the position behind it."""
    width = values.shape[1]
    for i in range(values.shape[0]):
        p = positions[i]
        for k in range(width):
            out[p + k] = values[i, k]
        positions[i] = p + width


@kernel
def append_text(data: Array, offsets: Array, positions: Array, out: Array) -> None:
    """Write string i, with its length as four big-endian bytes in front, at out[positions[i]], and move that behind it."""
    for i in range(positions.size):
        start, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        p = positions[i]
        for k in range(4):
            out[p + k] = ((stop - start) >> (8 * (3 - k))) & 255
        p += 4
        for k in range(stop - start):
            out[p + k] = data[start + k]
        positions[i] = p + stop - start


@kernel
def _digit(byte: Any) -> Any:
    if 48 <= byte <= 57:
        return byte - 48
    letter = byte | 32
    return letter - 87 if 97 <= letter <= 102 else -1


@kernel
def parse_uuids(data: Array, offsets: Array, out: Array, good: Array) -> None:
    """Read UUIDs in their text form, in any case; leading zeros of the five groups may be missing.

    out: uint8 [n, 16]; good: bool [n], False where the text is something else.
    """
    for i in range(good.size):
        p, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        nibble = 0
        good[i] = True
        for k in range(16):
            out[i, k] = 0
        for group in range(5):
            end = p
            while end < stop and data[end] != 45:
                end += 1
            size = end - p
            if size == 0 or size > _DASHES[group] or (end == stop) != (group == 4):
                good[i] = False
                break
            nibble += _DASHES[group] - size
            for k in range(p, end):
                digit = _digit(np.int64(data[k]))
                if digit < 0:
                    good[i] = False
                    break
                out[i, nibble >> 1] |= digit if nibble & 1 else digit << 4
                nibble += 1
            if not good[i]:
                break
            p = end + 1


@kernel
def _md5_word(data: Array, start: Any, stop: Any, position: Any, end: Any) -> Any:
    """The little-endian 32-bit word at a position of the padded message; `end` is where its length (8 bytes) begins."""
    word = np.uint64(0)
    for k in range(4):
        p = position + k
        byte = np.uint64(0)
        if p < stop:
            byte = np.uint64(data[p])
        elif p == stop:
            byte = np.uint64(0x80)
        elif p >= end:
            byte = (np.uint64(8 * (stop - start)) >> np.uint64(8 * (p - end))) & np.uint64(255)
        word |= byte << np.uint64(8 * k)
    return word


@kernel
def md5(data: Array, offsets: Array, low: Array, high: Array) -> None:
    """MD5 (RFC 1321) of each string: the digest's first and second eight bytes, little-endian, uint64 [n]."""
    words = np.empty(16, np.uint64)
    for i in range(low.size):
        start, stop = np.int64(offsets[i]), np.int64(offsets[i + 1])
        blocks = (stop - start + 8) // 64 + 1
        end = start + blocks * 64 - 8
        a0, b0, c0, d0 = np.uint64(0x67452301), np.uint64(0xEFCDAB89), np.uint64(0x98BADCFE), np.uint64(0x10325476)
        for block in range(blocks):
            for k in range(16):
                words[k] = _md5_word(data, start, stop, start + 64 * block + 4 * k, end)
            a, b, c, d = a0, b0, c0, d0
            for k in range(64):
                if k < 16:
                    f, g = (b & c) | (~b & d), k
                elif k < 32:
                    f, g = (d & b) | (~d & c), (5 * k + 1) & 15
                elif k < 48:
                    f, g = b ^ c ^ d, (3 * k + 5) & 15
                else:
                    f, g = c ^ (b | (~d & _MASK32)), (7 * k) & 15
                f = (f + a + _SINES[k] + words[g]) & _MASK32
                shift = np.uint64(_SHIFTS[(k >> 4) * 4 + (k & 3)])
                a, d, c = d, c, b
                b = (b + ((f << shift) | (f >> (np.uint64(32) - shift)))) & _MASK32
            a0, b0, c0, d0 = (a0 + a) & _MASK32, (b0 + b) & _MASK32, (c0 + c) & _MASK32, (d0 + d) & _MASK32
        low[i] = a0 | (b0 << np.uint64(32))
        high[i] = c0 | (d0 << np.uint64(32))
