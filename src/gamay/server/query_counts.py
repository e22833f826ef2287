"""What a server counts of the queries that it executes."""

from collections.abc import Iterator
from dataclasses import dataclass

from gamay.base.metrics import Kind, Measured


@dataclass(slots=True)
class TableCounts:
    """Of one typed table.

    total_s: seconds that its queries took, failed ones included; of that pruning_s before segments were read.
    deserialization_s, waiting_s, serialization_s: around that, of queries from other processes.
    """

    queries: int = 0
    exceptions: int = 0
    total_s: float = 0.0
    pruning_s: float = 0.0
    deserialization_s: float = 0.0
    waiting_s: float = 0.0
    serialization_s: float = 0.0
    download_failures: int = 0


class ServerCounts:
    """Counts by table. Two threads that count at once may lose one: metrics are not accounts."""

    def __init__(self) -> None:
        self._tables: dict[str, TableCounts] = {}

    def of(self, table: str) -> TableCounts:
        """Return the counts of a typed table."""
        counts = self._tables.get(table)
        if counts is None:
            counts = self._tables[table] = TableCounts()
        return counts

    def measure(self) -> Iterator[Measured]:
        """Yield the counters."""
        for table, counts in list(self._tables.items()):
            for name, value, text in (
                ("pinot_server_queries", counts.queries, "Queries"),
                ("pinot_server_queryExecutionExceptions", counts.exceptions, "Queries that failed"),
                ("pinot_server_totalQueryTimeMs", counts.total_s * 1000, "Milliseconds that queries took in all"),
                *((f"pinot_server_{phase}", seconds * 1000, help_) for phase, seconds, help_ in _phases(counts)),
                ("pinot_server_segmentDownloadFailures", counts.download_failures, "Attempts to load a segment that failed"),
            ):
                yield Measured(name, value, text, {"table": table}, Kind.COUNTER)


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
