"""Merging of the servers' partial results into the answer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gamay.base import guard
from gamay.base.clock import SYSTEM_CLOCK
from gamay.functions.aggregate_spi import Partial
from gamay.query.answer.response import ResultTable, wire_type
from gamay.query.bind.binder import BoundQuery, QueryKind, bind
from gamay.query.columns.constants import empty
from gamay.query.columns.operations import take_rows
from gamay.query.execute.executor import execute
from gamay.query.execute.explain import explain_table
from gamay.query.execute.server_result import ServerResult
from gamay.query.groupby.limits import group_limits
from gamay.query.groupby.merge import merge_group_tables, merge_partials
from gamay.query.groupby.ordering import candidate_groups, finished_rows, finished_sets, first_groups
from gamay.query.groupby.table import GroupTable, KeySet
from gamay.query.limits.deadline import Deadline
from gamay.query.limits.memory_size import held_bytes
from gamay.query.partitioned.groups import PartitionedGroups
from gamay.query.pool import WorkPool
from gamay.query.reduce.gapfill import fill_gaps
from gamay.query.reduce.table_segment import TableSegment, schema_of
from gamay.query.selection import Rows, concat_rows, sort_rows
from gamay.query.stats import QueryStats
from gamay.sql.options.option_values import flag
from gamay.sql.query import Gapfill, Query

_INLINE = WorkPool(1)
# For candidate groups: how many times the wanted number may be kept, and which number counts as small.
_CANDIDATES_FACTOR = 4
_FEW_CANDIDATES = 1 << 12
# Merging needs the tables, the codes of their keys and the merged table at the same time.
_MERGED_FACTOR = 3
_LARGE_LEAST = 1 << 20
_TYPES = "names of the result's types"


class _Watched(Deadline):
    """The deadline of an enclosing query: its guard also applies to queries over its result."""

    __slots__ = ("_guard",)

    def __init__(self, watcher: guard.Guard) -> None:
        super().__init__(SYSTEM_CLOCK, float("inf"), float("inf"))
        self._guard = watcher

    def check(self) -> None:
        self._guard.check()

    def holder(self, what: str) -> guard.Holder:
        return self._guard.holder(what)

    @property
    def memory_limit(self) -> int | None:
        return self._guard.memory_limit

    def reserve(self, what: str, num_bytes: int) -> None:
        self._guard.reserve(what, num_bytes)

    def settle(self) -> None:
        self._guard.settle()


@dataclass(slots=True)  # not frozen: creation would take five times as long
class Answer:
    """The result of a query and the total counters of its parts; `table` is None only for `dropResults=true`."""

    table: ResultTable | None
    stats: QueryStats


def reduce(bound: BoundQuery, results: Sequence[ServerResult]) -> Answer:
    """Merge the results of servers (any number, even none) into the answer; the counters of the first result are reused."""
    stats = results[0].stats if results else QueryStats()
    for result in results[1:]:
        stats.add(result.stats)
    if bound.query.explain:
        return Answer(explain_table(bound, [result.plans for result in results if result.plans is not None]), stats)
    if flag(bound.query.options, "dropResults"):
        return Answer(None, stats)
    if bound.kind in (QueryKind.SELECTION, QueryKind.SELECTION_ORDER_BY):
        columns = _selected(bound, [result.rows for result in results if result.rows is not None])
    elif bound.grouping_sets:
        columns = _sets(bound, [result.sets for result in results if result.sets is not None])
    else:
        columns = _grouped(bound, [result.groups for result in results if result.groups is not None], stats)
    table = ResultTable(bound.names, types_of(bound), columns)
    return Answer(table if bound.query.gapfill is None else _gapfilled(bound.query.gapfill, table), stats)


def types_of(bound: BoundQuery) -> tuple[str, ...]:
    """Return the type names of the result's columns, created once for all queries of a shape."""
    types: tuple[str, ...] | None = bound.shared.get(_TYPES)
    if types is None:
        types = bound.shared[_TYPES] = tuple(wire_type(data_type, multi_value) for data_type, multi_value in bound.types)
    return types


def _gapfilled(gapfill: Gapfill, table: ResultTable) -> ResultTable:
    """Fill the gaps of a result, and run the queries before and after it."""
    if gapfill.before is not None:
        table = _query_table(gapfill.before, table)
    guard.check()
    table = fill_gaps(gapfill, table)
    return table if gapfill.after is None else _query_table(gapfill.after, table)


def _query_table(query: Query, table: ResultTable) -> ResultTable:
    bound = bind(query, schema_of(table))
    result = execute(bound, [TableSegment(table)], _INLINE, _Watched(guard.current()))
    answer = reduce(bound, [result]).table
    assert answer is not None
    return answer


