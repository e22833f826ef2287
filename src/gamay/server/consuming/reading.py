"""Where the rows of one consuming segment come from: what was prefetched for it, then the stream."""

from collections import deque

from gamay.ingest.stream.offsets import Offset
from gamay.ingest.stream.spi import PartitionConsumer, StreamConsumerFactory
from gamay.server.consuming.intake import Intake
from gamay.server.consuming.prefetch import Prefetch, ReadBatch

FETCH_MESSAGES = 1 << 15
FETCH_BYTES = 8 << 20


class Reading:
    """Reading of one partition for one segment; one thread.

    intake: makes rows of what the stream gives. prefetch: of rows that the segment begins with, given away. reader: of the
    partition, given away; None opens one. Methods raise the errors of the stream and of the rows.
    """

    def __init__(
        self, factory: StreamConsumerFactory, partition: int, intake: Intake, prefetch: Prefetch | None,
        reader: PartitionConsumer | None = None,
    ) -> None:  # fmt: skip
        self._factory, self._partition = factory, partition
        self._intake = intake
        self._reader = reader
        self._prefetch = prefetch
        self._read: deque[ReadBatch] = deque()

    def next(self, offset: Offset, until: Offset | None, rows_max: int | None, wait_ms: int) -> ReadBatch:
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
        return ReadBatch(offset, batch, self._intake.take(batch))

    def give_reader(self) -> PartitionConsumer | None:
        """Give away the partition's reader, None where nothing was read, and throw away what is left of the prefetch."""
        self._next_read(rest=True)
        reader, self._reader = self._reader, None
        return reader

    def close_reader(self) -> None:
        """Leave the stream; the next fetch connects to it anew."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def close(self) -> None:
        """End, and throw away what was prefetched."""
        if self._prefetch is not None:
            self._prefetch.close()
        self.close_reader()

    def _read_before(self, offset: Offset, until: Offset | None, rows_max: int | None) -> ReadBatch | None:
        """Return the next batch that was read while the segment before was completed, None when there is none that fits."""
        read = self._next_read()
        if read is None:
            return None
        if until is None and (rows_max is None or len(read.batch) <= rows_max) and read.start == offset:
            return read
        self._next_read(rest=True)
        return None

    def _next_read(self, *, rest: bool = False) -> ReadBatch | None:
        """Return the next batch that was prefetched, None when there is none any more, and take over the reader then.

        rest: throw away what is left.
        """
        if self._prefetch is not None and not rest and (read := self._prefetch.next()) is not None:
            return read  # without waiting for the fetch that is under way
        if self._prefetch is not None:
            prefetch, self._prefetch = self._prefetch, None
            self._reader, self._read = prefetch.finish()
        if rest:
            self._read.clear()
        return self._read.popleft() if self._read else None
