"""The states of a query's aggregates while rows are added; aggregates over the same argument share states."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.functions.aggregate.nullable import NullSkipping
from gamay.functions.aggregate.totals.numeric import COUNT_ROWS, Numeric
from gamay.functions.aggregate.totals.totals import Needs, Totals
from gamay.functions.aggregate_spi import Aggregate, GroupIds, Partial, State
from gamay.functions.expression import Column, Expression
from gamay.functions.vector import Operand, Vector, take, take_rows
from gamay.query.arithmetic import Arithmetic, is_arithmetic
from gamay.query.groupby.stored_partials import StoredTotals
from gamay.query.groupby.table import AggregateCall
from gamay.query.limits.memory_size import held_bytes
from gamay.query.view.matches import Block, DocMask

Evaluate: TypeAlias = Callable[[Expression], Operand]
Reader: TypeAlias = Callable[[Block], Evaluate]

_NO_NEEDS = Needs(0)
_ADDING = Needs.COUNT | Needs.SUM
# the plans of tuples of calls by id, which stays unique as long as the tuple itself is kept here
_PLANS: dict[tuple[int, bool], tuple[Sequence[AggregateCall], "StatePlan"]] = {}
_PLANS_MAX = 1000
WIDE = "states of aggregates"
# larger states grow only if there is memory for it
_RESERVED_GROUPS = 1 << 16


@dataclass(slots=True)
class _Slot:
    """One state and the aggregates sealed from it; filter: of their FILTER clause."""

    owner: Aggregate
    arguments: tuple[Expression, ...]
    filter: Column | None = None
    users: list[int] = field(default_factory=list)
    needs: Needs = _NO_NEEDS  # of all users, when they are totals
    is_arithmetic: bool = False  # totals of sums and products of columns


@dataclass(frozen=True)
class StatePlan:
    """The states that the aggregates of a query need; may be shared by many queries at once.

    row_counts: the slot whose totals count the rows of each group; None if there is none.
    """

    aggregates: tuple[Aggregate, ...]
    slots: tuple[_Slot, ...]
    row_counts: int | None

    @cached_property
    def is_narrow(self) -> bool:
        """Whether every state is a few numbers for each group."""
        return all(map(is_narrow, self.aggregates))

    @cached_property
    def is_bounded(self) -> bool:
        """Whether no state grows with the rows of its groups."""
        return all(aggregate.traits.is_bounded for aggregate in self.aggregates)

    @cached_property
    def only_adds(self) -> bool:
        """Whether plain single-value columns are only counted and summed, so that a mask can be applied directly."""
        return all(
            slot.filter is None
            and (totals := _totals_of(slot.owner)) is not None
            and (slot.needs if totals is slot.owner else totals.needs) in _ADDING
            and all(isinstance(argument, Column) for argument in slot.arguments)
            for slot in self.slots
        )

    @cached_property
    def filters(self) -> tuple[Column | None, ...]:
        """The distinct FILTER clauses, None for aggregates without one."""
        return tuple(dict.fromkeys(slot.filter for slot in self.slots))

    @cached_property
    def arithmetic(self) -> tuple[tuple[int, ...], ...]:
        """The slots, for each filter, of totals of column arithmetic, which is computed for all at once."""
        fused = [index for index, slot in enumerate(self.slots) if slot.is_arithmetic and _totals_of(slot.owner)]
        return tuple(tuple(index for index in fused if self.slots[index].filter == condition) for condition in self.filters)

    @cached_property
    def arguments(self) -> tuple[Expression, ...]:
        """The distinct expressions that aggregates read."""
        arguments = [argument for slot in self.slots for argument in slot.arguments]
        return tuple(dict.fromkeys([*arguments, *(column for column in self.filters if column is not None)]))


def _unwrapped(aggregate: Aggregate) -> Aggregate:
    return aggregate.inner if isinstance(aggregate, NullSkipping) else aggregate


def _totals_of(aggregate: Aggregate) -> Numeric | None:
    """Return the unwrapped aggregate if its state is totals of single values; else None."""
    if isinstance(aggregate, NullSkipping):
        return aggregate.totals
    return aggregate if isinstance(aggregate, Numeric) and not aggregate.is_multi_value else None


def plan_states(calls: Sequence[AggregateCall], count_rows: bool) -> StatePlan:
    """Plan the states; with `count_rows` the rows of each group are counted even if no aggregate needs the count.

    Queries of one shape share the tuple of their calls, for which the plan is cached.
    """
    if not isinstance(calls, tuple):
        return _plan_states(calls, count_rows)
    key = id(calls), count_rows
    kept = _PLANS.get(key)
    if kept is None:
        if len(_PLANS) >= _PLANS_MAX:
            _PLANS.clear()
        kept = _PLANS[key] = calls, _plan_states(calls, count_rows)
    return kept[1]


def _plan_states(calls: Sequence[AggregateCall], count_rows: bool) -> StatePlan:
    slots: list[_Slot] = []
    aggregates = tuple(call.aggregate for call in calls)
    by_argument: dict[Any, _Slot] = {}
    counters: dict[Column | None, list[int]] = {None: []} if count_rows else {}
    for index, call in enumerate(calls):
        aggregate = call.aggregate
        if aggregate == COUNT_ROWS:
            counters.setdefault(call.filter, []).append(index)
            continue
        kind = index if aggregate.traits.state_kind is None else aggregate.traits.state_kind
        slot = by_argument.get((kind, call.arguments, call.filter))
        if slot is None:
            slot = by_argument[kind, call.arguments, call.filter] = _Slot(aggregate, call.arguments, call.filter)
            slot.is_arithmetic = isinstance(_unwrapped(aggregate), Numeric) and any(map(is_arithmetic, call.arguments))
            slots.append(slot)
        slot.users.append(index)
        if isinstance(aggregate, Numeric):
            slot.needs |= aggregate.needs
        elif isinstance(aggregate, NullSkipping) and isinstance(slot.owner, NullSkipping):
            slot.owner = slot.owner.sharing_with(aggregate)
    row_counts = None
    for condition, users in counters.items():
        counting = _slot_for_counting(slots, condition)
        slots[counting].users += users
        slots[counting].needs |= Needs.COUNT
        if condition is None:
            row_counts = counting
    return StatePlan(aggregates, tuple(slots), row_counts)


def is_narrow(aggregate: Aggregate) -> bool:
    """Return whether the state of an aggregate is a few numbers for each group."""
    return isinstance(_unwrapped(aggregate), Numeric | StoredTotals)


def _slot_for_counting(slots: list[_Slot], condition: Column | None) -> int:
    """Return the cheapest slot to count a filter's rows: one that already adds single values, else a new one."""
    for wanted in (Needs.COUNT, Needs.SUM):
        for index, slot in enumerate(slots):
            single = isinstance(slot.owner, Numeric) and not slot.owner.is_multi_value
            if single and wanted in slot.needs and slot.filter == condition:
                return index
    slots.append(_Slot(COUNT_ROWS, (), condition))
    return len(slots) - 1


