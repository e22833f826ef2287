"""Validation of serialised roaring bitmaps, in the portable format of https://github.com/RoaringBitmap/RoaringFormatSpec.

The library that reads them trusts the cardinalities and orders that they name.
"""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

_COOKIE_RUNS = 12347
_COOKIE = 12346
_OFFSETS_FROM = 4  # a bitmap with run containers has offsets only from so many containers on
_ARRAY_MAX = 4096
_WORDS_BYTES = 8192
_VALUES = 1 << 16
_ALIGNMENT = 4


@kernel
def _u16(raw: Array, at: Any) -> Any:
    return np.int64(raw[at]) | np.int64(raw[at + 1]) << 8


@kernel
def _u32(raw: Array, at: Any) -> Any:
    return _u16(raw, at) | _u16(raw, at + 2) << 16


@kernel
def _array_last(raw: Array, at: Any, count: Any) -> Any:
    """Return the last of ascending 16-bit values, -1 when they do not ascend."""
    last = np.int64(-1)
    for i in range(count):
        value = _u16(raw, at + 2 * i)
        if value <= last:
            return np.int64(-1)
        last = value
    return last


@kernel
def _runs_last(raw: Array, at: Any, num_runs: Any, count: Any) -> Any:
    """Return the last value of runs that ascend without overlap and have `count` values, else -1."""
    last, found = np.int64(-1), np.int64(0)
    for i in range(num_runs):
        begin = _u16(raw, at + 4 * i)
        length = _u16(raw, at + 4 * i + 2)
        if begin <= last or begin + length >= _VALUES:
            return np.int64(-1)
        last = begin + length
        found += length + 1
    return last if found == count else np.int64(-1)


@kernel
def _bits_last(raw: Array, at: Any, count: Any) -> Any:
    """Return the last value of a bitset of `count` values, else -1."""
    last, found = np.int64(-1), np.int64(0)
    for i in range(_WORDS_BYTES):
        byte = np.int64(raw[at + i])
        bit = 0
        while byte:
            if byte & 1:
                found += 1
                last = np.int64(8 * i + bit)
            byte >>= 1
            bit += 1
    return last if found == count else np.int64(-1)


@kernel
def is_roaring(raw: Array, bound: int, count: int) -> Any:
    """Tell whether bytes, uint8 [n], are a bitmap of `count` values below `bound`, and at most three zeros behind it."""
    size = np.int64(raw.size)
    if size < 8:
        return False
    cookie = _u32(raw, 0)
    has_runs = cookie & 0xFFFF == _COOKIE_RUNS
    if not has_runs and cookie != _COOKIE:
        return False
    num = (cookie >> 16) + 1 if has_runs else _u32(raw, 4)
    flags, at = np.int64(4), np.int64(8)
    if has_runs:
        at = 4 + (num + 7) // 8
    header = at
    at += 4 * num
    offsets = at
    has_offsets = not has_runs or num >= _OFFSETS_FROM
    if has_offsets:
        at += 4 * num
    if num > _VALUES or at > size:
        return False
    total, previous, last = np.int64(0), np.int64(-1), np.int64(-1)
    for i in range(num):
        key, cardinality = _u16(raw, header + 4 * i), _u16(raw, header + 4 * i + 2) + 1
        if key <= previous or (has_offsets and _u32(raw, offsets + 4 * i) != at):
            return False
        previous = key
        is_run = has_runs and (np.int64(raw[flags + i // 8]) >> (i % 8)) & 1 == 1
        length = np.int64(_WORDS_BYTES) if cardinality > _ARRAY_MAX else 2 * cardinality
        num_runs = np.int64(0)
        if is_run:
            if at + 2 > size:
                return False
            num_runs = _u16(raw, at)
            length = 2 + 4 * num_runs
        if at + length > size:
            return False
        if is_run:
            last = _runs_last(raw, at + 2, num_runs, cardinality)
        elif cardinality > _ARRAY_MAX:
            last = _bits_last(raw, at, cardinality)
        else:
            last = _array_last(raw, at, cardinality)
        if last < 0:
            return False
        total += cardinality
        at += length
    if total != count or size - at >= _ALIGNMENT or (num > 0 and previous << 16 | last >= bound):
        return False
    for i in range(at, size):  # noqa: SIM110 -- Numba compiles the loop, not the generator
        if raw[i]:
            return False
    return True
