"""Metrics that are aggregated in place while rows with equal dimensions are merged: numbers, decimals, sketches."""

from collections.abc import Callable
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation, localcontext
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import arrow_scalar, binary_buffers
from gamay.functions.expression import LiteralValue
from gamay.functions.scalar.text.encoded import bytes_of_decimal
from gamay.functions.sketch.additions import empty_sketch, header_bytes, kind_of
from gamay.kernels.group import rollup
from gamay.model.table.rollup import Rollup, RollupFunction
from gamay.model.types import DataType
from gamay.segment.encode.storage_form import OFFSET_MAX, Stored, binary_array, fixed_dtype, from_arrow, from_python
from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.mutable.buffers import BufferFolder, MemoryUse
from gamay.segment.mutable.column import ColumnState
from gamay.segment.mutable.running import Running
from gamay.segment.spi import Ids
from gamay.segment.write.accumulate import without_nulls
from gamay.segment.write.column_writer import ColumnPlan

_NUMBERS = {
    RollupFunction.SUM: rollup.SUM,
    RollupFunction.MIN: rollup.MIN,
    RollupFunction.MAX: rollup.MAX,
    RollupFunction.COUNT: rollup.COUNT,
}


# adds the rows of a batch exactly, before the sum is limited to the metric's precision
_EXACT = Context(1_000_000, Emax=MAX_EMAX, Emin=MIN_EMIN)


class RolledUpMetric(Protocol):
    """One metric. Readers get a copy, since every batch may change the values."""

    plan: ColumnPlan
    never_fails: bool
    """Whether `take_in` cannot fail. Such metrics are updated last, so that they never have to be rolled back."""

    @property
    def width(self) -> float:
        """Average bytes of a value."""
        ...

    @property
    def fullness(self) -> float:
        """The used fraction of the metric's capacity: 0 to 1."""
        ...

    def saved(self, rows: Ids, num_docs: int) -> Callable[[], None]:
        """Reserve space for `num_docs` rows; return a function that restores the present values of `rows`.

        Raises DiskFullError, and InvalidConfigError if the metric cannot hold this number of rows.
        """
        ...

    def take_in(self, rows: Ids, array: pa.Array) -> None:
        """Aggregate values, one for each of `rows`, into the metric, which has space reserved for them.

        Raises InvalidConfigError if a sum is too large; the caller must then restore the values.
        """
        ...

    def state(self, num_docs: int) -> ColumnState:
        """Return a copy of the first rows, for readers."""
        ...

    def memory(self) -> dict[str, MemoryUse]:
        """Return the memory use of the metric."""
        ...


def rolled_up(plan: ColumnPlan, rollup: Rollup, buffers: BufferFolder, rows: int) -> RolledUpMetric:
    """Return an empty metric, with buffers for about `rows` rows."""
    if rollup.function.is_sketch:
        return _Sketches(plan, rollup, buffers, rows)
    if rollup.function is RollupFunction.SUM_PRECISION:
        return _Decimals(plan, rollup)
    return _Numbers(plan, rollup.function, buffers, rows)


class _Numbers:
    """Totals of a fixed width."""

    fullness = 0.0
    never_fails = False

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
        for part in (self._totals, self._filled):
            part.reserve(num_docs)
            part.used = num_docs
        totals, filled = self._totals.array[rows], self._filled.array[rows]

        def restore() -> None:
            self._totals.array[rows], self._filled.array[rows] = totals, filled

        return restore

    def take_in(self, rows: Ids, array: pa.Array) -> None:
        present, _, nulls = without_nulls(array, True, self._default)
        values = from_arrow(present, self.plan.spec.data_type)
        missing = np.zeros(len(rows), np.bool_) if nulls is None else nulls
        function = _NUMBERS[self._function]
        largest = np.iinfo(values.dtype).max if values.dtype.kind == "i" else 0
        if rollup.roll_up(function, rows, values, missing, largest, self._totals.array, self._filled.array) >= 0:
            spec = self.plan.spec
            raise InvalidConfigError(
                f"a sum of the metric '{spec.name}' is too large for {spec.data_type.value}: make it LONG or DOUBLE"
            )

    def state(self, num_docs: int) -> ColumnState:
        values = self._totals.array[:num_docs].copy()
        is_null = self._filled.array[:num_docs] == 0
        values[is_null] = self._stored_default
        return _state(self.plan, num_docs, values, is_null)

    def memory(self) -> dict[str, MemoryUse]:
        return {"forward": self._totals.memory, "null": self._filled.memory}


