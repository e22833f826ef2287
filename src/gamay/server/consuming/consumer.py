"""The thread of one consuming segment: does what the state machine says, and tells it what came of it."""

import logging
import shutil
import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import TypeAlias

from gamay.base.clock import Clock, ManualClock
from gamay.base.errors import GamayError
from gamay.cluster.records.completion import Status, StopReason
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import SegmentRecord
from gamay.ingest.stream.config import DEFAULT_FLUSH_ROWS, FlushThresholds, StreamConfig
from gamay.ingest.stream.decode.fields import input_fields
from gamay.ingest.stream.offsets import Offset
from gamay.ingest.stream.plugins import open_decoder, open_stream
from gamay.ingest.stream.spi import (
    MessageBatch,
    PermanentStreamError,
    StreamConsumerFactory,
    TransientStreamError,
)
from gamay.ingest.stream.stream_level import TopicStream
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.table.table_config import TableConfig
from gamay.model.table.tier_overwrites import CONSUMING
from gamay.segment.mutable.buffers import SpareBuffers
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.mutable.sizing import SizingHistory
from gamay.segment.spi import DocIds, Segment
from gamay.server.consuming import machine as m
from gamay.server.consuming.ahead import Ahead, Begun, ReadAhead
from gamay.server.consuming.commit import SegmentCommit
from gamay.server.consuming.counts import PartitionCounts
from gamay.server.consuming.dead_letters import DeadLetters
from gamay.server.consuming.foreign import foreign_rows
from gamay.server.consuming.host import Owner, Resources
from gamay.server.consuming.indexing import Indexing
from gamay.server.consuming.intake import Intake
from gamay.server.consuming.machine import ConsumerMachine, ConsumerState
from gamay.server.consuming.progress import ConsumerProgress
from gamay.server.consuming.reading import Reading
from gamay.server.consuming.status import ConsumerStatus, StreamError
from gamay.server.consuming.throttle import Throttle
from gamay.server.loading.rebuild import TableLayout
from gamay.upsert.spi import ConsumingKeys

_log = logging.getLogger(__name__)

_KEYS_POLL_MS = 20
_SUCCESSOR_S = 0.3
"""How long what nobody waits for gives way to the successor's first rows, which queries wait for."""
_SPARE_AT = 0.75
"""Which part of its rows a segment has when buffers are made for its successor."""
POLL_MS = 100
"""The longest that a fetch waits for messages, so that whoever wants something of the consumer need not wait longer."""


OpenKeys: TypeAlias = "Callable[[SegmentConsumer], ConsumingKeys | None]"
"""Gives the primary keys of a consumer's segment; None while the segment before it is not sealed."""


