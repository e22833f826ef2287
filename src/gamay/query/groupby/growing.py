"""Grouping by anything: groups are numbered as they appear, and states grow with them."""

from collections.abc import Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from gamay.base import guard
from gamay.functions.aggregate.coding import Coder, DictionaryCoder, NullableCoder, coder_of
from gamay.functions.expression import Column, Expression
from gamay.functions.vector import EncodedVector, Operand, Scalar, take_rows
from gamay.kernels.tuning import LOOKUP_CELLS_MAX
from gamay.model.types import DataType
from gamay.query.constants import repeated
from gamay.query.groupby.explode import Exploded, is_list
from gamay.query.groupby.numbering import HashedNumbering, LookupNumbering, Numbering, SingleNumbering
from gamay.query.groupby.states import WIDE, Evaluate, StatePlan, States
from gamay.query.groupby.table import GroupTable
from gamay.query.held import held_bytes

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_FIRST_GROUPS = 1 << 10
# Fewer groups of a few numbers each need no counting of bytes; it is done again when there are a quarter more.
_COUNTED_GROUPS = 1 << 14
# nor where there is so much memory for each of them
_BYTES_PER_UNCOUNTED = 1 << 9
_UNCOUNTED_LEAST = 1 << 8
# what reading the codes and values of a group's key takes at least
_BYTES_TAKEN = 16


class GrowingGroups:
    """The groups of one thread. samples: an operand of each key, for its type and its dictionary if the column has one."""

    def __init__(
        self,
        keys: Sequence[Expression],
        samples: Sequence[Operand],
        plan: StatePlan,
        num_groups_limit: int,
        what: str = "groups",
    ) -> None:
        self._keys = keys
        self._coders = [_coder(key, sample) for key, sample in zip(keys, samples, strict=True)]
        self._numbering = numbering_of([coder.cardinality for coder in self._coders], num_groups_limit)
        self._states = States(plan, min(_FIRST_GROUPS, num_groups_limit + 1))
        self._is_narrow = plan.is_narrow
        self._keys_held = guard.holder(what)
        self._states_held = guard.holder(what if plan.is_narrow else WIDE)
        limit = guard.memory_limit()
        self._counted_least = (
            _COUNTED_GROUPS if limit is None else min(_COUNTED_GROUPS, max(_UNCOUNTED_LEAST, limit // _BYTES_PER_UNCOUNTED))
        )
        self._counted_from = self._counted_least
        self._held_bytes = 0  # when they were last counted

    def add(self, operand: Evaluate, num_rows: int) -> None:
        """Add the rows of a block, once for each combination of their keys' values."""
        keys = [_without_null_constant(operand(key), num_rows) for key in self._keys]
        if any(map(is_list, keys)):
            exploded = Exploded(keys, num_rows)
            self._add(exploded.keys, lambda argument: take_rows(operand(argument), exploded.rows), exploded.num_rows)
        else:
            self._add(keys, operand, num_rows)

    def count_memory(self) -> int:
        """Tell the guard what the groups hold so far, and return it; raises QueryError 245 when that is too much.

        Few groups of a few numbers each are not counted; others only when there are a quarter more.
        """
        num_groups = self._numbering.num_groups
        if self._is_narrow and num_groups < self._counted_from:
            return self._held_bytes
        self._counted_from = max(self._counted_least, num_groups + num_groups // 4)
        keys, states = held_bytes(self._coders) + held_bytes(self._numbering), self._states.held_bytes()
        self._held_bytes = keys + states
        self._keys_held.hold(keys)
        self._states_held.hold(states)
        return self._held_bytes

    @property
    def holders(self) -> tuple[guard.Holder, guard.Holder]:
        """What the memory of these groups is told to; whoever has made a table of them releases it."""
        return self._keys_held, self._states_held

    def table(self) -> GroupTable:
        """Return the groups."""
        num_groups = self._numbering.num_groups
        if num_groups >= _COUNTED_GROUPS:
            guard.reserve("groups", num_groups * _BYTES_TAKEN * len(self._coders))
        groups = np.arange(num_groups)
        codes = self._numbering.codes(groups)
        keys = tuple(coder.decode(part) for coder, part in zip(self._coders, codes, strict=True))
        return GroupTable(keys, self._states.seal(groups), len(groups), self._numbering.dropped)

    def _add(self, keys: Sequence[Operand], operand: Evaluate, num_rows: int) -> None:
        codes = [coder.codes(key, num_rows) for coder, key in zip(self._coders, keys, strict=True)]
        groups = self._numbering.number(codes)
        # Rows beyond the limit carry the number behind the last group.
        self._states.make_room(self._numbering.num_groups + int(self._numbering.dropped))
        self._states.update(groups, operand, num_rows)


def _without_null_constant(key: Operand, num_rows: int) -> Operand:
    return repeated(None, _stored_type(key), num_rows) if isinstance(key, Scalar) and key.value is None else key


def _stored_type(key: Scalar) -> DataType:
    """The type of a constant's values; those of NULL, of which there are none, may be text."""
    return DataType.STRING if key.type is DataType.UNKNOWN else key.type


def numbering_of(cardinalities: Sequence[int | None], limit: int) -> Numbering:
    """Return the cheapest way to number combinations of codes."""
    known = [cardinality for cardinality in cardinalities if cardinality is not None]
    if len(known) == len(cardinalities) and prod(known) <= LOOKUP_CELLS_MAX:
        return LookupNumbering(known, limit)
    return SingleNumbering(limit) if len(cardinalities) == 1 else HashedNumbering(cardinalities, limit)


def _coder(key: Expression, sample: Operand) -> Coder:
    coder: Coder
    if isinstance(sample, Scalar):
        coder = coder_of(_stored_type(sample))
        return NullableCoder(coder) if sample.value is None else coder
    # Only a single-value column is sure to bring the same dictionary with every block.
    if isinstance(key, Column) and isinstance(sample, EncodedVector) and sample.offsets is None:
        coder = DictionaryCoder(sample.dictionary)
    else:
        coder = coder_of(sample.type)
    return coder if sample.nulls is None else NullableCoder(coder)
