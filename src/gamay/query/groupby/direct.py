"""Grouping by dictionary codes alone: every combination of codes is a group, so that no lookup is needed.

The ids of a single key, even a multi-value one, are the group numbers. Rows that a mask drops are not cut out but assigned
to spare groups after the real ones. That costs 0.1 ns per row and avoids copies (see `SPARSE_MASK`), unless a state collects
the values of its rows.
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

# smaller totals are not counted towards the memory limit
_COUNTED_GROUPS = 1 << 14
# bytes per group in a state
_STATE_BYTES = 8


@dataclass(frozen=True, slots=True)
class DirectPlan:
    """Plan of direct grouping. keys: one per GROUP BY expression. masked: whether blocks may come with a mask.

    scattered: whether the values of rows are spread over large dictionaries, so that a mask pays only if it keeps most rows.
    exploded: whether rows belong to several groups because a key is multi-value.
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
        """The minimum size of the states of all combinations."""
        return prod(self.cardinalities) * _STATE_BYTES * len(self.states.slots)

    @property
    def columns(self) -> tuple[Expression, ...]:
        """All expressions that are read for each row."""
        return (*(key.column for key in self.keys), *self.states.arguments)


def plan_direct(
    keys: Sequence[Expression], probe: Evaluate, aggregates: Sequence[AggregateCall], matches: Matches
) -> DirectPlan | None:
    """Return the plan if all keys have dictionaries and do not have too many combinations; else None."""
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
    """Return whether the values of aggregated columns are looked up in dictionaries that exceed the cache."""
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
        """Count the groups' memory, and return it; raises QueryError 245 if it exceeds the limit."""
        if not self._is_counted:
            self._is_counted = self._plan.states.is_narrow  # its size is constant
            self._held_bytes = self._states.held_bytes()
            self._held.hold(self._held_bytes)
        return self._held_bytes

    def release(self) -> None:
        """Stop counting the groups' memory."""
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
    """Return the approximate number of matching rows, without running a scan."""
    return (matches.stop - matches.start) // SCANS_KEEP_ONE_OF if isinstance(matches, DocScan) else len(matches)


def _span(matches: Matches) -> int:
    if isinstance(matches, AllDocs | DocScan):
        return matches.stop - matches.start
    return len(matches.ids) if isinstance(matches, DocList) else len(matches.mask)
