"""Aggregation, GROUP BY and DISTINCT over the segments of a server."""

from collections.abc import Sequence

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.coding import CODES_MAX
from gamay.functions.aggregate.spi import Partial
from gamay.functions.expression import Column
from gamay.functions.vector import EncodedVector
from gamay.query.bind import BoundQuery
from gamay.query.filter.apply import FilterResult, apply_filter
from gamay.query.filter_clauses import FilterClauses, branch_of
from gamay.query.gathered import gather
from gamay.query.group_order import first_groups
from gamay.query.groupby.merge import merge_group_tables, merge_partials
from gamay.query.groupby.metadata import answer_from_metadata
from gamay.query.groupby.segment import GroupOptions, aggregate_segment, group_segment
from gamay.query.groupby.table import GroupTable
from gamay.query.matches import Matches
from gamay.query.read import segment_reader
from gamay.query.spans import cut, span_of
from gamay.query.virtual import QuerySegment
from gamay.query.work import Work

DEFAULT_NUM_GROUPS_LIMIT = 100_000
GROUPS_WARNING_LIMIT = 150_000

# a DISTINCT that stops early looks at so many rows first, and at so many times more in each further step
_FIRST_STEP_ROWS = 1 << 14
_STEP_GROWTH = 4


def known_partials(
    bound: BoundQuery, segment: QuerySegment, filtered: FilterResult
) -> tuple[tuple[Partial, ...], int] | None:
    """Return the aggregates of a segment when they are known without reading rows, and of how many; else None.

    Over all rows, metadata and dictionaries answer; when indexes have answered the filter, the matching rows are counted.
    """
    if filtered.count is None:
        return None
    known: list[Partial] = []
    counts: dict[Column | None, int] = {}
    for call in bound.aggregates:
        branch = branch_of(bound, call.filter, filtered, segment)
        if branch.count is None:
            return None
        counts[call.filter] = branch.count
        partial: Partial | None = None
        if not call.arguments:
            partial = answer_from_metadata(call.aggregate, None, branch.count)
        elif branch.matches_all and len(call.arguments) == 1 and isinstance(call.arguments[0], Column):
            partial = answer_from_metadata(call.aggregate, segment.column(call.arguments[0].name), segment.num_docs)
        if partial is None:
            return None
        known.append(partial)
    return tuple(known), sum(counts.values())


def execute_aggregation(work: Work, segments: Sequence[QuerySegment]) -> GroupTable | None:
    """Return the aggregates over all matching rows as one group without keys; None when no segment was left."""
    gathered, rest = gather(work, segments)
    partials = work.over_segments(rest, lambda item: _aggregate(work, *item))
    if gathered is not None:
        options = GroupOptions(check=work.deadline.check)
        calls = work.bound.aggregates
        partials.append(aggregate_segment(calls, gathered.matches(), gathered.reader(), work.pool, options))
    return GroupTable((), merge_partials(partials, work.bound.aggregates), 1) if partials else None


def _aggregate(work: Work, segment: QuerySegment, filtered: FilterResult | None) -> tuple[Partial, ...]:
    filtered = filtered or apply_filter(work.bound.filter, segment)
    known = known_partials(work.bound, segment, filtered)
    if known is not None:
        partials, scanned = known
        work.count(filtered, scanned, 0)
        return partials
    matches = filtered.matches()
    clauses = FilterClauses(work.bound, segment)
    options = GroupOptions(check=work.deadline.check)
    partials = aggregate_segment(work.bound.aggregates, matches, clauses.reader(), work.pool, options)
    clauses.count(work, filtered, filtered.walked(matches))
    return partials


def execute_group_by(work: Work, segments: Sequence[QuerySegment]) -> GroupTable | None:
    """Return the groups of all matching rows; None when no segment was left."""
    limit = num_groups_limit(work)
    gathered, rest = gather(work, segments)
    tables = work.over_segments(rest, lambda item: _group(work, *item, limit))
    if gathered is not None:
        bound, options = work.bound, GroupOptions(limit, work.deadline.check)
        matches, reader = gathered.matches(), gathered.reader()
        tables.append(group_segment(bound.rows, bound.aggregates, matches, reader, work.pool, options))
    return _merged(work, tables)


