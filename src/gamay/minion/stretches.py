"""Division of time into ranges with about equal numbers of rows, by the segments' records, assuming uniform times in
each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gamay.base.arrays import Array
from gamay.cluster.records.records import SegmentRecord

_ROUNDING = 1e-6  # of numbers of rows


@dataclass(frozen=True, slots=True)
class Stretch:
    """The time range [start_ms, end_ms) with its approximate number of rows."""

    start_ms: int
    end_ms: int
    rows: float


def stretches(records: Sequence[SegmentRecord], window: tuple[int, int], rows_max: int, round_ms: int) -> list[Stretch]:
    """Divide a time window, in milliseconds, into ranges of at most about `rows_max` rows.

    round_ms: times that are equal when rounded down to multiples of it stay together; 0: only equal times do.
    """
    times, rows = _accumulated(records, window)
    count = _parts(rows[-1], rows_max)
    unit = max(round_ms, 1)
    wanted = np.interp(rows[-1] * np.arange(1, count) / count, rows, times)
    inner = np.unique(wanted // unit * unit).astype(np.int64)
    edges = np.array([window[0], *inner[(inner > window[0]) & (inner < window[1])], window[1]])
    within = np.diff(np.interp(edges, times, rows))
    return [Stretch(int(a), int(b), float(n)) for a, b, n in zip(edges[:-1], edges[1:], within, strict=True)]


def row_edges(records: Sequence[SegmentRecord], window: tuple[int, int], rows_max: int) -> list[int]:
    """Return the edges that divide the concatenated rows of segments into parts with about `rows_max` rows in the
    window."""
    starts, ends, density = _densities(records, window)
    docs = np.cumsum([0, *(record.total_docs for record in records)])
    inside = np.concatenate([[0.0], np.cumsum(density * (ends - starts))])
    count = _parts(inside[-1], rows_max)
    edges = np.rint(np.interp(inside[-1] * np.arange(count + 1) / count, inside, docs)).astype(np.int64)
    return [int(edge) for edge in edges]


def _parts(rows: float, rows_max: int) -> int:
    return max(1, int(np.ceil(rows / rows_max - _ROUNDING)))


def _accumulated(records: Sequence[SegmentRecord], window: tuple[int, int]) -> "tuple[Array, Array]":
    """Return ascending times, and the number of the window's rows before each."""
    starts, ends, density = _densities(records, window)
    times = np.concatenate([window, starts, ends])
    change = np.concatenate([[0.0, 0.0], density, -density])
    order = np.argsort(times, kind="stable")
    times, current = times[order], np.cumsum(change[order])
    return times, np.concatenate([[0.0], np.cumsum(current[:-1] * np.diff(times))])


def _densities(records: Sequence[SegmentRecord], window: tuple[int, int]) -> "tuple[Array, Array, Array]":
    """Return start and end of each segment in the window, and its rows per millisecond."""
    starts = np.array([record.start_time_ms for record in records], np.float64)
    ends = np.array([record.end_time_ms for record in records], np.float64) + 1
    density = np.array([record.total_docs for record in records], np.float64) / (ends - starts)
    return np.clip(starts, *window), np.clip(ends, *window), density
