"""Rows merged during ingestion: one row for each combination of dimensions. Their metrics: `rolled_up`."""

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
        # without dimensions, all rows are merged into one
        self._width = max(1, len(dimensions))
        self._known = buffers.array(np.uint32, rows * self._width)
        self._table = HashTable(buffers, np.dtype(np.uint32), rows)

    @property
    def count(self) -> int:
        """The number of combinations."""
        return self._known.used // self._width

    def rows_of(self, arrays: Sequence[pa.Array], num_rows: int) -> Ids:
        """Return the merged row of each row of a batch: uint32; numbers not below the former `count` are new.

        arrays: the dimensions, in the order of the columns; new values are added to the dictionaries.
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
        """Return the memory use of keys and hash table."""
        return self._known.memory + self._table.memory


def first_rows(rows: Ids, known: int) -> Ids:
    """Return the first position of each new row in a batch, in order: int64. rows: as from `RowKeys.rows_of`."""
    new = np.flatnonzero(rows >= known)
    # rows are numbered in order of arrival, so the running maximum increases at the first occurrence of each
    numbers = rows[new].astype(np.int64)
    grown = np.maximum.accumulate(numbers)
    return new[np.flatnonzero(np.diff(grown, prepend=known - 1))]
