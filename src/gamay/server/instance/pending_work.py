"""Queue of a server's pending work, filled by notifications and by retries of failed loads."""

import heapq
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gamay.base.clock import Clock


@dataclass
class Reload:
    """Segments of a table to reload, in this order, from the deep store if `force_download`."""

    table: str
    segments: list[str]
    force_download: bool


@dataclass
class PendingWork:
    """Work that has accumulated since the last `take`.

    everything: the connection to the metadata store was lost. session: the store has started a new session, without the
    states that this server reported. changed: segments whose record changed, by table. suspects: tables with a segment that
    a query found to be damaged. reload: a few segments to reload.
    """

    everything: bool = False
    session: bool = False
    tables: set[str] = field(default_factory=set)
    changed: dict[str, set[str]] = field(default_factory=dict)
    messages: bool = False
    suspects: set[str] = field(default_factory=set)
    reload: Reload | None = None

    def note_segments(self, table: str, *segments: str) -> None:
        """Add segments of a table."""
        self.changed.setdefault(table, set()).update(segments)


class WorkQueue:
    """Queue from which all pending work is taken at once; one thread takes, any may add.

    Only reloads are limited to a few segments at a time, so that other work does not wait for index builds.
    """

    def __init__(self, clock: Clock, reloaded_at_once: int) -> None:
        self._clock = clock
        self._reloaded_at_once = reloaded_at_once
        self._reloads: deque[Reload] = deque()
        self._wake = threading.Condition()
        self._work = PendingWork()
        self._retries: list[tuple[float, str, str]] = []  # heap of (when, table, segment)
        self._stopped = False

    @property
    def is_stopped(self) -> bool:
        """Whether the queue is stopped."""
        return self._stopped

    def note_session(self) -> None:
        """Queue a new announcement and a full comparison, because the store's session has changed."""
        with self._wake:
            self._work.session = self._work.everything = True
            self._wake.notify_all()

    def announce_later(self) -> None:
        """Queue a new announcement without waking the thread, which the store does when it is back."""
        with self._wake:
            self._work.session = True

    def note_everything(self) -> None:
        """Queue all tables and messages."""
        with self._wake:
            self._work.everything = self._work.messages = True
            self._wake.notify_all()

    def note_table(self, table: str) -> None:
        """Queue a table's ideal state."""
        with self._wake:
            self._work.tables.add(table)
            self._wake.notify_all()

    def note_segment(self, table: str, segment: str) -> None:
        """Queue a segment's record."""
        with self._wake:
            self._work.note_segments(table, segment)
            self._wake.notify_all()

    def note_messages(self) -> None:
        """Queue the server's messages."""
        with self._wake:
            self._work.messages = True
            self._wake.notify_all()

    def note_suspect(self, table: str) -> None:
        """Queue the verification of a table's checksums."""
        with self._wake:
            self._work.suspects.add(table)
            self._wake.notify_all()

    def retry(self, table: str, segment: str, delay_s: float) -> None:
        """Queue a segment after a delay."""
        with self._wake:
            heapq.heappush(self._retries, (self._clock.monotonic_s() + delay_s, table, segment))
            self._wake.notify_all()

    def note_reload(self, table: str, segments: Sequence[str], *, force_download: bool) -> None:
        """Queue a reload of segments, after the reloads queued before."""
        with self._wake:
            self._reloads.append(Reload(table, list(segments), force_download))
            self._wake.notify_all()

    def _next_reload(self) -> Reload | None:
        while self._reloads and not self._reloads[0].segments:
            self._reloads.popleft()
        if not self._reloads:
            return None
        first = self._reloads[0]
        some, first.segments = first.segments[: self._reloaded_at_once], first.segments[self._reloaded_at_once :]
        return Reload(first.table, some, first.force_download)

    def stop(self) -> None:
        """Stop the queue."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()

    def take(self) -> PendingWork | None:
        """Wait for work and take all of it, but only the next few segments of reloads; None after `stop`."""
        with self._wake:
            while True:
                if self._stopped:
                    return None
                now_s = self._clock.monotonic_s()
                while self._retries and self._retries[0][0] <= now_s:
                    _, table, segment = heapq.heappop(self._retries)
                    self._work.note_segments(table, segment)
                work = self._work
                work.reload = self._next_reload()
                if work.reload or work.tables or work.changed or work.messages or work.suspects or work.everything:
                    self._work = PendingWork()
                    return work
                self._wake.wait(self._retries[0][0] - now_s if self._retries else None)
