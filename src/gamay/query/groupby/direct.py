"""Grouping by codes of dictionaries alone: every combination of codes is a group, so nothing has to be looked up.

The ids of a single key, be it multi-value, are the group numbers as they lie in the segment. Rows that a mask drops are not
cut out but sent to spare groups behind the real ones, which costs 0.1 ns a row and spares the copies (see `SPARSE_MASK`),
unless a state keeps what comes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.functions.expression import Column, Expression, column_names
from gamay.functions.vector import EncodedVector, take_rows
from gamay.kernels.rows.masks import mask_groups
from gamay.kernels.tuning import (
    CACHED_ENTRIES_MAX,
    DIRECT_GROUPS_MAX,
    DIRECT_GROUPS_MAX_WIDE,
    SCANS_KEEP_ONE_OF,
    SPARE_GROUPS,
)
from gamay.query.arithmetic import is_arithmetic
from gamay.query.groupby.explode import Exploded
from gamay.query.groupby.numbering import DirectNumbering, unsigned_for
from gamay.query.groupby.recode import CodedKey, coded_key
from gamay.query.groupby.states import WIDE, Evaluate, Reader, StatePlan, States, plan_states
from gamay.query.groupby.table import AggregateCall, GroupTable
from gamay.query.view.matches import AllDocs, Block, DocList, DocMask, DocScan, Matches

# the totals of fewer groups need no counting of bytes
_COUNTED_GROUPS = 1 << 14
# of a group's number in a state
_STATE_BYTES = 8


@dataclass(frozen=True, slots=True)
class DirectPlan:
    """keys: one for each GROUP BY expression. masked: whether blocks may come with a mask to apply.

    scattered: whether a row's values lie anywhere in large dictionaries, so that a mask pays only where it keeps most rows.
    exploded: whether rows stand in several groups because a key is multi-value.
    """

    keys: tuple[CodedKey, ...]
    states: StatePlan
    masked: bool
    scattered: bool
    exploded: bool

    @property
    def cardinalities(self) -> tuple[int, ...]:
        return tuple(key.cardinality for key in self.keys)

    @property
    def num_bytes(self) -> int:
        """What the numbers of all combinations take at least."""
        return prod(self.cardinalities) * _STATE_BYTES * len(self.states.slots)

    @property
    def columns(self) -> tuple[Expression, ...]:
        """Everything that is read for each row."""
        return (*(key.column for key in self.keys), *self.states.arguments)


def plan_direct(
    keys: Sequence[Expression], probe: Evaluate, aggregates: Sequence[AggregateCall], matches: Matches
) -> DirectPlan | None:
    """Return the plan when all keys come from dictionaries and have not too many combinations; else None."""
    rows = _span(matches)
    coded: list[CodedKey] = []
    for key in keys:
        code = coded_key(key, probe, rows)
        if code is None:
            return None
        coded.append(code)
    states = plan_states(aggregates, count_rows=True)
    combinations = prod(key.cardinality for key in coded)
    if combinations > (DIRECT_GROUPS_MAX if states.is_narrow else DIRECT_GROUPS_MAX_WIDE):
        return None
    if combinations > max(DIRECT_GROUPS_MAX_WIDE, _expected(matches)):
        return None
    exploded = any(key.is_multi_value for key in coded)
    # what is computed of columns in buffers costs less for all rows than cutting out each column for some
    plain = all(isinstance(a, Column) or (states.is_narrow and is_arithmetic(a)) for a in states.arguments)
    unfiltered = states.filters == (None,)
    masked = isinstance(matches, DocMask | DocScan) and plain and not exploded and unfiltered and states.is_bounded
    scattered = masked and are_scattered(states.arguments, probe)
    return DirectPlan(tuple(coded), states, masked, scattered, exploded)


def are_scattered(arguments: Sequence[Expression], probe: Evaluate) -> bool:
    """Tell whether values of columns that are aggregated are looked up in dictionaries that no near cache holds."""
    columns = [probe(Column(name)) for name in {name for argument in arguments for name in column_names(argument)}]
    return any(isinstance(column, EncodedVector) and len(column.dictionary) > CACHED_ENTRIES_MAX for column in columns)


class DirectGroups:
    """The groups of one thread."""

    def __init__(self, plan: DirectPlan) -> None:
        self._plan = plan
        self._numbering = DirectNumbering(plan.cardinalities)
        self._states = States(plan.states, self._numbering.num_groups + (SPARE_GROUPS if plan.masked else 0))
        self._held = guard.holder("groups" if plan.states.is_narrow else WIDE)
        self._held_bytes = 0
        self._is_counted = plan.states.is_narrow and self._numbering.num_groups < _COUNTED_GROUPS

    def add(self, block: Block, reader: Reader) -> None:
        """Add the rows of a block."""
        plan = self._plan
        if plan.masked and isinstance(block, DocMask) and (block.keeps_most or not plan.scattered):
            span = reader(block.span)
            groups = self._groups(block.span, reader)
            num_groups = self._numbering.num_groups
            chosen = np.empty(len(groups), unsigned_for(num_groups + SPARE_GROUPS))
            mask_groups(groups, block.flags, num_groups, chosen)
            self._states.update(chosen, span, len(groups))
        elif plan.exploded:
            self._add_exploded(reader(block), len(block))
        else:
            self._states.update(self._groups(block, reader), reader(block), len(block))

    def _add_exploded(self, operand: Evaluate, num_rows: int) -> None:
        exploded = Exploded([operand(key.column) for key in self._plan.keys], num_rows)
        codes = [key.of(values) for key, values in zip(self._plan.keys, exploded.keys, strict=True)]
        groups = self._numbering.number(codes)
        self._states.update(groups, lambda argument: take_rows(operand(argument), exploded.rows), exploded.num_rows)

    def count_memory(self) -> int:
        """Tell the guard what the groups hold, and return it; raises QueryError 245 when that is too much."""
        if not self._is_counted:
            self._is_counted = self._plan.states.is_narrow  # it does not grow
            self._held_bytes = self._states.held_bytes()
            self._held.hold(self._held_bytes)
        return self._held_bytes

    def release(self) -> None:
        """Tell the guard that the groups are no longer held."""
        self._held.release()

    def combine(self, other: "DirectGroups") -> None:
        """Add the groups of another thread."""
        self._states.combine(other._states)

    def table(self, num_groups_limit: int) -> GroupTable:
        """Return the groups that have rows."""
        occurring = np.flatnonzero(self._states.row_counts()[: self._numbering.num_groups])
        groups = occurring[:num_groups_limit]
        keys = tuple(key.decode(codes) for codes, key in zip(self._numbering.codes(groups), self._plan.keys, strict=True))
        partials = self._states.seal(groups)
        return GroupTable(keys, partials, len(groups), len(groups) < len(occurring))

    def _groups(self, block: Block, reader: Reader) -> Array:
        operand = reader(block)
        return self._numbering.number([key.of(operand(key.column)) for key in self._plan.keys])


def _expected(matches: Matches) -> int:
    """Return about how many rows match, without running a scan."""
    return (matches.stop - matches.start) // SCANS_KEEP_ONE_OF if isinstance(matches, DocScan) else len(matches)


def _span(matches: Matches) -> int:
    if isinstance(matches, AllDocs | DocScan):
        return matches.stop - matches.start
    return len(matches.ids) if isinstance(matches, DocList) else len(matches.mask)
