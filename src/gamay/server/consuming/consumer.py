"""The thread of one consuming segment: executes the state machine's actions, and reports their results to it.

Its parts do the work: `gamay.server.consuming.consumption` consumes rows, `gamay.server.consuming.successor` prefetches,
`gamay.server.consuming.building` builds the segment, and `gamay.server.consuming.commit` commits it.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial

from gamay.base.errors import GamayError
from gamay.cluster.records.completion import Status
from gamay.ingest.stream.offsets import Offset
from gamay.ingest.stream.spi import TransientStreamError
from gamay.segment.spi import Segment
from gamay.server.consuming import machine as m
from gamay.server.consuming.building import SegmentBuild
from gamay.server.consuming.commit import SegmentCommit
from gamay.server.consuming.consumption import Consumed, Consumption
from gamay.server.consuming.context import SegmentContext, SegmentTask
from gamay.server.consuming.host import Surroundings
from gamay.server.consuming.machine import ConsumerState
from gamay.server.consuming.status import ConsumerStatus
from gamay.server.consuming.successor import Successor

_log = logging.getLogger(__name__)

_KEYS_POLL_MS = 20


class SegmentConsumer:
    """Consumer of one segment, between `start` and `stop`.

    begin: the offset of the first row. began: set when the first rows are visible. Raises GamayError and OSError if the
    stream or the rows cannot be set up.
    """

    def __init__(self, around: Surroundings, task: SegmentTask) -> None:
        self._context = context = SegmentContext(around, task)
        self.segment, self.begin = context.segment, context.begin
        self._machine, self._clock = context.machine, context.clock
        self._consumption = Consumption(context)
        self._successor = Successor(context, self._consumption.rows)
        self._build = SegmentBuild(context, self._consumption.rows)
        self._commit = SegmentCommit(context, self._consumption.rows, self._build)
        self._ended_s: float | None = None  # when consumption ended, by the monotonic clock
        self._wake = threading.Condition()
        self._commands: list[Callable[[], None]] = []
        self._stopping = False
        self.began = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"consume-{self.segment}", daemon=True)

    # queries, from any thread

    def view(self) -> Segment:
        """Return the rows indexed so far."""
        return self._consumption.rows.view()

    def freshness_ms(self) -> int:
        """Return the time when the last row was written to the stream or, if unknown, indexed."""
        return self._context.progress.freshness_ms

    def end(self) -> Offset | None:
        """Return the end offset of the rows, None while consuming."""
        return None if self.state.is_consuming else self._machine.offset

    @property
    def state(self) -> ConsumerState:
        """The state of the consumer."""
        return self._machine.state

    @property
    def gave_up(self) -> bool:
        """Whether the controller was informed that this replica has stopped permanently, and has set it OFFLINE."""
        return self._machine.gave_up

    @property
    def is_beyond(self) -> bool:
        """Whether there are more rows here than the unstored segment will have, so that it must be consumed again."""
        return self._machine.is_beyond

    @property
    def has_all_rows(self) -> bool:
        """Whether the segment's end is decided, and exactly the rows before it are here."""
        return self._machine.has_all_rows

    @property
    def lacks_keys(self) -> bool:
        """Whether the consumer waits because the primary keys are not available yet."""
        return self._consumption.lacks_keys and self.state.is_consuming

    def status(self) -> ConsumerStatus:
        """Return the status of the consumer."""
        return self._consumption.status()

    # commands, from any thread

    def start(self) -> None:
        """Start consuming."""
        self._thread.start()

    def force_commit(self) -> None:
        """Commit the present rows soon."""
        self._command(self._machine.force_commit)

    def end_at(self, end_offset: str, *, committed: bool) -> bool:
        """Set the decided end of the segment, which is or will be committed; return whether there are rows beyond it
        here."""
        end = self._context.factory.parse_offset(end_offset)
        tell = self._machine.go_online if committed else self._machine.decide_end
        self._command(lambda: tell(end, self._clock.now_ms()))
        return end < self._machine.offset

    def stop(self) -> None:
        """Stop soon; uncommitted rows are consumed again by the next server that hosts the segment."""
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
                    self._context.owner.leave(self._context.table, self.segment)
                    return
                self._guarded(type(action).__name__, partial(self._execute, action))
        finally:
            self._build.discard()
            self._consumption.close()

    def _guarded(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 - a dead thread would go unnoticed; a stopped consumer is reported
            _log.exception("%s: %s failed", self.segment, what)
            reason = f"{what} failed: {error if isinstance(error, GamayError) else repr(error)}"
            self._context.note_error(reason, permanent=True)
            self._machine.failed(reason, self._clock.now_ms())
            self._wait(self._clock.now_ms() + m.RETRY_MS)

    def _wait(self, until_ms: int | None) -> None:
        with self._wake:
            left_s = None if until_ms is None else max(0, until_ms - self._clock.now_ms()) / 1000
            if not self._commands and not self._stopping:
                self._wake.wait(left_s)

    def _execute(self, action: m.Action) -> None:
        machine, commit, now_ms = self._machine, self._commit, self._clock.now_ms
        match action:
            case m.Consume():
                self._consume(action)
            case m.Wait():
                self._wait(action.until_ms)
            case m.ReportConsumed():
                self._report_consumed(action)
            case m.Build():
                self._build_segment(action)
            case m.StartCommit():
                machine.commit_started(commit.ask_start(), now_ms())
            case m.Upload():
                machine.uploaded(commit.upload(), now_ms())
            case m.EndCommit():
                machine.commit_ended(commit.end(action.location), now_ms())
            case m.CommitWhole():
                machine.commit_ended(commit.send_whole(), now_ms())
            case m.ReportStopped():
                machine.stop_reported(commit.tell_stopped(action.reason) is Status.PROCESSED, now_ms())
            case m.Serve():
                self._serve()
            case m.BeginAnew():
                self._context.counts.ahead += 1
                self._context.owner.begin_anew(self._context.table, self.segment)

    def _take_in(self) -> None:
        for consumed in self._consumption.taken_in():
            self._tell_consumed(consumed)

    def _consume(self, action: m.Consume) -> None:
        if not self._consumption.open_keys(self):
            self._wait(self._clock.now_ms() + _KEYS_POLL_MS)
            return
        try:
            consumed = self._consumption.next(action)
        except (GamayError, OSError) as error:
            permanent = not isinstance(error, TransientStreamError)
            self._consumption.fetch_failed()
            self._context.note_error(str(error), permanent=permanent)
            self._machine.fetch_failed(str(error), self._clock.now_ms(), permanent=permanent)
            return
        self._tell_consumed(consumed)
        if consumed.delay_s:
            self._wait(self._clock.now_ms() + round(consumed.delay_s * 1000))

    def _tell_consumed(self, done: Consumed) -> None:
        now_ms = self._clock.now_ms()
        self._machine.consumed(done.offset, done.rows, now_ms, partition_ended=done.partition_ended, full=done.full)
        self.began.set()
        self._successor.make_spare(self._machine.num_rows)

    def _report_consumed(self, action: m.ReportConsumed) -> None:
        self._successor.prefetch(self._consumption.give_reader())
        self._successor.make_spare()
        if self._ended_s is None:
            self._ended_s = self._clock.monotonic_s()
        answer = self._commit.ask_consumed("" if action.reason is None else action.reason.value)
        offset = None if answer.offset is None else self._context.factory.parse_offset(answer.offset)
        status = answer.status
        if status is Status.CATCH_UP and self._context.is_stream_level:
            status = Status.HOLD  # no other consumer can have exactly these rows, so the committed copy is downloaded
        self._machine.answered(status, offset, answer.build_time_s, self._clock.now_ms(), split_commit=answer.split_commit)
        if self.state in (ConsumerState.CATCHING_UP, ConsumerState.DISCARDED):
            self._successor.drop_prefetch()

    def _build_segment(self, action: m.Build) -> None:
        if self._context.is_pauseless or action.lease_s is None:
            self._successor.give_way()
        failure = self._build.run(action.lease_s, self._commit.ask_time, self._consumption.committed_docs)
        if failure is None:
            self._machine.built()
        else:
            self._machine.failed(failure, self._clock.now_ms())

    def _serve(self) -> None:
        context = self._context
        self._successor.give_way()  # the consumed rows are served meanwhile
        context.owner.serve(context.table, self.segment, self._build.folder)
        if self._ended_s is not None:
            context.counts.completion_s = self._clock.monotonic_s() - self._ended_s
        self._build.discard()
        self._consumption.leave_stream()
