"""Queries of one shape whose few rows indexes find: a short path from filter to answer.

For small queries (one server, no options, few rows, all of them found by indexes), much of what the ordinary path
(`gamay.query.execute.executor`, `gamay.query.reduce.merge`) computes for each query depends on the shape alone. Here it is
computed once. The remaining steps are those of the ordinary path, and so are the counters; queries that turn out to need
more are left to it.
"""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from gamay.functions.aggregate.lookup import INTEGERS
from gamay.functions.aggregate.totals.numeric import Numeric
from gamay.functions.aggregate.totals.totals import Needs, TotalsPartial, whole_total
from gamay.functions.aggregate_spi import Aggregate
from gamay.functions.expression import Expression
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.kernels.tuning import FEW_ROWS_MAX
from gamay.model.types import DataType
from gamay.query.answer.response import ResultTable, wire_type
from gamay.query.bind.binder import BoundQuery, QueryKind, aggregate_column, physical_columns
from gamay.query.bind.predicate import Filter, filter_columns
from gamay.query.columns.operations import take_rows
from gamay.query.execute.gathered import GatheredRows
from gamay.query.few.groups import FewGroups
from gamay.query.few.rows import ROWS_MAX, FewRows
from gamay.query.few.stored import column_name, is_single_value
from gamay.query.filter.resolve import Indexed, Resolver, computes
from gamay.query.groupby.limits import group_limits
from gamay.query.groupby.nullable import of_no_nulls
from gamay.query.groupby.ordering import finished_rows
from gamay.query.groupby.states import Evaluate, States, is_narrow, plan_states
from gamay.query.groupby.table import AggregateCall
from gamay.query.prepared.star_trees import PreparedTrees
from gamay.query.prune.by_segments import may_match
from gamay.query.reduce.merge import Answer, no_matches
from gamay.query.selection import Rows
from gamay.query.stats import QueryStats
from gamay.query.view.counters import EntryCounter
from gamay.query.view.docset import DocSet, matches_of
from gamay.query.view.matches import AllDocs, DocList, as_block
from gamay.query.view.read import read_column
from gamay.query.view.virtual import QuerySegment
from gamay.segment.spi import Segment
from gamay.sql.options.option_values import NULL_HANDLING

COLUMNS_MAX = 32
# The most dictionary entries to match with a pattern here; longer work must be interruptible by the query's deadline.
_ENTRIES_MAX = 1 << 12
_SELECTIONS = (QueryKind.SELECTION, QueryKind.SELECTION_ORDER_BY)

Found: TypeAlias = list[tuple[Segment, DocSet]]
"""The segments that were read, with the rows that the filter matches."""
Finish: TypeAlias = Callable[["PreparedLookup", Found, int, QueryStats], Rows | None]
"""Returns the result's columns from that many matching rows, and counts its reads; None to use the ordinary path."""


