"""Grouping by any key: groups are numbered in order of appearance, and states grow with them."""

from collections.abc import Sequence
from math import prod

import numpy as np

from gamay.base import guard
from gamay.functions.aggregate.distinct.coding import Coder, DictionaryCoder, NullableCoder, coder_of
from gamay.functions.expression import Column, Expression
from gamay.functions.vector import EncodedVector, Operand, Scalar
from gamay.kernels.tuning import LOOKUP_CELLS_MAX
from gamay.query.groupby.explode import single_keys, stored_type
from gamay.query.groupby.numbering import HashedNumbering, LookupNumbering, Numbering, SingleNumbering
from gamay.query.groupby.states import WIDE, Evaluate, StatePlan, States
from gamay.query.groupby.table import GroupTable
from gamay.query.limits.memory_size import held_bytes

_FIRST_GROUPS = 1 << 10
# Fewer narrow groups are not counted towards the memory limit; above that, they are counted again after each growth by a
# quarter.
_COUNTED_GROUPS = 1 << 14
# nor if there is this much memory for each of them
_BYTES_PER_UNCOUNTED = 1 << 9
_UNCOUNTED_LEAST = 1 << 8
# With fewer rows per group than that, most of the following rows start new groups, too.
_SCATTERED_ROWS = 3
_SINGLE_ROWS = 2
# the minimum size of the codes and values of a group's key while a table is created
_BYTES_TAKEN = 16


class GrowingGroups:
    """The groups of one thread.

    samples: an operand of each key, for its type and its dictionary if the column has one. expected: the approximate number
    of groups.
    """

    def __init__(
        self,
        keys: Sequence[Expression],
        samples: Sequence[Operand],
        plan: StatePlan,
        num_groups_limit: int,
        what: str = "groups",
        expected: int = 0,
    ) -> None:
        self._keys = keys
        # with several keys, each may have far fewer values than there are groups
        self._coders = [
            _coder(key, sample, expected if len(keys) == 1 else 0) for key, sample in zip(keys, samples, strict=True)
        ]
        self._numbering = numbering_of([coder.cardinality for coder in self._coders], num_groups_limit, expected)
        self._states = States(plan, min(max(_FIRST_GROUPS, expected), num_groups_limit + 1))
        self._is_narrow = plan.is_narrow
        self._num_rows = 0
        self._keys_held = guard.holder(what)
        self._states_held = guard.holder(what if plan.is_narrow else WIDE)
        limit = guard.memory_limit()
        self._counted_least = (
            _COUNTED_GROUPS if limit is None else min(_COUNTED_GROUPS, max(_UNCOUNTED_LEAST, limit // _BYTES_PER_UNCOUNTED))
        )
        self._counted_from = self._counted_least
        self._held_bytes = 0  # at the last count

    def add(self, operand: Evaluate, num_rows: int) -> None:
        """Add the rows of a block, once for each combination of their keys' values."""
        keys, operand, num_rows = single_keys(self._keys, operand, num_rows)
        codes = [coder.codes(key, num_rows) for coder, key in zip(self._coders, keys, strict=True)]
        groups = self._numbering.number(codes)
        self._num_rows += num_rows
        # Rows beyond the limit have the number after the last group.
        self._states.make_room(self._numbering.num_groups + int(self._numbering.dropped))
        self._states.update(groups, operand, num_rows)

    def count_memory(self) -> int:
        """Count the groups' memory, and return it; raises QueryError 245 if it exceeds the limit.

        Few narrow groups are not counted; others again after each growth by a quarter.
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
    def num_groups(self) -> int:
        """The number of groups so far."""
        return self._numbering.num_groups

    @property
    def are_scattered(self) -> bool:
        """Whether groups are found by hashing and rarely repeat.

        Tables with a cell for every code are as large for some of the rows as for all of them.
        """
        is_hashed = any(coder.cardinality is None for coder in self._coders) or isinstance(self._numbering, HashedNumbering)
        return is_hashed and self._num_rows < _SCATTERED_ROWS * self._numbering.num_groups

    @property
    def hardly_repeat(self) -> bool:
        """Whether most groups have only one row."""
        return self._num_rows < _SINGLE_ROWS * self._numbering.num_groups

    @property
    def holders(self) -> tuple[guard.Holder, guard.Holder]:
        """The holders that count the memory of these groups; released by whoever creates a table from them."""
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


def numbering_of(cardinalities: Sequence[int | None], limit: int, expected: int = 0) -> Numbering:
    """Return the cheapest numbering of combinations of codes. expected: their approximate number."""
    known = [cardinality for cardinality in cardinalities if cardinality is not None]
    if len(known) == len(cardinalities) and prod(known) <= LOOKUP_CELLS_MAX:
        return LookupNumbering(known, limit)
    return SingleNumbering(limit) if len(cardinalities) == 1 else HashedNumbering(cardinalities, limit, expected)


def _coder(key: Expression, sample: Operand, expected: int) -> Coder:
    coder: Coder
    if isinstance(sample, Scalar):
        coder = coder_of(stored_type(sample))
        return NullableCoder(coder) if sample.value is None else coder
    # Only a single-value column is sure to have the same dictionary in every block.
    if isinstance(key, Column) and isinstance(sample, EncodedVector) and sample.offsets is None:
        coder = DictionaryCoder(sample.dictionary)
    else:
        coder = coder_of(sample.type, expected)
    return coder if sample.nulls is None else NullableCoder(coder)
