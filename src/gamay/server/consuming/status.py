"""Status of a consumer: offsets, rates, lag, sizes and errors."""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RATE_WINDOW_MS = 10_000


class RateMeter:
    """Rows a second over the last `RATE_WINDOW_MS`; one thread adds, any may read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._parts: deque[tuple[int, int]] = deque()  # (when, rows), in steps of at least 100 ms
        self._rows = 0

    def add(self, rows: int, now_ms: int) -> None:
        """Count rows."""
        with self._lock:
            if self._parts and now_ms - self._parts[-1][0] < 100:
                when, before = self._parts[-1]
                self._parts[-1] = (when, before + rows)
            else:
                self._parts.append((now_ms, rows))
            self._rows += rows
            self._forget(now_ms)

    def rows_per_s(self, now_ms: int) -> float:
        """Return the mean rate of the window."""
        with self._lock:
            self._forget(now_ms)
            return self._rows * 1000 / RATE_WINDOW_MS

    def _forget(self, now_ms: int) -> None:
        while self._parts and self._parts[0][0] <= now_ms - RATE_WINDOW_MS:
            self._rows -= self._parts.popleft()[1]


@dataclass(frozen=True, slots=True)
class StreamError:
    """An error of consumption, permanent or retried."""

    segment: str
    partition: int
    permanent: bool
    reason: str
    timestamp_ms: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of REST."""
        return {
            "segment": self.segment,
            "partition": self.partition,
            "permanent": self.permanent,
            "reason": self.reason,
            "timestampMs": self.timestamp_ms,
        }


@dataclass(frozen=True, slots=True)
class BuiltSegment:
    """A segment that was built on this server. size_bytes: unpacked."""

    segment: str
    num_rows: int
    size_bytes: int
    build_ms: int
    wait_ms: int
    timestamp_ms: int

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of REST."""
        return {
            "segment": self.segment,
            "numRows": self.num_rows,
            "sizeBytes": self.size_bytes,
            "buildTimeMs": self.build_ms,
            "waitTimeMs": self.wait_ms,
            "timestampMs": self.timestamp_ms,
        }


@dataclass(frozen=True, slots=True)
class ConsumerStatus:
    """One consumer at one moment.

    state: of the consumer's state machine. end_offset: of the partition, as last known. lag: messages behind it, None if
    offsets are not numbers. last_consumed_ms: when rows last arrived; last_message_ms: when the last of them was written to
    the stream, -1 if unknown. availability_lag_ms: between the two. ingestion_delay_ms: the age of the last row, or the time
    since the end of the stream was last reached; None if unknown. quota_percent: the rate of messages in percent
    of its limit; None without a limit. memory: bytes by column and index.
    """

    segment: str
    partition: int
    state: str
    failure: str | None
    start_offset: str
    current_offset: str
    end_offset: str | None
    lag: int | None
    num_rows: int
    row_limit: int
    rows_filtered: int
    rows_incomplete: int
    messages_dropped: int
    rows_per_s: float
    created_ms: int
    last_consumed_ms: int
    last_message_ms: int
    availability_lag_ms: int | None
    ingestion_delay_ms: int | None
    quota_percent: float | None
    memory_bytes: int
    memory: Mapping[str, Mapping[str, int]]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of REST."""
        return {
            "segmentName": self.segment,
            "partition": self.partition,
            "state": self.state,
            "failure": self.failure,
            "startOffset": self.start_offset,
            "currentOffset": self.current_offset,
            "latestUpstreamOffset": self.end_offset,
            "recordsLag": self.lag,
            "numRows": self.num_rows,
            "rowLimit": self.row_limit,
            "rowsFiltered": self.rows_filtered,
            "rowsIncomplete": self.rows_incomplete,
            "messagesDropped": self.messages_dropped,
            "rowsPerSecond": round(self.rows_per_s, 1),
            "creationTimeMs": self.created_ms,
            "lastConsumedTimestampMs": self.last_consumed_ms,
            "lastMessageTimestampMs": self.last_message_ms,
            "availabilityLagMs": self.availability_lag_ms,
            "memoryBytes": self.memory_bytes,
            "memoryByColumn": {name: dict(parts) for name, parts in self.memory.items()},
        }
