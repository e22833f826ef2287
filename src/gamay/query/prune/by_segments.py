"""Pruning at the server: the segments that may have matching rows, by bounds, partitions and bloom filters."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from gamay.functions.expression import Column as ColumnExpression
from gamay.functions.expression import LiteralValue
from gamay.model.types import DataType
from gamay.query.bind.binder import BoundQuery, QueryKind
from gamay.query.bind.predicate import EVERYTHING, And, Constant, Filter, In, Not, Or, Range
from gamay.query.prune.partition import partition_of
from gamay.query.stats import QueryStats
from gamay.query.view.virtual import QuerySegment
from gamay.segment.spi import BLOOM, Column, ColumnStats, PartitionInfo, Segment

# if there are more values, they are not looked up in bloom filters and partitions
_VALUES_MAX = 100


def may_match(filter_: Filter, segment: Segment) -> bool:
    """Return False only if no row of the segment matches the filter."""
    return _answer(filter_, segment)[0]


def _answer(filter_: Filter, segment: Segment) -> tuple[bool, bool]:
    """Return whether a row may match, and whether every row must."""
    if isinstance(filter_, In):
        return _in(filter_, segment.column(filter_.column))
    if isinstance(filter_, Range):
        return _range(filter_, segment.column(filter_.column))
    if isinstance(filter_, Constant):
        return filter_.matches, filter_.matches
    if isinstance(filter_, And | Or):
        together = all if isinstance(filter_, And) else any
        answers = [_answer(part, segment) for part in filter_.parts]
        return together(may for may, _ in answers), together(must for _, must in answers)
    if isinstance(filter_, Not):
        may, must = _answer(filter_.part, segment)
        return not must, not may
    return True, False


def _range(predicate: Range, column: Column) -> tuple[bool, bool]:
    low, high = column.stats.minimum, column.stats.maximum
    if low is None or high is None or low != low or high != high:
        return True, False
    lower, upper = predicate.lower, predicate.upper
    may = must = True
    if lower is not None:
        may = high >= lower if predicate.lower_inclusive else high > lower  # type: ignore[operator]
        must = low >= lower if predicate.lower_inclusive else low > lower  # type: ignore[operator]
    if upper is not None:
        may = may and (low <= upper if predicate.upper_inclusive else low < upper)  # type: ignore[operator]
        must = must and (high <= upper if predicate.upper_inclusive else high < upper)  # type: ignore[operator]
    return may, must


def _in(predicate: In, column: Column) -> tuple[bool, bool]:
    stats = column.stats
    low, high = stats.minimum, stats.maximum
    values: Sequence[LiteralValue] = predicate.values
    must = False
    if low is not None and high is not None and low == low and high == high:
        values = [value for value in values if low <= value <= high]  # type: ignore[operator]
        must = low == high and bool(values)
    if len(values) <= _VALUES_MAX:
        partition, bloom = stats.partition, column.index(BLOOM)
        if partition is not None:
            values = [value for value in values if _may_hold(partition, value, column.data_type)]
        if bloom is not None and column.data_type is not DataType.BOOLEAN:
            values = [value for value in values if bloom.might_contain(value)]
    return bool(values), must


def _may_hold(held: PartitionInfo, value: LiteralValue, data_type: DataType) -> bool:
    partition = partition_of(held.scheme, value, data_type)
    return partition is None or partition in held.partitions


def prune_segments(bound: BoundQuery, segments: Sequence[QuerySegment], stats: QueryStats) -> list[QuerySegment]:
    """Return the segments that may have a matching row and are needed; counts the others."""
    kept = []
    for segment in segments:
        if segment.num_visible == 0:
            stats.num_segments_pruned_by_server += 1
        elif not may_match((segment.asks or bound).filter, segment):
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
    """Return the segments that may contain the first rows; keeps one even if LIMIT is 0, so that a segment was processed."""
    if bound.limit == 0:
        return list(segments[:1])
    if bound.filter != EVERYTHING:
        return list(segments)
    if bound.kind is QueryKind.SELECTION_ORDER_BY:
        return _needed_in_order(bound, segments)
    enough, rows = 0, 0
    while enough < len(segments) and rows < bound.limit_with_offset:
        rows += segments[enough].num_visible
        enough += 1
    return list(segments[:enough])


def _needed_in_order(bound: BoundQuery, segments: Sequence[QuerySegment]) -> list[QuerySegment]:
    """Leave out segments all of whose rows come after enough rows of others, by the bounds of the first sort key."""
    key, wanted = bound.order_by[0], bound.limit_with_offset
    if not isinstance(key.expression, ColumnExpression):
        return list(segments)
    spans: list[tuple[Any, Any, int, int]] = []
    for place, segment in enumerate(segments):
        if (bounds := bounds_of(segment, key.expression.name)) is not None:
            spans.append((*bounds, segment.num_visible, place))
    beyond = beyond_first_rows(spans, wanted, key.descending)
    return [segment for place, segment in enumerate(segments) if place not in beyond]


def beyond_first_rows(spans: list[tuple[Any, Any, int, int]], wanted: int, descending: bool) -> set[int]:
    """Return the positions of the segments all of whose rows come after that many rows of others in the order of a column.

    spans: the column's minimum and maximum in each segment, its number of rows, and its position; is sorted in place.
    """
    spans.sort(key=itemgetter(1 if descending else 0), reverse=descending)
    rows, last, beyond = 0, None, set[int]()
    for low, high, count, place in spans:
        if rows < wanted:
            rows += count
            end = low if descending else high
            last = end if last is None else min(last, end) if descending else max(last, end)
        elif high < last if descending else low > last:
            beyond.add(place)
    return beyond


def bounds_of(segment: QuerySegment, name: str) -> tuple[Any, Any] | None:
    """Return the minimum and maximum of a column; None if they do not determine the order of its rows."""
    bounds = known_bounds(segment.column(name).stats)
    return bounds if segment.null_flags(name) is None else None


def known_bounds(stats: ColumnStats) -> tuple[Any, Any] | None:
    """Return the minimum and maximum of a column; None if they are unknown or not comparable."""
    low, high = stats.minimum, stats.maximum
    return (low, high) if low is not None and high is not None and low == low and high == high else None
