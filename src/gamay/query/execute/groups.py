"""Aggregation and GROUP BY over the segments of a server."""

from collections.abc import Sequence

from gamay.functions.aggregate_spi import Partial
from gamay.functions.expression import Column
from gamay.kernels.tuning import FEW_ROWS_MAX
from gamay.query.bind.binder import BoundQuery
from gamay.query.execute.context import ExecutionContext
from gamay.query.execute.filter_clauses import FilterClauses, branch_of
from gamay.query.execute.gathered import GatheredRows, gather, unread
from gamay.query.execute.spilling import FoundGroups
from gamay.query.few.groups import FewGroups
from gamay.query.filter.apply import FilterResult
from gamay.query.groupby.kept import keep_partial, kept_partial
from gamay.query.groupby.limits import GroupLimits, group_limits
from gamay.query.groupby.merge import merge_partials
from gamay.query.groupby.metadata import answer_from_metadata
from gamay.query.groupby.segment import GroupOptions, aggregate_segment, group_segment
from gamay.query.groupby.table import GroupTable
from gamay.query.partitioned.groups import PartitionedGroups
from gamay.query.startree.choose import CuboidView, small_cuboids
from gamay.query.startree.grouped import Piece, fit_together, group_records
from gamay.query.startree.lookup import Found
from gamay.query.view.virtual import QuerySegment

# the number of segments to group before merging their tables
_SEGMENTS_AT_ONCE = 64


def known_partials(
    bound: BoundQuery, segment: QuerySegment, filtered: FilterResult
) -> tuple[tuple[Partial, ...], int] | None:
    """Return the aggregates of a segment, if known without reading rows, and their number of rows; else None.

    For all rows, metadata and dictionaries answer; if indexes answered the filter, COUNT needs only the number of matching
    rows.
    """
    if filtered.count is None:
        return None
    known: list[Partial] = []
    counts: dict[Column | None, int] = {}
    for call in bound.aggregates:
        branch = filtered if call.filter is None else branch_of(bound, call.filter, filtered, segment)
        count = branch.count
        if count is None:
            return None
        counts[call.filter] = count
        partial: Partial | None = None
        if not call.arguments:
            partial = answer_from_metadata(call.aggregate, None, count)
        elif branch.matches_all and len(call.arguments) == 1 and isinstance(call.arguments[0], Column):
            partial = answer_from_metadata(call.aggregate, segment.column(call.arguments[0].name), segment.num_docs)
        if partial is None:
            return None
        known.append(partial)
    return tuple(known), sum(counts.values())


def _kept_partials(
    bound: BoundQuery, segment: QuerySegment, filtered: FilterResult
) -> tuple[tuple[Partial, ...], int] | None:
    """Return the result of `known_partials` for all valid rows, from partials cached by earlier queries."""
    if not _is_of_all(segment, filtered):
        return None
    found: list[Partial] = []
    for call in bound.aggregates:
        partial: Partial | None = None
        if call.filter is None and not call.arguments:
            partial = answer_from_metadata(call.aggregate, None, segment.num_visible)
        elif call.filter is None and len(call.arguments) == 1 and isinstance(call.arguments[0], Column):
            partial = kept_partial(call.aggregate, segment, call.arguments[0].name)
        if partial is None:
            return None
        found.append(partial)
    return tuple(found), segment.num_visible


def _is_of_all(segment: QuerySegment, filtered: FilterResult) -> bool:
    """Whether all valid rows match, and not all rows are valid."""
    return segment.keeping is not None and filtered.count == segment.num_visible


def _reads_rows(bound: BoundQuery) -> bool:
    """Whether an aggregate has an argument; the others only count rows and read none."""
    return any(call.arguments for call in bound.aggregates)


def execute_aggregation(context: ExecutionContext, segments: Sequence[QuerySegment]) -> GroupTable | None:
    """Return the aggregates over all matching rows as one group without keys; None if no segment is left."""
    views = small_cuboids(segments)
    if views and (table := _of_records(context, views)) is not None:
        return table
    gathered, rest = gather(context, segments) if _reads_rows(context.bound) else (None, unread(segments))
    partials = context.over_segments(rest, lambda item: _aggregate(context, *item), are_small=bool(views))
    if gathered is not None:
        options = GroupOptions(check=context.deadline.check)
        calls = context.bound.aggregates
        partials.append(aggregate_segment(calls, gathered.matches(), gathered.reader(), context.pool, options))
    return GroupTable((), merge_partials(partials, context.bound.aggregates), 1) if partials else None


