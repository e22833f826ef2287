"""The source of the rows of one consuming segment: first the prefetched ones, then the stream."""

from collections import deque

from gamay.ingest.stream.offsets import Offset
from gamay.ingest.stream.spi import PartitionConsumer, StreamConsumerFactory
from gamay.server.consuming.intake import Intake
from gamay.server.consuming.prefetch import Prefetch, ReadBatch

FETCH_MESSAGES = 1 << 15
FETCH_BYTES = 8 << 20


class Reading:
    """Reading of one partition for one segment, on one thread.

    intake: converts messages to rows. prefetch: of the segment's first rows; ownership is transferred. reader: of the
    partition; ownership is transferred; None opens one. Methods raise the errors of the stream and of the rows.
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
        """Return the next batch from `offset` on: at most `rows_max` messages, none of them beyond `until`."""
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
        """Return the partition's reader, None if nothing was read, and discard the rest of the prefetch."""
        self._next_read(rest=True)
        reader, self._reader = self._reader, None
        return reader

    def close_reader(self) -> None:
        """Close the reader; the next fetch opens a new one."""
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def close(self) -> None:
        """Close, and discard prefetched batches."""
        if self._prefetch is not None:
            self._prefetch.close()
        self.close_reader()

    def _read_before(self, offset: Offset, until: Offset | None, rows_max: int | None) -> ReadBatch | None:
        """Return the next prefetched batch, None if there is no suitable one."""
        read = self._next_read()
        if read is None:
            return None
        if until is None and (rows_max is None or len(read.batch) <= rows_max) and read.start == offset:
            return read
        self._next_read(rest=True)
        return None

    def _next_read(self, *, rest: bool = False) -> ReadBatch | None:
        """Return the next prefetched batch; at the end, return None and take over the reader.

        rest: discard the remaining batches.
        """
        if self._prefetch is not None and not rest and (read := self._prefetch.next()) is not None:
            return read  # without waiting for a fetch in progress
        if self._prefetch is not None:
            prefetch, self._prefetch = self._prefetch, None
            self._reader, self._read = prefetch.finish()
        if rest:
            self._read.clear()
        return self._read.popleft() if self._read else None
