"""The row limit of a consuming segment. Pure; randomness is passed in.

By the table's stream config, the row limit of a new segment is

* divided: the rows of the table that one server may hold, divided by the table's consuming segments on the fullest server;
* fixed: a number of rows per segment;
* tuned: the number of rows that gives segments of a wanted size. Each commit shows the rows per byte, which are learned as
  an exponential average, so a new lead controller knows them after the first commit it sees.
"""

from collections.abc import Callable
from dataclasses import dataclass

from gamay.ingest.stream.config import FlushThresholds

_NEW_RATIO_WEIGHT = 0.1
_GROWTH_WHEN_SMALL = 1.5
_GROWTH_AFTER_TIME_LIMIT = 1.1
_MIN_TUNED_ROWS = 10_000
_MAX_ROWS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class CommittedSize:
    """One commit, as input of the tuner. rows: consumed; limit: the segment's row limit; size_bytes: stored."""

    rows: int
    size_bytes: int
    elapsed_ms: int
    limit: int
    forced: bool


class RowLimitTuner:
    """Tuner of the row limit by the commits of one topic of one table. Not thread-safe."""

    def __init__(self) -> None:
        self._rows_per_byte: float | None = None
        self._last: CommittedSize | None = None
        self._remembered_limit: int | None = None

    def committed(self, size: CommittedSize) -> None:
        """Learn from a commit; of a forced or an empty one, at most the row limit is remembered."""
        if size.rows <= 0 or size.size_bytes <= 0 or size.forced:
            if self._rows_per_byte is None and size.limit > 0:
                self._remembered_limit = size.limit
            return
        ratio = size.rows / size.size_bytes
        if self._rows_per_byte is not None:
            ratio = _NEW_RATIO_WEIGHT * ratio + (1 - _NEW_RATIO_WEIGHT) * self._rows_per_byte
        self._rows_per_byte = ratio
        self._last = size

    def limit(self, thresholds: FlushThresholds, uniform: Callable[[float, float], float]) -> int:
        """Return the row limit of the next segment. uniform: returns a random number between two bounds."""
        wanted = thresholds.segment_bytes
        assert wanted is not None
        last, ratio = self._last, self._rows_per_byte
        if last is None or ratio is None:
            return thresholds.initial_rows if self._remembered_limit is None else self._remembered_limit
        if last.rows < last.limit and last.size_bytes < wanted:  # the time limit came first
            rows = last.rows
            if thresholds.time_ms < last.elapsed_ms:
                rows = thresholds.time_ms * last.rows // last.elapsed_ms
            return _bounded(int(rows * _GROWTH_AFTER_TIME_LIMIT))
        if last.size_bytes < wanted / 2:
            limit = int(last.rows * _GROWTH_WHEN_SMALL)
        elif last.size_bytes > 1.5 * wanted:
            limit = last.rows // 2
        else:
            limit = int(wanted * ratio)
        if thresholds.variance_fraction > 0:
            limit = int(limit * uniform(1 - thresholds.variance_fraction, 1 + thresholds.variance_fraction))
        return _bounded(limit)


def row_limit(
    thresholds: FlushThresholds, tuner: RowLimitTuner, segments_per_server: int, uniform: Callable[[float, float], float]
) -> int:
    """Return the row limit of a new segment; at least 1.

    segments_per_server: consuming segments of the table on the server with the most of them.
    """
    if thresholds.segment_rows is not None:
        return thresholds.segment_rows
    if thresholds.segment_bytes is not None:
        return tuner.limit(thresholds, uniform)
    assert thresholds.rows is not None
    return max(1, thresholds.rows // max(1, segments_per_server))


def _bounded(limit: int) -> int:
    return min(max(limit, _MIN_TUNED_ROWS), _MAX_ROWS)
