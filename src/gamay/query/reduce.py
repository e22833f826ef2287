"""Servers' partial results to the answer."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gamay.functions.aggregate.spi import Partial
from gamay.query.bind import BoundQuery, QueryKind
from gamay.query.columns import take_rows
from gamay.query.constants import empty
from gamay.query.execute import ServerResult
from gamay.query.explain import explain_table
from gamay.query.group_order import finished_rows
from gamay.query.groupby.merge import merge_group_tables, merge_partials
from gamay.query.groupby.table import GroupTable
from gamay.query.response import ResultTable, wire_type
from gamay.query.selection import Rows, concat_rows, sort_rows
from gamay.query.stats import QueryStats


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a query and the counters of all its parts; `table` is None only for `dropResults=true`."""

    table: ResultTable | None
    stats: QueryStats


def reduce(bound: BoundQuery, results: Sequence[ServerResult]) -> Answer:
    """Merge the results of servers (in any number, also none) into the answer; the first one's counters become its own."""
    stats = results[0].stats if results else QueryStats()
    for result in results[1:]:
        stats.add(result.stats)
    if bound.query.explain:
        return Answer(explain_table(bound, [result.plans for result in results if result.plans is not None]), stats)
    if bound.query.options.get("dropResults", "false").lower() == "true":
        return Answer(None, stats)
    if bound.kind in (QueryKind.SELECTION, QueryKind.SELECTION_ORDER_BY):
        columns = _selected(bound, [result.rows for result in results if result.rows is not None])
    else:
        columns = _grouped(bound, [result.groups for result in results if result.groups is not None])
    types = tuple(wire_type(data_type, multi_value) for data_type, multi_value in bound.types)
    return Answer(ResultTable(bound.names, types, columns), stats)


def _nothing(bound: BoundQuery) -> tuple[Partial, ...]:
    """Return the partials of no rows at all."""
    aggregates = [call.aggregate for call in bound.aggregates]
    return tuple(aggregate.seal(aggregate.allocate(1)) for aggregate in aggregates)


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


def _grouped(bound: BoundQuery, tables: Sequence[GroupTable]) -> Rows:
    if bound.kind is QueryKind.AGGREGATION:
        partials = merge_partials([table.partials for table in tables], bound.aggregates) if tables else _nothing(bound)
        return finished_rows(bound, GroupTable((), partials, 1))
    if not tables:
        return _no_rows(bound)
    return finished_rows(bound, merge_group_tables(tables, bound.aggregates))
