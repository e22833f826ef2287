"""What a server's thread is to look at: notifications only note it, failed loads come again after a while."""

import heapq
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from gamay.base.clock import Clock


@dataclass
class Reload:
    """Segments of a table that are to be loaded again, in this order, from the deep store with `force_download`."""

    table: str
    segments: list[str]
    force_download: bool


@dataclass
class PendingWork:
    """Work that a server has to do, as noted since it last looked.

    everything: the connection to the metadata store was lost. session: it has begun another session, without what this
    server reported. changed: segments whose record changed, by table. suspects: tables with a segment that a query found to
    be damaged. reload: a few segments to be loaded again.
    """

    everything: bool = False
    session: bool = False
    tables: set[str] = field(default_factory=set)
    changed: dict[str, set[str]] = field(default_factory=dict)
    messages: bool = False
    suspects: set[str] = field(default_factory=set)
    reload: Reload | None = None

    def note_segments(self, table: str, *segments: str) -> None:
        """Look at these segments of a table."""
        self.changed.setdefault(table, set()).update(segments)


class WorkQueue:
    """Gathers work until it is taken, all at once; one thread takes, any may note.

    Only of reloads a few segments are given at a time: building indexes takes long, and all else must not wait for it.
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
        """Whether there is nothing to do any more."""
        return self._stopped

    def note_session(self) -> None:
        """Announce the server again and look at everything: the store's session is another one."""
        with self._wake:
            self._work.session = self._work.everything = True
            self._wake.notify_all()

    def announce_later(self) -> None:
        """Announce the server again as soon as there is something else to do: the store wakes it when it is back."""
        with self._wake:
            self._work.session = True

    def note_everything(self) -> None:
        """Look at all tables and messages."""
        with self._wake:
            self._work.everything = self._work.messages = True
            self._wake.notify_all()

    def note_table(self, table: str) -> None:
        """Look at the table's ideal state."""
        with self._wake:
            self._work.tables.add(table)
            self._wake.notify_all()

    def note_segment(self, table: str, segment: str) -> None:
        """Look at a segment's record."""
        with self._wake:
            self._work.note_segments(table, segment)
            self._wake.notify_all()

    def note_messages(self) -> None:
        """Look at the server's messages."""
        with self._wake:
            self._work.messages = True
            self._wake.notify_all()

    def note_suspect(self, table: str) -> None:
        """Compare the checksums of a table."""
        with self._wake:
            self._work.suspects.add(table)
            self._wake.notify_all()

    def retry(self, table: str, segment: str, delay_s: float) -> None:
        """Look at a segment again after a while."""
        with self._wake:
            heapq.heappush(self._retries, (self._clock.monotonic_s() + delay_s, table, segment))
            self._wake.notify_all()

    def note_reload(self, table: str, segments: Sequence[str], *, force_download: bool) -> None:
        """Load segments again, after those that are to be already."""
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
        """Give no more work away."""
        with self._wake:
            self._stopped = True
            self._wake.notify_all()

    def take(self) -> PendingWork | None:
        """Wait for something to do and take all of it, but of reloads the next few segments; None after `stop`."""
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