class _Decimals:
    """Exact sums of limited precision, as Python decimals: no fixed-width type holds all scales."""

    fullness = 0.0
    never_fails = False

    def __init__(self, plan: ColumnPlan, rollup: Rollup) -> None:
        self.plan = plan
        self._precision = rollup.parameters[0]
        self._sums = Context(self._precision, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[Inexact, InvalidOperation])
        self._default = from_python(plan.default, plan.spec.data_type)
        self._totals, self._filled = np.empty(0, object), np.empty(0, np.bool_)
        # the totals in stored form, computed on demand for readers; entries of stale rows are outdated
        self._stored, self._stale = np.empty(0, object), np.empty(0, np.bool_)

    @property
    def width(self) -> float:
        return self._precision / 2 + 2

    def saved(self, rows: Ids, num_docs: int) -> Callable[[], None]:
        if num_docs > len(self._totals):
            self._totals = _grown(self._totals, 2 * num_docs, Decimal(0))
            self._filled = _grown(self._filled, 2 * num_docs, False)
            self._stored = _grown(self._stored, 2 * num_docs, self._default)
            self._stale = _grown(self._stale, 2 * num_docs, False)
        totals, filled = self._totals[rows], self._filled[rows]

        def restore() -> None:
            self._totals[rows], self._filled[rows] = totals, filled

        return restore

    def take_in(self, rows: Ids, array: pa.Array) -> None:
        rows = rows[np.asarray(array.is_valid())]
        if not len(rows):
            return
        order = np.argsort(rows, kind="stable")
        touched, starts = np.unique(rows[order], return_index=True)
        texts = array.drop_null().view(pa.binary()).cast(pa.string()).to_pylist()
        numbers = np.array([*map(Decimal, texts), None], object)[:-1][order]
        try:
            with localcontext(_EXACT):
                sums = np.add.reduceat(numbers, starts)
            with localcontext(self._sums):
                totals = self._totals[touched] + sums
        except Inexact:
            raise InvalidConfigError(
                f"a sum of the metric '{self.plan.spec.name}' has more than {self._precision} digits: "
                "give SUMPRECISION a greater precision"
            ) from None
        self._totals[touched] = totals
        self._filled[touched] = self._stale[touched] = True

    def state(self, num_docs: int) -> ColumnState:
        stale = np.flatnonzero(self._stale[:num_docs] & self._filled[:num_docs])
        self._stored[stale] = np.array([*self._encoded(self._totals[stale].tolist()), None], object)[:-1]
        self._stale[stale] = False
        values = pa.array(self._stored[:num_docs].tolist(), pa.binary())
        return _state(self.plan, num_docs, values, ~self._filled[:num_docs])

    def _encoded(self, totals: list[Decimal]) -> list[bytes]:
        if self.plan.spec.data_type is DataType.BYTES:
            return list(map(bytes_of_decimal, totals))
        texts = [f"{total:f}" for total in totals]
        if not self.plan.spec.allow_trailing_zeros:
            texts = [text.rstrip("0").rstrip(".") if "." in text else text for text in texts]
        return [text.encode() for text in texts]

    def memory(self) -> dict[str, MemoryUse]:
        size = int((self._totals.itemsize + self._stored.itemsize + 2 * self.width) * len(self._totals))
        return {"forward": MemoryUse(size, size)}


def _grown(part: Ids, size: int, filling: Any) -> Ids:
    grown = np.full(size, filling, part.dtype)
    grown[: len(part)] = part
    return grown


class _Sketches:
    """Sketches aggregated in serialised form; all of a metric have the same size."""

    never_fails = True

    def __init__(self, plan: ColumnPlan, rollup: Rollup, buffers: BufferFolder, rows: int) -> None:
        kind = kind_of(rollup)
        self.plan = plan
        self._empty = np.frombuffer(empty_sketch(kind), np.uint8)
        self._size = len(self._empty)
        self._header = header_bytes(kind)
        self._data = buffers.array(np.uint8, min(rows * self._size, OFFSET_MAX))

    @property
    def width(self) -> float:
        return float(self._size)

    @property
    def fullness(self) -> float:
        return self._data.used / OFFSET_MAX

    def saved(self, rows: Ids, num_docs: int) -> Callable[[], None]:
        before, size = self._data.used, num_docs * self._size
        if size > OFFSET_MAX:
            raise InvalidConfigError(
                f"the metric '{self.plan.spec.name}' would have more than {OFFSET_MAX:,} bytes of sketches in one segment: "
                "make segments smaller, or the sketches less precise"
            )
        self._data.reserve(size)
        self._data.array[before:size].reshape(-1, self._size)[:] = self._empty
        self._data.used = size
        return lambda: None

    def take_in(self, rows: Ids, array: pa.Array) -> None:
        offsets, data = binary_buffers(array.fill_null(b""))
        sketches = self._data.array[: self._data.used].reshape(-1, self._size)
        rollup.merge_packed(rows, offsets, data, self._size, self._header, sketches)

    def state(self, num_docs: int) -> ColumnState:
        offsets = np.arange(num_docs + 1, dtype=np.int32) * np.int32(self._size)
        values = binary_array(offsets, self._data.array[: num_docs * self._size].copy())
        return _state(self.plan, num_docs, values, np.zeros(num_docs, np.bool_))

    def memory(self) -> dict[str, MemoryUse]:
        return {"forward": self._data.memory}


def _state(plan: ColumnPlan, num_docs: int, values: Stored, is_null: Ids) -> ColumnState:
    """Return a column state over raw values that are not modified any more."""
    data_type = plan.spec.data_type
    running = Running.empty(data_type, True)
    return ColumnState(
        plan=plan,
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


class _NullDocs:
    """The null docs of a copy; implements `mutable.column.NullDocs`."""

    def __init__(self, is_null: Ids) -> None:
        self._docs = np.flatnonzero(is_null)

    def docs(self, num_docs: int) -> BitMap:
        """Return all of them."""
        return bitmap_of(self._docs)
