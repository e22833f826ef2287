"""Consumption: messages are fetched, converted to rows, and indexed, in batches."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from gamay.ingest.stream.offsets import Offset
from gamay.ingest.stream.spi import PartitionConsumer
from gamay.segment.spi import DocIds
from gamay.server.consuming.context import SegmentContext, ShownRows
from gamay.server.consuming.indexing import Indexing
from gamay.server.consuming.intake import Intake
from gamay.server.consuming.machine import Consume
from gamay.server.consuming.prefetch import BegunSegment, ReadBatch
from gamay.server.consuming.reading import Reading
from gamay.server.consuming.status import ConsumerStatus
from gamay.server.consuming.throttle import Throttle

POLL_MS = 100
"""Maximum time that a fetch waits for messages, which bounds the delay of commands to the consumer."""


@dataclass(frozen=True, slots=True)
class Consumed:
    """Result of a batch, for `gamay.server.consuming.machine`. delay_s: the wait before the next one."""

    offset: Offset
    rows: int
    partition_ended: bool
    full: bool
    delay_s: float = 0.0


class Consumption:
    """Consumption of one segment, on its consumer's thread.

    rows: of the segment. Raises GamayError and OSError if they cannot be set up.
    """

    def __init__(self, context: SegmentContext) -> None:
        self._context, self._clock = context, context.clock
        stream = context.task.stream
        intake = context.open_intake()
        self._taken_in: deque[ReadBatch] = deque()
        self._begun, self._reading = self._set_up(intake)
        self.rows = self._begun.rows
        self._indexing = Indexing(context, self.rows, intake)
        self._throttle = Throttle(stream.partition_rate_limit, stream.topic_rate_limit, context.count_partitions)
        self._busy_ms = self._clock.now_ms()

    def _set_up(self, intake: Intake) -> tuple[BegunSegment, Reading]:
        """Return the segment and its reader, with the prefetched messages or rows if these are suitable."""
        context, task = self._context, self._context.task
        record, prefetch, begun, reader = task.record, task.prefetch, None, None
        if prefetch is not None and not prefetch.fits(context.begin, task.layout, task.stream):
            prefetch.close()
            prefetch = None
        if prefetch is not None:
            rows_max = -1 if record.end_offset else context.row_limit  # the prefetched rows may extend beyond that end
            begun = prefetch.take_begun(record.name, record.creation_time_ms, rows_max)
            if begun is not None:
                reader, self._taken_in = prefetch.finish()
                prefetch = None
        if begun is None:
            begun = context.begin_rows(record.name, record.creation_time_ms, task.spare)
        elif task.spare is not None:
            task.spare.remove()
        return begun, Reading(context.factory, context.name.stream_partition, intake, prefetch, reader)

    # primary keys

    @property
    def lacks_keys(self) -> bool:
        """Whether the table has primary keys that are not available yet."""
        return self._context.task.open_keys is not None and self._indexing.keys is None

    def open_keys(self, shown: ShownRows) -> bool:
        """Return whether rows may be consumed: in a table with primary keys, only once these are available."""
        open_keys = self._context.task.open_keys
        if open_keys is not None and self._indexing.keys is None:
            self._indexing.keys = open_keys(shown)
        return not self.lacks_keys

    def committed_docs(self) -> "DocIds | None":
        """Return the rows to keep in the built segment, None for all: with `enableCommitTimeCompaction`, the valid docs.

        Rows that delete a key are kept. If none is valid, all are kept, since an empty segment would have no time range.
        """
        upsert, keys = self._context.task.layout.config.active_upsert, self._indexing.keys
        if upsert is None or not upsert.enable_commit_time_compaction or keys is None:
            return None
        counting = keys.counting()
        return None if counting is None or not len(counting) else counting

    # batches

    def taken_in(self) -> Iterator[Consumed]:
        """Yield the results of the batches that were prefetched and indexed before."""
        while self._taken_in:
            read = self._taken_in.popleft()
            self._indexing.append(read.batch, read.taken)
            yield self._account(read)

    def next(self, action: Consume) -> Consumed:
        """Fetch, index and publish one batch. Raises the errors of the stream and of the rows."""
        now_ms, offset = self._clock.now_ms(), self._context.machine.offset
        wait_ms = min(POLL_MS, self._context.task.stream.fetch_timeout_ms)
        if action.deadline_ms is not None:
            wait_ms = max(0, min(wait_ms, action.deadline_ms - now_ms))
        read = self._reading.next(offset, action.until, action.rows_max, wait_ms)
        if self._indexing.append(read.batch, read.taken):
            return Consumed(offset, 0, partition_ended=False, full=True)
        return self._account(read)

    def _account(self, read: ReadBatch) -> Consumed:
        """Account for an indexed batch."""
        context, batch, now_ms = self._context, read.batch, self._clock.now_ms()
        is_before = read.num_docs is not None  # it was indexed by the prefetch
        rows = (self.rows.num_docs if read.num_docs is None else read.num_docs) - context.machine.num_rows
        context.counts.messages += len(batch)
        context.counts.rows += rows
        context.progress.passed(batch, rows, now_ms)
        if len(batch):
            self._busy_ms = now_ms
        idle_ms = context.task.stream.idle_timeout_ms
        if idle_ms is not None and now_ms - self._busy_ms > idle_ms:
            self._busy_ms = now_ms
            self._reading.close_reader()
        delay_s = 0.0 if is_before else self._throttle.delay_s(len(batch), self._clock.monotonic_s())
        ended = batch.is_end_of_partition and not len(batch)
        return Consumed(batch.next_offset, rows, ended, self.rows.is_nearly_full or self._takes_its_memory(), delay_s)

    def _takes_its_memory(self) -> bool:
        """Whether the rows have reached the table's memory limit of a consuming segment; one batch always fits."""
        quota = self._context.task.stream.flush.memory_bytes
        if quota is None or not self.rows.num_docs:
            return False
        return sum(use.used for parts in self.rows.memory().values() for use in parts.values()) >= quota

    def fetch_failed(self) -> None:
        """Record a failed fetch; the next one reconnects."""
        self._context.counts.fetch_failures += 1
        self._reading.close_reader()

    def give_reader(self) -> PartitionConsumer | None:
        """Return the partition's reader for the successor, if anything was read; None if there is a rate limit."""
        reader = self._reading.give_reader()
        if reader is not None and self._throttle.limits:
            reader.close()
            return None
        return reader

    def leave_stream(self) -> None:
        """Close the stream's reader."""
        self._reading.close_reader()

    def close(self) -> None:
        """Close, and remove the rows' files; existing views stay valid."""
        self._reading.close()
        self._begun.remove()

    def status(self) -> ConsumerStatus:
        """Return the status of the consumer; from any thread."""
        context, indexing, now_ms = self._context, self._indexing, self._clock.now_ms()
        machine, progress, record = context.machine, context.progress, context.task.record
        by_column = {name: {part: use.used for part, use in parts.items()} for name, parts in self.rows.memory().items()}
        return ConsumerStatus(
            segment=context.segment,
            partition=context.name.partition,
            state=machine.state.value,
            failure=machine.failure,
            start_offset=record.start_offset,
            current_offset=str(machine.offset),
            end_offset=None if progress.end is None else str(progress.end),
            lag=progress.lag(machine.offset),
            num_rows=machine.num_rows,
            row_limit=context.row_limit,
            rows_filtered=indexing.filtered,
            rows_incomplete=indexing.incomplete,
            messages_dropped=indexing.dropped,
            rows_per_s=progress.rate.rows_per_s(now_ms),
            created_ms=record.creation_time_ms,
            last_consumed_ms=progress.last_consumed_ms,
            last_message_ms=progress.last_message_ms,
            availability_lag_ms=progress.availability_lag_ms,
            ingestion_delay_ms=progress.delay_ms(now_ms),
            quota_percent=self._throttle.utilization(self._clock.monotonic_s()),
            memory_bytes=sum(sum(parts.values()) for parts in by_column.values()),
            memory=by_column,
        )
