"""Selections over the segments of a server."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from gamay.functions.expression import Column
from gamay.query.bind.binder import SortKey, physical_columns
from gamay.query.columns.operations import take_rows
from gamay.query.columns.order import CommonBound
from gamay.query.execute.context import ExecutionContext
from gamay.query.execute.gathered import gather_first, may_be_few
from gamay.query.execute.nearest_first import nearest_rows
from gamay.query.few.rows import ROWS_MAX, SEGMENTS_MAX, FewRows
from gamay.query.filter.apply import FilterResult
from gamay.query.prune.by_segments import bounds_of
from gamay.query.selection import (
    Ordered,
    Rows,
    concat_rows,
    first_rows,
    lies_in_order,
    merge_ordered,
    read_ordered,
    sort_rows,
    top_docs,
)
from gamay.query.view.match_spans import span_of
from gamay.query.view.matches import BLOCK_ROWS, Matches, as_block
from gamay.query.view.read import as_vector
from gamay.query.view.virtual import QuerySegment

T = TypeVar("T")
Part: TypeAlias = tuple[Rows | None, int]
"""Rows, and the number of rows."""

# rows of a segment read by one task, so that a selection that finds its rows early stops early
_PIECE_ROWS = 8 * BLOCK_ROWS
# results with fewer rows are not counted towards the memory limit
_COUNTED_ROWS = 1 << 10


def execute_selection(context: ExecutionContext, segments: Sequence[QuerySegment]) -> Rows | None:
    """Return the first matching rows, in the order of the segments and of their docs.

    Many segments are read several at a time, in waves that double in size until there are enough rows; few segments are read
    one after the other, each in such waves of its pieces.
    """
    if context.bound.limit == 0:
        return None
    found = _Found(context.bound.limit_with_offset)
    gathered, segments = gather_first(context, segments, found.missing)
    if gathered is not None:
        operand = gathered.reader()(gathered.matches())
        rows = tuple(as_vector(operand(row), gathered.num_rows) for row in context.bound.rows)
        found.add((rows, gathered.num_rows))
    if len(segments) >= 2 * context.pool.threads:
        for wave in _waves(segments, context):
            answers = context.pool.run([_whole(context, segment, found.missing) for segment in wave])
            for filtered, part in answers:
                _count(context, filtered, found.add(part))
            found.count_memory(context)
            if not found.missing:
                break
    else:
        for segment in segments:
            filtered = context.filter(segment)
            matches = filtered.matches()
            pieces: Sequence[Matches] = matches.split(max(1, -(-span_of(matches) // _PIECE_ROWS)))
            taken = 0
            for some in _waves(pieces, context):
                for part in context.pool.run([_piece(context, segment, piece, found.missing) for piece in some]):
                    taken += found.add(part)
                found.count_memory(context)
                if not found.missing:
                    break
            _count(context, filtered, taken)
            if not found.missing:
                break
    return found.rows()


class _Found:
    """The rows that a selection has found so far."""

    def __init__(self, limit: int) -> None:
        self.missing = limit
        self._parts: list[Rows] = []
        self._counted = 0

    def add(self, part: Part) -> int:
        """Take the rows of a part that are still missing; returns the number taken."""
        rows, count = part
        taken = min(count, self.missing)
        if rows is not None and taken:
            self._parts.append(rows if taken == count else tuple(take_rows(column, np.arange(taken)) for column in rows))
        self.missing -= taken
        return taken

    def count_memory(self, context: ExecutionContext) -> None:
        """Count the added rows towards the memory limit; raises QueryError 245 if they exceed it."""
        added = self._parts[self._counted :]
        if sum(len(part[0]) for part in added if part) > _COUNTED_ROWS:
            self._counted = len(self._parts)
            context.keep("rows", added)

    def rows(self) -> Rows | None:
        return concat_rows(self._parts) if self._parts else None


def _waves(items: Sequence[T], context: ExecutionContext) -> Iterator[Sequence[T]]:
    """Split a list into parts that double in size, up to a few items for each thread."""
    start, size = 0, 1
    while start < len(items):
        yield items[start : start + size]
        start += size
        size = min(2 * size, 4 * context.pool.threads)


def _piece(context: ExecutionContext, segment: QuerySegment, piece: Matches, limit: int) -> Callable[[], Part]:
    return lambda: first_rows(segment, piece, context.asked(segment).rows, limit, context.deadline)


def _whole(context: ExecutionContext, segment: QuerySegment, limit: int) -> Callable[[], tuple[FilterResult, Part]]:
    def task() -> tuple[FilterResult, Part]:
        filtered = context.filter(segment)
        return filtered, first_rows(segment, filtered.matches(), context.asked(segment).rows, limit, context.deadline)

    return task


def _count(context: ExecutionContext, filtered: FilterResult, taken: int) -> None:
    context.count(filtered, taken, taken * context.columns_read())


def execute_ordered_selection(context: ExecutionContext, segments: Sequence[QuerySegment]) -> Rows | None:
    """Return the first rows in the query's order; ties keep the order of segments and docs.

    Segments are read in the order of their first possible value; those that cannot have a row before the last one found so
    far are skipped.
    """
    if context.bound.limit == 0:
        return None
    filtered: dict[int, FilterResult] = {}
    if (rows := _few_ordered(context, segments, filtered)) is not None:
        return rows
    common = CommonBound(context.bound.order_by[0].descending)
    firsts = _firsts(context.bound.order_by[0], segments)
    order = sorted(firsts, key=firsts.__getitem__, reverse=context.bound.order_by[0].descending)
    order += [place for place in range(len(segments)) if place not in firsts]

    def task(place: int) -> Rows | None:
        if place in firsts and common.excludes(firsts[place]):
            context.leave_out()
            return None
        return _ordered(context, segments[place], filtered.get(place), common)

    found = dict(zip(order, context.over_segments(order, task), strict=True))
    parts = [rows for place in range(len(segments)) if (rows := found[place]) is not None]
    if len(parts) == 1:
        return parts[0]  # already sorted and limited
    return sort_rows(context.bound, concat_rows(parts), context.bound.limit_with_offset) if parts else None


def _few_ordered(context: ExecutionContext, segments: Sequence[QuerySegment], known: dict[int, FilterResult]) -> Rows | None:
    """Return the first rows, sorted together, if indexes find few in all segments; None if there may be more.

    known: receives the filter results of the segments that were filtered, by their positions.
    """
    bound = context.bound
    few = FewRows.of(bound)
    if few is None or context.trace is not None or not 1 < len(segments) <= SEGMENTS_MAX or not may_be_few(bound):
        return None
    num_rows = 0
    for place, segment in enumerate(segments):
        if segment.asks is not None:
            return None
        filtered = known[place] = context.filter(segment)
        count = filtered.count
        if count is None or filtered.matches_all or num_rows + count > ROWS_MAX:
            return None
        if count and any(segment.null_flags(name) is not None for name in few.columns):
            return None
        num_rows += count
    pieces, missing = [], bound.limit_with_offset
    counts = [filtered.count or 0 for filtered in known.values()]
    left_out = few.not_needed(segments, counts, missing) if num_rows > missing else ()
    for place, count in enumerate(counts):
        if place in left_out:
            context.leave_out()
            continue
        filtered, taken = known[place], min(count, missing)
        missing -= taken
        context.count(filtered, count, count * few.num_keys + taken * few.num_others)
        if count:
            pieces.append((segments[place], as_block(filtered.matches())))
    return few.ordered(pieces, few.rows, 0, bound.limit_with_offset) if pieces else None


def _firsts(key: SortKey, segments: Sequence[QuerySegment]) -> dict[int, Any]:
    """Return the first possible value of a sort key in each segment, by position, where it is known."""
    if len(segments) == 1 or not isinstance(key.expression, Column):
        return {}
    bounds = {place: bounds_of(segment, key.expression.name) for place, segment in enumerate(segments)}
    return {place: known[key.descending] for place, known in bounds.items() if known is not None}


def _ordered(
    context: ExecutionContext, segment: QuerySegment, filtered: FilterResult | None, common: CommonBound
) -> Rows | None:
    bound, limit = context.asked(segment), context.bound.limit_with_offset
    filtered = nearest_rows(context, segment) or filtered or context.filter(segment)
    matches = filtered.matches()
    threads = 1 if lies_in_order(segment, bound.order_by) else context.pool.usable_threads
    pieces = matches.split(min(threads, max(1, span_of(matches) // BLOCK_ROWS)))

    def task(piece: Matches) -> Callable[[], Ordered]:
        return lambda: top_docs(segment, piece, bound.order_by, limit, context.deadline, common)

    parts = context.pool.run([task(piece) for piece in pieces])
    scanned = sum(part.num_scanned for part in parts)
    key_columns = physical_columns([key.expression for key in bound.order_by])
    found = [part for part in parts if len(part.docs)]
    if not found:
        context.count(filtered, scanned, scanned * len(key_columns))
        return None
    best = merge_ordered(found, bound.order_by, limit)
    others = [name for name in physical_columns(bound.rows) if name not in key_columns]
    context.count(filtered, scanned, scanned * len(key_columns) + len(best.docs) * len(others))
    rows = read_ordered(segment, bound, best)
    if len(best.docs) > _COUNTED_ROWS:
        context.keep("rows", rows)
    return rows
