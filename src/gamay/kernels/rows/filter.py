"""Tests of whole columns: one flag for each row, from dictionary ids or raw numbers."""

from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.jit import inlined, kernel

_CHUNK_ROWS = 1 << 12


@kernel
def mark_bytes(ids: Array, first: Any, count: Any, out: Array) -> None:
    """Set out[i] = first <= ids[i] < first + count, all of them uint8; what is below `first` wraps to large numbers.

    In their own width, so that a vector instruction compares as many as fit: 0.02 ns a row, 0.14 as 64-bit numbers.
    """
    for i in range(ids.size):
        out[i] = np.uint8(ids[i] - first) < count


@kernel
def mark_halfwords(ids: Array, first: Any, count: Any, out: Array) -> None:
    """Do what `mark_bytes` does for uint16."""
    for i in range(ids.size):
        out[i] = np.uint16(ids[i] - first) < count


@kernel
def mark_words(ids: Array, first: Any, count: Any, out: Array) -> None:
    """Do what `mark_bytes` does for uint32."""
    for i in range(ids.size):
        out[i] = np.uint32(ids[i] - first) < count


_BY_WIDTH = {1: mark_bytes, 2: mark_halfwords, 4: mark_words}


def mark_id_range(ids: Array, first: int, last: int, out: Array) -> None:
    """Set out[i] = first <= ids[i] < last; ids: uint8, uint16, uint32 or int32, none negative.

    The range is not wider than there are ids of that dtype, less one.
    """
    kind: Any = np.dtype(f"u{ids.itemsize}").type
    _BY_WIDTH[ids.itemsize](ids.view(kind), kind(first), kind(last - first), out)


@kernel
def mark_between(values: Array, low: Any, high: Any, out: Array) -> None:
    """Set out[i] = low <= values[i] <= high, all of them of one type of numbers; NaN lies nowhere."""
    for i in range(values.size):
        out[i] = (values[i] >= low) & (values[i] <= high)


@kernel
def mark_among(values: Array, wanted: Array, out: Array) -> None:
    """Set out[i] where values[i] is one of the wanted numbers, of the same type: 0.1 ns a row and number.

    One number after the other is compared with rows that stay in the nearest cache.
    """
    for start in range(0, values.size, _CHUNK_ROWS):
        part, marks = values[start : start + _CHUNK_ROWS], out[start : start + _CHUNK_ROWS]
        marks[:] = False
        for number in wanted:
            for i in range(part.size):
                marks[i] |= part[i] == number


@inlined
def _rows_in_range(ids: Array, first: Any, span: Any, kind: Any, out: Array) -> Any:
    """Write the rows with kind(ids[i] - first) <= span; 64 rows of which none is in the range cost a few instructions."""
    kept = np.int64(0)
    whole = ids.size // 64 * 64
    for start in range(0, whole, 64):
        hit = kind(0)
        for i in range(start, start + 64):
            hit |= kind(kind(ids[i] - first) <= span)
        if hit != 0:
            for i in range(start, start + 64):
                out[kept] = i
                kept += np.int64(kind(ids[i] - first) <= span)
    for i in range(whole, ids.size):
        out[kept] = i
        kept += np.int64(kind(ids[i] - first) <= span)
    return kept


@kernel
def rows_of_bytes(ids: Array, first: Any, span: Any, out: Array) -> Any:
    """Write the rows with first <= ids[i] <= first + span, all of them uint8; return how many."""
    return _rows_in_range(ids, first, span, np.uint8, out)


@kernel
def rows_of_halfwords(ids: Array, first: Any, span: Any, out: Array) -> Any:
    """Do what `rows_of_bytes` does for uint16."""
    return _rows_in_range(ids, first, span, np.uint16, out)


@kernel
def rows_of_words(ids: Array, first: Any, span: Any, out: Array) -> Any:
    """Do what `rows_of_bytes` does for uint32."""
    return _rows_in_range(ids, first, span, np.uint32, out)


_ROWS_BY_WIDTH = {1: rows_of_bytes, 2: rows_of_halfwords, 4: rows_of_words}


def rows_in_id_range(ids: Array, first: int, last: int, out: Array) -> int:
    """Write the rows with first <= ids[i] <= last, ascending, and return how many; ids as in `mark_id_range`.

    Quick where few rows are in the range. out: int64, one cell more than are found: every row is written there, and the
    place only moves on after one that is in the range.
    """
    kind: Any = np.dtype(f"u{ids.itemsize}").type
    return int(_ROWS_BY_WIDTH[ids.itemsize](ids.view(kind), kind(first), kind(last - first), out))


@kernel
def rows_from(values: Array, least: Any, out: Array) -> Any:
    """Write the rows with values[i] >= least, or NaN, ascending, and return how many; `out` as in `rows_in_id_range`."""
    kept = np.int64(0)
    whole = values.size // 64 * 64
    for start in range(0, whole, 64):
        hit = np.uint64(0)
        for i in range(start, start + 64):
            hit |= np.uint64(not values[i] < least)
        if hit != 0:
            for i in range(start, start + 64):
                out[kept] = i
                kept += np.int64(not values[i] < least)
    for i in range(whole, values.size):
        out[kept] = i
        kept += np.int64(not values[i] < least)
    return kept


@kernel
def rows_up_to(values: Array, most: Any, out: Array) -> Any:
    """Write the rows with values[i] <= most, no NaN, ascending, and return how many; `out` as in `rows_in_id_range`."""
    kept = np.int64(0)
    whole = values.size // 64 * 64
    for start in range(0, whole, 64):
        hit = np.uint64(0)
        for i in range(start, start + 64):
            hit |= np.uint64(values[i] <= most)
        if hit != 0:
            for i in range(start, start + 64):
                out[kept] = i
                kept += np.int64(values[i] <= most)
    for i in range(whole, values.size):
        out[kept] = i
        kept += np.int64(values[i] <= most)
    return kept


@kernel
def mark_id_set(ids: Array, table: Array, out: Array) -> None:
    """Set out[i] = table[ids[i]]: bool [cardinality]."""
    for i in range(ids.size):
        out[i] = table[np.int64(ids[i])]


@kernel
def mark_rows_of_id_set(ids: Array, offsets: Array, table: Array, out: Array) -> None:
    """Set out[i] = any of table[ids[offsets[i]:offsets[i + 1]]]."""
    for i in range(out.size):
        found = False
        for k in range(offsets[i], offsets[i + 1]):
            found |= table[np.int64(ids[k])]
        out[i] = found


@kernel
def mark_rows_of_values(marks: Array, offsets: Array, out: Array) -> None:
    """Set out[i] = any of marks[offsets[i]:offsets[i + 1]]."""
    for i in range(out.size):
        found = False
        for k in range(offsets[i], offsets[i + 1]):
            found |= marks[k]
        out[i] = found


@kernel
def mark_docs(docs: Array, out: Array) -> None:
    """Set out[d] for each of the docs."""
    for i in range(docs.size):
        out[docs[i]] = True
