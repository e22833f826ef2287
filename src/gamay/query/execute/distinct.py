"""DISTINCT on the segments of a server: groups without aggregates, computed with early termination."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from gamay.functions.aggregate.distinct.coding import CODES_MAX
from gamay.functions.expression import Column
from gamay.functions.vector import EncodedVector
from gamay.query.bind.binder import BoundQuery
from gamay.query.execute.context import ExecutionContext
from gamay.query.execute.distinct_order import FirstKey
from gamay.query.groupby.merge import merge_group_tables
from gamay.query.groupby.ordering import first_groups
from gamay.query.groupby.segment import GroupOptions, group_segment
from gamay.query.groupby.table import GroupTable
from gamay.query.view.match_spans import cut, span_of
from gamay.query.view.matches import DocList, Matches
from gamay.query.view.read import segment_reader
from gamay.query.view.virtual import QuerySegment
from gamay.query.view.whole_codes import whole_codes
from gamay.segment.spi import Dictionary
from gamay.sql.options.option_values import number

# rows of the first step of a DISTINCT that terminates early, and the growth of further steps
_FIRST_STEP_ROWS = 1 << 14
_STEP_GROWTH = 4
# a DISTINCT with ORDER BY trims its groups after each step; fewer groups are merged faster than sorted
_STEP_ROWS_MAX = 1 << 20
_BOUNDING_ROWS = 16
_UNTRIMMED_GROUPS = 1 << 14


def distinct_groups(context: ExecutionContext, segments: Sequence[QuerySegment]) -> GroupTable | None:
    """Return the distinct rows, as groups without aggregates.

    Without ORDER BY the search ends when LIMIT rows are found; with it, only the first LIMIT of the rows seen are kept:
    either way memory is bounded by the answer. With the options that limit the search, segments are searched sequentially
    until a limit is reached.
    """
    bound, limit = context.bound, context.bound.limit_with_offset
    bounds = _Bounds.of(context)
    if bounds is not None:
        found = _bounded(context, bounds, segments)
        return found if found is None or not bound.order_by else first_groups(bound, found, limit)
    if bound.order_by:
        tables = context.over_segments(segments, lambda segment: _distinct(context, segment))
        return first_groups(bound, merge_group_tables(tables, ()), limit) if tables else None
    found = None
    for segment in segments:
        found = _merged(found, _distinct(context, segment))
        if found.num_groups >= limit:
            break
    return found


def _merged(found: GroupTable | None, table: GroupTable) -> GroupTable:
    return table if found is None else merge_group_tables([found, table], ())


def _distinct(context: ExecutionContext, segment: QuerySegment) -> GroupTable:
    """Return the distinct rows of a segment: LIMIT of them, or with ORDER BY at least the first LIMIT."""
    bound, limit = context.bound, context.bound.limit_with_offset
    filtered = context.filter(segment)
    if filtered.matches_all and (known := _dictionary_values(context, segment)) is not None:
        context.count(filtered, segment.num_docs, known.num_groups)
        return known
    options = GroupOptions(CODES_MAX, context.deadline.check, what="distinct rows")
    first_key = FirstKey.of(context.asked(segment), segment) if bound.order_by else None
    table: GroupTable | None = None
    scanned = 0
    first_rows = _FIRST_STEP_ROWS
    if bound.order_by:  # few rows suffice for a bound, if they contain most of the first ones
        first_rows = _STEP_ROWS_MAX if first_key is None else min(max(first_rows, _BOUNDING_ROWS * limit), _STEP_ROWS_MAX)
    rows, found = context.asked(segment).rows, filtered.matches()
    looked_at = span_of(found) if bound.order_by or limit > first_rows else first_rows
    reader = segment_reader(segment, whole_codes(segment, rows, (), looked_at))
    for step in _steps(found, first_rows):
        matches = step if first_key is None else first_key.with_a_chance(step)
        table = _merged(table, group_segment(rows, (), matches, reader, context.pool, options))
        scanned += filtered.walked(step)
        is_bounded = first_key is not None and first_key.leaves_out
        if bound.order_by and table.num_groups > (limit if is_bounded else max(limit, _UNTRIMMED_GROUPS)):
            table = first_groups(bound, table, limit)
            if first_key is not None:
                first_key.learn(table)
        elif not bound.order_by and table.num_groups >= limit:
            break
    assert table is not None
    context.count(filtered, scanned, scanned * context.columns_read())
    context.keep("distinct rows", table)
    return table


def answering_dictionary(bound: BoundQuery, segment: QuerySegment) -> Dictionary | None:
    """Return the dictionary of the only key, if it contains exactly the distinct rows; None for several keys, nulls, or
    without one."""
    key = bound.rows[0]
    if len(bound.rows) > 1 or not isinstance(key, Column) or segment.null_flags(key.name) is not None:
        return None
    return segment.column(key.name).dictionary


def _dictionary_values(context: ExecutionContext, segment: QuerySegment) -> GroupTable | None:
    """Return the values of the only key from its dictionary; None if that is not possible."""
    dictionary = answering_dictionary(context.asked(segment), segment)
    if dictionary is None:
        return None
    size = len(dictionary) if context.bound.order_by else min(context.bound.limit_with_offset, len(dictionary))
    return GroupTable((EncodedVector(np.arange(size, dtype=np.int32), dictionary.values),), (), size)


def _steps(matches: Matches, first_rows: int) -> list[Matches]:
    """Cut the matches into pieces of increasing size, beginning with `first_rows`; at least one piece."""
    pieces: list[Matches] = []
    rest: Matches = matches
    rows = first_rows
    while span_of(rest) > rows:
        first, rest = cut(rest, rows)
        pieces.append(first)
        rows = max(rows, min(rows * _STEP_GROWTH, _STEP_ROWS_MAX))
    return [*pieces, rest]


# -- limited searches


@dataclass(slots=True)
class _Bounds:
    """The limits of maxRowsInDistinct, maxRowsWithoutChangeInDistinct and maxExecutionTimeMsInDistinct; None for no limit.

    rows, unchanged: matching rows seen so far, and since the last new distinct row.
    """

    max_rows: int | None
    max_unchanged: int | None
    until_s: float | None
    rows: int = field(default=0)
    unchanged: int = field(default=0)

    @classmethod
    def of(cls, context: ExecutionContext) -> "_Bounds | None":
        options = context.bound.query.options
        read = {
            name: number(options, name, 0) or None
            for name in ("maxRowsInDistinct", "maxRowsWithoutChangeInDistinct", "maxExecutionTimeMsInDistinct")
        }
        if not any(read.values()):
            return None
        rows, unchanged, time_ms = read.values()
        now_s = context.deadline.clock.monotonic_s()
        return cls(rows, unchanged, None if time_ms is None else now_s + time_ms / 1000)

    @property
    def step(self) -> int:
        """Maximum number of rows of the next step."""
        left = [_FIRST_STEP_ROWS]
        if self.max_rows is not None:
            left.append(self.max_rows - self.rows)
        if self.max_unchanged is not None:
            left.append(self.max_unchanged - self.unchanged)
        return min(left)

    def are_met(self, context: ExecutionContext) -> bool:
        """Whether the search must end although there are more rows; sets the flag of the reason."""
        stats = context.stats
        if self.max_rows is not None and self.rows >= self.max_rows:
            stats.max_rows_in_distinct_reached = True
        elif self.max_unchanged is not None and self.unchanged >= self.max_unchanged:
            stats.max_rows_without_change_in_distinct_reached = True
        elif self.until_s is not None and context.deadline.clock.monotonic_s() >= self.until_s:
            stats.max_execution_time_in_distinct_reached = True
        else:
            return False
        return True

    def looked_at(self, rows: int, is_new: bool) -> None:
        self.rows += rows
        self.unchanged = 0 if is_new else self.unchanged + rows


def _bounded(context: ExecutionContext, bounds: _Bounds, segments: Sequence[QuerySegment]) -> GroupTable | None:
    options = GroupOptions(CODES_MAX, context.deadline.check, what="distinct rows")
    enough = None if context.bound.order_by else context.bound.limit_with_offset
    found: GroupTable | None = None
    for segment in segments:
        filtered = context.filter(segment)
        scanned, is_over = 0, False
        for rows in _small_blocks(filtered.matches()):
            while len(rows) and not is_over:
                is_over = bounds.are_met(context)
                if is_over:
                    break
                taken, rows = cut(rows, bounds.step)
                before = 0 if found is None else found.num_groups
                found = _merged(
                    found,
                    group_segment(context.asked(segment).rows, (), taken, segment_reader(segment), context.pool, options),
                )
                bounds.looked_at(len(taken), found.num_groups > before)
                scanned += len(taken)
                is_over = enough is not None and found.num_groups >= enough
            if is_over:
                break
        context.count(filtered, scanned, scanned * context.columns_read())
        if is_over:
            break
    return found


def _small_blocks(matches: Matches) -> Iterator[Matches]:
    """Yield the matching rows in lists, so that they can be counted and cut; scans run only as far as needed."""
    for block in matches.blocks(_FIRST_STEP_ROWS):
        yield DocList(block.docs())
