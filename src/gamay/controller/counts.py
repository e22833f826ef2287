"""Event counters of a controller, by typed table."""

from collections import Counter
from collections.abc import Iterator
from enum import Enum

from gamay.base.metrics import Measured, MetricKind
from gamay.cluster.records.failed_access import FailedAccess

_PREFIX = "pinot_controller_"


class Counted(Enum):
    """The counted events of tables that consume streams: metric name and description."""

    COMMIT_ABORTED = (
        "llcStateMachineAborts",
        "Commits of segments that were started and aborted; each was followed by another attempt",
    )
    DATA_LOST = (
        "llcStreamDataLoss",
        "Times that the stream had already deleted the rows with which a partition was to continue",
    )
    NO_COPY = ("segmentMissingDeepStoreLink", "Segments that were committed without a copy in the deep store")
    ROWS_HALVED = ("segmentSizeAutoReduction", "Segments too large to be built, replaced by segments with half the rows")
    NO_PARTITIONS = ("partitionGroupMetadataFetchError", "Times that the partitions of a stream could not be read")


class ControllerCounts:
    """Counters by typed table. An increment may be lost when two threads count at once, which is acceptable for
    metrics."""

    def __init__(self) -> None:
        self._events: dict[Counted, Counter[str]] = {event: Counter() for event in Counted}

    def add(self, event: Counted, table: str) -> None:
        """Increment a counter."""
        self._events[event][table] += 1

    def of(self, event: Counted, table: str) -> int:
        """Return the number of events since the process started."""
        return self._events[event][table]

    def measure(self, table: str) -> Iterator[Measured]:
        """Yield the counters of a table that consumes a stream, zeros included, so that an alert sees the first event."""
        for event in Counted:
            name, text = event.value
            yield Measured(f"{_PREFIX}{name}", self.of(event, table), text, {"table": table}, MetricKind.COUNTER)


def measure_failures(table: str, failed: FailedAccess, *, is_realtime: bool) -> Iterator[Measured]:
    """Yield how often the records of a typed table could not be read or written."""
    labels, ideal = {"table": table}, "Changes of the ideal state that failed"
    yield Measured(f"{_PREFIX}idealStateUpdateFailure", failed.ideal_states[table], ideal, labels, MetricKind.COUNTER)
    if is_realtime:
        for name, count, text in (
            ("llcZookeeperFetchFailures", failed.reads[table], "Reads of the table's records that failed"),
            ("llcZookeeperUpdateFailures", failed.writes[table], "Changes of segment records that failed"),
        ):
            yield Measured(f"{_PREFIX}{name}", count, text, labels, MetricKind.COUNTER)
