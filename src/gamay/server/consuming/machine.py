"""State machine of the consumer of one segment: the server's half of the segment completion protocol, as a pure class.

The owner calls `next`, executes the returned action, and reports the result by the event method that the action names; then
it calls `next` again. Transitions and force commits may be reported between any two actions. Time is wall-clock
milliseconds and always an argument; offsets only need an order. Nothing here reads a clock, starts a thread or stores rows.
"""

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from gamay.cluster.records.completion import MAX_HOLD_MS, Status, StopReason
from gamay.ingest.stream.offsets import Offset

STOPPED_AGAIN_MS = 10_000
RETRY_MS = 1_000
RETRIES_MAX = 5
CATCH_UP_TO_ONLINE_MS = 31_000
IDLE_EXTENSION_MS = 3_600_000
MIN_CONSUMPTION_MS = 600_000


class ConsumerState(Enum):
    """State of a consumer, with Pinot's names."""

    INITIAL_CONSUMING = "INITIAL_CONSUMING"
    CATCHING_UP = "CATCHING_UP"
    HOLDING = "HOLDING"
    CONSUMING_TO_ONLINE = "CONSUMING_TO_ONLINE"
    RETAINING = "RETAINING"
    COMMITTING = "COMMITTING"
    DISCARDED = "DISCARDED"
    RETAINED = "RETAINED"
    COMMITTED = "COMMITTED"
    ERROR = "ERROR"

    @property
    def is_consuming(self) -> bool:
        """Whether rows are fetched in this state."""
        return self in _CONSUMING

    @property
    def is_final(self) -> bool:
        """Whether only a transition of the segment leads out of this state."""
        return self in _FINAL


_CONSUMING = frozenset({ConsumerState.INITIAL_CONSUMING, ConsumerState.CATCHING_UP, ConsumerState.CONSUMING_TO_ONLINE})
_FINAL = frozenset({ConsumerState.DISCARDED, ConsumerState.RETAINED, ConsumerState.COMMITTED, ConsumerState.ERROR})


@dataclass(frozen=True, slots=True)
class Consume:
    """Fetch and index at most `rows_max` messages (None: as many as come) below offset `until`, returning by `deadline_ms`.

    Answered by `consumed` or `fetch_failed`.
    """

    rows_max: int | None
    until: Offset | None
    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class ReportConsumed:
    """Send segmentConsumed with the present offset. Answered by `answered`; a missing answer has the status NOT_SENT."""

    reason: StopReason | None


@dataclass(frozen=True, slots=True)
class StartCommit:
    """Send segmentCommitStart. Answered by `commit_started`."""


@dataclass(frozen=True, slots=True)
class Build:
    """Seal the rows into a segment that ends at the present offset. Answered by `built` or `failed`.

    lease_s: how long the controller waits for it without an extension; None if it does not wait.
    """

    lease_s: int | None


@dataclass(frozen=True, slots=True)
class Upload:
    """Upload the built segment to the deep store. Answered by `uploaded`."""


@dataclass(frozen=True, slots=True)
class EndCommit:
    """Send segmentCommitEndWithMetadata for the segment at `location`. Answered by `commit_ended`."""

    location: str


@dataclass(frozen=True, slots=True)
class CommitWhole:
    """Send the built segment with segmentCommit, for controllers that do not split commits. Answered by `commit_ended`."""


@dataclass(frozen=True, slots=True)
class ReportStopped:
    """Send segmentStoppedConsuming. Answered by `stop_reported`."""

    reason: str


@dataclass(frozen=True, slots=True)
class Serve:
    """Replace the consuming segment by the built one for queries. No event is reported."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do nothing until `until_ms` (None: until a transition), or until an event."""

    until_ms: int | None


@dataclass(frozen=True, slots=True)
class Leave:
    """End: the segment is ONLINE. download: fetch the committed copy, since the rows here differ from it."""

    download: bool


@dataclass(frozen=True, slots=True)
class BeginAnew:
    """Have another consumer consume the segment again: it is not stored, and has rows here beyond its decided end.

    No event is reported.
    """


