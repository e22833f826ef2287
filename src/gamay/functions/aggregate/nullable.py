"""Null handling of aggregates: rows in which an argument is null are skipped, and without any row the result is null.

An empty multi-value list counts as null.

One wrapper does this for every aggregate: it drops the rows before the aggregate sees them and records which groups had
rows, so that aggregates need not know of nulls. Totals of single values, the most common, are kept by `NullableTotals`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.totals.null_totals import NullableTotals
from gamay.functions.aggregate.totals.numeric import COUNT_ROWS, Numeric
from gamay.functions.aggregate.totals.totals import unsigned
from gamay.functions.aggregate_spi import Aggregate, AggregateTraits, GroupIds, Partial, Sent, State
from gamay.functions.flagged import flagged_rows, flagged_values
from gamay.functions.vector import Operand, Scalar, Vector, union_nulls
from gamay.kernels.group.aggregation import mark_ids


@dataclass(slots=True)
class NullableState:
    """The state of the inner aggregate. seen: uint8 [num_groups], 1 if a row was not null."""

    inner: State
    seen: Array


@dataclass(frozen=True, slots=True, eq=False)
class NullablePartial:
    """The partial of the inner aggregate. seen: bool [num_groups], whether the group had a row to aggregate."""

    inner: Partial
    seen: Array


@dataclass(frozen=True)
class NullSkipping:
    """An aggregate of the rows in which no argument is null.

    of_nothing_is_null: whether the result without rows is null; otherwise it is the aggregate's own, as 0 for counts.
    """

    inner: Aggregate
    of_nothing_is_null: bool

    @cached_property
    def traits(self) -> AggregateTraits:
        """The inner aggregate's, except that a dictionary cannot replace the rows, as it does not know of nulls."""
        known = self.inner.traits
        kind = self.inner if known.state_kind is None else known.state_kind
        return replace(known, state_kind=("without nulls", kind), is_of_distinct_values=False)

    def sharing_with(self, other: "NullSkipping") -> "NullSkipping":
        """Return the aggregate whose state serves both, which have equal kinds."""
        if not isinstance(self.inner, Numeric) or not isinstance(other.inner, Numeric):
            return self
        return replace(self, inner=replace(self.inner, needs=self.inner.needs | other.inner.needs))

    @property
    def totals(self) -> Numeric | None:
        """The inner aggregate if it uses totals of single values, so that the state is `NullableTotals`; else None."""
        inner = self.inner
        return inner if isinstance(inner, Numeric) and not inner.is_multi_value else None

    def allocate(self, num_groups: int) -> "NullableState | NullableTotals":
        if self.totals is not None:
            return NullableTotals(self.totals.needs, self.totals.argument_type, num_groups)
        return NullableState(self.inner.allocate(num_groups), np.zeros(num_groups, np.uint8))

    def grow(self, state: State, num_groups: int) -> State:
        if isinstance(state, NullableTotals):
            state.grow(num_groups)
            return state
        seen = np.zeros(num_groups, np.uint8)
        seen[: len(state.seen)] = state.seen
        return NullableState(self.inner.grow(state.inner, num_groups), seen)

    def update(self, state: State, groups: GroupIds | None, args: Sequence[Operand], num_rows: int) -> None:
        nulls = _null_rows(args[: self.traits.required_arguments], num_rows)
        if isinstance(state, NullableTotals):
            if not _is_null_constant(args[0]):
                state.update(groups, self._summed(args[0]), nulls, num_rows)
            return
        nulls = _without_values(args, nulls)
        if nulls is not None:
            flags = np.logical_not(nulls).view(np.uint8)
            num_rows = int(np.count_nonzero(flags))
            args = [flagged_rows(arg, flags, num_rows) for arg in args]
            groups = None if groups is None else flagged_values(groups, flags, num_rows)
        if num_rows == 0:
            return
        self.inner.update(state.inner, groups, args, num_rows)
        if groups is None:
            state.seen[0] = 1
        else:
            mark_ids(unsigned(groups), state.seen)

    def update_kept(self, state: NullableTotals, mask: Array, kept: int, operand: Operand) -> None:
        """Add those rows of a batch whose `mask` (uint8) is 1 to the only group; see `NullableTotals.update_kept`."""
        nulls = None if isinstance(operand, Scalar) else operand.nulls
        state.update_kept(mask, kept, nulls, self._summed(operand))

    def _summed(self, operand: Operand) -> Operand | None:
        """Return the values to sum; None for COUNT(x), which has x only to know which rows are null."""
        return None if self.inner == COUNT_ROWS else operand

    def combine(self, state: State, other: State) -> State:
        if isinstance(state, NullableTotals):
            state.combine(other)
            return state
        return NullableState(self.inner.combine(state.inner, other.inner), state.seen | other.seen)

    def seal(self, state: State) -> NullablePartial:
        if self.totals is not None:
            partial = state.partial(self.totals.needs)
            return NullablePartial(self.totals.only(partial), partial.counts > 0)
        return NullablePartial(self.inner.seal(state.inner), state.seen.astype(np.bool_))

    def select(self, partial: NullablePartial, groups: Array) -> NullablePartial:
        return NullablePartial(self.inner.select(partial.inner, groups), partial.seen[groups])

    def merge(self, partials: Sequence[NullablePartial], maps: Sequence[GroupIds], num_groups: int) -> NullablePartial:
        seen = np.zeros(num_groups, np.bool_)
        for partial, groups in zip(partials, maps, strict=True):
            seen[groups[partial.seen]] = True
        return NullablePartial(self.inner.merge([partial.inner for partial in partials], maps, num_groups), seen)

    def finish(self, partial: NullablePartial) -> Vector:
        result = self.inner.finish(partial.inner)
        if not self.of_nothing_is_null or partial.seen.all():
            return result
        nulls = ~partial.seen if result.nulls is None else result.nulls | ~partial.seen
        return Vector(result.type, result.values, result.offsets, nulls)

    def encode(self, partial: NullablePartial) -> list[Sent]:
        return [*self.inner.encode(partial.inner), partial.seen]

    def decode(self, arrays: Sequence[Sent]) -> NullablePartial:
        return NullablePartial(self.inner.decode(arrays[:-1]), arrays[-1])


def _null_rows(args: Sequence[Operand], num_rows: int) -> "np.ndarray[Any, np.dtype[np.bool_]] | None":
    """Return the rows in which any argument is null; None if there are none."""
    if any(map(_is_null_constant, args)):
        return np.ones(num_rows, np.bool_)
    nulls = union_nulls(args)
    return nulls if nulls is not None and nulls.any() else None


def _without_values(args: Sequence[Operand], nulls: Array | None) -> Array | None:
    """Return the rows that are null or whose list is empty, as after valueIn; None if there are none."""
    for arg in args:
        if not isinstance(arg, Scalar) and arg.offsets is not None:
            empty = np.diff(arg.offsets) == 0
            if empty.any():
                nulls = empty if nulls is None else nulls | empty
    return nulls


def _is_null_constant(operand: Operand) -> bool:
    return isinstance(operand, Scalar) and operand.value is None
