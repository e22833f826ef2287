"""Aggregates over the records of a star-tree, which hold precomputed partials that are merged by group.

Totals are added up while records are read (`StoredTotals`); for other aggregates the records of each group are collected,
and their partials merged at the end (`StoredPartials`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.exact import ExactSum
from gamay.functions.aggregate.nullable import NullablePartial, NullSkipping
from gamay.functions.aggregate.totals.numeric import COUNT_ROWS, Numeric
from gamay.functions.aggregate.totals.totals import Needs, TotalsPartial
from gamay.functions.aggregate_spi import Aggregate, AggregateTraits, GroupIds, Partial, Sent
from gamay.functions.expression import Expression
from gamay.functions.vector import Operand, Vector
from gamay.kernels.group.aggregation import add_values, bound_values
from gamay.model.types import DataType
from gamay.query.bind.aggregates import BoundAggregate
from gamay.segment.star_tree_file import Cuboid

Arrays: TypeAlias = Sequence["Array | pa.Array"]

_HALF_BITS = 32
_EXACT_SUM_MAX = float(1 << 62)
# for counts, sums, lows and highs: the initial value, and the function that merges two
_NOTHING_YET = (0, 0, np.inf, -np.inf)
_MERGE = (np.add, np.add, np.minimum, np.maximum)
_SUMS = 1
_NO_BOUNDS = np.empty(0)


class _OverRecords:
    """Common base of both aggregates: apart from the state, they behave like the query's aggregate."""

    __slots__ = ()
    inner: Aggregate
    is_bounded: ClassVar[bool]

    @property
    def traits(self) -> AggregateTraits:
        known = self.inner.traits
        return AggregateTraits(
            known.result_type, result_is_multi_value=known.result_is_multi_value, is_bounded=self.is_bounded
        )

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


class TotalsOfRecords:
    """Running totals of groups: an array [num_groups] for each field that is needed, None for the others."""

    def __init__(self, fields: Sequence[Array | None], num_groups: int) -> None:
        self.totals: list[Array | None] = [
            None if field is None else np.full(num_groups, start, field.dtype)
            for field, start in zip(fields, _NOTHING_YET, strict=True)
        ]

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        for place, total in enumerate(self.totals):
            if total is not None:
                rest = np.full(num_groups - len(total), _NOTHING_YET[place], total.dtype)
                self.totals[place] = np.concatenate([total, rest])

    def add(self, groups: GroupIds | None, fields: Sequence[Array | None]) -> None:
        """Add totals to those of their groups, or to the only one if `groups` is None."""
        for total, values, ufunc in zip(self.totals, fields, _MERGE, strict=True):
            if total is None or values is None or not len(values):
                continue
            if groups is None:
                total[0] = ufunc(total[0], ufunc.reduce(values))
            elif ufunc is np.add:
                add_values(groups, values, total, 0)
            else:
                lows, highs = (total, _NO_BOUNDS) if ufunc is np.minimum else (_NO_BOUNDS, total)
                bound_values(groups, values, lows, highs)


