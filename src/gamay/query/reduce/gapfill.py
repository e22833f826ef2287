"""GAPFILL: a row for every time bucket of every series.

A row belongs to the bucket that contains its time. Rows before the start only provide the previous values of their series;
those from the end on are left out. Rows are ordered by bucket; within a bucket first the existing rows, by time, then the
filled ones, with series in order of first appearance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, TypeAlias

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.answer.response import ResultTable
from gamay.query.columns.constants import values_of
from gamay.query.columns.operations import concat_vectors, take_rows
from gamay.query.columns.order import sort_array, top_rows
from gamay.query.reduce.bucket_times import bucket_labels, times_ms
from gamay.sql.query import Gapfill

FILLED_ROWS_MAX = 5_000_000

Indices: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


@dataclass(frozen=True, slots=True)
class _Placed:
    """The valid rows, by time. rows: their positions in the table; buckets: negative before the start.

    series: the number of each row's series; first: for each series the position of its first row in the table.
    """

    rows: Indices
    buckets: Indices
    series: Indices
    first: Indices

    def below(self, num_buckets: int) -> "_Placed":
        """Return the rows of the first buckets only; series keep their numbers."""
        count = int(np.searchsorted(self.buckets, num_buckets))
        return _Placed(self.rows[:count], self.buckets[:count], self.series[:count], self.first)


def fill_gaps(gapfill: Gapfill, table: ResultTable) -> ResultTable:
    """Return the filled rows. Raises QueryError for times that do not match the format, and for too many rows."""
    total = -((gapfill.start_ms - gapfill.end_ms) // gapfill.bucket_ms)
    placed = _place(gapfill, table, total)
    num_series = len(placed.first)
    num_buckets = _buckets_needed(gapfill, total, num_series)
    if num_buckets * num_series > FILLED_ROWS_MAX:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"GAPFILL would create {num_buckets} buckets for each of {num_series} series, more than {FILLED_ROWS_MAX} rows; "
            "use a shorter time range or longer buckets",
        )
    columns = _filled(gapfill, table, placed.below(num_buckets), num_buckets)
    return _window(gapfill, ResultTable(table.names, table.types, columns))


def _place(gapfill: Gapfill, table: ResultTable, num_buckets: int) -> _Placed:
    millis = times_ms(table.columns[gapfill.time], gapfill.format)
    rows = np.argsort(millis, kind="stable")
    # times too far away for a 64-bit distance count as those just outside
    before, behind = gapfill.start_ms - gapfill.bucket_ms, gapfill.start_ms + num_buckets * gapfill.bucket_ms
    buckets = np.floor_divide(np.clip(millis[rows], before, behind) - gapfill.start_ms, gapfill.bucket_ms)
    count = int(np.searchsorted(buckets, num_buckets))
    rows, buckets = rows[:count], buckets[:count]
    ids = np.zeros(count, np.int64)
    for i in gapfill.series:
        if table.columns[i].is_multi_value:
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                f"TIMESERIESON({table.names[i]}): a series must be identified by single-value columns",
            )
        codes = _codes(take_rows(table.columns[i], rows))
        ids = np.unique(ids * (codes.max(initial=0) + 1) + codes, return_inverse=True)[1]
    _, first, series = np.unique(ids, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    rank = np.empty_like(by_appearance)
    rank[by_appearance] = np.arange(len(first))
    return _Placed(rows, buckets, rank[series], rows[first[by_appearance]])


def _codes(column: Vector) -> Indices:
    """Return a number for each row, equal for equal values; nulls are a value of their own."""
    if isinstance(column.values, np.ndarray):
        codes = np.unique(column.values, return_inverse=True)[1].astype(np.int64)
    else:
        codes = column.values.dictionary_encode().indices.to_numpy().astype(np.int64)
    return codes if column.nulls is None else np.where(column.nulls, codes.max(initial=0) + 1, codes)


def _buckets_needed(gapfill: Gapfill, total: int, num_series: int) -> int:
    """Return how many buckets a limit needs; every bucket has at least one row of every series."""
    if gapfill.order_by or gapfill.limit is None or not num_series:
        return total
    return min(total, -(-(gapfill.limit + gapfill.offset) // num_series))


def _filled(gapfill: Gapfill, table: ResultTable, placed: _Placed, num_buckets: int) -> tuple[Vector, ...]:
    num_series = len(placed.first)
    missing, latest = _missing(placed, num_buckets, num_series)
    missing_buckets, missing_series = np.divmod(missing, max(num_series, 1))
    inside = placed.buckets >= 0
    rows = placed.rows[inside]
    buckets = np.concatenate([placed.buckets[inside], missing_buckets])
    order = np.argsort(buckets, kind="stable")
    labels = bucket_labels(gapfill, table.columns[gapfill.time], num_buckets)
    columns = []
    for i, column in enumerate(table.columns):
        if i == gapfill.time and gapfill.window > 1:
            columns.append(take_rows(labels, buckets[order] // gapfill.window * gapfill.window))
            continue
        if i == gapfill.time:
            made, extra = len(column) + missing_buckets, labels
        elif i in gapfill.series:
            made, extra = placed.first[missing_series], _default(column)
        else:
            made, extra = np.full(len(missing), len(column)), _default(column)
            if i in gapfill.previous and len(placed.rows):
                made = np.where(latest < 0, len(column), placed.rows[latest])
        columns.append(take_rows(concat_vectors([column, extra]), np.concatenate([rows, made])[order]))
    return tuple(columns)


def _missing(placed: _Placed, num_buckets: int, num_series: int) -> tuple[Indices, Indices]:
    """Return the pairs of bucket and series without a row, as bucket * num_series + series, ascending.

    Also returns, for each pair, the last row of the series before that bucket: a position in `placed`, -1 if there is none.
    """
    latest = np.full((num_buckets, num_series), -1, np.int64)
    positions = np.arange(len(placed.rows))
    inside = placed.buckets >= 0
    # of several rows of a pair, the last by time is kept
    latest[placed.buckets[inside], placed.series[inside]] = positions[inside]
    missing = np.flatnonzero(latest.ravel() < 0)
    before = np.full(num_series, -1, np.int64)
    before[placed.series[~inside]] = positions[~inside]
    if num_buckets:
        np.maximum(latest[0], before, out=latest[0])
        np.maximum.accumulate(latest, axis=0, out=latest)  # later rows have greater positions
    return missing, latest.ravel()[missing]


def _default(column: Vector) -> Vector:
    """Return one row with the fill values: 0, false, the empty text, the empty map, no values."""
    if column.is_multi_value:
        return Vector(column.type, values_of(column.type, []), np.zeros(2, np.int32))
    listed = "" if column.type.is_text else b"" if column.type.is_binary else 0
    return Vector(column.type, values_of(column.type, [_ZEROS.get(column.type, listed)]))


_ZEROS: dict[DataType, Any] = {
    DataType.BOOLEAN: False,
    DataType.BIG_DECIMAL: Decimal(0),
    DataType.UUID: bytes(16),
    DataType.MAP: "{}",
}


def _window(gapfill: Gapfill, table: ResultTable) -> ResultTable:
    """Apply ORDER BY, LIMIT and OFFSET."""
    num_rows = table.num_rows
    stop = num_rows if gapfill.limit is None else min(num_rows, gapfill.limit + gapfill.offset)
    rows: Indices = np.arange(stop)
    if gapfill.order_by:
        keys = [sort_array(table.columns[i], descending, nulls_last) for i, descending, nulls_last in gapfill.order_by]
        rows = top_rows(keys, stop)
    elif stop == num_rows and not gapfill.offset:
        return table
    return ResultTable(table.names, table.types, _taken(table.columns, rows[gapfill.offset :]))


def _taken(columns: Sequence[Vector], rows: Indices) -> tuple[Vector, ...]:
    return tuple(take_rows(column, rows) for column in columns)