def _nothing(bound: BoundQuery) -> tuple[Partial, ...]:
    """Return the partials of no rows."""
    aggregates = [call.aggregate for call in bound.aggregates]
    return tuple(aggregate.seal(aggregate.allocate(1)) for aggregate in aggregates)


def no_matches(bound: BoundQuery) -> Rows:
    """Return the result's columns if no row matches."""
    if bound.kind in (QueryKind.SELECTION, QueryKind.SELECTION_ORDER_BY):
        return _no_rows(bound)
    return _sets(bound, []) if bound.grouping_sets else _grouped(bound, [], QueryStats())


def _no_rows(bound: BoundQuery) -> Rows:
    return tuple(empty(data_type, multi_value) for data_type, multi_value in bound.types)


def _selected(bound: BoundQuery, parts: Sequence[Rows]) -> Rows:
    if not parts:
        return _no_rows(bound)
    rows = concat_rows(parts)
    if bound.order_by and len(parts) > 1:
        rows = sort_rows(bound, rows, bound.limit_with_offset)
    found = len(rows[0])
    window = np.arange(min(bound.offset, found), min(bound.limit_with_offset, found))
    positions = {expression: i for i, expression in enumerate(bound.rows)}
    if len(window) < found:
        rows = tuple(take_rows(column, window) for column in rows)
    return tuple(rows[positions[output]] for output in bound.outputs)


def _sets(bound: BoundQuery, parts: Sequence[Mapping[KeySet, GroupTable | PartitionedGroups]]) -> Rows:
    """Return the groups of all sets; the set without keys always has one, even for no rows."""
    if not parts:
        if () not in bound.grouping_sets:
            return _no_rows(bound)
        keys = tuple(empty(data_type) for data_type, _ in bound.row_types)
        partials = tuple(call.aggregate.seal(call.aggregate.allocate(0)) for call in bound.aggregates)
        nothing = {one: GroupTable(tuple(keys[i] for i in one), partials, 0) for one in bound.grouping_sets}
        parts = [nothing | {(): GroupTable((), _nothing(bound), 1)}]
    return finished_sets(bound, {one: _merged(bound, [part[one] for part in parts], one) for one in parts[0]})


def _merged(bound: BoundQuery, parts: Sequence[GroupTable | PartitionedGroups], keys: KeySet | None = None) -> GroupTable:
    """Return the groups of all servers in one table; if they do not fit in memory, only those that may be in the answer."""
    tables = [part for part in parts if isinstance(part, GroupTable)]
    if len(tables) < len(parts) or _is_large(tables):
        return _candidates(bound, parts, keys)
    return merge_group_tables(tables, bound.aggregates)


def _candidates(bound: BoundQuery, parts: Sequence[GroupTable | PartitionedGroups], keys: KeySet | None) -> GroupTable:
    """Return the groups that may be in the answer, processing one partition of all groups at a time.

    keys: those of a grouping set; None for all.
    """
    wanted = bound.limit_with_offset
    found: list[GroupTable] = []
    num_found = num_bytes = 0
    holder = guard.holder("groups")
    for _, table in PartitionedGroups.joined(parts, bound.aggregates).partitions():
        found.append(candidate_groups(bound, table, keys))
        num_found += found[-1].num_groups
        num_bytes += held_bytes(found[-1])
        if not bound.order_by and num_found >= wanted:
            break
        if num_found > _CANDIDATES_FACTOR * max(wanted, _FEW_CANDIDATES):
            found = [first_groups(bound, merge_group_tables(found, bound.aggregates), wanted, keys)]
            num_found, num_bytes = found[0].num_groups, held_bytes(found[0])
        holder.hold(num_bytes)
    return merge_group_tables(found, bound.aggregates)


def _is_large(tables: Sequence[GroupTable]) -> bool:
    """Whether merging tables needs more memory than the query may have."""
    limit = guard.memory_limit()
    return limit is not None and len(tables) > 1 and _MERGED_FACTOR * sum(map(held_bytes, tables)) > max(limit, _LARGE_LEAST)


def _grouped(bound: BoundQuery, parts: Sequence[GroupTable | PartitionedGroups], stats: QueryStats) -> Rows:
    if bound.kind is QueryKind.AGGREGATION:
        found = [part.partials for part in parts if isinstance(part, GroupTable)]
        partials = merge_partials(found, bound.aggregates) if found else _nothing(bound)
        return finished_rows(bound, GroupTable((), partials, 1))
    if not parts:
        return _no_rows(bound)
    return finished_rows(bound, group_limits(bound).of_broker(bound, _merged(bound, parts), stats))
