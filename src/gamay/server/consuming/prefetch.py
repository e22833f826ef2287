"""Prefetching after a segment's end during its completion, so that its successor starts with rows."""

import logging
import shutil
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from gamay.base.errors import GamayError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.offsets import Offset
from gamay.ingest.stream.spi import MessageBatch, PartitionConsumer
from gamay.query.layout.rebuild import TableLayout
from gamay.segment.mutable.segment import MutableSegment
from gamay.server.consuming.intake import Intake, Taken
from gamay.server.loading.table import ConsumingSegment

_log = logging.getLogger(__name__)

MESSAGES_MAX = 1 << 18
"""Limit of one prefetch; the successor reads the messages after it."""
BYTES_MAX = 128 << 20
LIFE_S = 60.0
"""Time after which no successor is expected any more, as when consumption is paused."""
_FETCH_MESSAGES = 1 << 13
_FETCH_BYTES = 4 << 20
_FETCH_MS = 10  # the successor waits for a fetch in progress


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """One batch that was read: its start, the messages, and the resulting rows.

    num_docs: the segment's number of rows including it, if it is indexed already; None if the rows are in `taken`.
    """

    start: Offset
    batch: MessageBatch
    taken: Taken
    num_docs: int | None = None


@dataclass(slots=True)
class BegunSegment:
    """A segment started by a prefetch. folder: that of its buffers. fresh_ms: its freshness, as for a consuming segment."""

    rows: MutableSegment
    folder: Path
    fresh_ms: int

    def remove(self) -> None:
        """Remove the files; existing views stay valid."""
        self.rows.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Prefetch:
    """Prefetch of a partition from `start`, on its own thread, until it is finished or has reached its limit.

    layout, stream: the config of the rows; a successor with another one must read again. rows_max: expected limit of the
    successor. reader: ownership is transferred. open_intake: called on the thread. begun: ownership is transferred; indexes
    the rows immediately, so that queries may see them. Without it, rows wait for the successor, and are discarded after a
    while. Errors end the prefetch silently: the successor meets them itself, and counts and reports them.
    """

    def __init__(
        self,
        segment: str,
        start: Offset,
        layout: TableLayout,
        stream: StreamConfig,
        rows_max: int,
        reader: PartitionConsumer,
        open_intake: Callable[[], Intake],
        begun: BegunSegment | None = None,
    ) -> None:
        self.segment = segment
        self._start, self._layout, self._stream = start, layout, stream
        self._messages_max = min(rows_max, MESSAGES_MAX)
        self._reader: PartitionConsumer | None = reader
        self._open_intake = open_intake
        self._begun = begun
        self._read: deque[ReadBatch] = deque()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"prefetch-{segment}", daemon=True)
        self._thread.start()

    @property
    def start(self) -> Offset:
        """The offset of the first row."""
        return self._start

    def shown(self) -> ConsumingSegment | None:
        """Return the rows for queries; None if they are not indexed."""
        begun = self._begun
        if begun is None:
            return None
        return ConsumingSegment(begun.rows.name, begun.rows.view, lambda: begun.fresh_ms, start=self._start)

    def fits(self, start: Offset, layout: TableLayout, stream: StreamConfig) -> bool:
        """Whether a segment that starts at `start` would read the same rows."""
        return start == self._start and layout == self._layout and stream == self._stream

    def stop(self) -> None:
        """Stop soon, keeping what was read."""
        self._done.set()

    def next(self) -> ReadBatch | None:
        """Return the next batch without waiting, None if there is none at the moment."""
        try:
            return self._read.popleft()
        except IndexError:
            return None

    def finish(self) -> tuple[PartitionConsumer | None, deque[ReadBatch]]:
        """Stop, and return the reader, None if it failed, and the remaining batches."""
        self._done.set()
        self._thread.join()
        reader, self._reader = self._reader, None
        return reader, self._read

    def take_begun(self, name: str, created_ms: int, rows_max: int) -> BegunSegment | None:
        """Return the started segment under the given name, and transfer its ownership; None if there is no suitable one.

        This ends prefetching; `finish` then returns the batches whose rows it has.
        """
        if self._begun is None:
            return None
        self._done.set()
        self._thread.join()
        begun, self._begun = self._begun, None
        if begun.rows.num_docs > rows_max or begun.rows.holds_creation_time:
            begun.remove()
            self._read.clear()  # the rows of these batches are discarded
            return None
        begun.rows.become(name, created_ms)
        return begun

    def close(self) -> None:
        """Stop, and discard what was read."""
        reader, _ = self.finish()
        if reader is not None:
            reader.close()
        begun, self._begun = self._begun, None
        if begun is not None:
            begun.remove()

    def _run(self) -> None:
        try:
            self._read_on()
        except (GamayError, OSError) as error:
            _log.info("%s: prefetching ended, the next segment reads the rest: %s", self.segment, error)
            self._give_up()
        if not self._done.wait(LIFE_S):
            self._give_up()

    def _read_on(self) -> None:
        assert self._reader is not None
        intake, at = self._open_intake(), self._start
        messages = num_bytes = 0
        while not self._done.is_set() and messages < self._messages_max and num_bytes < BYTES_MAX:
            batch = self._reader.fetch(at, min(_FETCH_MESSAGES, self._messages_max - messages), _FETCH_BYTES, _FETCH_MS)
            if batch.is_end_of_partition:
                return
            if batch.next_offset == at:
                continue
            self._keep(ReadBatch(at, batch, intake.take(batch)))
            at, messages, num_bytes = batch.next_offset, messages + len(batch), num_bytes + batch.num_bytes

    def _keep(self, read: ReadBatch) -> None:
        begun = self._begun
        if begun is not None:
            if read.taken.rows is not None:
                begun.rows.append(read.taken.rows)
            if len(read.batch):
                begun.fresh_ms = max(begun.fresh_ms, int(read.batch.timestamps_ms.max()))
            read = replace(read, taken=replace(read.taken, rows=None), num_docs=begun.rows.num_docs)
        self._read.append(read)

    def _give_up(self) -> None:
        """Close the reader, and discard batches that are not visible to queries."""
        reader, self._reader = self._reader, None
        if self._begun is None:
            self._read.clear()
        if reader is not None:
            reader.close()
