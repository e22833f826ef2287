"""Rows that are merged while they come: one row for each combination of dimensions. Their metrics: `rolled_up`."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gamay.kernels.group import rollup
from gamay.segment.mutable.buffers import BufferFolder, MemoryUse
from gamay.segment.mutable.column import MutableColumn
from gamay.segment.mutable.dictionary import HashTable
from gamay.segment.spi import Ids


class RowKeys:
    """Distinct combinations of dimensions, each with the number of its row."""

    def __init__(self, dimensions: Sequence[MutableColumn], buffers: BufferFolder, rows: int) -> None:
        self._dimensions = dimensions
        # without a dimension all rows are one
        self._width = max(1, len(dimensions))
        self._known = buffers.array(np.uint32, rows * self._width)
        self._table = HashTable(buffers, np.dtype(np.uint32), rows)

    @property
    def count(self) -> int:
        """How many combinations there are."""
        return self._known.used // self._width

    def rows_of(self, arrays: Sequence[pa.Array], num_rows: int) -> Ids:
        """Return the row that each row of a batch belongs to: uint32; those not below the earlier `count` are new.

        arrays: the dimensions, in the order of the columns; their new values are in the dictionaries afterwards.
        """
        keys = np.zeros((num_rows, self._width), np.uint32)
        for place, (column, array) in enumerate(zip(self._dimensions, arrays, strict=True)):
            keys[:, place] = column.encode(array)
        rows, position, count = np.empty(num_rows, np.uint32), 0, self.count
        while True:
            known = self._known.array[: self._known.room // self._width * self._width].reshape(-1, self._width)
            limit = min(len(known), self._table.entries_max)
            position, count = rollup.find_rows(keys, position, self._table.slots, known, count, limit, rows)
            self._known.used = count * self._width
            if position == num_rows:
                return rows
            self._known.reserve((count + 1) * self._width)
            if count == self._table.entries_max:
                self._table.grow()
                known = self._known.array[: count * self._width].reshape(-1, self._width)
                rollup.index_rows(known, count, self._table.slots)

    def memory(self) -> MemoryUse:
        """Return what keys and hash table take."""
        return self._known.memory + self._table.memory


def first_rows(rows: Ids, known: int) -> Ids:
    """Return where in a batch each new row comes first, in their order: int64. rows: as from `RowKeys.rows_of`."""
    new = np.flatnonzero(rows >= known)
    # numbers are given in order of arrival, so a row is first where the greatest so far grows
    numbers = rows[new].astype(np.int64)
    grown = np.maximum.accumulate(numbers)
    return new[np.flatnonzero(np.diff(grown, prepend=known - 1))]