def num_groups_limit(work: Work) -> int:
    """Return how many groups a segment may have."""
    text = work.bound.query.options.get("numGroupsLimit")
    if text is None:
        return DEFAULT_NUM_GROUPS_LIMIT
    if not text.isdigit() or int(text) < 1:
        raise QueryError(ErrorCode.QUERY_VALIDATION, f"The option numGroupsLimit is a positive number, not '{text}'")
    return min(int(text), CODES_MAX)


def _group(work: Work, segment: QuerySegment, filtered: FilterResult | None, limit: int) -> GroupTable:
    filtered = filtered or apply_filter(work.bound.filter, segment)
    matches = filtered.matches()
    clauses = FilterClauses(work.bound, segment)
    options = GroupOptions(limit, work.deadline.check)
    table = group_segment(work.bound.rows, work.bound.aggregates, matches, clauses.reader(), work.pool, options)
    clauses.count(work, filtered, filtered.walked(matches))
    return table


def _merged(work: Work, tables: Sequence[GroupTable]) -> GroupTable | None:
    if not tables:
        return None
    if any(table.limit_reached for table in tables):
        work.stats.num_groups_limit_reached = True
    if any(table.num_groups >= GROUPS_WARNING_LIMIT for table in tables):
        work.stats.num_groups_warning_limit_reached = True
    return merge_group_tables(tables, work.bound.aggregates)


def distinct_groups(work: Work, segments: Sequence[QuerySegment]) -> GroupTable | None:
    """Return the distinct rows, as groups without aggregates.

    Without ORDER BY the search ends as soon as LIMIT rows are found; with it, only the first LIMIT rows are returned.
    """
    if work.bound.order_by:
        table = _merged(work, work.over_segments(segments, lambda segment: _distinct(work, segment, None)))
        return None if table is None else first_groups(work.bound, table)
    limit = work.bound.limit_with_offset
    found: GroupTable | None = None
    for segment in segments:
        table = _distinct(work, segment, limit)
        found = table if found is None else merge_group_tables([found, table], ())
        if found.num_groups >= limit:
            break
    return found


def _distinct(work: Work, segment: QuerySegment, limit: int | None) -> GroupTable:
    filtered = apply_filter(work.bound.filter, segment)
    if filtered.matches_all and (known := _dictionary_values(work, segment, limit)) is not None:
        work.count(filtered, segment.num_docs, known.num_groups)
        return known
    options = GroupOptions(CODES_MAX, work.deadline.check)
    table: GroupTable | None = None
    scanned = 0
    for step in _steps(filtered.matches(), limit):
        part = group_segment(work.bound.rows, (), step, segment_reader(segment), work.pool, options)
        table = part if table is None else merge_group_tables([table, part], ())
        scanned += filtered.walked(step)
        if limit is not None and table.num_groups >= limit:
            break
    assert table is not None
    work.count(filtered, scanned, scanned * work.columns_read())
    return table


def _dictionary_values(work: Work, segment: QuerySegment, limit: int | None) -> GroupTable | None:
    """Return the values of the only key from its dictionary; None when there are more keys, nulls or no dictionary."""
    key = work.bound.rows[0]
    if len(work.bound.rows) > 1 or not isinstance(key, Column):
        return None
    dictionary = segment.column(key.name).dictionary
    if dictionary is None or not dictionary.is_sorted or segment.null_flags(key.name) is not None:
        return None
    size = len(dictionary) if limit is None else min(limit, len(dictionary))
    return GroupTable((EncodedVector(np.arange(size, dtype=np.int32), dictionary.values),), (), size)


def _steps(matches: Matches, limit: int | None) -> list[Matches]:
    """Cut the matches in pieces that grow, where the search may end early; at least one piece."""
    if limit is None:
        return [matches]
    pieces: list[Matches] = []
    rest: Matches = matches
    rows = _FIRST_STEP_ROWS
    while span_of(rest) > rows:
        first, rest = cut(rest, rows)
        pieces.append(first)
        rows *= _STEP_GROWTH
    return [*pieces, rest]
