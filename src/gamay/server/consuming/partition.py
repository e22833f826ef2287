"""The segments of one partition follow each other: which are consumed here, and what one leaves to the next."""

import threading

from gamay.base.clock import Clock
from gamay.cluster.records.llc_name import LlcName
from gamay.segment.mutable.buffers import SpareBuffers
from gamay.server.consuming.counts import PartitionCounts
from gamay.server.consuming.prefetch import Prefetch
from gamay.server.loading.table import TableData


class Partition:
    """Partition of a table as one server consumes it; its methods may be called from any thread.

    data: shows queries what is prefetched. counts: over all segments.
    """

    def __init__(self, data: TableData, clock: Clock) -> None:
        self.data = data
        self.counts = PartitionCounts()
        self._clock = clock
        self._changed = threading.Condition()
        self._began: dict[str, threading.Event] = {}
        self._prefetch: Prefetch | None = None
        self._spare: SpareBuffers | None = None

    # which segments are consumed here

    def enter(self, segment: str, began: threading.Event) -> None:
        """A segment is consumed here from now on. began: set when it shows its first rows."""
        with self._changed:
            self._began[segment] = began
            self._changed.notify_all()

    def leave(self, segment: str) -> None:
        """A segment is consumed here no longer; what was prefetched behind its end waits for its successor."""
        with self._changed:
            self._began.pop(segment, None)

    def give_up(self, segment: str) -> None:
        """A segment is not consumed here any more, and the partition may go to another server."""
        with self._changed:
            self._began.pop(segment, None)
            prefetch = self._pop_prefetch(segment)
            spare, self._spare = self._spare, None
        self._discard(prefetch)
        if spare is not None:
            spare.remove()

    def close(self) -> None:
        """Consume no segment any more, and throw away what was prefetched."""
        with self._changed:
            self._began.clear()
            prefetch, self._prefetch = self._prefetch, None
        self._discard(prefetch)

    def has_successor(self, segment: str) -> bool:
        """Return whether a later segment is consumed here."""
        with self._changed:
            return self._successor(segment) is not None

    def await_successor(self, segment: str, timeout_s: float) -> None:
        """Wait until the next segment has begun to show rows, if one begins here in time."""
        end_s = self._clock.monotonic_s() + timeout_s
        with self._changed:
            began = self._changed.wait_for(lambda: self._successor(segment), timeout_s)
        if began is not None:
            began.wait(max(0.0, end_s - self._clock.monotonic_s()))

    def _successor(self, segment: str) -> threading.Event | None:
        sequence = LlcName.must_parse(segment).sequence
        return next((began for name, began in self._began.items() if LlcName.must_parse(name).sequence > sequence), None)

    # what one leaves to the next

    @property
    def prefetched_behind(self) -> str | None:
        """The segment behind whose end something is prefetched."""
        prefetch = self._prefetch
        return None if prefetch is None else prefetch.segment

    def keep_prefetch(self, prefetch: Prefetch, *, shows: bool) -> None:
        """Keep what is prefetched for the successor, unless its segment is gone; it is given away. shows: to queries."""
        unwanted: Prefetch | None = prefetch
        with self._changed:
            if prefetch.segment in self._began:
                unwanted, self._prefetch = self._prefetch, prefetch
                if shows and (shown := prefetch.shown()) is not None:
                    self.data.show_prefetched(prefetch.segment, shown)
        if unwanted is not None:
            unwanted.close()

    def take_prefetch(self) -> Prefetch | None:
        """Return what was prefetched, which ends and is given away; queries see it until it is hidden."""
        with self._changed:
            prefetch, self._prefetch = self._prefetch, None
        if prefetch is not None:
            prefetch.stop()
        return prefetch

    def drop_prefetch(self, segment: str, *, unless_from: str | None = None) -> None:
        """Throw away what was prefetched behind the end of a segment, unless that is at the offset `unless_from`."""
        with self._changed:
            is_kept = self._prefetch is not None and str(self._prefetch.start) == unless_from
            prefetch = None if is_kept else self._pop_prefetch(segment)
        self._discard(prefetch)

    def keep_spare(self, spare: SpareBuffers) -> None:
        """Keep buffers for the next segment, unless the partition is no longer consumed here; they are given away."""
        unwanted: SpareBuffers | None = spare
        with self._changed:
            if self._began:
                unwanted, self._spare = self._spare, spare
        if unwanted is not None:
            unwanted.remove()

    def take_spare(self) -> SpareBuffers | None:
        """Return the buffers that are kept for the next segment, which are given away."""
        with self._changed:
            spare, self._spare = self._spare, None
        return spare

    def _pop_prefetch(self, segment: str) -> Prefetch | None:
        prefetch = self._prefetch
        if prefetch is None or prefetch.segment != segment:
            return None
        self._prefetch = None
        return prefetch

    def _discard(self, prefetch: Prefetch | None) -> None:
        if prefetch is not None:
            self.data.hide_prefetched(prefetch.segment)
            prefetch.close()
