"""The states of a query's aggregates while rows are added; aggregates over one argument share what they can."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from gamay.functions.aggregate.numeric import COUNT_ROWS, Numeric
from gamay.functions.aggregate.spi import Aggregate, GroupIds, Partial, State
from gamay.functions.aggregate.totals import Needs, Totals
from gamay.functions.expression import Column, Expression
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, take
from gamay.query.groupby.arithmetic import Arithmetic, is_arithmetic
from gamay.query.groupby.table import AggregateCall
from gamay.query.matches import Block, DocMask

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Evaluate: TypeAlias = Callable[[Expression], Operand]
Reader: TypeAlias = Callable[[Block], Evaluate]

_NO_NEEDS = Needs(0)
_ADDING = Needs.COUNT | Needs.SUM


@dataclass(slots=True)
class _Slot:
    """One state and the aggregates that are sealed from it."""

    owner: Aggregate
    arguments: tuple[Expression, ...]
    users: list[int] = field(default_factory=list)
    needs: Needs = _NO_NEEDS  # of all users, when they are totals
    is_arithmetic: bool = False  # totals of sums and products of columns


@dataclass(frozen=True, slots=True)
class StatePlan:
    """Which states the aggregates of a query need.

    row_counts: the slot whose totals count the rows of each group; None when nothing does.
    """

    aggregates: tuple[Aggregate, ...]
    slots: tuple[_Slot, ...]
    row_counts: int | None

    @property
    def is_narrow(self) -> bool:
        """Whether every state is a few numbers for each group."""
        return all(isinstance(aggregate, Numeric) for aggregate in self.aggregates)

    @property
    def only_adds(self) -> bool:
        """Whether plain single-value columns are only counted and summed, so that a mask can be applied on the way."""
        return all(
            isinstance(slot.owner, Numeric)
            and not slot.owner.is_multi_value
            and slot.needs in _ADDING
            and all(isinstance(argument, Column) for argument in slot.arguments)
            for slot in self.slots
        )

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """Every expression that is read for aggregates, each once."""
        return tuple(dict.fromkeys(argument for slot in self.slots for argument in slot.arguments))


def plan_states(calls: Sequence[AggregateCall], count_rows: bool) -> StatePlan:
    """Decide on the states; with `count_rows` the rows of each group are counted even if no aggregate asks for it."""
    slots: list[_Slot] = []
    aggregates = tuple(call.aggregate for call in calls)
    by_argument: dict[Any, _Slot] = {}
    counters = [i for i, call in enumerate(calls) if call.aggregate == COUNT_ROWS]
    for index, call in enumerate(calls):
        if index in counters:
            continue
        aggregate = call.aggregate
        kind = "totals" if isinstance(aggregate, Numeric) else getattr(aggregate, "state_kind", index)
        slot = by_argument.get((kind, call.arguments))
        if slot is None:
            slot = by_argument[kind, call.arguments] = _Slot(aggregate, call.arguments)
            slot.is_arithmetic = kind == "totals" and any(map(is_arithmetic, call.arguments))
            slots.append(slot)
        slot.users.append(index)
        if isinstance(aggregate, Numeric):
            slot.needs |= aggregate.needs
    row_counts = None
    if counters or count_rows:
        row_counts = _slot_for_counting(slots)
        slots[row_counts].users += counters
        slots[row_counts].needs |= Needs.COUNT
    return StatePlan(aggregates, tuple(slots), row_counts)


def _slot_for_counting(slots: list[_Slot]) -> int:
    """Return the slot that can count rows best: one that adds single values anyway, else a new one."""
    for wanted in (Needs.COUNT, Needs.SUM):
        for index, slot in enumerate(slots):
            if isinstance(slot.owner, Numeric) and not slot.owner.is_multi_value and wanted in slot.needs:
                return index
    slots.append(_Slot(COUNT_ROWS, ()))
    return len(slots) - 1


class States:
    """The states of one thread."""

    def __init__(self, plan: StatePlan, num_groups: int) -> None:
        self._plan = plan
        self.num_groups = num_groups
        self._states: list[State] = [_allocate(slot, num_groups) for slot in plan.slots]
        self._arithmetic = Arithmetic()

    def make_room(self, num_groups: int) -> None:
        """Grow to at least so many groups."""
        if num_groups <= self.num_groups:
            return
        self.num_groups = max(num_groups, 2 * self.num_groups)
        self._states = [
            slot.owner.grow(state, self.num_groups) for slot, state in zip(self._plan.slots, self._states, strict=True)
        ]

    def update(self, groups: GroupIds | None, operand: Evaluate, num_rows: int) -> None:
        """Add the rows of a block; `operand` gives the values of an expression at these rows."""
        for slot, state in zip(self._plan.slots, self._states, strict=True):
            slot.owner.update(state, groups, self._arguments(slot, operand, num_rows), num_rows)

    def _arguments(self, slot: _Slot, operand: Evaluate, num_rows: int) -> list[Operand]:
        if slot.is_arithmetic:
            # Totals do not hold on to what they are given, so it may lie in buffers.
            values = self._arithmetic.compute(slot.arguments[0], operand, num_rows)
            if values is not None:
                return [values]
        return [operand(argument) for argument in slot.arguments]

    def update_kept(self, block: DocMask, operand: Evaluate) -> None:
        """Add the rows of a block to the only group; `operand` gives values at all rows of its span. See `only_adds`."""
        for slot, state in zip(self._plan.slots, self._states, strict=True):
            state.update_kept(block.flags, len(block), operand(slot.arguments[0]) if slot.arguments else None)

    def combine(self, other: "States") -> None:
        """Add the states of another thread over the same groups."""
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
        partials: list[Partial] = [None] * len(self._plan.aggregates)
        for slot, state in zip(self._plan.slots, self._states, strict=True):
            for user in slot.users:
                aggregate = self._plan.aggregates[user]
                partial = aggregate.seal(state)
                partials[user] = partial if groups is None else aggregate.select(partial, groups)
        return tuple(partials)


def _allocate(slot: _Slot, num_groups: int) -> State:
    if isinstance(slot.owner, Numeric):
        return Totals(slot.needs, slot.owner.argument_type, num_groups)
    return slot.owner.allocate(num_groups)


def take_rows(operand: Operand, rows: Array) -> Operand:
    """Return an operand's values at some rows, which may repeat."""
    if isinstance(operand, Scalar):
        return operand
    offsets = operand.offsets
    if offsets is None:
        return _take_values(operand, rows, None)
    lengths = (offsets[1:] - offsets[:-1])[rows].astype(np.int64)
    taken = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=taken[1:])
    positions = np.repeat(offsets[:-1][rows] - taken[:-1], lengths) + np.arange(taken[-1])
    return _take_values(operand, positions, taken)


def _take_values(operand: Vector | EncodedVector, positions: Array, offsets: Array | None) -> Operand:
    if isinstance(operand, EncodedVector):
        return EncodedVector(take(operand.ids, positions), operand.dictionary, offsets)
    return Vector(operand.type, take(operand.values, positions), offsets)
