"""The thread of one consuming segment: does what the state machine says, and tells it what came of it."""

import logging
import shutil
import threading
from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

from gamay.base.clock import Clock, ManualClock
from gamay.base.errors import GamayError
from gamay.base.ids import Ids
from gamay.cluster.completion import PEER_SCHEME, Call, CompletionRequest, CompletionResponse, Status, StopReason
from gamay.cluster.llc_name import LlcName
from gamay.cluster.records import SegmentRecord
from gamay.ingest.pipeline import Pipeline
from gamay.ingest.stream.config import DEFAULT_FLUSH_ROWS, FlushThresholds, StreamConfig
from gamay.ingest.stream.decode.fields import input_fields
from gamay.ingest.stream.offsets import IntegerOffset, Offset
from gamay.ingest.stream.plugins import open_decoder, open_stream
from gamay.ingest.stream.spi import (
    MessageBatch,
    PermanentStreamError,
    StreamConsumerFactory,
    StreamContext,
    TransientStreamError,
)
from gamay.ingest.stream.stream_level import TopicOffset, TopicStream
from gamay.model.table_config import TableConfig
from gamay.segment.metadata import read_metadata
from gamay.segment.mutable.buffers import SpareBuffers
from gamay.segment.mutable.segment import MutableSegment
from gamay.segment.mutable.sizing import SizingHistory
from gamay.segment.spi import DocIds, Segment
from gamay.server.consuming import machine as m
from gamay.server.consuming.ahead import Ahead, Begun, ReadAhead
from gamay.server.consuming.builds import Build, BuildPermits, lease
from gamay.server.consuming.completion_client import CompletionClient
from gamay.server.consuming.counts import PartitionCounts
from gamay.server.consuming.dead_letters import DeadLetters
from gamay.server.consuming.foreign import foreign_rows
from gamay.server.consuming.intake import Intake, Taken
from gamay.server.consuming.machine import ConsumerMachine, ConsumerState
from gamay.server.consuming.reading import Reading
from gamay.server.consuming.status import BuiltSegment, ConsumerStatus, RateMeter, StreamError
from gamay.server.consuming.throttle import Throttle
from gamay.server.rebuild import TableLayout
from gamay.storage.archive import ZSTD_LEVEL_QUICK, pack
from gamay.storage.deep_store import DeepStore
from gamay.storage.files import fsync_tree
from gamay.upsert.spi import ConsumingKeys

_log = logging.getLogger(__name__)

_KEYS_POLL_MS = 20
_SUCCESSOR_S = 0.3
"""How long what nobody waits for gives way to the successor's first rows, which queries wait for."""
_SPARE_AT = 0.75
"""Which part of its rows a segment has when buffers are made for its successor."""
POLL_MS = 100
"""The longest that a fetch waits for messages, so that whoever wants something of the consumer need not wait longer."""


@dataclass(frozen=True, slots=True)
class Resources:
    """What the consumers of a server share.

    folder: for buffers and builds, emptied at every start. kept: what outlives a restart: a table's dead letters, and the
    sizes of its last segments. deep_store: None where this server does not reach it.
    """

    server: str
    folder: Path
    kept: Path
    streams: StreamContext
    completion: CompletionClient
    permits: BuildPermits
    clock: Clock
    ids: Ids
    deep_store: DeepStore | None = None


OpenKeys: TypeAlias = "Callable[[SegmentConsumer], ConsumingKeys | None]"
"""Gives the primary keys of a consumer's segment; None while the segment before it is not sealed."""