class PreparedLookup:
    """The short path from filter to answer, for queries of one shape. bound: one of them, with another filter."""

    def __init__(self, bound: BoundQuery, finish: Finish | None, trees: PreparedTrees | None) -> None:
        self.bound = bound
        self._finish = finish
        self._trees = trees
        self._names = tuple(bound.fields)
        self._types = tuple(wire_type(data_type, multi_value) for data_type, multi_value in bound.types)
        arguments = [argument for call in bound.aggregates for argument in call.arguments]
        keys = [] if bound.kind is QueryKind.GROUP_BY else [key.expression for key in bound.order_by]  # else of groups
        computed = physical_columns([*bound.rows, *arguments, *keys])
        self._never_null = (*computed, *filter_columns(bound.filter)) if bound.null_handling else ()
        self.calls = tuple([of_no_nulls(call) for call in bound.aggregates])
        arguments = [argument for call in self.calls for argument in call.arguments]
        self.num_columns = len(physical_columns([*bound.rows, *arguments]))
        self.plan = plan_states(self.calls, count_rows=False)
        self.only_adds = all(_adds_whole_numbers(call.aggregate) for call in self.calls)
        self.numbers = [_number_of(output, bound) for output in bound.outputs]
        self.rows = FewRows.of(bound) if bound.kind in _SELECTIONS else None
        self.groups = FewGroups.of(bound) if bound.kind is QueryKind.GROUP_BY else None

    @classmethod
    def of(cls, bound: BoundQuery) -> "PreparedLookup | None":
        """Return the short path for queries of this shape; None if they need the ordinary path."""
        if bound.query.options.keys() - {NULL_HANDLING}:
            return None
        if any(column not in bound.fields for column in filter_columns(bound.filter)):
            return None  # a virtual column
        # the ordinary path reads the rows of patterns segment by segment; that makes no difference only for integers
        calls = [of_no_nulls(call) for call in bound.aggregates]
        in_any_order = bound.kind is QueryKind.AGGREGATION and all(_adds_whole_numbers(call.aggregate) for call in calls)
        is_simple = _is_simple(bound) and (in_any_order or not computes(bound.filter))
        finish, trees = _FINISHES.get(bound.kind) if is_simple else None, PreparedTrees.of(bound)
        return None if finish is None and trees is None else cls(bound, finish, trees)

    def answer(self, filter_: Filter, segments: Sequence[Segment]) -> Answer | None:
        """Return the answer of the only server, which has these segments; None if it needs the ordinary path.

        Raises the same errors as the ordinary path.
        """
        stats = QueryStats()
        if self._trees is not None and (columns := self._trees.answer(filter_, segments, stats)) is not None:
            return Answer(ResultTable(self.bound.names, self._types, columns), stats)
        return None if self._finish is None else self._of_rows(self._finish, filter_, segments)

    def _of_rows(self, finish: Finish, filter_: Filter, segments: Sequence[Segment]) -> Answer | None:
        stats = QueryStats(num_segments_queried=len(segments))
        found: Found = []
        num_rows = 0
        for segment in segments:
            num_docs = segment.num_docs
            stats.total_docs += num_docs
            if not num_docs:
                stats.num_segments_pruned_by_server += 1
                continue
            for name in self._names:
                if name not in segment.column_names:
                    return None
            if not may_match(filter_, segment):
                stats.num_segments_pruned_by_server += 1
                stats.num_segments_pruned_by_value += 1
                continue
            resolved = Resolver(segment, _UNCOUNTED, entries_max=_ENTRIES_MAX).resolve(filter_)
            if not isinstance(resolved, Indexed):
                return None
            count = len(resolved.docs)
            if count and any(segment.column(name).null_docs for name in self._never_null):
                return None
            num_rows += count
            stats.num_segments_matched += count > 0
            found.append((segment, resolved.docs))
        stats.num_segments_processed = len(found)
        stats.num_docs_scanned = num_rows
        columns = finish(self, found, num_rows, stats) if num_rows else no_matches(self.bound)
        if columns is None:
            return None
        return Answer(ResultTable(self.bound.names, self._types, columns), stats)


# filters answered by indexes read no values
_UNCOUNTED = EntryCounter()


def _is_simple(bound: BoundQuery) -> bool:
    """Whether only plain columns are read, and results need no further computation."""
    if bound.query.explain or bound.query.gapfill is not None or bound.filters:
        return False
    if bound.having is not None and bound.kind is not QueryKind.GROUP_BY:
        return False
    if bound.limit < 1 or len(bound.outputs) > COLUMNS_MAX:
        return False
    if bound.kind is QueryKind.GROUP_BY:
        return FewGroups.of(bound) is not None and group_limits(bound).keep_all
    if bound.limit_with_offset > ROWS_MAX:
        return False
    if bound.kind is QueryKind.AGGREGATION:
        is_whole = bound.offset == 0 and all(_number_of(output, bound) is not None for output in bound.outputs)
        return is_whole and all(
            is_narrow(call.aggregate) and call.filter is None and all(_is_number(a, bound) for a in call.arguments)
            for call in map(of_no_nulls, bound.aggregates)
        )
    return bound.kind in _SELECTIONS and FewRows.of(bound) is not None


def _is_number(argument: Expression, bound: BoundQuery) -> bool:
    return is_single_value(argument, bound) and bound.fields[column_name(argument)].data_type.is_fixed_width


def _number_of(output: Expression, bound: BoundQuery) -> int | None:
    """Return the aggregate that an output is; None if it is something else."""
    for i in range(len(bound.aggregates)):
        if output == aggregate_column(i):
            return i
    return None


# -- aggregation


def _totals(query: PreparedLookup, found: Found, num_rows: int, stats: QueryStats) -> Rows | None:
    if not query.num_columns:
        counted = np.array([num_rows], np.int64)
        return tuple([Vector(DataType.LONG, counted) for _ in query.numbers])
    if num_rows > ROWS_MAX or any(len(docs) == segment.num_docs for segment, docs in found):
        return None  # if every row matches, metadata answers
    operand = _operand(query, found, num_rows)
    if operand is None:
        return None
    stats.num_entries_scanned_post_filter = num_rows * query.num_columns
    calls = query.calls
    partials = _added(calls, operand, num_rows) if query.only_adds else None
    if partials is None:
        states = States(query.plan, 1)
        states.update(None, operand, num_rows)
        partials = states.seal()
    finished = [call.aggregate.finish(partial) for call, partial in zip(calls, partials, strict=True)]
    return tuple([finished[number] for number in query.numbers if number is not None])


