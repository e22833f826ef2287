"""Where the rows of one consuming segment come from: what was read ahead for it, then the stream."""

from collections import deque
from collections.abc import Callable

from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.offsets import Offset
from gamay.ingest.stream.spi import PartitionConsumer, StreamConsumerFactory
from gamay.server.consuming.ahead import Ahead, Begun, ReadAhead
from gamay.server.consuming.intake import Intake
from gamay.server.loading.rebuild import TableLayout

FETCH_MESSAGES = 1 << 15
FETCH_BYTES = 8 << 20


class Reading:
    """Reads one partition for one segment; one thread. ahead: given away, and closed unless it fits the segment.
    reader: of the partition, given away; None opens one.

    intake: makes rows of what the stream gives. Methods raise the errors of the stream and of the rows.
    """

    def __init__(
        self,
        factory: StreamConsumerFactory,
        partition: int,
        start: Offset,
        layout: TableLayout,
        stream: StreamConfig,
        intake: Intake,
        ahead: ReadAhead | None,
        reader: PartitionConsumer | None = None,
    ) -> None:
        self._factory, self._partition = factory, partition
        self._layout, self._stream = layout, stream
        self._intake = intake
        self._reader = reader
        if ahead is not None and not ahead.fits(start, layout, stream):
            ahead.close()
            ahead = None
        self._ahead = ahead
        self._read: deque[Ahead] = deque()

    def next(self, offset: Offset, until: Offset | None, rows_max: int | None, wait_ms: int) -> Ahead:
        """Return the next batch from `offset` on: no more than `rows_max` messages, none of them behind `until`."""
        read = self._read_before(offset, until, rows_max)
        if read is not None:
            return read
        if self._reader is None:
            self._reader = self._factory.partition_consumer(self._partition)
        messages = FETCH_MESSAGES if rows_max is None else min(FETCH_MESSAGES, rows_max)
        batch = self._reader.fetch(offset, messages, FETCH_BYTES, wait_ms)
        if until is not None:
            batch = batch.before(until)
        return Ahead(offset, batch, self._intake.take(batch))

    def hand_over(
        self,
        segment: str,
        offset: Offset,
        rows_max: int,
        open_intake: Callable[[], Intake],
        begin: Callable[[], Begun | None],
        *,
        wanted: bool,
    ) -> ReadAhead | None:
        """Read on behind the segment's end, for its successor, as far as that is wanted and something was read here.

        begin: makes the segment that takes the rows, None to leave that to the successor.
        """
        self._next_read(rest=True)
        reader, self._reader = self._reader, None
        if reader is None:
            return None
        if not wanted:
            reader.close()
            return None
        return ReadAhead(segment, offset, self._layout, self._stream, rows_max, reader, open_intake, begin())

    def close_reader(self) -> None:
        """Leave the stream; the next fetch connects to it anew."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def close(self) -> None:
        """End, and throw away what was read ahead."""
        if self._ahead is not None:
            self._ahead.close()
        self.close_reader()

    def _read_before(self, offset: Offset, until: Offset | None, rows_max: int | None) -> Ahead | None:
        """Return the next batch that was read while the segment before was completed, None when there is none that fits."""
        read = self._next_read()
        if read is None:
            return None
        if until is None and (rows_max is None or len(read.batch) <= rows_max) and read.start == offset:
            return read
        self._next_read(rest=True)
        return None

    def _next_read(self, *, rest: bool = False) -> Ahead | None:
        """Return the next batch that was read ahead, None when there is none any more, and take over the reader then.

        rest: throw away what is left.
        """
        if self._ahead is not None and not rest and (read := self._ahead.next()) is not None:
            return read  # without waiting for the fetch that is under way
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            self._reader, self._read = ahead.finish()
        if rest:
            self._read.clear()
        return self._read.popleft() if self._read else None