class Owner(Protocol):
    """Who started a consumer; its methods are called on the consumer's thread."""

    def serve(self, table: str, segment: str, folder: Path) -> None:
        """Let queries see the segment in `folder`, which is given away, instead of the consuming one."""
        ...

    def leave(self, table: str, segment: str) -> None:
        """The consumer's work is done: what is served now stays, or the committed copy is to be fetched."""
        ...

    def begin_anew(self, table: str, segment: str) -> None:
        """The consumer is of no use: look at it again, and let another one take its place."""
        ...

    def await_successor(self, table: str, segment: str, timeout_s: float) -> None:
        """Wait until the next segment of the partition has begun to show rows, if one begins here in time."""
        ...

    def has_successor(self, table: str, segment: str) -> bool:
        """Return whether a later segment of the partition is consumed here."""
        ...

    def keep_ahead(self, table: str, ahead: ReadAhead, *, shows: bool) -> None:
        """Keep what is read behind the segment's end for its successor; it is given away. shows: let queries see it."""
        ...

    def drop_ahead(self, table: str, segment: str) -> None:
        """Throw away what was read behind a segment's end, if that is kept: it turned out not to be the end."""
        ...

    def take_spare(self, table: str, partition: int) -> SpareBuffers | None:
        """Return the buffers that were kept for the next segment of a partition; they are given away."""
        ...

    def keep_spare(self, table: str, partition: int, spare: SpareBuffers) -> None:
        """Keep buffers for the successor of the segment; they are given away."""
        ...

    def note_error(self, table: str, error: StreamError) -> None:
        """Remember an error."""
        ...

    def note_build(self, table: str, built: BuiltSegment) -> None:
        """Remember a build."""
        ...


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
        self._keys: ConsumingKeys | None = None
        self.table = table
        self._resources, self._owner = resources, owner
        self._record = record
        self._config = stream
        self._has_peers = layout.config.segments.peer_segment_download_scheme is not None
        self._letters = letters
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
        self._last_consumed_ms, self._last_message_ms = record.creation_time_ms, -1
        self._take_over(ahead, spare)
        self._wake = threading.Condition()
        self._commands: list[Callable[[], None]] = []
        self._stopping = False
        self.began = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"consume-{record.name}", daemon=True)
        self._build: Build | None = None
        self._controller_url: str | None = None
        self._throttle = Throttle(stream.partition_rate_limit, stream.topic_rate_limit, self._count_partitions)
        self._end: Offset | None = None
        self._caught_up_ms, self._rate = -1, RateMeter()
        self._busy_ms, self._is_spare_made = self._clock.now_ms(), False
        self._filtered = self._incomplete = self._dropped = 0

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
        return self._last_message_ms if self._last_message_ms >= 0 else self._last_consumed_ms

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
    def lacks_keys(self) -> bool:
        """Whether rows are to be taken, but primary keys are not looked up yet."""
        return self._open_keys is not None and self._keys is None and self._machine.state.is_consuming

    def status(self) -> ConsumerStatus:
        """Return what is known of the consumer."""
        machine, memory = self._machine, self._rows.memory()
        by_column = {name: {part: use.used for part, use in parts.items()} for name, parts in memory.items()}
        message_ms = self._last_message_ms
        return ConsumerStatus(
            segment=self.segment,
            partition=self._name.partition,
            state=machine.state.value,
            failure=machine.failure,
            start_offset=self._record.start_offset,
            current_offset=str(machine.offset),
            end_offset=None if self._end is None else str(self._end),
            lag=_lag(machine.offset, self._end),
            num_rows=machine.num_rows,
            row_limit=self._row_limit,
            rows_filtered=self._filtered,
            rows_incomplete=self._incomplete,
            messages_dropped=self._dropped,
            rows_per_s=self._rate.rows_per_s(self._clock.now_ms()),
            created_ms=self._record.creation_time_ms,
            last_consumed_ms=self._last_consumed_ms,
            last_message_ms=message_ms,
            availability_lag_ms=None if message_ms < 0 else max(0, self._last_consumed_ms - message_ms),
            ingestion_delay_ms=self._ingestion_delay_ms(),
            quota_percent=self._throttle.utilization(self._clock.monotonic_s()),
            memory_bytes=sum(sum(parts.values()) for parts in by_column.values()),
            memory=by_column,
        )

    def _ingestion_delay_ms(self) -> int | None:
        """Return how old what queries see may be: it grows while the stream is not read, and is about 0 at its end."""
        last_ms = max(self._last_message_ms, self._caught_up_ms)
        return None if last_ms < 0 else max(0, self._clock.now_ms() - last_ms)

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
            self._discard_build()
            self._rows.close()
            shutil.rmtree(self._buffers, ignore_errors=True)

    def _has_keys(self) -> bool:
        """Whether rows may be taken: a table without primary keys always may."""
        if self._open_keys is not None and self._keys is None:
            self._keys = self._open_keys(self)
        return self._open_keys is None or self._keys is not None

    def _guarded(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a dead thread tells nobody; a consumer that stopped is reported
            _log.exception("%s: %s failed", self.segment, what)
            self._error(f"{what} failed: {error!r}", permanent=True)
            self._machine.failed(f"{what} failed: {error!r}", self._clock.now_ms())
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
                self._machine.commit_started(self._ask(Call.COMMIT_START).status, self._clock.now_ms())
            case m.Upload():
                self._machine.uploaded(self._upload(), self._clock.now_ms())
            case m.EndCommit():
                self._machine.commit_ended(self._end_commit(action.location), self._clock.now_ms())
            case m.CommitWhole():
                self._machine.commit_ended(self._send_archive(Call.COMMIT).status, self._clock.now_ms())
            case m.ReportStopped():
                status = self._ask(Call.STOPPED_CONSUMING, reason=action.reason).status
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
        rows = MutableSegment(name, layout.schema, layout.config, folder, sizing, created, spare)
        return Begun(rows, folder, self.freshness_ms())

    def _take_in(self) -> None:
        """Account for what was read and indexed before this segment began."""
        while self._taken_in:
            read = self._taken_in.popleft()
            self._append(read.batch, read.taken)
            self._passed(read.batch, read.num_docs)

    def _consume(self, action: m.Consume) -> None:
        """Fetch, index and publish one batch."""
        now_ms = self._clock.now_ms()
        wait_ms = min(POLL_MS, self._config.fetch_timeout_ms)
        if action.deadline_ms is not None:
            wait_ms = max(0, min(wait_ms, action.deadline_ms - now_ms))
        try:
            read = self._reading.next(self._machine.offset, action.until, action.rows_max, wait_ms)
            full = self._append(read.batch, read.taken)
        except (TransientStreamError, PermanentStreamError, GamayError, OSError) as error:
            permanent = not isinstance(error, TransientStreamError)
            self._counts.fetch_failures += 1
            self._reading.close_reader()
            self._error(str(error), permanent=permanent)
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

    def _append(self, batch: MessageBatch, taken: Taken) -> bool:
        """Take rows in; return whether the segment is full, which leaves their messages to the next one."""
        if taken.dead:
            self._counts.count_dead(taken.dead)
            self._dropped += self._letters.add([replace(letter, segment=self.segment) for letter in taken.dead])
        if taken.rows is not None:
            keys = self._keys
            prepared = None if keys is None else keys.prepare(taken.rows)
            if prepared is not None and prepared.rejected:
                rejected = self._intake.rejected(batch, taken, prepared.rejected)
                self._counts.count_dead(rejected)
                self._dropped += self._letters.add(rejected)
            try:
                self._rows.append(taken.rows if prepared is None else prepared.batch)
            except GamayError as error:
                self._counts.indexing_failures += 1
                if keys is not None and prepared is not None:
                    keys.undo(prepared)
                if not self._rows.num_docs:
                    raise
                self._error(f"the segment takes no more rows: {error}", permanent=False)
                return True
            if keys is not None and prepared is not None:
                keys.publish(prepared)
        self._filtered += taken.num_filtered
        self._incomplete += taken.num_incomplete
        self._counts.filtered += taken.num_filtered - taken.num_foreign
        self._counts.foreign += taken.num_foreign
        self._counts.incomplete += taken.num_incomplete
        self._counts.sanitised += taken.num_sanitised
        return False

    def _passed(self, batch: MessageBatch, num_docs: int | None = None) -> None:
        """Take note of a batch whose rows are there. num_docs: rows with it, None where it is the last one."""
        now_ms = self._clock.now_ms()
        self._end = batch.end_offset
        rows = (self._rows.num_docs if num_docs is None else num_docs) - self._machine.num_rows
        self._counts.messages += len(batch)
        self._counts.rows += rows
        if len(batch):
            self._last_consumed_ms = self._busy_ms = now_ms
            self._last_message_ms = int(batch.timestamps_ms.max())
            self._rate.add(rows, now_ms)
        elif _lag(batch.next_offset, batch.end_offset) in (0, None):
            self._caught_up_ms = now_ms
        idle_ms = self._config.idle_timeout_ms
        if idle_ms is not None and now_ms - self._busy_ms > idle_ms:
            self._busy_ms = now_ms
            self._reading.close_reader()
        ended = batch.is_end_of_partition and not len(batch)
        full = self._rows.is_nearly_full
        self._machine.consumed(batch.next_offset, rows, now_ms, partition_ended=ended, full=full)
        self.began.set()
        if self._machine.num_rows >= self._row_limit * _SPARE_AT:
            self._make_spare()

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
        answer = self._ask(Call.CONSUMED, reason="" if action.reason is None else action.reason.value)
        offset = None if answer.offset is None else self._factory.parse_offset(answer.offset)
        self._controller_url = answer.controller_url
        status = answer.status
        if status is Status.CATCH_UP and self._name.is_stream_level:
            status = Status.HOLD  # no other consumer can arrive at just these rows; what is committed is downloaded
        self._machine.answered(status, offset, answer.build_time_s, self._clock.now_ms(), split_commit=answer.split_commit)
        if self._machine.state in (ConsumerState.CATCHING_UP, ConsumerState.DISCARDED):
            self._owner.drop_ahead(self.table, self.segment)

    def _build_segment(self, action: m.Build) -> None:
        self._discard_build()
        if self._pauseless or action.lease_s is None:
            self._give_way()
        begun_s = self._clock.monotonic_s()
        out = self._resources.folder / self.table / f"build-{self._resources.ids.new()}"
        try:
            with lease(action.lease_s, self._extend), self._resources.permits.taken():
                building_s = self._clock.monotonic_s()
                folder = self._rows.seal(out, self._kept(), durable=False)
        except (GamayError, OSError, MemoryError) as error:
            shutil.rmtree(out, ignore_errors=True)
            self._counts.build_failures += 1
            self._error(f"the segment cannot be built: {error}", permanent=True)
            self._machine.failed(f"the segment cannot be built: {error}", self._clock.now_ms())
            return
        size = sum(path.stat().st_size for path in folder.iterdir())
        self._counts.build_s = self._clock.monotonic_s() - building_s
        took_ms = round(self._counts.build_s * 1000)
        self._build = Build(folder, self._rows.num_docs, size, took_ms, round((building_s - begun_s) * 1000))
        now_ms = self._clock.now_ms()
        self._owner.note_build(
            self.table, BuiltSegment(self.segment, self._build.num_rows, size, took_ms, self._build.wait_ms, now_ms)
        )
        self._history.record(self._rows.sizing(), now_ms)
        self._machine.built()

    def _give_way(self) -> None:
        """Let the successor show its first rows before the processor is used for what no query waits for."""
        if self._open_keys is None:  # with primary keys it may itself wait for this segment
            self._owner.await_successor(self.table, self.segment, _SUCCESSOR_S)

    def _kept(self) -> "DocIds | None":
        """Return the rows that the built segment has, None for all: with `enableCommitTimeCompaction` those that count.

        Those that delete a key are kept. Where none counts all are: a segment without rows says nothing of its times.
        """
        if not self._compacts or self._keys is None:
            return None
        counting = self._keys.counting()
        return None if counting is None or not len(counting) else counting

    def _extend(self, seconds: int) -> Status:
        return self._ask(Call.EXTEND_BUILD_TIME, extra_time_s=seconds).status

    def _upload(self) -> str | None:
        """Return where the segment is: in the deep store, or, where its table allows that, nowhere but on its servers."""
        location = self._upload_directly()
        if location is None:
            answer = self._send_archive(Call.UPLOAD)
            location = answer.segment_location if answer.status is Status.UPLOAD_SUCCESS else None
        self._counts.upload_failures += location is None
        if location is None and self._has_peers:
            self._error(
                "the segment cannot be brought to the deep store; its servers are its copies for now", permanent=False
            )
            fsync_tree(self._built_segment.folder)  # elsewhere the copy in the deep store outlives a crash of the machine
            location = f"{PEER_SCHEME}///{self.segment}"
        return location

    def _upload_directly(self) -> str | None:
        store, wanted = self._resources.deep_store, self._config.server_upload_to_deep_store
        if store is None or not (self._has_peers if wanted is None else wanted):
            return None
        try:
            return store.put(self._archive(), self.table, self.segment, read_metadata(self._built_segment.folder).crc)
        except OSError as error:
            self._error(f"the deep store does not take the segment: {error}", permanent=False)
            return None

    def _archive(self) -> Path:
        folder = self._built_segment.folder
        archive = folder.parent / f"{self.segment}.tar.zst"
        if not archive.exists():
            pack(folder, archive, ZSTD_LEVEL_QUICK)  # the partition waits
        return archive

    def _send_archive(self, call: Call) -> CompletionResponse:
        url = self._controller_url if call is Call.UPLOAD else None
        return self._ask(call, file=self._archive(), controller_url=url)

    def _end_commit(self, location: str) -> Status:
        metadata = self._built_segment.folder / "metadata.json"
        return self._ask(Call.COMMIT_END_WITH_METADATA, file=metadata, location=location).status

    def _serve(self) -> None:
        built = self._built_segment
        self._give_way()  # the rows here are served meanwhile
        self._owner.serve(self.table, self.segment, built.folder)
        if self._ended_s is not None:
            self._counts.completion_s = self._clock.monotonic_s() - self._ended_s
        self._discard_build()
        self._reading.close_reader()

    @property
    def _built_segment(self) -> Build:
        if self._build is None:
            raise RuntimeError(f"no segment was built for {self.segment}")
        return self._build

    def _discard_build(self) -> None:
        built, self._build = self._build, None
        if built is not None:
            shutil.rmtree(built.folder.parent, ignore_errors=True)

    def _ask(
        self,
        call: Call,
        *,
        reason: str = "",
        location: str = "",
        extra_time_s: int = 0,
        file: Path | None = None,
        controller_url: str | None = None,
    ) -> CompletionResponse:
        built = self._build
        request = CompletionRequest(
            instance=self._resources.server,
            segment=self.segment,
            offset=str(self._machine.offset),
            reason=reason or ("" if self._machine.stop_reason is None else self._machine.stop_reason.value),
            row_count=self._rows.num_docs,
            segment_size_bytes=0 if built is None else built.size_bytes,
            build_time_ms=0 if built is None else built.build_ms,
            wait_time_ms=0 if built is None else built.wait_ms,
            extra_time_s=extra_time_s,
            location=location,
        )
        answer = self._resources.completion.ask(call, request, file, controller_url)
        self._counts.answers[answer.status] += 1
        return answer

    def _error(self, reason: str, *, permanent: bool) -> None:
        log = _log.error if permanent else _log.warning
        log("%s, at offset %s: %s", self.segment, self._machine.offset, reason)
        self._owner.note_error(
            self.table, StreamError(self.segment, self._name.partition, permanent, reason, self._clock.now_ms())
        )


def _limits(record: SegmentRecord, flush: FlushThresholds) -> m.Limits:
    rows = record.flush_threshold_rows if record.flush_threshold_rows > 0 else flush.segment_rows
    return m.Limits(rows or DEFAULT_FLUSH_ROWS, record.creation_time_ms, flush.time_ms)


def _is_pauseless(config: TableConfig) -> bool:
    stream = config.ingestion.stream
    return stream is not None and stream.pauseless_consumption_enabled


def _downloads_completed(config: TableConfig) -> bool:
    completion = config.segments.completion_config
    return completion is not None and completion.completion_mode == "DOWNLOAD"


def _lag(offset: Offset, end: Offset | None) -> int | None:
    if isinstance(offset, IntegerOffset) and isinstance(end, IntegerOffset):
        return max(0, end.value - offset.value)
    if isinstance(offset, TopicOffset) and isinstance(end, TopicOffset):
        return max(0, end.total - offset.total)
    return None
