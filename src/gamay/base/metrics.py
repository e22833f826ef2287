"""The metrics of a process, in Prometheus's text format, or as OpenMetrics on request.

Roles measure when the metrics are read (`Measure` functions), so that there is no cost in between; only
events have counters that are updated as they happen.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import accumulate
from typing import Any, TypeAlias

BOUNDS_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_BOUND_TEXTS = (*(repr(bound) for bound in BOUNDS_S), "+Inf")

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_OPEN_METRICS = "application/openmetrics-text"


class MetricKind(Enum):
    """A gauge goes up and down, a counter only up, a histogram counts observations by size."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Measured:
    """One number. name: `pinot_<role>_<name>`, as Pinot's alerts name it; counters get the suffix `_total`.

    buckets: of a histogram, whose value is the sum of its observations: the number of observations of at most BOUNDS_S[0],
    of at most BOUNDS_S[1], …, and of all.
    """

    name: str
    value: float
    help: str
    labels: Mapping[str, str] = field(default_factory=dict)
    kind: MetricKind = MetricKind.GAUGE
    buckets: Sequence[int] = ()


class Histogram:
    """A histogram of durations. Concurrent observations may lose one: metrics need not be exact."""

    __slots__ = ("_counts", "_sum_s")

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum_s = 0.0

    def observe(self, seconds: float) -> None:
        """Count a duration."""
        self._counts[bisect_left(BOUNDS_S, seconds)] += 1
        self._sum_s += seconds

    def __add__(self, other: "Histogram") -> "Histogram":
        both = Histogram()
        both._counts = [a + b for a, b in zip(self._counts, other._counts, strict=True)]
        both._sum_s = self._sum_s + other._sum_s
        return both

    def measured(self, name: str, help_: str, labels: Mapping[str, str]) -> Measured:
        """Return the histogram so far as a metric."""
        return Measured(name, self._sum_s, help_, labels, MetricKind.HISTOGRAM, tuple(accumulate(self._counts)))


Measure: TypeAlias = Callable[[], Iterable[Measured]]


def exposition(measures: Iterable[Measure], accepted: str = "") -> tuple[bytes, str]:
    """Return the metrics of all functions and of the process (`process_resident_memory_bytes` …), and the content type.

    accepted: the client's `Accept` header; OpenMetrics if it names that, else Prometheus's text format.
    """
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
    from prometheus_client.openmetrics import exposition as openmetrics

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_Collector(measures))
    if _OPEN_METRICS in accepted:
        return openmetrics.generate_latest(registry), openmetrics.CONTENT_TYPE_LATEST  # type: ignore[no-untyped-call]
    return generate_latest(registry), CONTENT_TYPE


def measure_process() -> Iterator[Measured]:
    """Yield the process's own metrics: processor seconds, bytes of memory, and more; nothing outside Linux."""
    from prometheus_client import ProcessCollector

    for family in ProcessCollector(registry=None).collect():
        for sample in family.samples:
            yield Measured(family.name, sample.value, family.documentation)


class _Collector:
    """Adapter of `Measure` functions to prometheus_client's collectors."""

    def __init__(self, measures: Iterable[Measure]) -> None:
        self._measures = measures

    def describe(self) -> list[Any]:
        """Describe no metric in advance."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, each with its samples together."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        kinds = {
            MetricKind.GAUGE: GaugeMetricFamily,
            MetricKind.COUNTER: CounterMetricFamily,
            MetricKind.HISTOGRAM: HistogramMetricFamily,
        }
        families: dict[str, Any] = {}
        for measure in self._measures:
            for one in measure():
                family = families.get(one.name)
                if family is None:
                    family = families[one.name] = kinds[one.kind](one.name, one.help, labels=list(one.labels))
                labels = list(one.labels.values())
                if one.kind is MetricKind.HISTOGRAM:
                    family.add_metric(labels, list(zip(_BOUND_TEXTS, one.buckets, strict=True)), one.value)
                else:
                    family.add_metric(labels, one.value)
        yield from families.values()
