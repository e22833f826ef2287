"""A table of groups: their keys, and for each aggregate the partial of each group."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import Key
from gamay.functions.aggregate_spi import Aggregate, Partial
from gamay.functions.expression import Column, Expression
from gamay.functions.vector import EncodedVector, Vector, take

KeySet: TypeAlias = tuple[int, ...]
"""A set of GROUPING SETS: the positions of its keys in `BoundQuery.rows`, ascending."""


class AggregateCall(Protocol):
    """An aggregate of the query, with the expressions that are evaluated for each row.

    filter: the column of flags (bool) that selects the rows of the aggregate; None for all.
    """

    @property
    def aggregate(self) -> Aggregate: ...

    @property
    def arguments(self) -> tuple[Expression, ...]: ...

    @property
    def filter(self) -> Column | None: ...


@dataclass(frozen=True, slots=True, eq=False)
class GroupTable:
    """The groups of one segment, of several, or of a server.

    keys: one for each GROUP BY expression, single values [num_groups]; rows are distinct, null equals null, NaN equals
    NaN, 0.0 equals -0.0.
    partials: one for each aggregate, with an entry for each group.
    limit_reached: a segment had more groups than its limit, so that groups, and rows of other groups, may be missing.
    """

    keys: tuple[Key, ...]
    partials: tuple[Partial, ...]
    num_groups: int
    limit_reached: bool = False


def take_key(key: Key, rows: Array) -> Key:
    """Return the keys of some groups."""
    nulls = None if key.nulls is None else key.nulls[rows]
    if isinstance(key, EncodedVector):
        return EncodedVector(key.ids[rows], key.dictionary, None, nulls)
    return Vector(key.type, take(key.values, rows), None, nulls)


def select_groups(table: GroupTable, aggregates: Sequence[AggregateCall], groups: Array) -> GroupTable:
    """Return a table of only these groups (int64), in this order."""
    partials = tuple(call.aggregate.select(p, groups) for call, p in zip(aggregates, table.partials, strict=True))
    return GroupTable(tuple(take_key(key, groups) for key in table.keys), partials, len(groups), table.limit_reached)


def slice_key(key: Key, start: int, stop: int) -> Key:
    """Return the keys of the groups in [start, stop), without copying."""
    nulls = None if key.nulls is None else key.nulls[start:stop]
    if isinstance(key, EncodedVector):
        return EncodedVector(key.ids[start:stop], key.dictionary, None, nulls)
    return Vector(key.type, key.values[start:stop], None, nulls)


def key_values(table: GroupTable) -> tuple[Vector, ...]:
    """Return the decoded keys."""
    return tuple(key.decode() if isinstance(key, EncodedVector) else key for key in table.keys)
