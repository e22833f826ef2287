"""Rows that are merged while they come: one row for each combination of dimensions, its metrics kept up in place."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from gamay.base.errors import InvalidConfigError
from gamay.functions.expression import LiteralValue
from gamay.kernels import rollup
from gamay.model.rollup import RollupFunction
from gamay.segment.accumulate import arrow_scalar, without_nulls
from gamay.segment.column_writer import ColumnPlan
from gamay.segment.mutable.buffers import BufferFolder, MemoryUse
from gamay.segment.mutable.column import ColumnState, MutableColumn
from gamay.segment.mutable.dictionary import HashTable
from gamay.segment.mutable.running import Running
from gamay.segment.spi import Ids
from gamay.segment.storage_form import fixed_dtype, from_arrow

_FUNCTIONS = {
    RollupFunction.SUM: rollup.SUM,
    RollupFunction.MIN: rollup.MIN,
    RollupFunction.MAX: rollup.MAX,
    RollupFunction.COUNT: rollup.COUNT,
}


class RowKeys:
    """Distinct combinations of dimensions, each with the number of its row."""

    def __init__(self, dimensions: Sequence[MutableColumn], buffers: BufferFolder, rows: int) -> None:
        self._dimensions = dimensions
        # without a dimension all rows are one
        self._width = max(1, len(dimensions))
        self._known = buffers.array(np.uint32, rows * self._width)
        self._table = HashTable(buffers, rows)

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


class RolledUpMetric:
    """One metric. What a reader gets is a copy, for what there is may change with every batch."""

    def __init__(self, plan: ColumnPlan, function: RollupFunction, buffers: BufferFolder, rows: int) -> None:
        dtype = fixed_dtype(plan.spec.data_type)
        assert dtype is not None
        self.plan = plan
        self.width = float(dtype.itemsize)
        self._function = function
        self._default = arrow_scalar(plan.default, plan.spec.data_type)
        self._stored_default: LiteralValue = plan.default
        self._totals = buffers.array(dtype, rows)
        self._filled = buffers.array(np.uint8, rows)

    def saved(self, rows: Ids, num_docs: int) -> Callable[[], None]:
        """Make room for `num_docs` rows; return what brings `rows` back to what they are now."""
        for part in (self._totals, self._filled):
            part.reserve(num_docs)
            part.used = num_docs
        totals, filled = self._totals.array[rows], self._filled.array[rows]

        def restore() -> None:
            self._totals.array[rows], self._filled.array[rows] = totals, filled

        return restore

    def take_in(self, rows: Ids, array: pa.Array) -> None:
        """Take values, one for each of `rows`, into the metric, which has room for them.

        Raises InvalidConfigError when a sum is too large for the column.
        """
        present, _, nulls = without_nulls(array, True, self._default)
        values = from_arrow(present, self.plan.spec.data_type)
        missing = np.zeros(len(rows), np.bool_) if nulls is None else nulls
        function = _FUNCTIONS[self._function]
        largest = np.iinfo(values.dtype).max if values.dtype.kind == "i" else 0
        if rollup.roll_up(function, rows, values, missing, largest, self._totals.array, self._filled.array) >= 0:
            spec = self.plan.spec
            raise InvalidConfigError(
                f"a sum of the metric '{spec.name}' is too large for {spec.data_type.value}: make it LONG or DOUBLE"
            )

    def state(self, num_docs: int) -> ColumnState:
        """Return the first rows, for readers: a copy."""
        data_type = self.plan.spec.data_type
        values = self._totals.array[:num_docs].copy()
        is_null = self._filled.array[:num_docs] == 0
        values[is_null] = self._stored_default
        running = Running.empty(data_type, True)
        return ColumnState(
            plan=self.plan,
            num_docs=num_docs,
            num_values=num_docs,
            dictionary=None,
            ids=None,
            values=values,
            offsets=None,
            nulls=_NullDocs(is_null),
            num_nulls=int(np.count_nonzero(is_null)),
            running=running.after(values, None, data_type) if num_docs else running,
            postings=None,
            zones=None,
        )

    def memory(self) -> dict[str, MemoryUse]:
        """Return what the metric takes."""
        return {"forward": self._totals.memory, "null": self._filled.memory}


class _NullDocs:
    """The null docs of a copy; implements `mutable.column.NullDocs`."""

    def __init__(self, is_null: Ids) -> None:
        self._docs = np.flatnonzero(is_null).astype(np.uint32)

    def docs(self, num_docs: int) -> BitMap:
        """Return all of them."""
        return BitMap(self._docs)


def first_rows(rows: Ids, known: int) -> Ids:
    """Return where in a batch each new row comes first, in their order: int64. rows: as from `RowKeys.rows_of`."""
    new = np.flatnonzero(rows >= known)
    # numbers are given in order of arrival, so a row is first where the greatest so far grows
    numbers = rows[new].astype(np.int64)
    grown = np.maximum.accumulate(numbers)
    return new[np.flatnonzero(np.diff(grown, prepend=known - 1))]
