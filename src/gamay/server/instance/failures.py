"""Segments that a server could not load: reasons, attempts and retries."""

import logging
from collections.abc import Collection
from dataclasses import dataclass

from gamay.base.clock import Clock
from gamay.base.errors import CorruptSegmentError
from gamay.server.instance.pending_work import WorkQueue
from gamay.server.query_counts import ServerCounts

_log = logging.getLogger(__name__)

_RETRY_FIRST_S = 1.0
_RETRY_LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a segment is in the ERROR state, and the number of attempts to load it."""

    reason: str
    attempts: int
    at_ms: int


class SegmentFailures:
    """The failures of all tables. Thread-safe.

    counts: of the server; work: the queue for retries.
    """

    def __init__(self, counts: ServerCounts, work: WorkQueue, clock: Clock) -> None:
        self._counts = counts
        self._work = work
        self._clock = clock
        self._failures: dict[tuple[str, str], Failure] = {}

    def of(self, table: str) -> dict[str, Failure]:
        """Return the failures of a table's segments in the ERROR state."""
        return {segment: failure for (name, segment), failure in list(self._failures.items()) if name == table}

    def has(self, table: str, segment: str) -> bool:
        """Whether a segment is in the ERROR state."""
        return (table, segment) in self._failures

    def note(self, table: str, segment: str, error: Exception) -> None:
        """Record that a segment could not be loaded, and schedule a retry with increasing delay."""
        before = self._failures.get((table, segment))
        attempts = 1 if before is None else before.attempts + 1
        kind = "damaged" if isinstance(error, CorruptSegmentError) else "not loaded"
        _log.error("segment %s of %s is %s (attempt %d): %s", segment, table, kind, attempts, error)
        self._counts.of(table).download_failures += 1
        self._failures[table, segment] = Failure(str(error), attempts, self._clock.now_ms())
        self._work.retry(table, segment, min(_RETRY_FIRST_S * 2 ** (attempts - 1), _RETRY_LONGEST_S))

    def forget(self, table: str, segment: str) -> None:
        """Record that a segment was loaded."""
        self._failures.pop((table, segment), None)

    def forget_others(self, table: str, wanted: Collection[str]) -> None:
        """Remove the failures of segments that are no longer assigned to this server."""
        for segment in self.of(table).keys() - wanted:
            self.forget(table, segment)