def _aggregate(context: ExecutionContext, segment: QuerySegment, filtered: FilterResult | None) -> tuple[Partial, ...]:
    bound, filtered = context.asked(segment), filtered or context.filter(segment)
    known = known_partials(bound, segment, filtered) or _kept_partials(bound, segment, filtered)
    if known is not None:
        partials, scanned = known
        context.count(filtered, scanned, 0)
        return partials
    matches = filtered.matches()
    clauses = FilterClauses(bound, segment)
    options = GroupOptions(check=context.deadline.check)
    partials = aggregate_segment(bound.aggregates, matches, clauses.reader(), context.pool, options)
    clauses.count(context, filtered, filtered.walked(matches))
    context.keep_groups(GroupTable((), partials, 1))
    if _is_of_all(segment, filtered):
        for call, partial in zip(bound.aggregates, partials, strict=True):
            if call.filter is None and len(call.arguments) == 1 and isinstance(call.arguments[0], Column):
                keep_partial(call.aggregate, segment, call.arguments[0].name, partial)
    return partials


def execute_group_by(context: ExecutionContext, segments: Sequence[QuerySegment]) -> GroupTable | PartitionedGroups | None:
    """Return the groups of all matching rows, partitioned if they do not fit in memory; None if no segment is left.

    Raises QueryError 245 for more groups than a limit allows, or than fit in memory and on disk. Segments are processed in
    batches, so that merging and trimming (see `gamay.query.groupby.limits`) bound the memory used. The groups do not depend
    on the number of threads.
    """
    bound, limits = context.bound, group_limits(context.bound)
    views = small_cuboids(segments)
    if views and limits.keep_all and (table := _of_records(context, views)) is not None:
        return table
    found = FoundGroups(context, limits)
    few = FewGroups.of(bound) if limits.keep_all else None
    gathered, rest = gather(context, segments) if few is None else gather(context, segments, FEW_ROWS_MAX, 1)
    for start in range(0, len(rest), _SEGMENTS_AT_ONCE):
        part = list(enumerate(rest[start : start + _SEGMENTS_AT_ONCE], start))
        context.over_segments(part, lambda item: _group(context, item[0], *item[1], limits, found), are_small=bool(views))
        if len(rest) > _SEGMENTS_AT_ONCE and found.num_groups > limits.threshold:
            found.merge()
    if gathered is not None:
        table = None if few is None else _of_few(few, gathered)
        if table is None:
            options = GroupOptions(limits.num_groups, context.deadline.check)
            matches, reader = gathered.matches(), gathered.reader()
            table = group_segment(bound.rows, bound.aggregates, matches, reader, context.pool, options)
        limits.note(table, context.stats)
        found.add((len(rest),), table)
    return found.result(bound)


def _of_few(few: FewGroups, gathered: GatheredRows) -> GroupTable | None:
    """Return the groups of a few rows by the short path; None if a column may have nulls."""
    segments = [segment for segment, _ in gathered.pieces]
    if any(segment.null_flags(name) is not None for segment in segments for name in few.columns):
        return None
    return few.table(gathered.pieces, gathered.num_rows)


def _of_records(context: ExecutionContext, views: Sequence[CuboidView]) -> GroupTable | None:
    """Return the groups of star-tree records, which are few; None if they cannot be read together."""
    bound = context.bound
    if bound.filters or not all(view.choice.has_short_keys for view in views):
        return None
    filtered = [context.filter(view) for view in views]
    pieces: list[Piece] = [(view.choice, Found.of(one)) for view, one in zip(views, filtered, strict=True)]
    if not fit_together(bound, pieces):
        return None
    columns_read = context.columns_read()
    for one, (_, found) in zip(filtered, pieces, strict=True):
        context.deadline.check()
        context.count(one, found.count, found.count * columns_read)
    table = group_records(pieces, len(bound.rows))
    context.keep_groups(table)
    return table


def _group(
    context: ExecutionContext,
    number: int,
    segment: QuerySegment,
    filtered: FilterResult | None,
    limits: GroupLimits,
    found: FoundGroups,
) -> None:
    bound, result = context.asked(segment), filtered or context.filter(segment)
    matches = result.matches()
    clauses = FilterClauses(bound, segment)

    def restart() -> None:
        result.walked(matches)
        clauses.restart()

    options = GroupOptions(limits.num_groups, context.deadline.check, restart, overflow=found.overflow(number))
    table = group_segment(bound.rows, bound.aggregates, matches, clauses.reader(matches), context.pool, options)
    clauses.count(context, result, result.walked(matches))
    limits.note(table, context.stats)
    found.add((number,), limits.of_segment(context.bound, table, context.stats))