class States:
    """The states of one thread."""

    def __init__(self, plan: StatePlan, num_groups: int) -> None:
        self._plan = plan
        self._filters = plan.filters
        self.num_groups = num_groups
        self._states: list[State] = [_allocate(slot, num_groups) for slot in plan.slots]
        self._arithmetic: Arithmetic | None = None

    def make_room(self, num_groups: int) -> None:
        """Grow to at least this many groups."""
        if num_groups <= self.num_groups:
            return
        self.num_groups = max(num_groups, 2 * self.num_groups)
        if self.num_groups > _RESERVED_GROUPS:  # the old states are kept until the new ones are filled
            guard.reserve("groups" if self._plan.is_narrow else WIDE, 2 * self.held_bytes())
        self._states = [
            slot.owner.grow(state, self.num_groups) for slot, state in zip(self._plan.slots, self._states, strict=True)
        ]

    def update(self, groups: GroupIds | None, operand: Evaluate, num_rows: int) -> None:
        """Add the rows of a block; `operand` gives the values of an expression at these rows."""
        for condition, arithmetic in zip(self._filters, self._plan.arithmetic, strict=True):
            part = (groups, operand, num_rows) if condition is None else _filtered(condition, groups, operand, num_rows)
            if not part[2]:
                continue
            added = arithmetic if arithmetic and self._add_arithmetic(arithmetic, *part) else ()
            for index, (slot, state) in enumerate(zip(self._plan.slots, self._states, strict=True)):
                if slot.filter == condition and index not in added:
                    slot.owner.update(state, part[0], self._arguments(slot, part[1], part[2]), part[2])

    def _add_arithmetic(self, slots: tuple[int, ...], groups: GroupIds | None, operand: Evaluate, num_rows: int) -> bool:
        added = [(self._plan.slots[index].arguments[0], self._states[index]) for index in slots]
        return self._buffers().add(added, groups, operand, num_rows)

    def _buffers(self) -> Arithmetic:
        if self._arithmetic is None:
            self._arithmetic = Arithmetic()
        return self._arithmetic

    def _arguments(self, slot: _Slot, operand: Evaluate, num_rows: int) -> list[Operand]:
        if slot.is_arithmetic:
            # Totals do not keep references to their arguments, which may therefore be buffers.
            values = self._buffers().compute(slot.arguments[0], operand, num_rows)
            if values is not None:
                return [values]
        return [operand(argument) for argument in slot.arguments]

    def update_kept(self, block: DocMask, operand: Evaluate) -> None:
        """Add the rows of a block to the only group; `operand` returns the values at all rows of its span. See
        `only_adds`."""
        for slot, state in zip(self._plan.slots, self._states, strict=True):
            if isinstance(slot.owner, NullSkipping):
                slot.owner.update_kept(state, block.flags, len(block), operand(slot.arguments[0]))
            else:
                state.update_kept(block.flags, len(block), operand(slot.arguments[0]) if slot.arguments else None)

    def held_bytes(self) -> int:
        """Return the bytes that the states hold."""
        return held_bytes(self._states)

    def reserve_for_end(self) -> None:
        """Raise QueryError 245 if there is no memory to concatenate what wide states collected."""
        if not self._plan.is_narrow:
            guard.reserve(WIDE, 2 * self.held_bytes())

    def combine(self, other: "States") -> None:
        """Add the states of another thread over the same groups."""
        self.reserve_for_end()
        self._states = [
            slot.owner.combine(state, theirs)
            for slot, state, theirs in zip(self._plan.slots, self._states, other._states, strict=True)
        ]

    def row_counts(self) -> Array:
        """Return the number of rows of each group: int64."""
        if self._plan.row_counts is None:
            raise ValueError("rows are not counted in this plan")
        counts = self._states[self._plan.row_counts].partial(Needs.COUNT).counts
        return np.asarray(counts)

    def seal(self, groups: Array | None = None) -> tuple[Partial, ...]:
        """Return the partial of each aggregate of the query; with `groups` (int64), of these groups only."""
        self.reserve_for_end()
        partials: list[Partial] = [None] * len(self._plan.aggregates)
        for slot, state in zip(self._plan.slots, self._states, strict=True):
            for user in slot.users:
                aggregate = self._plan.aggregates[user]
                partial = aggregate.seal(state)
                partials[user] = partial if groups is None else aggregate.select(partial, groups)
        return tuple(partials)


def _filtered(
    condition: Column, groups: GroupIds | None, operand: Evaluate, num_rows: int
) -> tuple[GroupIds | None, Evaluate, int]:
    """Return the rows of a block that match a condition: their groups, their values, and their number."""
    flags = operand(condition)
    assert isinstance(flags, Vector)
    kept = int(np.count_nonzero(flags.values))
    if kept == num_rows:
        return groups, operand, num_rows
    rows = np.flatnonzero(flags.values)
    taken: dict[Expression, Operand] = {}

    def at_rows(argument: Expression) -> Operand:
        if argument not in taken:
            taken[argument] = take_rows(operand(argument), rows)
        return taken[argument]

    return None if groups is None else take(groups, rows), at_rows, kept


def _allocate(slot: _Slot, num_groups: int) -> State:
    if isinstance(slot.owner, Numeric):
        return Totals(slot.needs, slot.owner.argument_type, num_groups)
    return slot.owner.allocate(num_groups)
