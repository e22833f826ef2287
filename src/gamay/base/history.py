"""The measurements of a process in the last hours, kept in memory: for charts without a system that collects metrics.

Every `STEP_S` seconds a few numbers are derived from the metrics of `/metrics`, and `KEPT` points are kept: six hours, in
less than half a megabyte. Nothing is written; a process that restarts begins with nothing.
"""

import statistics
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from gamay.base.clock import Clock
from gamay.base.metrics import BOUNDS_S, Measure, Measured, measure_process
from gamay.base.process_info import process_name

STEP_S = 15.0
KEPT = 1440

_Key: TypeAlias = tuple[str, ...]


class Reading(Enum):
    """How a number is derived from all measurements of a name: a counter's rate a second, the sum or the maximum of gauges,
    or the median or 99th percentile of the observations of a histogram since the last point, in milliseconds.
    """

    RATE = "rate"
    SUM = "sum"
    MAX = "max"
    MEDIAN_MS = "median"
    P99_MS = "p99"


_SHARES = {Reading.MEDIAN_MS: 0.5, Reading.P99_MS: 0.99}
_PEAKS = (Reading.MAX, Reading.P99_MS)


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a chart. name: its name in charts. metric: its name in `/metrics`, without `_total`."""

    name: str
    metric: str
    reading: Reading


PROCESS_SERIES = (
    Series("processors", "process_cpu_seconds", Reading.RATE),
    Series("memoryBytes", "process_resident_memory_bytes", Reading.SUM),
)
"""Series of every role, beside its own: processors in use, and bytes in memory."""


class MetricsHistory:
    """The recent measurements of a role. One thread calls `sample`; any thread may read."""

    def __init__(self, measures: Iterable[Measure], series: Sequence[Series], clock: Clock) -> None:
        """measures: those of the role; the process's own are added."""
        self._measures = (*measures, measure_process)
        self._series = (*series, *PROCESS_SERIES)
        self._wanted = frozenset(one.metric for one in self._series)
        self._clock = clock
        self._points: deque[tuple[int, tuple[float | None, ...]]] = deque(maxlen=KEPT)
        self._before: dict[str, dict[_Key, Measured]] = {}
        self._before_s = 0.0

    def sample(self) -> None:
        """Add a point. Rates and percentiles cover the time since the last one, so the first has none."""
        now_s, found = self._clock.monotonic_s(), self._measured()
        passed_s = now_s - self._before_s if self._before else 0.0
        values = tuple(
            _read(one.reading, found.get(one.metric, {}), self._before.get(one.metric, {}), passed_s) for one in self._series
        )
        self._points.append((self._clock.now_ms(), values))
        self._before, self._before_s = found, now_s

    def told(self, minutes: int, points_max: int) -> dict[str, Any]:
        """Return the points of the last minutes as JSON: `timesMs`, and of each series the values at these times.

        Adjacent points are merged until there are at most `points_max`: peaks by the largest, others by the mean.
        """
        since_ms = self._clock.now_ms() - minutes * 60_000
        points = [point for point in self._points.copy() if point[0] > since_ms]
        width = max(1, -(-len(points) // max(1, points_max)))
        groups = [points[start : start + width] for start in range(0, len(points), width)]
        return {
            "process": process_name(),
            "stepSeconds": STEP_S * width,
            "timesMs": [group[-1][0] for group in groups],
            "series": {
                one.name: [_together(one.reading, [values[index] for _, values in group]) for group in groups]
                for index, one in enumerate(self._series)
            },
        }

    def _measured(self) -> dict[str, dict[_Key, Measured]]:
        found: dict[str, dict[_Key, Measured]] = {}
        for measure in self._measures:
            for one in measure():
                if one.name in self._wanted:
                    found.setdefault(one.name, {})[tuple(one.labels.values())] = one
        return found


def _read(reading: Reading, now: Mapping[_Key, Measured], before: Mapping[_Key, Measured], passed_s: float) -> float | None:
    if reading in (Reading.SUM, Reading.MAX):
        values = [one.value for one in now.values()]
        return float(sum(values) if reading is Reading.SUM else max(values)) if values else None
    if passed_s <= 0 or not now:
        return None
    if reading is Reading.RATE:
        return sum(_grown(one.value, before[key].value if key in before else 0) for key, one in now.items()) / passed_s
    counts = [0.0] * (len(BOUNDS_S) + 1)
    for key, one in now.items():
        was = before[key].buckets if key in before else [0.0] * len(counts)
        counts = [count + _grown(new, old) for count, new, old in zip(counts, one.buckets, was, strict=True)]
    return _percentile_ms(counts, _SHARES[reading])


def _grown(now: float, before: float) -> float:
    """Return by how much a counter grew; a smaller value than before means that it restarted from zero."""
    return now - before if now >= before else now


def _percentile_ms(cumulative: Sequence[float], share: float) -> float | None:
    """Return a percentile of a histogram, interpolated linearly between bounds; None without observations."""
    total = cumulative[-1]
    if total <= 0:
        return None
    wanted, low_s, below = total * share, 0.0, 0.0
    for bound_s, count in zip(BOUNDS_S, cumulative, strict=False):
        if count >= wanted:
            return 1000 * (low_s + (bound_s - low_s) * (wanted - below) / (count - below))
        low_s, below = bound_s, count
    return 1000 * BOUNDS_S[-1]


def _together(reading: Reading, values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    if not known:
        return None
    return round(max(known) if reading in _PEAKS else statistics.fmean(known), 3)
