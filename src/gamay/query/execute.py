"""A bound query over the segments of a server: prune, filter, then read what the kind of query needs.

The result is partial: rows or groups of this server, to be merged by `reduce`. Segments are taken in the order given, and
the result does not depend on how the work was divided among threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gamay.query.bind import BoundQuery, QueryKind
from gamay.query.deadline import Deadline
from gamay.query.execute_groups import distinct_groups, execute_aggregation, execute_group_by
from gamay.query.execute_rows import execute_ordered_selection, execute_selection
from gamay.query.groupby.table import GroupTable
from gamay.query.pool import WorkPool
from gamay.query.predicate import EVERYTHING
from gamay.query.selection import Rows
from gamay.query.server_prune import may_match
from gamay.query.stats import QueryStats
from gamay.query.virtual import QuerySegment
from gamay.query.work import Work
from gamay.segment.spi import Segment


@dataclass(slots=True)
class ServerResult:
    """What a server found.

    rows: of selections: a column for each of `BoundQuery.rows`, at most LIMIT + OFFSET rows, in order; None without rows.
    groups: of the other kinds: keys are `BoundQuery.rows`; an aggregation has one group without keys; None when no segment
        was left to look at.
    """

    stats: QueryStats = field(default_factory=QueryStats)
    rows: Rows | None = None
    groups: GroupTable | None = None


def execute(
    bound: BoundQuery, segments: Sequence[Segment], pool: WorkPool, deadline: Deadline, host_name: str = ""
) -> ServerResult:
    """Run a query on segments; raises QueryError 250 when the deadline passes and 200 or 700 when an expression fails."""
    stats = QueryStats(total_docs=sum(segment.num_docs for segment in segments), num_segments_queried=len(segments))
    views = [QuerySegment(segment, bound.fields, host_name) for segment in segments]
    kept = prune_segments(bound, views, stats)
    stats.num_segments_processed = len(kept)
    work = Work(bound, pool, deadline, stats)
    if bound.kind is QueryKind.SELECTION:
        return ServerResult(stats, rows=execute_selection(work, kept))
    if bound.kind is QueryKind.SELECTION_ORDER_BY:
        return ServerResult(stats, rows=execute_ordered_selection(work, kept))
    return ServerResult(stats, groups=_GROUPED[bound.kind](work, kept))


_GROUPED: dict[QueryKind, Callable[[Work, Sequence[QuerySegment]], GroupTable | None]] = {
    QueryKind.AGGREGATION: execute_aggregation,
    QueryKind.GROUP_BY: execute_group_by,
    QueryKind.DISTINCT: distinct_groups,
}


def prune_segments(bound: BoundQuery, segments: Sequence[QuerySegment], stats: QueryStats) -> list[QuerySegment]:
    """Return the segments that may hold a matching row and are needed; counts the others."""
    kept = []
    for segment in segments:
        if segment.num_docs == 0:
            stats.num_segments_pruned_by_server += 1
        elif not may_match(bound.filter, segment):
            stats.num_segments_pruned_by_server += 1
            stats.num_segments_pruned_by_value += 1
        else:
            kept.append(segment)
    if bound.kind in (QueryKind.SELECTION, QueryKind.SELECTION_ORDER_BY):
        needed = _needed_by_limit(bound, kept)
        stats.num_segments_pruned_by_server += len(kept) - len(needed)
        stats.num_segments_pruned_by_limit += len(kept) - len(needed)
        return needed
    return kept


def _needed_by_limit(bound: BoundQuery, segments: Sequence[QuerySegment]) -> list[QuerySegment]:
    """Return the first segments that hold enough rows; one is kept when LIMIT is 0, so that something was processed."""
    if bound.limit == 0:
        return list(segments[:1])
    if bound.kind is not QueryKind.SELECTION or bound.filter != EVERYTHING:
        return list(segments)
    enough, rows = 0, 0
    while enough < len(segments) and rows < bound.limit_with_offset:
        rows += segments[enough].num_docs
        enough += 1
    return list(segments[:enough])
