"""Rows as groups of their own: if keys hardly repeat, looking up each row's group costs more than it saves."""

from collections.abc import Sequence

import numpy as np

from gamay.base import guard
from gamay.functions.aggregate.distinct.coding import Key
from gamay.functions.expression import Expression
from gamay.functions.vector import EncodedVector
from gamay.query.columns.operations import concat_encoded, concat_vectors
from gamay.query.groupby.explode import single_keys
from gamay.query.groupby.states import WIDE, Evaluate, StatePlan, States
from gamay.query.groupby.table import GroupTable
from gamay.query.limits.memory_size import held_bytes
from gamay.query.view.read import as_vector

_FIRST_ROWS = 1 << 14


class RowGroups:
    """The rows of one thread, each in its own group; equal keys are merged only when tables are merged."""

    are_scattered = True
    hardly_repeat = True

    def __init__(self, keys: Sequence[Expression], plan: StatePlan, what: str = "groups") -> None:
        self._keys = keys
        self._parts: list[list[Key]] = [[] for _ in keys]
        self._states = States(plan, _FIRST_ROWS)
        self.num_groups = 0
        self.holders = guard.holder(what), guard.holder(what if plan.is_narrow else WIDE)

    def add(self, operand: Evaluate, num_rows: int) -> None:
        """Add the rows of a block, once for each combination of their keys' values."""
        keys, operand, num_rows = single_keys(self._keys, operand, num_rows)
        for part, key in zip(self._parts, keys, strict=True):
            part.append(key if isinstance(key, EncodedVector) else as_vector(key, num_rows))
        groups = np.arange(self.num_groups, self.num_groups + num_rows, dtype=np.int32)
        self.num_groups += num_rows
        self._states.make_room(self.num_groups)
        self._states.update(groups, operand, num_rows)

    def count_memory(self) -> int:
        """Count the rows' memory, and return it; raises QueryError 245 if it exceeds the limit."""
        keys, states = held_bytes(self._parts), self._states.held_bytes()
        for holder, held in zip(self.holders, (keys, states), strict=True):
            holder.hold(held)
        return keys + states

    def table(self) -> GroupTable:
        """Return the rows as groups, which may be equal."""
        keys = tuple(map(_joined, self._parts))
        return GroupTable(keys, self._states.seal(np.arange(self.num_groups)), self.num_groups)


def _joined(parts: Sequence[Key]) -> Key:
    encoded = [part for part in parts if isinstance(part, EncodedVector)]
    if len(encoded) == len(parts) and all(part.dictionary.values is encoded[0].dictionary.values for part in encoded):
        return concat_encoded(encoded)
    return concat_vectors([part.decode() if isinstance(part, EncodedVector) else part for part in parts])
