"""The sequence of segments of one partition: those consumed here, and the handover from one to the next."""

import threading

from gamay.base.clock import Clock
from gamay.cluster.records.llc_name import LlcName
from gamay.segment.mutable.buffers import SpareBuffers
from gamay.server.consuming.counts import PartitionCounts
from gamay.server.consuming.prefetch import Prefetch
from gamay.server.loading.table import TableData


class Partition:
    """A partition of a table on one server. Thread-safe.

    data: publishes prefetched rows to queries. counts: over all segments.
    """

    def __init__(self, data: TableData, clock: Clock) -> None:
        self.data = data
        self.counts = PartitionCounts()
        self._clock = clock
        self._changed = threading.Condition()
        self._began: dict[str, threading.Event] = {}
        self._prefetch: Prefetch | None = None
        self._spare: SpareBuffers | None = None

    # consumed segments

    def enter(self, segment: str, began: threading.Event) -> None:
        """Register a segment as consumed here. began: set when its first rows are visible."""
        with self._changed:
            self._began[segment] = began
            self._changed.notify_all()

    def leave(self, segment: str) -> None:
        """Unregister a segment; the rows prefetched after its end are kept for its successor."""
        with self._changed:
            self._began.pop(segment, None)

    def give_up(self, segment: str) -> None:
        """Unregister a segment whose partition may move to another server, and discard the rows prefetched after it."""
        with self._changed:
            self._began.pop(segment, None)
            prefetch = self._pop_prefetch(segment)
            spare, self._spare = self._spare, None
        self._discard(prefetch)
        if spare is not None:
            spare.remove()

    def close(self) -> None:
        """Unregister all segments, and discard prefetched rows."""
        with self._changed:
            self._began.clear()
            prefetch, self._prefetch = self._prefetch, None
        self._discard(prefetch)

    def has_successor(self, segment: str) -> bool:
        """Return whether a later segment is consumed here."""
        with self._changed:
            return self._successor(segment) is not None

    def await_successor(self, segment: str, timeout_s: float) -> None:
        """Wait up to the timeout until the rows of the next segment are visible, if one starts here."""
        end_s = self._clock.monotonic_s() + timeout_s
        with self._changed:
            began = self._changed.wait_for(lambda: self._successor(segment), timeout_s)
        if began is not None:
            began.wait(max(0.0, end_s - self._clock.monotonic_s()))

    def _successor(self, segment: str) -> threading.Event | None:
        sequence = LlcName.must_parse(segment).sequence
        return next((began for name, began in self._began.items() if LlcName.must_parse(name).sequence > sequence), None)

    # handover

    @property
    def prefetched_behind(self) -> str | None:
        """The segment with prefetched rows after its end."""
        prefetch = self._prefetch
        return None if prefetch is None else prefetch.segment

    def keep_prefetch(self, prefetch: Prefetch, *, shows: bool) -> None:
        """Take over a prefetch for the successor, unless its segment is gone. shows: publish its rows to queries."""
        unwanted: Prefetch | None = prefetch
        with self._changed:
            if prefetch.segment in self._began:
                unwanted, self._prefetch = self._prefetch, prefetch
                if shows and (shown := prefetch.shown()) is not None:
                    self.data.show_prefetched(prefetch.segment, shown)
        if unwanted is not None:
            unwanted.close()

    def take_prefetch(self) -> Prefetch | None:
        """Stop the prefetch and return it to the caller; its rows stay visible until they are hidden."""
        with self._changed:
            prefetch, self._prefetch = self._prefetch, None
        if prefetch is not None:
            prefetch.stop()
        return prefetch

    def drop_prefetch(self, segment: str, *, unless_from: str | None = None) -> None:
        """Discard the rows prefetched after a segment's end, unless they start at the offset `unless_from`."""
        with self._changed:
            is_kept = self._prefetch is not None and str(self._prefetch.start) == unless_from
            prefetch = None if is_kept else self._pop_prefetch(segment)
        self._discard(prefetch)

    def keep_spare(self, spare: SpareBuffers) -> None:
        """Take over buffers for the next segment, unless the partition is no longer consumed here."""
        unwanted: SpareBuffers | None = spare
        with self._changed:
            if self._began:
                unwanted, self._spare = self._spare, spare
        if unwanted is not None:
            unwanted.remove()

    def take_spare(self) -> SpareBuffers | None:
        """Return the buffers kept for the next segment, and transfer their ownership."""
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
