"""Progress of a consumer in its stream."""

from gamay.ingest.stream.offsets import IntegerOffset, Offset
from gamay.ingest.stream.spi import MessageBatch
from gamay.ingest.stream.stream_level import TopicOffset
from gamay.server.consuming.status import RateMeter


class ConsumerProgress:
    """Progress of a consumer in its partition. One thread reports batches, any may read.

    last_consumed_ms: when rows last arrived, initially the segment's creation; last_message_ms: when the last row was
    written to the stream, -1 if unknown. end: the last known end of the partition. rate: of rows.
    """

    def __init__(self, created_ms: int) -> None:
        self.last_consumed_ms, self.last_message_ms = created_ms, -1
        self.end: Offset | None = None
        self.rate = RateMeter()
        self._caught_up_ms = -1

    @property
    def freshness_ms(self) -> int:
        """The time when the last row was written to the stream or, if unknown, indexed."""
        return self.last_message_ms if self.last_message_ms >= 0 else self.last_consumed_ms

    @property
    def availability_lag_ms(self) -> int | None:
        """The time from the writing of the last row to the stream until its arrival; None if unknown."""
        return None if self.last_message_ms < 0 else max(0, self.last_consumed_ms - self.last_message_ms)

    def delay_ms(self, now_ms: int) -> int | None:
        """Return the maximum age of the visible data: it grows while the stream is not read, and is about 0 at its end."""
        last_ms = max(self.last_message_ms, self._caught_up_ms)
        return None if last_ms < 0 else max(0, now_ms - last_ms)

    def lag(self, offset: Offset) -> int | None:
        """Return the number of messages from an offset to the partition's end; None if offsets are not numbers."""
        return _messages_between(offset, self.end)

    def passed(self, batch: MessageBatch, rows: int, now_ms: int) -> None:
        """Record that a batch was indexed. rows: its number of rows."""
        self.end = batch.end_offset
        if len(batch):
            self.last_consumed_ms = now_ms
            self.last_message_ms = int(batch.timestamps_ms.max())
            self.rate.add(rows, now_ms)
        elif self.lag(batch.next_offset) in (0, None):
            self._caught_up_ms = now_ms


def _messages_between(offset: Offset, end: Offset | None) -> int | None:
    if isinstance(offset, IntegerOffset) and isinstance(end, IntegerOffset):
        return max(0, end.value - offset.value)
    if isinstance(offset, TopicOffset) and isinstance(end, TopicOffset):
        return max(0, end.total - offset.total)
    return None