@dataclass(frozen=True, slots=True)
class StoredTotals(_OverRecords):
    """A query's numeric aggregate over the records of a cuboid; its argument is the number of each record.

    inner: the aggregate of the query, which may skip nulls, though there are none. fields: counts, sums, lows and highs of
    the cuboid's records, None for those that are not needed. magnitude: upper bound of any sum of sums of records.
    """

    is_bounded = True
    inner: Aggregate
    fields: tuple[Array | None, ...]
    magnitude: float

    def allocate(self, num_groups: int) -> TotalsOfRecords:
        return TotalsOfRecords(self.fields, num_groups)

    def grow(self, state: TotalsOfRecords, num_groups: int) -> TotalsOfRecords:
        state.grow(num_groups)
        return state

    def update(self, state: TotalsOfRecords, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        records = args[0]
        assert isinstance(records, Vector)
        chosen = _as_slice(records.values)
        fields = [None if field is None else field[chosen] for field in self.fields]
        state.add(None if groups is None else groups.astype(np.uint32, copy=False), fields)

    def combine(self, state: TotalsOfRecords, other: TotalsOfRecords) -> TotalsOfRecords:
        count = max(len(total) for total in state.totals if total is not None)
        state.add(np.arange(count, dtype=np.uint32), other.totals)
        return state

    def seal(self, state: TotalsOfRecords) -> Partial:
        totals = TotalsPartial(*state.totals)
        if not isinstance(self.inner, NullSkipping):
            return totals
        assert isinstance(self.inner.inner, Numeric)
        seen = np.asarray(totals.counts) > 0
        return NullablePartial(self.inner.inner.only(totals), seen)


@dataclass(slots=True)
class Collected:
    """The records of each group so far: pairs of group numbers, None for the only group, and record numbers."""

    num_groups: int
    parts: list[tuple[GroupIds | None, Array]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StoredPartials(_OverRecords):
    """A query's aggregate over the records of a cuboid; its argument is the number of each record.

    inner: the aggregate of the query. arrays: the encoded partials of all records of the tree. start: the first record of
    the cuboid. decode_records: decodes the partial of some records, one entry each, from their `arrays`.
    """

    is_bounded = False
    inner: Aggregate
    arrays: Arrays
    start: int
    decode_records: Callable[[Sequence[Sent]], Partial]

    def allocate(self, num_groups: int) -> Collected:
        return Collected(num_groups)

    def grow(self, state: Collected, num_groups: int) -> Collected:
        state.num_groups = num_groups
        return state

    def update(self, state: Collected, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        records = args[0]
        assert isinstance(records, Vector)
        # both may be buffers that the next block overwrites
        state.parts.append((None if groups is None else groups.astype(np.int32), records.values.astype(np.int64)))

    def combine(self, state: Collected, other: Collected) -> Collected:
        state.parts += other.parts
        return state

    def seal(self, state: Collected) -> Partial:
        records = np.concatenate([np.empty(0, np.int64), *(records for _, records in state.parts)])
        numbers = [np.zeros(len(records), np.int32) if groups is None else groups for groups, records in state.parts]
        return self.merged(records, np.concatenate([np.empty(0, np.int32), *numbers]), state.num_groups)

    def merged(self, records: Array, groups: GroupIds | None, num_groups: int) -> Partial:
        """Return the partial of groups of the cuboid's records; groups: of each record, None for a single group."""
        numbers = np.zeros(len(records), np.int32) if groups is None else groups.astype(np.int32, copy=False)
        partial = self.decode_records([_taken(array, records + self.start) for array in self.arrays])
        return self.inner.merge([partial], [numbers], num_groups)


def totals_of(parts: Sequence[tuple[Aggregate, "slice | Array"]], groups: Array | None, num_groups: int) -> Partial:
    """Return the partial of groups of some records of several cuboids, given the same `StoredTotals` over each.

    groups: uint32, of each record, with at least one record per group; None for a single group. Sums are doubles if adding
    all of them might exceed 64 bits.
    """
    first, _ = parts[0]
    assert isinstance(first, StoredTotals)
    aggregate = first.inner.inner if isinstance(first.inner, NullSkipping) else first.inner
    assert isinstance(aggregate, Numeric)
    fields: list[Array | None] = []
    for place, is_kept in enumerate(aggregate.keeps):
        values = [stored.fields[place][docs] for stored, docs in parts] if is_kept else []  # type: ignore[attr-defined]
        joined = None if not values else values[0] if len(values) == 1 else np.concatenate(values)
        if place == _SUMS and joined is not None and joined.dtype == np.int64:
            magnitude = sum([stored.magnitude for stored, _ in parts])  # type: ignore[attr-defined]
            joined = joined if magnitude <= _EXACT_SUM_MAX else joined.astype(np.float64)
        fields.append(joined)
    state = TotalsOfRecords(fields, num_groups)
    state.add(groups, fields)
    totals = TotalsPartial(*state.totals)
    if first.inner is aggregate:
        return totals
    has_rows = groups is not None or any(field is not None and len(field) for field in fields)
    return NullablePartial(totals, np.full(num_groups, has_rows))


def _as_slice(records: Array) -> "Array | slice":
    """Return ascending record numbers as a slice if they are consecutive."""
    if len(records) and records[-1] - records[0] + 1 == len(records):
        return slice(int(records[0]), int(records[-1]) + 1)
    return records


def _taken(array: "Array | pa.Array", records: Array) -> "Array | pa.Array":
    return array[records] if isinstance(array, np.ndarray) else array.take(pa.array(records))


class StoredAggregates:
    """The partials stored in the records of a tree, and the query aggregates that they can answer.

    aggregates: those of the tree's definition, and the arrays of each, which are empty if the tree could not store it.
    """

    def __init__(self, aggregates: Sequence[tuple[BoundAggregate, Arrays]]) -> None:
        self._counts: Array | None = None
        self._totals: dict[tuple[tuple[Expression, ...], Needs], Array] = {}
        self._magnitudes: dict[tuple[Expression, ...], float] = {}
        self._others: list[tuple[BoundAggregate, Arrays]] = []
        for call, arrays in aggregates:
            aggregate = call.aggregate
            if not arrays:
                continue
            if aggregate == COUNT_ROWS:
                self._counts = np.asarray(arrays[0])
            elif isinstance(aggregate, Numeric):
                needs = [need for need in Needs if need in aggregate.needs]
                for need, array in zip(needs, arrays, strict=True):
                    values = np.asarray(array)
                    magnitude = _magnitude(values) if need is Needs.SUM else 0.0
                    self._magnitudes[call.arguments] = max(magnitude, self._magnitudes.get(call.arguments, 0.0))
                    # integers are added as doubles if adding all of them might exceed 64 bits
                    exact = values if magnitude <= _EXACT_SUM_MAX else values.astype(np.float64)
                    self._totals[call.arguments, need] = exact
            else:
                self._others.append((call, arrays))

    def source(self, call: BoundAggregate) -> Callable[[Cuboid], Aggregate] | None:
        """Return the factory of an aggregate of a query over the records of a cuboid; None if the tree does not store it.

        The columns of its arguments must have no nulls.
        """
        aggregate = call.aggregate
        is_nullable = isinstance(aggregate, NullSkipping)
        inner = aggregate.inner if isinstance(aggregate, NullSkipping) else aggregate
        if isinstance(inner, Numeric):
            fields = self._fields(inner.needs | Needs.COUNT if is_nullable else inner.needs, inner, call)
            magnitude = self._magnitudes.get(call.arguments, 0.0)
            return None if fields is None else lambda cuboid: StoredTotals(aggregate, _part(fields, cuboid), magnitude)
        found = self._partials(inner, call)
        if found is None:
            return None
        arrays, decode = found
        decode = _without_nulls(decode) if is_nullable else decode
        return lambda cuboid: StoredPartials(aggregate, arrays, cuboid.start, decode)

    def _fields(self, needs: Needs, aggregate: Numeric, call: BoundAggregate) -> list[Array | None] | None:
        fields: list[Array | None] = []
        for need in Needs:
            found = None
            if need in needs:
                found = self._totals.get((call.arguments, need))
                if found is None and need is Needs.COUNT and not aggregate.is_multi_value:
                    found = self._counts
                if found is None:
                    return None
            fields.append(found)
        return fields

    def _partials(
        self, aggregate: Aggregate, call: BoundAggregate
    ) -> tuple[Arrays, Callable[[Sequence[Sent]], Partial]] | None:
        if isinstance(aggregate, ExactSum):
            sums = self._totals.get((call.arguments, Needs.SUM))
            if sums is not None and sums.dtype == np.int64 and aggregate.traits.result_type is DataType.LONG:
                return [sums], _halves
        for stored, arrays in self._others:
            if stored.arguments == call.arguments and _is_same_state(stored.aggregate, aggregate):
                return arrays, aggregate.decode
        return None


def _magnitude(values: Array) -> float:
    """Return an upper bound of any sum of some integers; 0 for other numbers."""
    return float(np.abs(values.astype(np.float64)).sum()) if values.dtype == np.int64 else 0.0


def _part(fields: Sequence[Array | None], cuboid: Cuboid) -> tuple[Array | None, ...]:
    return tuple([None if field is None else field[cuboid.start : cuboid.stop] for field in fields])


def _is_same_state(stored: Aggregate, wanted: Aggregate) -> bool:
    """Whether two aggregates of equal arguments have equal partials."""
    if stored == wanted:
        return True
    kind = stored.traits.state_kind
    return kind is not None and type(stored) is type(wanted) and kind == wanted.traits.state_kind


def _halves(arrays: Sequence[Sent]) -> Partial:
    """Return the partial of an exact sum of integers."""
    (sums,) = arrays
    return np.stack([sums >> _HALF_BITS, sums & ((1 << _HALF_BITS) - 1), np.ones(len(sums), np.int64)], axis=1)


def _without_nulls(decode: Callable[[Sequence[Sent]], Partial]) -> Callable[[Sequence[Sent]], Partial]:
    def decoded(arrays: Sequence[Sent]) -> Partial:
        return NullablePartial(decode(arrays), np.ones(len(arrays[0]), np.bool_))

    return decoded
