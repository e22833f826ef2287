"""Aggregates over the records of a star-tree: partials that are there already, merged by group."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.functions.aggregate.exact import ExactSum
from gamay.functions.aggregate.nullable import NullablePartial, NullSkipping
from gamay.functions.aggregate.numeric import COUNT_ROWS, Numeric
from gamay.functions.aggregate.spi import Aggregate, GroupIds, Partial, Sent
from gamay.functions.aggregate.totals import Needs
from gamay.functions.expression import Expression
from gamay.functions.vector import Operand, Vector
from gamay.model.types import DataType
from gamay.query.bind_aggregates import BoundAggregate

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Arrays: TypeAlias = Sequence["Array | pa.Array"]

_HALF_BITS = 32


@dataclass(slots=True)
class Collected:
    """The records of each group so far: pairs of group numbers, None for the only group, and record numbers."""

    num_groups: int
    parts: list[tuple[GroupIds | None, Array]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoredPartials:
    """An aggregate of a query, over the records [start, …) of a tree. Its argument is the number of each record.

    inner: the aggregate of the query. arrays: of which `decode` makes partials, over all records of the tree.
    decode: makes the partial of some records, with an entry for each, of their rows in `arrays`.
    """

    inner: Aggregate
    arrays: Arrays
    start: int
    decode_records: Callable[[Sequence[Sent]], Partial]

    @property
    def result_type(self) -> DataType:
        return self.inner.result_type

    @property
    def result_is_multi_value(self) -> bool:
        return self.inner.result_is_multi_value

    def allocate(self, num_groups: int) -> Collected:
        return Collected(num_groups)

    def grow(self, state: Collected, num_groups: int) -> Collected:
        state.num_groups = num_groups
        return state

    def update(self, state: Collected, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        records = args[0]
        assert isinstance(records, Vector)
        # both may lie in buffers that the next block fills again
        state.parts.append((None if groups is None else groups.astype(np.int32), records.values.astype(np.int64)))

    def combine(self, state: Collected, other: Collected) -> Collected:
        state.parts += other.parts
        return state

    def seal(self, state: Collected) -> Partial:
        records = np.concatenate([np.empty(0, np.int64), *(records for _, records in state.parts)]) + self.start
        numbers = [np.zeros(len(records), np.int32) if groups is None else groups for groups, records in state.parts]
        partial = self.decode_records([_taken(array, records) for array in self.arrays])
        return self.inner.merge([partial], [np.concatenate([np.empty(0, np.int32), *numbers])], state.num_groups)

    def select(self, partial: Partial, groups: Array) -> Partial:
        return self.inner.select(partial, groups)

    def merge(self, partials: Sequence[Partial], maps: Sequence[GroupIds], num_groups: int) -> Partial:
        return self.inner.merge(partials, maps, num_groups)

    def finish(self, partial: Partial) -> Vector:
        return self.inner.finish(partial)

    def encode(self, partial: Partial) -> list[Sent]:
        return self.inner.encode(partial)

    def decode(self, arrays: Sequence[Sent]) -> Partial:
        return self.inner.decode(arrays)


def _taken(array: "Array | pa.Array", records: Array) -> "Array | pa.Array":
    return array[records] if isinstance(array, np.ndarray) else array.take(pa.array(records))


class StoredAggregates:
    """What the records of a tree hold, and which aggregates of queries that answers.

    aggregates: those of the tree's definition, and the arrays of each.
    """

    def __init__(self, aggregates: Sequence[tuple[BoundAggregate, Arrays]]) -> None:
        self._counts: Array | None = None
        self._totals: dict[tuple[tuple[Expression, ...], Needs], Array] = {}
        self._others: list[tuple[BoundAggregate, Arrays]] = []
        for call, arrays in aggregates:
            aggregate = call.aggregate
            if aggregate == COUNT_ROWS:
                self._counts = np.asarray(arrays[0])
            elif isinstance(aggregate, Numeric):
                needs = [need for need in Needs if need in aggregate.needs]
                self._totals.update({(call.arguments, need): np.asarray(a) for need, a in zip(needs, arrays, strict=True)})
            else:
                self._others.append((call, arrays))

    def source(self, call: BoundAggregate) -> "Callable[[int], StoredPartials] | None":
        """Return what makes an aggregate of a query over records from a start on; None where the tree does not have it.

        The columns of its arguments have no nulls.
        """
        aggregate = call.aggregate
        inner = aggregate.inner if isinstance(aggregate, NullSkipping) else aggregate
        found = self._found(inner, call)
        if found is None:
            return None
        arrays, decode = found
        if isinstance(aggregate, NullSkipping):
            decode = _without_nulls(decode)
        return lambda start: StoredPartials(aggregate, arrays, start, decode)

    def _found(
        self, aggregate: Aggregate, call: BoundAggregate
    ) -> tuple[Arrays, Callable[[Sequence[Sent]], Partial]] | None:
        if isinstance(aggregate, Numeric):
            totals = self._numeric(aggregate, call)
            return None if totals is None else (totals, aggregate.decode)
        if isinstance(aggregate, ExactSum):
            sums = self._totals.get((call.arguments, Needs.SUM))
            if sums is not None and sums.dtype == np.int64 and aggregate.result_type is DataType.LONG:
                return [sums], _halves
        for stored, arrays in self._others:
            if stored.arguments == call.arguments and _is_same_state(stored.aggregate, aggregate):
                return arrays, aggregate.decode
        return None

    def _numeric(self, aggregate: Numeric, call: BoundAggregate) -> Arrays | None:
        arrays: list[Array] = []
        for need in Needs:
            if need not in aggregate.needs:
                continue
            found = self._totals.get((call.arguments, need))
            if found is None and need is Needs.COUNT and not aggregate.is_multi_value:
                found = self._counts
            if found is None:
                return None
            arrays.append(found)
        return arrays


def _is_same_state(stored: Aggregate, wanted: Aggregate) -> bool:
    """Whether two aggregates of equal arguments have equal partials."""
    if stored == wanted:
        return True
    kind = getattr(stored, "state_kind", None)
    return kind is not None and type(stored) is type(wanted) and kind == getattr(wanted, "state_kind", None)


def _halves(arrays: Sequence[Sent]) -> Partial:
    """Return the partial of an exact sum of whole numbers."""
    (sums,) = arrays
    return np.stack([sums >> _HALF_BITS, sums & ((1 << _HALF_BITS) - 1), np.ones(len(sums), np.int64)], axis=1)


def _without_nulls(decode: Callable[[Sequence[Sent]], Partial]) -> Callable[[Sequence[Sent]], Partial]:
    def decoded(arrays: Sequence[Sent]) -> Partial:
        return NullablePartial(decode(arrays), np.ones(len(arrays[0]), np.bool_))

    return decoded
