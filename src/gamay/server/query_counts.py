"""Counters of a server's queries, and of the loading of segments."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from gamay.base.metrics import Histogram, Measured, MetricKind


@dataclass(slots=True)
class TableCounts:
    """Counters of one typed table.

    total_s: total time of its queries, including failed ones; pruning_s: the part before segments were read. took: the
    distribution of query times.
    deserialization_s, waiting_s, serialization_s: in addition, for queries from other processes. missing_segments:
    requested segments that this server did not have. freshness_lag_ms: for the last query that read consuming segments, the
    age of the oldest of their last rows; None before.
    """

    queries: int = 0
    exceptions: int = 0
    total_s: float = 0.0
    pruning_s: float = 0.0
    deserialization_s: float = 0.0
    waiting_s: float = 0.0
    serialization_s: float = 0.0
    scheduling_timeouts: int = 0
    killed: int = 0
    missing_segments: int = 0
    pruned_by_limit: int = 0
    pruned_by_value: int = 0
    freshness_lag_ms: int | None = None
    took: Histogram = field(default_factory=Histogram)
    download_failures: int = 0
    reload_failures: int = 0
    refresh_failures: int = 0

    def add_time(self, seconds: float) -> None:
        """Add the time of one query."""
        self.total_s += seconds
        self.took.observe(seconds)


class ServerCounts:
    """Counters by table. Concurrent increments may get lost, which is acceptable for metrics."""

    def __init__(self) -> None:
        self._tables: dict[str, TableCounts] = {}

    def of(self, table: str) -> TableCounts:
        """Return the counts of a typed table."""
        counts = self._tables.get(table)
        if counts is None:
            counts = self._tables[table] = TableCounts()
        return counts

    def forget(self, table: str) -> None:
        """Drop the counters of a deleted typed table."""
        self._tables.pop(table, None)

    def measure(self, tables: Collection[str]) -> Iterator[Measured]:
        """Yield the counters of the given typed tables, those that the server hosts."""
        for table, counts in list(self._tables.items()):
            if table not in tables:
                continue
            for name, value, text in (
                ("pinot_server_queries", counts.queries, "Queries"),
                ("pinot_server_queryExecutionExceptions", counts.exceptions, "Queries that failed"),
                ("pinot_server_schedulingTimeoutExceptions", counts.scheduling_timeouts, "Queries whose turn came too late"),
                ("pinot_server_queriesKilled", counts.killed, "Queries that were ended because of what they used"),
                ("pinot_server_numMissingSegments", counts.missing_segments, "Segments asked for that were not here"),
                ("pinot_server_numSegmentsPrunedByLimit", counts.pruned_by_limit, "Segments not read: enough rows before"),
                ("pinot_server_numSegmentsPrunedByValue", counts.pruned_by_value, "Segments not read: no row can match"),
                ("pinot_server_totalQueryTimeMs", counts.total_s * 1000, "Milliseconds that queries took in all"),
                *((f"pinot_server_{phase}", seconds * 1000, help_) for phase, seconds, help_ in _phases(counts)),
                ("pinot_server_segmentDownloadFailures", counts.download_failures, "Attempts to load a segment that failed"),
                ("pinot_server_reloadFailures", counts.reload_failures, "Segments that could not be loaded again"),
                ("pinot_server_refreshFailures", counts.refresh_failures, "Segments whose new version could not be loaded"),
            ):
                yield Measured(name, value, text, {"table": table}, MetricKind.COUNTER)
            yield counts.took.measured(
                "pinot_server_queryProcessingSeconds", "Seconds of executing a query", {"table": table}
            )
            if (lag_ms := counts.freshness_lag_ms) is not None:
                text = "How old the last consumed row was that the last query could see"
                yield Measured("pinot_server_freshnessLagMs", lag_ms, text, {"table": table})


def _phases(counts: TableCounts) -> tuple[tuple[str, float, str], ...]:
    return (
        (
            "requestDeserialization",
            counts.deserialization_s,
            "Milliseconds of reading and binding queries of brokers elsewhere",
        ),
        ("schedulerWait", counts.waiting_s, "Milliseconds that queries waited for a thread"),
        ("queryProcessing", counts.total_s, "Milliseconds of executing queries: the next two together"),
        ("segmentPruning", counts.pruning_s, "Milliseconds of finding the segments that can match"),
        ("queryPlanExecution", counts.total_s - counts.pruning_s, "Milliseconds of reading segments"),
        ("responseSerialization", counts.serialization_s, "Milliseconds of writing results for brokers elsewhere"),
    )
