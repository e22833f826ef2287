"""Prefetching behind a segment's end while it is completed: its successor begins with rows that are there already."""

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
"""Of one prefetch; what is behind them is read by the successor."""
BYTES_MAX = 128 << 20
LIFE_S = 60.0
"""After this no successor is expected any more, as when consumption was paused."""
_FETCH_MESSAGES = 1 << 13
_FETCH_BYTES = 4 << 20
_FETCH_MS = 10  # the successor waits for a fetch that is under way


@dataclass(frozen=True, slots=True)
class ReadBatch:
    """One batch that was read: where it began, the messages, and what they are as rows.

    num_docs: the rows of the segment with it, where these are in a segment already; None where they are in `taken`.
    """

    start: Offset
    batch: MessageBatch
    taken: Taken
    num_docs: int | None = None


@dataclass(slots=True)
class BegunSegment:
    """A segment that was begun. folder: that of its buffers. fresh_ms: how fresh it is, as a segment that consumes."""

    rows: MutableSegment
    folder: Path
    fresh_ms: int

    def remove(self) -> None:
        """Remove the files; views that are held stay valid."""
        self.rows.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Prefetch:
    """Prefetch of a partition from `start`, on a thread of its own, until it is finished or has enough.

    layout, stream: what the rows were made by; a successor with others must read again. rows_max: of the successor, most
    likely. reader: given away. open_intake: called on the thread. begun: given away; takes the rows as they come, and
    queries may see them. Without it they wait for the successor, and after a while for nobody any more. Errors end it
    quietly: the successor meets them itself, and counts and reports them.
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
        """Where the rows begin."""
        return self._start

    def shown(self) -> ConsumingSegment | None:
        """Return what queries can see of the rows; None where they are in no segment yet."""
        begun = self._begun
        if begun is None:
            return None
        return ConsumingSegment(begun.rows.name, begun.rows.view, lambda: begun.fresh_ms, start=self._start)

    def fits(self, start: Offset, layout: TableLayout, stream: StreamConfig) -> bool:
        """Whether a segment that begins at `start` would read the same rows."""
        return start == self._start and layout == self._layout and stream == self._stream

    def stop(self) -> None:
        """End soon; what was read stays."""
        self._done.set()

    def next(self) -> ReadBatch | None:
        """Return the first batch that was read and not returned yet, None when there is none just now; waits for nothing."""
        try:
            return self._read.popleft()
        except IndexError:
            return None

    def finish(self) -> tuple[PartitionConsumer | None, deque[ReadBatch]]:
        """End, and give away the reader, None when it failed, and what was read."""
        self._done.set()
        self._thread.join()
        reader, self._reader = self._reader, None
        return reader, self._read

    def take_begun(self, name: str, created_ms: int, rows_max: int) -> BegunSegment | None:
        """Give away the segment that was begun, as the named one; None where there is none that could be it.

        Where there is one it is the end of prefetching, and `finish` gives the batches whose rows it has.
        """
        if self._begun is None:
            return None
        self._done.set()
        self._thread.join()
        begun, self._begun = self._begun, None
        if begun.rows.num_docs > rows_max or begun.rows.holds_creation_time:
            begun.remove()
            self._read.clear()  # the rows of these batches are gone
            return None
        begun.rows.become(name, created_ms)
        return begun

    def close(self) -> None:
        """End, and throw away what was read."""
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
            _log.info("%s: what follows is read by the next segment: %s", self.segment, error)
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
        """Leave the stream, and forget what nobody sees."""
        reader, self._reader = self._reader, None
        if self._begun is None:
            self._read.clear()
        if reader is not None:
            reader.close()
