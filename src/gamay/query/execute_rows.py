"""Selections over the segments of a server."""

from collections.abc import Callable, Sequence

import numpy as np

from gamay.query.bind import physical_columns
from gamay.query.columns import take_rows
from gamay.query.filter.apply import FilterResult, apply_filter
from gamay.query.matches import BLOCK_ROWS, Matches
from gamay.query.selection import (
    Ordered,
    Rows,
    concat_rows,
    first_rows,
    merge_ordered,
    read_ordered,
    sort_rows,
    top_docs,
)
from gamay.query.spans import span_of
from gamay.query.virtual import QuerySegment
from gamay.query.work import Work

# rows of a segment that one task walks, so that a selection that finds its rows early stops early
_PIECE_ROWS = 8 * BLOCK_ROWS


def execute_selection(work: Work, segments: Sequence[QuerySegment]) -> Rows | None:
    """Return the first rows that match, in the order of the segments and of their docs.

    Pieces of segments are walked in waves that double in size, until there are enough rows.
    """
    bound, limit = work.bound, work.bound.limit_with_offset
    if bound.limit == 0:
        return None
    parts: list[Rows] = []
    missing = limit
    waves = _Waves(work)
    for segment in segments:
        filtered = apply_filter(bound.filter, segment)
        matches = filtered.matches()
        pieces = matches.split(max(1, -(-span_of(matches) // _PIECE_ROWS)))
        found = 0
        while pieces and missing > 0:
            wave, pieces = pieces[: waves.size], pieces[waves.size :]
            for rows, count in work.pool.run([_first(work, segment, piece, missing) for piece in wave]):
                taken = min(count, missing)
                if rows is not None and taken:
                    parts.append(rows if taken == count else tuple(take_rows(column, np.arange(taken)) for column in rows))
                found += taken
                missing -= taken
            waves.grow()
        work.count(filtered, found, found * work.columns_read())
        if missing == 0:
            break
    return concat_rows(parts) if parts else None


class _Waves:
    """The number of pieces that are walked at once."""

    def __init__(self, work: Work) -> None:
        self.size = 1
        self._most = 4 * work.pool.threads

    def grow(self) -> None:
        self.size = min(2 * self.size, self._most)


def _first(work: Work, segment: QuerySegment, piece: Matches, limit: int) -> Callable[[], tuple[Rows | None, int]]:
    return lambda: first_rows(segment, piece, work.bound.rows, limit, work.deadline)


def execute_ordered_selection(work: Work, segments: Sequence[QuerySegment]) -> Rows | None:
    """Return the first rows in the query's order; ties keep the order of segments and docs."""
    if work.bound.limit == 0:
        return None
    parts = [rows for rows in work.over_segments(segments, lambda segment: _ordered(work, segment)) if rows is not None]
    return sort_rows(work.bound, concat_rows(parts), work.bound.limit_with_offset) if parts else None


def _ordered(work: Work, segment: QuerySegment) -> Rows | None:
    bound, limit = work.bound, work.bound.limit_with_offset
    filtered: FilterResult = apply_filter(bound.filter, segment)
    matches = filtered.matches()
    pieces = matches.split(min(work.pool.usable_threads, max(1, span_of(matches) // BLOCK_ROWS)))

    def task(piece: Matches) -> Callable[[], Ordered]:
        return lambda: top_docs(segment, piece, bound.order_by, limit, work.deadline)

    found = [part for part in work.pool.run([task(piece) for piece in pieces]) if len(part.docs)]
    if not found:
        work.count(filtered, 0, 0)
        return None
    best = merge_ordered(found, bound.order_by, limit)
    key_columns = physical_columns([key.expression for key in bound.order_by])
    others = [name for name in physical_columns(bound.rows) if name not in key_columns]
    entries = best.num_scanned * len(key_columns) + len(best.docs) * len(others)
    work.count(filtered, best.num_scanned, entries)
    return read_ordered(segment, bound, best)