Action: TypeAlias = (
    Consume | ReportConsumed | StartCommit | Build | Upload | EndCommit | CommitWhole | ReportStopped | Serve | BeginAnew
    | Wait | Leave
)  # fmt: skip


class _Step(Enum):
    BUILD = 1
    START = 2
    UPLOAD = 3
    END = 4
    WHOLE = 5


_STEPS = (_Step.BUILD, _Step.START, _Step.UPLOAD, _Step.END)
_STEPS_NOT_SPLIT = (_Step.BUILD, _Step.WHOLE)
_STEPS_PAUSELESS = (_Step.START, _Step.BUILD, _Step.UPLOAD, _Step.END)


@dataclass(frozen=True, slots=True)
class FlushLimits:
    """Limits at which a segment is full. rows: indexed; created_ms: of the segment; flush_ms: duration of consumption."""

    rows: int
    created_ms: int
    flush_ms: int


class ConsumerMachine:
    """State machine of one replica of one consuming segment.

    downloads_completed: the table's completion mode is DOWNLOAD, so KEEP is ignored.
    pauseless: the commit is announced before the segment is built.
    """

    def __init__(
        self, start: Offset, limits: FlushLimits, now_ms: int, *, pauseless: bool = False, downloads_completed: bool = False
    ) -> None:
        self.state = ConsumerState.INITIAL_CONSUMING
        self.offset = start
        self.num_rows = 0
        self.stop_reason: StopReason | None = None
        self.failure: str | None = None
        self.online = False
        self.is_beyond = False  # there are more rows here than the segment will have, and it is not stored
        self._limits = limits
        # after a restart, rows that are consumed again must not be committed immediately
        self._end_ms = max(limits.created_ms + limits.flush_ms, now_ms + min(limits.flush_ms, MIN_CONSUMPTION_MS))
        self._steps: tuple[_Step, ...] = _STEPS
        self._pauseless = pauseless
        self._downloads_completed = downloads_completed
        self._fetched = self._ended = self._forced = self._full = False
        self._target: Offset | None = None
        self._decided_end: Offset | None = None
        self._deadline_ms: int | None = None
        self._next_ms = 0
        self._failed_fetches = 0
        self._step = 0
        self._lease_s: int | None = None
        self._built_at: Offset | None = None
        self._location = ""
        self._served = self._told = self._asked_anew = False

    @property
    def gave_up(self) -> bool:
        """Whether consumption has failed, and the controller has acknowledged it."""
        return self.state is ConsumerState.ERROR and self._told

    @property
    def has_all_rows(self) -> bool:
        """Whether the segment's end is decided, and exactly the rows before it are here, whichever replica commits them."""
        return self._decided_end is not None and self.offset == self._decided_end

    # actions

    def next(self, now_ms: int) -> Action:
        """Return the next action."""
        state = self.state
        if state is ConsumerState.INITIAL_CONSUMING and (reason := self._end_criterion(now_ms)) is not None:
            self.stop_reason = reason
            self._hold(now_ms)
        elif state is ConsumerState.CATCHING_UP and not self._is_before(self._target):
            self._hold(now_ms)
        elif state is ConsumerState.CONSUMING_TO_ONLINE:
            if not self._is_before(self._target):
                self.state = ConsumerState.RETAINING
            elif self._deadline_ms is not None and now_ms >= self._deadline_ms:
                self.state = ConsumerState.DISCARDED
        if self.state is ConsumerState.RETAINING and self._has_built:
            self.state = ConsumerState.RETAINED
        return self._action(now_ms)

    def _action(self, now_ms: int) -> Action:
        state = self.state
        if state.is_consuming:
            if now_ms < self._next_ms:
                return Wait(self._next_ms)
            left = self._limits.rows - self.num_rows if state is ConsumerState.INITIAL_CONSUMING else None
            end_ms = self._end_ms if state is ConsumerState.INITIAL_CONSUMING else self._deadline_ms
            return Consume(left, self._target, end_ms)
        if state is ConsumerState.HOLDING:
            return ReportConsumed(self.stop_reason) if now_ms >= self._next_ms else Wait(self._next_ms)
        if state is ConsumerState.RETAINING:
            return Build(None)
        if state is ConsumerState.COMMITTING:
            return self._commit_action()
        if state is ConsumerState.ERROR and not (self._told or self.online):
            return ReportStopped(self.failure or "") if now_ms >= self._next_ms else Wait(self._next_ms)
        if self.is_beyond and not (self._asked_anew or self.online):
            self._asked_anew = True
            return BeginAnew()
        keeps = state in (ConsumerState.COMMITTED, ConsumerState.RETAINED)
        if keeps and not self._served:
            self._served = True
            return Serve()
        return Leave(download=not keeps) if self.online else Wait(None)

    def _commit_action(self) -> Action:
        if self._steps[self._step] is _Step.BUILD and self._has_built:
            self._step += 1
        step = self._steps[self._step]
        if step is _Step.BUILD:
            return Build(self._lease_s)
        if step is _Step.START:
            return StartCommit()
        if step is _Step.UPLOAD:
            return Upload()
        return CommitWhole() if step is _Step.WHOLE else EndCommit(self._location)

    def _end_criterion(self, now_ms: int) -> StopReason | None:
        if now_ms >= self._end_ms:
            if self._fetched:
                return StopReason.TIME_LIMIT
            self._end_ms = now_ms + IDLE_EXTENSION_MS
        if self.num_rows >= self._limits.rows:
            return StopReason.ROW_LIMIT
        if self._ended:
            return StopReason.END_OF_PARTITION_GROUP
        if self._forced:
            return StopReason.FORCE_COMMIT
        return StopReason.INDEX_CAPACITY if self._full else None

    # events

    def consumed(self, offset: Offset, rows: int, now_ms: int, *, partition_ended: bool = False, full: bool = False) -> None:
        """Report that all messages below `offset` are indexed, with `rows` additional rows.

        partition_ended: the stream will never have more messages of this partition. full: the segment cannot index more
        rows. Raises ValueError if the offset is beyond the requested one, or below what was indexed before.
        """
        if offset < self.offset or (self._target is not None and self._target < offset):
            raise ValueError(f"consumed to offset {offset}, from {self.offset}, when {self._target} was the end")
        self._fetched = self._fetched or self.offset < offset
        self.offset = offset
        self.num_rows += rows
        self._ended = self._ended or partition_ended
        self._full = self._full or full
        self._failed_fetches = 0
        if self._ended and self._is_before(self._target):
            # Another replica has consumed messages that the stream no longer has.
            self._fail(f"the partition ended at offset {offset}, before the offset {self._target} to catch up to", now_ms)

    def fetch_failed(self, reason: str, now_ms: int, *, permanent: bool) -> None:
        """Report that messages could not be fetched or indexed; transient failures are retried a few times."""
        self._failed_fetches += 1
        if permanent or self._failed_fetches > RETRIES_MAX:
            self._fail(reason, now_ms)
        else:
            self._next_ms = now_ms + RETRY_MS

    def answered(
        self, status: Status, offset: Offset | None, build_s: int, now_ms: int, *, split_commit: bool = True
    ) -> None:
        """Report the answer to segmentConsumed. build_s: how long the controller waits for the commit."""
        if self.state is not ConsumerState.HOLDING:
            return
        if status is Status.COMMIT and (offset is None or offset == self.offset):
            self.state = ConsumerState.COMMITTING
            self._steps = _STEPS_NOT_SPLIT if not split_commit else _STEPS_PAUSELESS if self._pauseless else _STEPS
            self._step, self._lease_s = 0, build_s if build_s > 0 else None
        elif status is Status.KEEP:
            self.state = ConsumerState.DISCARDED if self._downloads_completed else ConsumerState.RETAINING
        elif status is Status.CATCH_UP and offset is not None and self.offset < offset:
            self.state = ConsumerState.CATCHING_UP
            self._target, self._next_ms = offset, now_ms
        elif status is Status.DISCARD:
            self.state = ConsumerState.DISCARDED
        else:
            self._next_ms = now_ms + MAX_HOLD_MS

    def built(self) -> None:
        """Report that a segment of all rows up to the present offset is built."""
        self._built_at = self.offset

    def failed(self, reason: str, now_ms: int) -> None:
        """Report a permanent failure, such as that the segment cannot be built."""
        self._fail(reason, now_ms)

    def commit_started(self, status: Status, now_ms: int) -> None:
        """Report the answer to segmentCommitStart."""
        self._advance(status is Status.COMMIT_CONTINUE, now_ms)

    def uploaded(self, location: str | None, now_ms: int) -> None:
        """Report the location of the uploaded segment; None if the upload failed."""
        self._location = location or ""
        self._advance(location is not None, now_ms)

    def commit_ended(self, status: Status, now_ms: int) -> None:
        """Report the answer to segmentCommitEndWithMetadata."""
        if status is Status.COMMIT_SUCCESS:
            self.state = ConsumerState.COMMITTED
        else:
            self._advance(False, now_ms)

    def stop_reported(self, done: bool, now_ms: int) -> None:
        """Report whether the controller has acknowledged the stop."""
        self._told = done
        self._next_ms = now_ms + STOPPED_AGAIN_MS

    # commands

    def force_commit(self) -> None:
        """End the segment with its present rows; no effect once it is ending."""
        self._forced = True

    def decide_end(self, end: Offset, now_ms: int) -> None:
        """Set the decided end of a segment that is not committed yet: reach it, and ask the controller again.

        This happens in pauseless consumption, where the successor already consumes; call it after every change of the
        record.
        """
        self._decided_end = end
        if end < self.offset and not self.online and self.state is not ConsumerState.ERROR:
            # For example after a restart during the decision. Possibly no other replica has these rows any more.
            self.state, self.is_beyond = ConsumerState.DISCARDED, True
            return
        if self.online or self.state.is_final or (self.state is ConsumerState.COMMITTING and self.offset == end):
            return
        if self._is_before(end):
            self.state = ConsumerState.CATCHING_UP
            self._target, self._next_ms = end, now_ms
        elif self.state is not ConsumerState.HOLDING:
            self._hold(now_ms)

    def go_online(self, end: Offset, now_ms: int) -> None:
        """Report that the segment was committed up to `end`: keep equal rows, else catch up or fetch the committed copy."""
        if self.online:
            return
        self.online = True
        self._target, self._next_ms = end, now_ms
        if self.state in (ConsumerState.COMMITTED, ConsumerState.RETAINED) and self.offset != end:
            self.state = ConsumerState.DISCARDED
        # in pauseless consumption, the answer to this replica's present request may still arrive
        elif not self.state.is_final and not (self._pauseless and self.state is ConsumerState.COMMITTING):
            self._settle(now_ms)

    def _settle(self, now_ms: int) -> None:
        if self._downloads_completed or (self._target is not None and self._target < self.offset):
            self.state = ConsumerState.DISCARDED
        elif self._is_before(self._target):
            self.state = ConsumerState.CONSUMING_TO_ONLINE
            self._deadline_ms = now_ms + CATCH_UP_TO_ONLINE_MS
        else:
            self.state = ConsumerState.RETAINING

    # helpers

    @property
    def _has_built(self) -> bool:
        return self._built_at is not None and self._built_at == self.offset

    def _is_before(self, target: Offset | None) -> bool:
        return target is not None and self.offset < target

    def _advance(self, succeeded: bool, now_ms: int) -> None:
        if self.state is not ConsumerState.COMMITTING:
            return
        if succeeded:
            self._step += 1
        elif self.online:
            self._settle(now_ms)
        else:
            self._hold(now_ms + MAX_HOLD_MS)

    def _hold(self, ask_ms: int) -> None:
        self.state = ConsumerState.HOLDING
        self._target = None
        self._next_ms = ask_ms

    def _fail(self, reason: str, now_ms: int) -> None:
        self.failure = reason
        # a committed segment can be fetched, so the failure need not be reported
        is_committed = self.online or self.state in (ConsumerState.COMMITTED, ConsumerState.RETAINED)
        self.state = ConsumerState.DISCARDED if is_committed else ConsumerState.ERROR
        self._next_ms = now_ms
