"""Executes a bound query on the segments of a server: prune, filter, then read according to the kind of query.

The result is partial: rows or groups of this server, merged by `reduce`. Segments are processed in the order given, and the
result does not depend on the distribution among threads.
"""

from collections.abc import Callable, Mapping, Sequence

from gamay.base import guard, spans
from gamay.query.bind.binder import BoundQuery, QueryKind
from gamay.query.execute.context import ExecutionContext
from gamay.query.execute.distinct import distinct_groups
from gamay.query.execute.explain import explain_segments
from gamay.query.execute.grouping_sets import execute_grouping_sets
from gamay.query.execute.groups import execute_aggregation, execute_group_by
from gamay.query.execute.selections import execute_ordered_selection, execute_selection
from gamay.query.execute.server_result import ServerResult
from gamay.query.groupby.table import GroupTable
from gamay.query.limits.deadline import Deadline
from gamay.query.partitioned.groups import PartitionedGroups
from gamay.query.pool import WorkPool
from gamay.query.prune.by_segments import prune_segments
from gamay.query.startree.choose import with_star_trees
from gamay.query.stats import QueryStats
from gamay.query.trace import Trace
from gamay.query.view.scores import attach_scores
from gamay.query.view.timestamps import use_timestamp_columns
from gamay.query.view.vector_options import VectorOptions
from gamay.query.view.virtual import QuerySegment
from gamay.segment.spi import Segment
from gamay.sql.options.option_values import flag, skipped_indexes

_NO_SEGMENTS: Mapping[str, int] = {}


def execute(
    bound: BoundQuery,
    segments: Sequence[Segment],
    pool: WorkPool,
    deadline: Deadline,
    host_name: str = "",
    consuming: Mapping[str, int] = _NO_SEGMENTS,
) -> ServerResult:
    """Run a query on segments, under its deadline.

    consuming: the names of those segments that are views of consuming ones, with the time of their last row in milliseconds.
    Raises QueryError 250 when the deadline passes, 245 or 246 when the query exceeds its memory or scan limits, and 200 or
    700 when an expression fails.
    """
    clock = deadline.clock
    begun_ns, helped_ns = clock.thread_cpu_ns(), pool.helped_ns
    before = guard.enter(deadline)
    try:
        result = _execute(bound, segments, pool, deadline, host_name, consuming)
    finally:
        guard.enter(before)
    result.stats.offline_thread_cpu_time_ns = clock.thread_cpu_ns() - begun_ns + pool.helped_ns - helped_ns
    return result


def _execute(
    bound: BoundQuery,
    segments: Sequence[Segment],
    pool: WorkPool,
    deadline: Deadline,
    host_name: str,
    consuming: Mapping[str, int],
) -> ServerResult:
    stats = QueryStats(total_docs=sum(segment.num_docs for segment in segments), num_segments_queried=len(segments))
    if consuming:
        stats.num_consuming_segments_queried = len(consuming)
        stats.min_consuming_freshness_time_ms = min(consuming.values())
    if deadline.budget is not None:
        deadline.budget.parts.append(stats)
    options = bound.query.options
    views = [
        QuerySegment(
            segment,
            bound.fields,
            host_name,
            null_handling=bound.null_handling,
            shares_filters=bool(bound.filters),
            skipped_indexes=skipped_indexes(options),
            vector_options=VectorOptions.of(options),
        )
        for segment in segments
    ]
    is_asked, phase = bool(options) and flag(options, "trace"), spans.phases()
    trace = Trace(deadline.clock, phase=phase) if is_asked or phase is not None else None
    begun_s = deadline.clock.monotonic_s()
    attach_scores(bound.scores, views)
    use_timestamp_columns(bound, views)
    kept = with_star_trees(bound, prune_segments(bound, views, stats))
    pruning_s = deadline.clock.monotonic_s() - begun_s
    if bound.query.explain:
        return ServerResult(stats, plans=explain_segments(bound, kept, stats))
    stats.num_segments_processed = len(kept)
    if consuming:
        stats.num_consuming_segments_processed = sum(segment.name in consuming for segment in kept)
    context = ExecutionContext(bound, pool, deadline, stats, trace=trace, consuming=consuming)
    if deadline.budget is not None and deadline.budget.scan is not None:
        deadline.budget.progress.columns_read = context.columns_read()
    if trace is None:
        result = _found(context, kept)
        result.pruning_s = pruning_s
        return result
    trace.span("SERVER_PRUNE", begun_s, Segments=len(kept))
    begun_s = trace.now_s()
    result = _found(context, kept)
    trace.span("SERVER_COMBINE", begun_s, _num_rows(result))
    result.trace = trace if is_asked else None
    result.pruning_s = pruning_s
    return result


def _found(context: ExecutionContext, segments: Sequence[QuerySegment]) -> ServerResult:
    kind, stats = context.bound.kind, context.stats
    if kind is QueryKind.SELECTION:
        return ServerResult(stats, rows=execute_selection(context, segments))
    if kind is QueryKind.SELECTION_ORDER_BY:
        return ServerResult(stats, rows=execute_ordered_selection(context, segments))
    if context.bound.grouping_sets:
        return ServerResult(stats, sets=execute_grouping_sets(context, segments))
    return ServerResult(stats, groups=_GROUPED[kind](context, segments))


def _num_rows(result: ServerResult) -> int:
    if result.rows is not None:
        return len(result.rows[0]) if result.rows else 0
    tables = [result.groups] if result.groups is not None else list((result.sets or {}).values())
    return sum(table.num_groups for table in tables)


_GROUPED: dict[QueryKind, Callable[[ExecutionContext, Sequence[QuerySegment]], GroupTable | PartitionedGroups | None]] = {
    QueryKind.AGGREGATION: execute_aggregation,
    QueryKind.GROUP_BY: execute_group_by,
    QueryKind.DISTINCT: distinct_groups,
}
