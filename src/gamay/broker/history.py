"""The metrics of a broker, and those that it keeps a history of."""

from collections.abc import Iterator

from gamay.base.clock import Clock
from gamay.base.history import MetricsHistory, Reading, Series
from gamay.base.metrics import Measured
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.metrics import measure_routes, measure_servers

_TOOK = "pinot_broker_queryExecutionSeconds"
_SERIES = (
    Series("queriesPerSecond", "pinot_broker_queries", Reading.RATE),
    Series("errorsPerSecond", "pinot_broker_queryExceptions", Reading.RATE),
    Series("medianMs", _TOOK, Reading.MEDIAN_MS),
    Series("p99Ms", _TOOK, Reading.P99_MS),
    Series("queriesRunning", "pinot_broker_queriesRunning", Reading.SUM),
    Series("unavailableSegments", "pinot_broker_unavailableSegments", Reading.SUM),
    Series("freshnessLagMs", "pinot_broker_freshnessLagMs", Reading.MAX),
)


def measure_broker(runner: QueryRunner) -> Iterator[Measured]:
    """Yield the metrics of queries, routes and server health."""
    yield from runner.measure()
    yield from measure_routes(runner.routing, runner.now_ms)
    yield from measure_servers(lambda: runner.servers_down, runner.running.__len__)


def broker_history(runner: QueryRunner, clock: Clock) -> MetricsHistory:
    """Return the metrics history of a broker, still empty."""
    return MetricsHistory([lambda: measure_broker(runner)], _SERIES, clock)