class SegmentConsumer:
    """Consumes one segment between `start` and `stop`.

    record: of the segment, IN_PROGRESS or COMMITTING. stream: the topic's config. letters, history: of the table.
    counts: of the partition. Raises GamayError and OSError when the stream or the rows cannot be set up.
    """

    _ended_s: float | None = None
    """When consumption ended, by the monotonic clock."""

    def __init__(
        self,
        resources: Resources,
        owner: Owner,
        table: str,
        record: SegmentRecord,
        layout: TableLayout,
        stream: StreamConfig,
        letters: DeadLetters,
        history: SizingHistory,
        open_keys: "OpenKeys | None" = None,
        ahead: ReadAhead | None = None,
        spare: SpareBuffers | None = None,
        counts: PartitionCounts | None = None,
    ) -> None:
        """`open_keys`: of a table with primary keys; asked again until the segment may begin. ahead, spare: given away."""
        self._counts = PartitionCounts() if counts is None else counts
        self.segment = record.name
        self._open_keys = open_keys
        upsert = layout.config.active_upsert
        self._compacts = upsert is not None and upsert.enable_commit_time_compaction
        self.table = table
        self._resources, self._owner = resources, owner
        self._record = record
        self._config = stream
        self._history = history
        self._layout, self._clock = layout, resources.clock
        self._name = LlcName.must_parse(record.name)
        self._factory: StreamConsumerFactory = open_stream(stream, resources.streams)
        if self._name.is_stream_level:
            self._factory = TopicStream(self._factory, f"{table}.{resources.server}")
        limits = _limits(record, stream.high_level_flush if self._name.is_stream_level else stream.flush)
        self.begin = start = self._factory.parse_offset(record.start_offset)
        self._pauseless = pauseless = _is_pauseless(layout.config)
        self._machine = ConsumerMachine(
            start, limits, self._clock.now_ms(), pauseless=pauseless,
            # another replica's rows are in another order
            downloads_completed=self._name.is_stream_level or _downloads_completed(layout.config),
        )  # fmt: skip
        self._intake = self._open_intake()
        self._row_limit = limits.rows
        self._progress = ConsumerProgress(record.creation_time_ms)
        self._take_over(ahead, spare)
        self._indexing = Indexing(self._rows, self._intake, letters, self._counts, self._note_error)
        self._commit = SegmentCommit(
            resources, owner, table, self._rows, self._machine, self._counts, history, self._note_error,
            has_peers=layout.config.segments.peer_segment_download_scheme is not None,
            direct=stream.server_upload_to_deep_store,
        )  # fmt: skip
        self._wake = threading.Condition()
        self._commands: list[Callable[[], None]] = []
        self._stopping = False
        self.began = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"consume-{record.name}", daemon=True)
        self._throttle = Throttle(stream.partition_rate_limit, stream.topic_rate_limit, self._count_partitions)
        self._busy_ms, self._is_spare_made = self._clock.now_ms(), False

    def _take_over(self, ahead: ReadAhead | None, spare: SpareBuffers | None) -> None:
        """Set up the rows, and where they come from: with what was read, or indexed, before this began, if that fits."""
        record, begun, reader = self._record, None, None
        self._taken_in: deque[Ahead] = deque()
        if ahead is not None and ahead.fits(self.begin, self._layout, self._config):
            rows_max = -1 if record.end_offset else self._row_limit  # what was begun may have more than up to that end
            begun = ahead.take_begun(record.name, record.creation_time_ms, rows_max)
            if begun is not None:
                reader, self._taken_in = ahead.finish()
                ahead = None
        if begun is None:
            # all replicas take the same time for "now", so that they build the same segment
            begun = self._begin(record.name, ManualClock(record.creation_time_ms), spare)
        elif spare is not None:
            spare.remove()
        self._rows, self._buffers = begun.rows, begun.folder
        partition = self._name.stream_partition
        self._reading = Reading(
            self._factory, partition, self.begin, self._layout, self._config, self._intake, ahead, reader
        )

    # what others ask, from any thread

    def view(self) -> Segment:
        """Return the rows indexed so far."""
        return self._rows.view()

    def freshness_ms(self) -> int:
        """Return when the last row was written to the stream, or, if the stream does not say, indexed."""
        return self._progress.freshness_ms

    def end(self) -> Offset | None:
        """Return where the rows end, None while more are taken."""
        machine = self._machine
        return None if machine.state.is_consuming else machine.offset

    @property
    def state(self) -> ConsumerState:
        """Where the consumer is."""
        return self._machine.state

    @property
    def gave_up(self) -> bool:
        """Whether the controller has heard that this replica stopped for good, and so has let it go OFFLINE."""
        return self._machine.gave_up

    @property
    def is_beyond(self) -> bool:
        """Whether there are more rows here than the segment will have, which nobody has stored: it is consumed anew."""
        return self._machine.is_beyond

    @property
    def has_all_rows(self) -> bool:
        """Whether the segment's end is decided, and all rows before it are here, and no others."""
        return self._machine.has_all_rows

    @property
    def lacks_keys(self) -> bool:
        """Whether rows are to be taken, but primary keys are not looked up yet."""
        return self._open_keys is not None and self._indexing.keys is None and self._machine.state.is_consuming

    def status(self) -> ConsumerStatus:
        """Return what is known of the consumer."""
        machine, progress, indexing, now_ms = self._machine, self._progress, self._indexing, self._clock.now_ms()
        memory = self._rows.memory()
        by_column = {name: {part: use.used for part, use in parts.items()} for name, parts in memory.items()}
        return ConsumerStatus(
            segment=self.segment,
            partition=self._name.partition,
            state=machine.state.value,
            failure=machine.failure,
            start_offset=self._record.start_offset,
            current_offset=str(machine.offset),
            end_offset=None if progress.end is None else str(progress.end),
            lag=progress.lag(machine.offset),
            num_rows=machine.num_rows,
            row_limit=self._row_limit,
            rows_filtered=indexing.filtered,
            rows_incomplete=indexing.incomplete,
            messages_dropped=indexing.dropped,
            rows_per_s=progress.rate.rows_per_s(now_ms),
            created_ms=self._record.creation_time_ms,
            last_consumed_ms=progress.last_consumed_ms,
            last_message_ms=progress.last_message_ms,
            availability_lag_ms=progress.availability_lag_ms,
            ingestion_delay_ms=progress.delay_ms(now_ms),
            quota_percent=self._throttle.utilization(self._clock.monotonic_s()),
            memory_bytes=sum(sum(parts.values()) for parts in by_column.values()),
            memory=by_column,
        )

    # what others want, from any thread

    def start(self) -> None:
        """Begin to consume."""
        self._thread.start()

    def force_commit(self) -> None:
        """Commit soon what there is."""
        self._command(self._machine.force_commit)

    def end_at(self, end_offset: str, *, committed: bool) -> bool:
        """The segment has the rows before this offset, and is committed or will be; return whether there are others here."""
        end = self._factory.parse_offset(end_offset)
        tell = self._machine.go_online if committed else self._machine.decide_end
        self._command(lambda: tell(end, self._clock.now_ms()))
        return end < self._machine.offset

    def stop(self) -> None:
        """Give up, soon; rows that were not committed are consumed again by whoever hosts the segment next."""
        with self._wake:
            self._stopping = True
            self._wake.notify_all()

    def join(self, timeout_s: float | None = None) -> None:
        """Wait until the thread has ended after `stop` or `Leave`."""
        self._thread.join(timeout_s)

    def _command(self, command: Callable[[], None]) -> None:
        with self._wake:
            self._commands.append(command)
            self._wake.notify_all()

    # the thread

    def _run(self) -> None:
        try:
            self._guarded("TakeIn", self._take_in)
            while not self._stopping:
                with self._wake:
                    commands, self._commands = self._commands, []
                for command in commands:
                    command()
                action = self._machine.next(self._clock.now_ms())
                if isinstance(action, m.Leave):
                    self._owner.leave(self.table, self.segment)
                    return
                self._guarded(type(action).__name__, partial(self._do, action))
        finally:
            self._reading.close()
            self._commit.discard()
            self._rows.close()
            shutil.rmtree(self._buffers, ignore_errors=True)

    def _has_keys(self) -> bool:
        """Whether rows may be taken: a table without primary keys always may."""
        if self._open_keys is not None and self._indexing.keys is None:
            self._indexing.keys = self._open_keys(self)
        return self._open_keys is None or self._indexing.keys is not None

    def _guarded(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a dead thread tells nobody; a consumer that stopped is reported
            _log.exception("%s: %s failed", self.segment, what)
            reason = f"{what} failed: {error if isinstance(error, GamayError) else repr(error)}"
            self._note_error(reason, permanent=True)
            self._machine.failed(reason, self._clock.now_ms())
            self._wait(self._clock.now_ms() + m.RETRY_MS)

    def _do(self, action: m.Action) -> None:
        match action:
            case m.Consume():
                if self._has_keys():
                    self._consume(action)
                else:
                    self._wait(self._clock.now_ms() + _KEYS_POLL_MS)
            case m.Wait():
                self._wait(action.until_ms)
            case m.ReportConsumed():
                self._read_ahead()
                self._make_spare()
                self._ask_what_to_do(action)
            case m.Build():
                self._build_segment(action)
            case m.StartCommit():
                self._machine.commit_started(self._commit.ask_start(), self._clock.now_ms())
            case m.Upload():
                self._machine.uploaded(self._commit.upload(), self._clock.now_ms())
            case m.EndCommit():
                self._machine.commit_ended(self._commit.end(action.location), self._clock.now_ms())
            case m.CommitWhole():
                self._machine.commit_ended(self._commit.send_whole(), self._clock.now_ms())
            case m.ReportStopped():
                status = self._commit.tell_stopped(action.reason)
                self._machine.stop_reported(status is Status.PROCESSED, self._clock.now_ms())
            case m.Serve():
                self._serve()
            case m.BeginAnew():
                self._owner.begin_anew(self.table, self.segment)

    def _wait(self, until_ms: int | None) -> None:
        with self._wake:
            left_s = None if until_ms is None else max(0, until_ms - self._clock.now_ms()) / 1000
            if not self._commands and not self._stopping:
                self._wake.wait(left_s)

    # consuming

    def _begin(self, name: str, created: Clock, spare: SpareBuffers | None) -> Begun:
        """Make an empty segment of the table. Raises GamayError and OSError."""
        resources, layout = self._resources, self._layout
        # of its own: a consumer that this one takes the place of may not have removed its buffers yet
        folder = resources.folder / self.table / f"rows-{resources.ids.new()}"
        sizing = self._history.expected(self._row_limit)
        consuming = layout.of_tier(CONSUMING).config
        rows = MutableSegment(name, layout.schema, layout.config, folder, sizing, created, spare, consuming)
        return Begun(rows, folder, self.freshness_ms())

    def _take_in(self) -> None:
        """Account for what was read and indexed before this segment began."""
        while self._taken_in:
            read = self._taken_in.popleft()
            self._indexing.append(read.batch, read.taken)
            self._passed(read.batch, read.num_docs)

    def _consume(self, action: m.Consume) -> None:
        """Fetch, index and publish one batch."""
        now_ms = self._clock.now_ms()
        wait_ms = min(POLL_MS, self._config.fetch_timeout_ms)
        if action.deadline_ms is not None:
            wait_ms = max(0, min(wait_ms, action.deadline_ms - now_ms))
        try:
            read = self._reading.next(self._machine.offset, action.until, action.rows_max, wait_ms)
            full = self._indexing.append(read.batch, read.taken)
        except (TransientStreamError, PermanentStreamError, GamayError, OSError) as error:
            permanent = not isinstance(error, TransientStreamError)
            self._counts.fetch_failures += 1
            self._reading.close_reader()
            self._note_error(str(error), permanent=permanent)
            self._machine.fetch_failed(str(error), self._clock.now_ms(), permanent=permanent)
            return
        if full:
            self._machine.consumed(self._machine.offset, 0, self._clock.now_ms(), full=True)
            return
        self._passed(read.batch)
        if delay_s := self._throttle.delay_s(len(read.batch), self._clock.monotonic_s()):
            self._wait(self._clock.now_ms() + round(delay_s * 1000))

    def _open_intake(self) -> Intake:
        layout, stream = self._layout, self._config
        pipeline = Pipeline(layout.schema, layout.config, drop_failed=True)
        decoder = open_decoder(stream, input_fields(layout.schema, layout.config))
        return Intake(
            self.segment, self._name.partition, decoder, pipeline, self._clock,
            stop_on_decode_error=stream.stop_on_decode_error, with_metadata=stream.metadata_populate,
            foreign=None if self._name.is_stream_level
            else foreign_rows(self.segment, layout.schema, layout.config, self._name.stream_partition),
        )  # fmt: skip

    def _count_partitions(self) -> int:
        with closing(self._factory.metadata()) as metadata:
            return len(metadata.partition_ids())

    def _read_ahead(self) -> None:
        """Let the stream be read on for the successor, which most likely begins where this segment ends.

        Forced ends may be those of a table that is to rest: nobody is shown what is behind them.
        """
        wanted = not self._throttle.limits and not self._name.is_stream_level
        wanted = wanted and not self._owner.has_successor(self.table, self.segment)
        offset, rows = self._machine.offset, self._row_limit
        ahead = self._reading.hand_over(self.segment, offset, rows, self._open_intake, self._begin_successor, wanted=wanted)
        if ahead is not None:
            shows = self._machine.stop_reason is not StopReason.FORCE_COMMIT
            self._owner.keep_ahead(self.table, ahead, shows=shows)

    def _begin_successor(self) -> Begun | None:
        """Begin the segment behind this one's end; None where only the successor itself can take its rows.

        So it is where primary keys are looked up, which cannot be undone, and where rows take the time at which their
        segment was made.
        """
        if self._open_keys is not None or self._rows.holds_creation_time:
            return None
        now_ms, spare = self._clock.now_ms(), self._owner.take_spare(self.table, self._name.partition)
        try:
            begun = self._begin(str(self._name.next(now_ms)), ManualClock(now_ms), spare)  # most likely named so
        except (GamayError, OSError) as error:
            _log.info("%s: the next segment takes its rows itself: %s", self.segment, error)
            return None
        self._is_spare_made = True
        return begun

    def _passed(self, batch: MessageBatch, num_docs: int | None = None) -> None:
        """Take note of a batch whose rows are there. num_docs: rows with it, None where it is the last one."""
        now_ms = self._clock.now_ms()
        rows = (self._rows.num_docs if num_docs is None else num_docs) - self._machine.num_rows
        self._counts.messages += len(batch)
        self._counts.rows += rows
        self._progress.passed(batch, rows, now_ms)
        if len(batch):
            self._busy_ms = now_ms
        idle_ms = self._config.idle_timeout_ms
        if idle_ms is not None and now_ms - self._busy_ms > idle_ms:
            self._busy_ms = now_ms
            self._reading.close_reader()
        ended = batch.is_end_of_partition and not len(batch)
        full = self._rows.is_nearly_full or self._takes_its_memory()
        self._machine.consumed(batch.next_offset, rows, now_ms, partition_ended=ended, full=full)
        self.began.set()
        if self._machine.num_rows >= self._row_limit * _SPARE_AT:
            self._make_spare()

    def _takes_its_memory(self) -> bool:
        """Whether the rows take what the table's config gives a consuming segment; one batch always fits."""
        quota = self._config.flush.memory_bytes
        if quota is None or not self._rows.num_docs:
            return False
        return sum(use.used for parts in self._rows.memory().values() for use in parts.values()) >= quota

    def _make_spare(self) -> None:
        """Have the successor's buffers made, which takes as long as the file system wants, on a thread of its own."""
        if self._is_spare_made:
            return
        self._is_spare_made = True
        folder = self._resources.folder / self.table / f"spare-{self._resources.ids.new()}"

        def make() -> None:
            try:
                spare = SpareBuffers(folder, self._rows.shapes)
            except (GamayError, OSError) as error:
                _log.info("%s: the next segment makes its buffers itself: %s", self.segment, error)
            else:
                self._owner.keep_spare(self.table, self._name.partition, spare)

        threading.Thread(target=make, name=f"spare-{self.segment}", daemon=True).start()

    # completing

    def _ask_what_to_do(self, action: m.ReportConsumed) -> None:
        if self._ended_s is None:
            self._ended_s = self._clock.monotonic_s()
        answer = self._commit.ask_consumed("" if action.reason is None else action.reason.value)
        offset = None if answer.offset is None else self._factory.parse_offset(answer.offset)
        status = answer.status
        if status is Status.CATCH_UP and self._name.is_stream_level:
            status = Status.HOLD  # no other consumer can arrive at just these rows; what is committed is downloaded
        self._machine.answered(status, offset, answer.build_time_s, self._clock.now_ms(), split_commit=answer.split_commit)
        if self._machine.state in (ConsumerState.CATCHING_UP, ConsumerState.DISCARDED):
            self._owner.drop_ahead(self.table, self.segment)

    def _build_segment(self, action: m.Build) -> None:
        if self._pauseless or action.lease_s is None:
            self._give_way()
        failure = self._commit.build(action.lease_s, self._kept)
        if failure is None:
            self._machine.built()
        else:
            self._machine.failed(failure, self._clock.now_ms())

    def _give_way(self) -> None:
        """Let the successor show its first rows before the processor is used for what no query waits for."""
        if self._open_keys is None:  # with primary keys it may itself wait for this segment
            self._owner.await_successor(self.table, self.segment, _SUCCESSOR_S)

    def _kept(self) -> "DocIds | None":
        """Return the rows that the built segment has, None for all: with `enableCommitTimeCompaction` those that count.

        Those that delete a key are kept. Where none counts all are: a segment without rows says nothing of its times.
        """
        keys = self._indexing.keys
        if not self._compacts or keys is None:
            return None
        counting = keys.counting()
        return None if counting is None or not len(counting) else counting

    def _serve(self) -> None:
        self._give_way()  # the rows here are served meanwhile
        self._owner.serve(self.table, self.segment, self._commit.folder)
        if self._ended_s is not None:
            self._counts.completion_s = self._clock.monotonic_s() - self._ended_s
        self._commit.discard()
        self._reading.close_reader()

    def _note_error(self, reason: str, *, permanent: bool) -> None:
        log = _log.error if permanent else _log.warning
        log("%s, at offset %s: %s", self.segment, self._machine.offset, reason)
        self._owner.note_error(
            self.table, StreamError(self.segment, self._name.partition, permanent, reason, self._clock.now_ms())
        )


def _limits(record: SegmentRecord, flush: FlushThresholds) -> m.FlushLimits:
    rows = record.flush_threshold_rows if record.flush_threshold_rows > 0 else flush.segment_rows
    return m.FlushLimits(rows or DEFAULT_FLUSH_ROWS, record.creation_time_ms, flush.time_ms)


def _is_pauseless(config: TableConfig) -> bool:
    stream = config.ingestion.stream
    return stream is not None and stream.pauseless_consumption_enabled


def _downloads_completed(config: TableConfig) -> bool:
    completion = config.segments.completion_config
    return completion is not None and completion.completion_mode == "DOWNLOAD"
