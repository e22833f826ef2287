"""Rows with equal keys become one: which row each belongs to, and metrics and sketches that take its values in."""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import kernel

SUM, MIN, MAX, COUNT = 0, 1, 2, 3
ADDITION_BYTES = 5
_ODD = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _hash(keys: Array, row: Any) -> Any:
    h = np.uint64(0)
    for k in range(keys.shape[1]):
        h = (h ^ np.uint64(keys[row, k])) * _ODD
        h ^= h >> np.uint64(29)
    return h


@kernel
def _same(one: Array, i: Any, other: Array, j: Any) -> Any:
    for k in range(one.shape[1]):  # noqa: SIM110 -- Numba compiles the loop, not the generator
        if one[i, k] != other[j, k]:
            return False
    return True


@kernel
def find_rows(keys: Array, start: int, table: Array, known: Array, count: Any, limit: Any, rows: Array) -> Any:
    """Write rows[i], the number of keys[i] among the distinct keys, from i = start on, adding what is new to `known`.

    keys, known: uint32 [n, width]. table: uint32 [power of two], row + 1 or 0. Returns (position, count), as
    `gamay.kernels.hash.arrival.encode_numbers`.
    """
    mask = np.uint64(len(table) - 1)
    count = np.int64(count)
    for i in range(start, len(keys)):
        slot = _hash(keys, i) & mask
        while True:
            found = np.int64(table[slot]) - 1
            if found < 0:
                if count == limit:
                    return i, count
                for k in range(keys.shape[1]):
                    known[count, k] = keys[i, k]
                table[slot] = count + 1
                found = count
                count += 1
                break
            if _same(known, found, keys, i):
                break
            slot = (slot + np.uint64(1)) & mask
        rows[i] = found
    return np.int64(len(keys)), count


@kernel
def index_rows(known: Array, count: Any, table: Array) -> None:
    """Put the first `count` keys into a zeroed table."""
    mask = np.uint64(len(table) - 1)
    for i in range(count):
        slot = _hash(known, i) & mask
        while table[slot] != 0:
            slot = (slot + np.uint64(1)) & mask
        table[slot] = i + 1


@kernel
def roll_up(function: int, rows: Array, values: Array, nulls: Array, largest: Any, totals: Array, filled: Array) -> Any:
    """Take values[i], unless nulls[i], into totals[rows[i]]; filled (uint8) tells which rows have had a value.

    function: SUM, MIN, MAX, or COUNT, which counts nulls too and reads no values. largest: the greatest number of an integer
    type, 0 for floats, whose sums know no bound. Returns the first i whose sum is beyond it, having changed what comes
    before, else -1.
    """
    for i in range(len(rows)):
        row = np.int64(rows[i])
        if function == 3:
            totals[row] = totals[row] + 1 if filled[row] else 1
            filled[row] = 1
            continue
        if nulls[i]:
            continue
        value = values[i]
        if not filled[row]:
            totals[row] = value
            filled[row] = 1
        elif function == 0:
            before = totals[row]
            # asked before adding: what overflows is undefined for the compiler
            if largest and ((value > 0 and before > largest - value) or (value < 0 and before < -largest - 1 - value)):
                return np.int64(i)
            totals[row] = before + value
        elif function == 1:
            totals[row] = min(totals[row], value)
        else:
            totals[row] = max(totals[row], value)
    return np.int64(-1)


@kernel
def _word(data: Array, at: Any) -> Any:
    word = np.int64(0)
    for k in range(4):
        word = (word << np.int64(8)) | np.int64(data[at + k])
    return word


@kernel
def _put_word(out: Array, at: Any, word: Any) -> None:
    for k in range(4):
        out[at + k] = (word >> np.int64(24 - 8 * k)) & np.int64(0xFF)


@kernel
def merge_packed(rows: Array, offsets: Array, data: Array, width: int, header: int, out: Array) -> None:
    """Take data[offsets[i]:offsets[i + 1]] into the sketch out[rows[i]]: nothing, an addition, or a sketch as wide as those.

    An addition is a register (uint32, little-endian) and a value (uint8). data: uint8. out: uint8 [sketches, width], each of
    `header` bytes and then registers of 5 bits, six in each big-endian word; a register keeps the greatest value.
    """
    for i in range(len(rows)):
        start = np.int64(offsets[i])
        size = np.int64(offsets[i + 1]) - start
        row = np.int64(rows[i])
        if size == ADDITION_BYTES:
            register: Any = np.int64(0)
            for k in range(4):
                register |= np.int64(data[start + k]) << np.int64(8 * k)
            at = np.int64(header) + 4 * (register // 6)
            shift = np.int64(5) * (register % 6)
            word = _word(out[row], at)
            value = min(np.int64(data[start + 4]), np.int64(31))
            before = (word >> shift) & np.int64(31)
            if value > before:
                _put_word(out[row], at, word + ((value - before) << shift))
        elif size > 0:
            for at in range(header, width, 4):
                one = _word(out[row], at)
                other = _word(data, start + at)
                merged: Any = np.int64(0)
                for shift in range(0, 30, 5):
                    place = np.int64(shift)
                    merged |= max((one >> place) & np.int64(31), (other >> place) & np.int64(31)) << place
                _put_word(out[row], at, merged)