def _adds_whole_numbers(aggregate: Aggregate) -> bool:
    """Whether an aggregate consists of a count and an exact sum."""
    if not isinstance(aggregate, Numeric) or Needs.LOW in aggregate.needs or Needs.HIGH in aggregate.needs:
        return False
    return aggregate.argument_type is None or aggregate.argument_type in INTEGERS


def _added(calls: Sequence[AggregateCall], operand: Evaluate, num_rows: int) -> Sequence[TotalsPartial] | None:
    """Return the partials of such aggregates, without block or group states; None if a sum may exceed 64 bits."""
    counts = np.array([num_rows], np.int64)
    partials = []
    for call in calls:
        total: int | None = 0
        if call.arguments:
            values = operand(call.arguments[0])
            total = whole_total(values) if isinstance(values, Vector | EncodedVector) else None
        if total is None:
            return None
        partials.append(TotalsPartial(counts, np.array([total], np.int64), None, None))
    return partials


def _operand(query: PreparedLookup, found: Found, num_rows: int) -> Callable[[Expression], Operand] | None:
    """Return the column reader: ids for one segment, decoded and concatenated for several, as on the ordinary path.

    None if the ordinary path adds up flagged rows, which it does in another order.
    """
    if len(found) > 1:
        pieces = [
            (QuerySegment(segment, query.bound.fields, ""), _block(docs, segment.num_docs))
            for segment, docs in found
            if len(docs)
        ]
        return GatheredRows(pieces, num_rows).reader()(AllDocs(0, num_rows))
    segment, docs = found[0]
    block = matches_of(docs, segment.num_docs)
    if not isinstance(block, AllDocs | DocList):
        return None
    return lambda expression: read_column(segment.column(column_name(expression)), block)


def _block(docs: DocSet, num_docs: int) -> AllDocs | DocList:
    return as_block(matches_of(docs, num_docs))


# -- groups


def _groups(query: PreparedLookup, found: Found, num_rows: int, stats: QueryStats) -> Rows | None:
    if num_rows > FEW_ROWS_MAX or query.groups is None or any(len(docs) == segment.num_docs for segment, docs in found):
        return None
    table = query.groups.table([(segment, _block(docs, segment.num_docs)) for segment, docs in found if len(docs)], num_rows)
    if table is None:
        return None
    stats.num_entries_scanned_post_filter = num_rows * query.num_columns
    return finished_rows(query.bound, table)


# -- selection


def _rows(query: PreparedLookup, found: Found, num_rows: int, stats: QueryStats) -> Rows | None:
    if num_rows > ROWS_MAX or query.rows is None or any(len(docs) == segment.num_docs for segment, docs in found):
        return None  # if every row matches, LIMIT prunes segments
    pieces, missing = [], query.bound.limit_with_offset
    for segment, docs in found:
        count = min(len(docs), missing)
        if count:
            block = _block(docs, segment.num_docs)
            pieces.append((segment, block if count == len(docs) else DocList(block.docs()[:count])))
            missing -= count
    stats.num_docs_scanned = num_rows = query.bound.limit_with_offset - missing
    stats.num_segments_matched = len(pieces)
    stats.num_entries_scanned_post_filter = num_rows * len(query.rows.columns)
    rows, offset = query.rows.at(pieces), query.bound.offset
    if not offset:
        return rows
    window = np.arange(min(offset, num_rows), num_rows)
    return tuple([take_rows(column, window) for column in rows])


def _ordered(query: PreparedLookup, found: Found, num_rows: int, stats: QueryStats) -> Rows | None:
    few, bound = query.rows, query.bound
    if num_rows > ROWS_MAX or few is None or any(len(docs) == segment.num_docs for segment, docs in found):
        return None
    limit = bound.limit_with_offset
    if num_rows > limit and (
        left_out := few.not_needed([segment for segment, _ in found], [len(docs) for _, docs in found], limit)
    ):
        found = [one for place, one in enumerate(found) if place not in left_out]
        stats.num_docs_scanned = num_rows = sum(len(docs) for _, docs in found)
        stats.num_segments_matched -= len(left_out)
        stats.num_segments_processed -= len(left_out)
        stats.num_segments_pruned_by_server += len(left_out)
        stats.num_segments_pruned_by_limit += len(left_out)
    stats.num_entries_scanned_post_filter = num_rows * few.num_keys + min(num_rows, limit) * few.num_others
    pieces = [(segment, _block(docs, segment.num_docs)) for segment, docs in found if len(docs)]
    return few.ordered(pieces, few.shown, bound.offset, limit)


_FINISHES: dict[QueryKind, Finish] = {
    QueryKind.AGGREGATION: _totals,
    QueryKind.GROUP_BY: _groups,
    QueryKind.SELECTION: _rows,
    QueryKind.SELECTION_ORDER_BY: _ordered,
}
