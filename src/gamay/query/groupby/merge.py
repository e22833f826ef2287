"""Merging of tables of groups: keys are matched by value, partials are merged.

merge_group_tables(tables, aggregates) -> GroupTable
regroup(table, positions, aggregates) -> GroupTable of fewer keys
merge_partials(per_segment, aggregates) -> (partial of each aggregate, one group each)
"""

from collections.abc import Callable, Sequence
from typing import ParamSpec, TypeVar

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import CODES_MAX, Coder, Key, common_codes
from gamay.functions.aggregate_spi import Partial
from gamay.query.groupby.growing import numbering_of
from gamay.query.groupby.states import WIDE, is_narrow
from gamay.query.groupby.table import AggregateCall, GroupTable
from gamay.query.limits.memory_size import held_bytes

P = ParamSpec("P")
T = TypeVar("T")


# larger tables are merged only if there is memory for it
_RESERVED_GROUPS = 1 << 14


def merge_group_tables(tables: Sequence[GroupTable], aggregates: Sequence[AggregateCall]) -> GroupTable:
    """Merge tables of the same query, at least one. A single table is returned as it is."""
    if len(tables) == 1:
        return tables[0]
    if not tables[0].keys:
        return GroupTable((), merge_partials([table.partials for table in tables], aggregates), 1)
    # in addition to the tables: the codes and the number of each group, and the merged table
    rows = sum(table.num_groups for table in tables)
    if not all(is_narrow(call.aggregate) for call in aggregates):
        guard.reserve(WIDE, 2 * sum(map(held_bytes, tables)))
    elif rows > _RESERVED_GROUPS:
        guard.reserve("groups", sum(map(held_bytes, tables)) + 16 * rows)
    coders: list[Coder] = []
    codes: list[list[Array]] = []
    for position in range(len(tables[0].keys)):
        guard.check()
        coder, of_tables = common_codes([table.keys[position] for table in tables])
        coders.append(coder)
        codes.append(of_tables)
    numbering = numbering_of([coder.cardinality for coder in coders], CODES_MAX)
    maps = [_watched(numbering.number, [key[i] for key in codes]) for i in range(len(tables))]
    num_groups = numbering.num_groups
    merged = numbering.codes(np.arange(num_groups))
    keys = tuple(_watched(coder.decode, part) for coder, part in zip(coders, merged, strict=True))
    partials = tuple(
        _watched(call.aggregate.merge, [table.partials[i] for table in tables], maps, num_groups)
        for i, call in enumerate(aggregates)
    )
    return GroupTable(keys, partials, num_groups, any(table.limit_reached for table in tables))


def regroup(table: GroupTable, positions: Sequence[int], aggregates: Sequence[AggregateCall]) -> GroupTable:
    """Merge the groups that agree in the keys at these positions; without positions, merge all into one group."""
    num_groups = 1
    map_ = np.zeros(table.num_groups, np.int32)
    keys: tuple[Key, ...] = ()
    if positions:
        coded = [common_codes([table.keys[position]]) for position in positions]
        numbering = numbering_of([coder.cardinality for coder, _ in coded], CODES_MAX)
        map_ = numbering.number([codes[0] for _, codes in coded])
        num_groups = numbering.num_groups
        merged = numbering.codes(np.arange(num_groups))
        keys = tuple(coder.decode(part) for (coder, _), part in zip(coded, merged, strict=True))
    partials = tuple(
        _watched(call.aggregate.merge, [part], [map_], num_groups)
        for call, part in zip(aggregates, table.partials, strict=True)
    )
    return GroupTable(keys, partials, num_groups, table.limit_reached)


def merge_partials(per_segment: Sequence[Sequence[Partial]], aggregates: Sequence[AggregateCall]) -> tuple[Partial, ...]:
    """Merge the partials of aggregations without groups; without segments the result is that of no rows.

    Those of a single segment are returned as they are.
    """
    if len(per_segment) == 1:
        return tuple(per_segment[0])
    if not all(is_narrow(call.aggregate) for call in aggregates):
        guard.reserve(WIDE, 2 * sum(map(held_bytes, per_segment)))
    maps = [np.zeros(1, np.int32)] * len(per_segment)
    return tuple(
        _watched(call.aggregate.merge, [partials[i] for partials in per_segment], maps, 1)
        for i, call in enumerate(aggregates)
    )


def _watched(step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run one step, unless the query has ended, as a step takes long with millions of groups."""
    guard.check()
    return step(*args, **kwargs)
