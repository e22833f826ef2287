"""What a process measures of itself, in the text format that Prometheus reads.

Roles say what they measure when they are asked (`Measure` functions), so that measuring costs nothing in between; only what
must be counted as it happens has a counter.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeAlias

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Kind(Enum):
    """A gauge goes up and down, a counter only up."""

    GAUGE = "gauge"
    COUNTER = "counter"


@dataclass(frozen=True, slots=True)
class Measured:
    """One number. name: `pinot_<role>_<name>`, with the name that Pinot's alerts know; counters get `_total` behind it."""

    name: str
    value: float
    help: str
    labels: Mapping[str, str] = field(default_factory=dict)
    kind: Kind = Kind.GAUGE


Measure: TypeAlias = Callable[[], Iterable[Measured]]


def exposition(measures: Iterable[Measure]) -> bytes:
    """Return what all functions measure now, and what the process uses: `process_resident_memory_bytes` and its like."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    registry.register(_Collector(measures))
    return generate_latest(registry)


class _Collector:
    """What prometheus_client asks for metrics."""

    def __init__(self, measures: Iterable[Measure]) -> None:
        self._measures = measures

    def describe(self) -> list[Any]:
        """Name nothing before it is measured."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield the metrics, each with its samples together."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        families: dict[str, Any] = {}
        for measure in self._measures:
            for one in measure():
                family = families.get(one.name)
                if family is None:
                    kind = GaugeMetricFamily if one.kind is Kind.GAUGE else CounterMetricFamily
                    family = families[one.name] = kind(one.name, one.help, labels=list(one.labels))
                family.add_metric(list(one.labels.values()), one.value)
        yield from families.values()
