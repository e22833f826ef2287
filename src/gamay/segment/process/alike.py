"""Grouping of rows that are equal in some columns, whose values include nulls and lists."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.group import rollup
from gamay.segment.write.row_subset import GivenColumn, KeptColumn

_ROWS_AT_ONCE = 1 << 18
_SLOTS_PER_ENTRY = 2


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of rows, numbered in order of occurrence. of_rows: int64 [rows]; first: int64 [groups], the first row of
    each."""

    of_rows: Array
    first: Array

    @property
    def count(self) -> int:
        """The number of groups."""
        return len(self.first)


def grouped(columns: Sequence[KeptColumn | GivenColumn], num_rows: int) -> Groups:
    """Group the rows that are equal in all given columns; without columns all rows are one group.

    A null differs from the default stored in its place. Lists are equal if they have equal values in the same order.
    """
    keys = [key for column in columns for key in _keys_of(column, num_rows)]
    of_rows = _numbered(keys, num_rows)
    seen = np.maximum.accumulate(of_rows) if num_rows else of_rows
    return Groups(of_rows, np.flatnonzero(np.diff(seen, prepend=-1)))


def _keys_of(column: KeptColumn | GivenColumn, num_rows: int) -> Iterator[Array]:
    """Yield arrays of unsigned numbers per row; rows are equal if all their numbers are."""
    _, ids, offsets = column.encoded()
    yield ids if offsets is None else _lists_numbered(ids, offsets, num_rows)
    nulls = column.nulls()
    if nulls.any():
        yield nulls.view(np.uint8)


def _lists_numbered(ids: Array, offsets: Array, num_rows: int) -> Array:
    """Return a number for each list, equal for equal lists. Takes one step per element of the longest list."""
    starts, lengths = offsets[:-1].astype(np.int64), np.diff(offsets)
    numbers = lengths.astype(np.uint32)
    for place in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > place)
        above = int(numbers.max()) + 1
        found = _numbered([numbers[longer], ids[starts[longer] + place]], len(longer))
        # distinct from the numbers of shorter lists
        numbers[longer] = found + above
        if above > np.iinfo(np.uint32).max // 2:
            numbers = np.unique(numbers, return_inverse=True)[1].astype(np.uint32)
    return numbers[:num_rows]


def _numbered(keys: Sequence[Array], num_rows: int) -> Array:
    """Return the number of each row's combination of keys, in order of occurrence: int64."""
    rows = np.empty(num_rows, np.uint32)
    if not keys:
        return np.zeros(num_rows, np.int64)
    width = len(keys)
    limit = min(num_rows, _ROWS_AT_ONCE)
    table, known = np.zeros(_slots(limit), np.uint32), np.zeros((limit, width), np.uint32)
    count = 0
    for begin in range(0, num_rows, _ROWS_AT_ONCE):
        end = min(begin + _ROWS_AT_ONCE, num_rows)
        block = np.empty((end - begin, width), np.uint32)
        for place, key in enumerate(keys):
            block[:, place] = key[begin:end]
        position = 0
        while True:
            position, count = rollup.find_rows(block, position, table, known, count, len(known), rows[begin:end])
            if position == end - begin:
                break
            grown = np.zeros((2 * len(known), width), np.uint32)
            grown[:count] = known[:count]
            known, table = grown, np.zeros(_slots(len(grown)), np.uint32)
            rollup.index_rows(known, count, table)
    return rows.astype(np.int64)


def _slots(entries: int) -> int:
    return int(1 << (max(1, entries * _SLOTS_PER_ENTRY) - 1).bit_length()) if entries else 2
