"""The controller's state machine for the completion of one segment: which replica commits, and what the others do.

Pure: events in, a response and at most one effect out; time is an argument of events, so there is no timer. The
result of an effect is reported by another event. The machine exists only in the memory of the lead controller. After
a change of the lead, the servers' repeated requests create a new one; the segment's record, changed by
compare-and-set, keeps two machines from committing a segment twice.

The states and times are those of the reference; the departures, all in favour of progress without an operator:

* Only the winner, at the winning offset, may start, extend and end a commit.
* A winner that comes back with other rows (it was restarted) makes the machine start over, rather than being told to discard
  rows that no replica has committed: with a single replica no other one could commit.
* A duplicate or late message gets an answer but does not abort a commit in progress.
* A replica that is already at the winning offset when the winner is chosen holds; it has nothing to catch up with.
* The report of a replica that stopped consuming no longer counts, and a winner that stops is replaced at once.
* A winner that died is replaced as soon as the cluster knows, however much of its time was left.
"""

from collections.abc import Callable, Set
from dataclasses import dataclass
from enum import Enum
from typing import Any

from gamay.cluster.records.completion import DEFAULT_EXTRA_TIME_S, CompletionRequest, CompletionResponse, Status, StopReason

OffsetOrder = Callable[[str], Any]  # offset as text -> a value that compares as the stream's offsets do

# a replica that stopped for one of these reasons has all the rows that any replica can have
_FINAL_REASONS = frozenset({StopReason.ROW_LIMIT.value, StopReason.END_OF_PARTITION_GROUP.value})


class State(Enum):
    """The states of a completion."""

    HOLDING = "HOLDING"  # waiting for the reports of all replicas
    COMMITTER_DECIDED = "COMMITTER_DECIDED"  # the winner is chosen and does not know it yet
    COMMITTER_NOTIFIED = "COMMITTER_NOTIFIED"  # it builds the segment
    COMMITTER_UPLOADING = "COMMITTER_UPLOADING"
    COMMITTING = "COMMITTING"  # the controller writes the records
    COMMITTED = "COMMITTED"
    ABORTED = "ABORTED"  # the machine is dropped; the next request creates a new one


# the states in which the next step is up to the winner
_BEFORE_COMMIT = frozenset({State.COMMITTER_DECIDED, State.COMMITTER_NOTIFIED, State.COMMITTER_UPLOADING})


class EffectKind(Enum):
    """The effects that the owner of the machine executes."""

    MARK_OFFLINE = "MARK_OFFLINE"  # set the segment OFFLINE on the instance if it is CONSUMING there
    DECIDE_END = "DECIDE_END"  # pauseless: write the end offset, start consumption of the next segment; then `end_decided`
    COMMIT = "COMMIT"  # register the uploaded segment; then `committed`


@dataclass(frozen=True, slots=True)
class Timing:
    """Time limits in milliseconds. commit_ms: a winner's time to build and upload, after which it must ask for more."""

    pick_ms: int = 3_300
    notify_ms: int = 6_600
    commit_ms: int = 120_000
    longest_ms: int = 1_800_000

    @property
    def budget_ms(self) -> int:
        """Return how long after the first report a commit may start, without an extension."""
        return min(self.notify_ms + self.commit_ms, self.longest_ms)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The response and the effect of an event. With DECIDE_END and COMMIT the response comes from the event that follows."""

    response: CompletionResponse
    effect: EffectKind | None = None


@dataclass(frozen=True, slots=True)
class _Setup:
    replicas: Set[str]
    order: OffsetOrder
    timing: Timing
    pauseless: bool
    split_commit: bool
    controller_url: str | None


class SegmentCompletion:
    """The state machine of one segment's completion. Not thread-safe: its owner passes one event at a time.

    replicas: the instances that consume the segment. pauseless: the end offset is written, and the next segment
    consumed, before the segment is built. decided_end: the end offset if an earlier machine of a pauseless table has
    written it. committed_end: the end offset if the segment is complete.
    """

    def __init__(
        self,
        replicas: Set[str],
        order: OffsetOrder,
        timing: Timing,
        *,
        pauseless: bool = False,
        split_commit: bool = True,
        controller_url: str | None = None,
        decided_end: str | None = None,
        committed_end: str | None = None,
    ) -> None:
        self._setup = _Setup(replicas, order, timing, pauseless, split_commit, controller_url)
        self.state = State.HOLDING if committed_end is None else State.COMMITTED
        self.winner: str | None = None
        self.winning_offset = committed_end if committed_end is not None else decided_end
        self._end_decided = decided_end is not None
        self._reports: dict[str, str] = {}
        self._reasons: dict[str, str] = {}
        self._stopped: set[str] = set()
        self._start_ms: int | None = None
        self._deadline_ms = 0

    @property
    def finished(self) -> bool:
        """Whether the machine can be dropped."""
        return self.state in (State.COMMITTED, State.ABORTED)

    @property
    def awaited(self) -> str | None:
        """The winner while the other replicas wait for it, or None."""
        return self.winner if self.state in _BEFORE_COMMIT else None

    @property
    def winning_reason(self) -> str:
        """Why the winner stopped consuming: value of StopReason, or '' if it gave none."""
        return self._reasons.get(self.winner or "", "")

    def age_ms(self, now_ms: int) -> int:
        """Return how long ago the first replica reported."""
        return 0 if self._start_ms is None else now_ms - self._start_ms

    def expired(self, now_ms: int) -> bool:
        """Whether it is too late for any commit that this machine knows of to succeed."""
        return self._start_ms is not None and now_ms > self._start_ms + 2 * self._setup.timing.longest_ms

    # events from servers

    def consumed(self, request: CompletionRequest, now_ms: int) -> Outcome:
        """Handle the report of a replica that reached its end criterion, caught up, or asks again."""
        if self.state is State.ABORTED:
            return _answer(Status.HOLD)
        if self.state is State.COMMITTED:
            same = self._compare(request.offset) == 0
            return _answer(Status.KEEP if same else Status.DISCARD, self.winning_offset)
        if self._start_ms is None:
            self._start_ms = now_ms
            self._deadline_ms = now_ms + self._setup.timing.budget_ms
        self._reports[request.instance] = request.offset
        if request.reason:
            self._reasons[request.instance] = request.reason
        self._stopped.discard(request.instance)
        if self.state is State.HOLDING:
            if self._end_decided:
                return self._consumed_after_decision(request, now_ms)
            if not self._pick_winner(request, now_ms):
                return _answer(Status.HOLD, request.offset)
            self.state = State.COMMITTER_DECIDED
        if self.state is State.COMMITTER_DECIDED:
            return self._consumed_when_decided(request, now_ms)
        return self._consumed_when_notified(request, now_ms)

    def stopped_consuming(self, request: CompletionRequest, now_ms: int) -> Outcome:
        """Handle the report of a replica that stopped consuming for good; it no longer takes part."""
        self._stopped.add(request.instance)
        self._reports.pop(request.instance, None)
        if request.instance == self.awaited:
            self.state = State.ABORTED
        return Outcome(CompletionResponse(Status.PROCESSED), EffectKind.MARK_OFFLINE)

    def died(self, instance: str) -> None:
        """Stop waiting for a server that died. Should it be alive after all, it is answered like any other replica."""
        if instance == self.awaited:
            self.state = State.ABORTED

    def extend_build_time(self, request: CompletionRequest, now_ms: int) -> Outcome:
        """Handle the winner's request for more time."""
        if self.state not in (State.COMMITTER_NOTIFIED, State.COMMITTER_UPLOADING) or not self._is_winner(request):
            return _answer(Status.FAILED)
        if self._is_late(now_ms):
            return self._abort(Status.HOLD)
        assert self._start_ms is not None
        extended = now_ms + 1000 * (request.extra_time_s if request.extra_time_s > 0 else DEFAULT_EXTRA_TIME_S)
        if extended > self._start_ms + self._setup.timing.longest_ms:
            return self._abort(Status.FAILED)
        self._deadline_ms = max(self._deadline_ms, extended)
        return _answer(Status.PROCESSED)

    def commit_start(self, request: CompletionRequest, now_ms: int) -> Outcome:
        """Handle the request of a replica to upload (pauseless: to build)."""
        if self.state is State.COMMITTED:
            same = self._compare(request.offset) == 0
            return _answer(Status.KEEP if same else Status.DISCARD, self.winning_offset)
        if request.instance in self._stopped:
            return _answer(Status.FAILED)
        if self.state in (State.HOLDING, State.ABORTED):
            return _answer(Status.HOLD)
        if self._is_late(now_ms):
            return self._abort(Status.HOLD)
        if request.instance != self.winner:
            return _answer(Status.HOLD)
        if self._compare(request.offset) != 0:
            return _answer(Status.HOLD) if self.state is State.COMMITTING else self._abort(Status.HOLD)
        if self.state is State.COMMITTER_NOTIFIED:
            if self._setup.pauseless and not self._end_decided:
                return Outcome(CompletionResponse(Status.COMMIT_CONTINUE), EffectKind.DECIDE_END)
            self.state = State.COMMITTER_UPLOADING
        if self.state is State.COMMITTER_UPLOADING:
            return _answer(Status.COMMIT_CONTINUE)
        return _answer(Status.HOLD)

    def commit_end(self, request: CompletionRequest, now_ms: int) -> Outcome:
        """Handle the report of a replica that has uploaded the segment."""
        if self.state is not State.COMMITTER_UPLOADING or not self._is_winner(request):
            return _answer(Status.FAILED)
        self.state = State.COMMITTING
        return Outcome(CompletionResponse(Status.COMMIT_SUCCESS), EffectKind.COMMIT)

    # results of effects

    def end_decided(self, succeeded: bool) -> CompletionResponse:
        """Record the result of DECIDE_END; return the response to the commit start that caused it."""
        if succeeded and self.state in (State.COMMITTER_NOTIFIED, State.COMMITTER_UPLOADING):
            self._end_decided = True
            self.state = State.COMMITTER_UPLOADING
            return CompletionResponse(Status.COMMIT_CONTINUE)
        self.state = State.ABORTED
        return CompletionResponse(Status.FAILED)

    def committed(self, succeeded: bool) -> CompletionResponse:
        """Record the result of COMMIT; return the response to the commit end that caused it."""
        self.state = State.COMMITTED if succeeded else State.ABORTED
        return CompletionResponse(Status.COMMIT_SUCCESS if succeeded else Status.FAILED)

    # decisions

    def _pick_winner(self, request: CompletionRequest, now_ms: int) -> bool:
        """Choose the committer if possible now: the replica with the most rows, and of equals the one that asks."""
        assert self._start_ms is not None
        waits_for_more = not self._setup.replicas - self._stopped <= self._reports.keys()
        first_and_final = len(self._reports) == 1 and request.reason in _FINAL_REASONS
        if waits_for_more and not first_and_final and now_ms <= self._start_ms + self._setup.timing.pick_ms:
            return False
        order = self._setup.order
        self.winner = request.instance
        for instance, offset in sorted(self._reports.items()):
            if order(offset) > order(self._reports[self.winner]):
                self.winner = instance
        self.winning_offset = self._reports[self.winner]
        return True

    def _consumed_when_decided(self, request: CompletionRequest, now_ms: int) -> Outcome:
        assert self._start_ms is not None
        ahead = self._compare(request.offset)
        is_winner = request.instance == self.winner
        # A winner that does not come back is replaced; so is one that came back with other rows, or that another one
        # overtook.
        if now_ms > self._start_ms + self._setup.timing.notify_ms or ahead > 0 or (is_winner and ahead < 0):
            return self._abort(Status.HOLD)
        if is_winner:
            return self._notify()
        return _answer(Status.HOLD if ahead == 0 else Status.CATCH_UP, self.winning_offset)

    def _consumed_when_notified(self, request: CompletionRequest, now_ms: int) -> Outcome:
        """Answer a report while the winner builds or uploads, or its upload is registered."""
        ahead = self._compare(request.offset)
        if self._is_late(now_ms):
            return self._abort(Status.HOLD)
        if request.instance == self.winner:
            match self.state:
                case State.COMMITTER_NOTIFIED if ahead == 0:
                    return self._notify()
                case State.COMMITTING:  # its answer got lost
                    return _answer(Status.HOLD, self.winning_offset)
                case _:
                    return self._abort(Status.HOLD)
        return self._consumed_by_other(ahead)

    def _consumed_after_decision(self, request: CompletionRequest, now_ms: int) -> Outcome:
        """Answer a report after an earlier machine decided the end: any replica with exactly these rows may build and
        upload."""
        ahead = self._compare(request.offset)
        if ahead != 0:
            return self._consumed_by_other(ahead)
        self.winner = request.instance
        return self._notify()

    def _consumed_by_other(self, ahead: int) -> Outcome:
        if ahead < 0:
            return _answer(Status.CATCH_UP, self.winning_offset)
        if not self._end_decided:
            return _answer(Status.HOLD, self.winning_offset)
        return _answer(Status.KEEP if ahead == 0 else Status.DISCARD, self.winning_offset)

    def _notify(self) -> Outcome:
        self.state = State.COMMITTER_NOTIFIED
        setup = self._setup
        return Outcome(
            CompletionResponse(
                Status.COMMIT,
                self.winning_offset,
                build_time_s=setup.timing.budget_ms // 1000,
                split_commit=setup.split_commit,
                controller_url=setup.controller_url,
            )
        )

    def _abort(self, status: Status) -> Outcome:
        self.state = State.ABORTED
        return _answer(status)

    def _is_late(self, now_ms: int) -> bool:
        return now_ms > self._deadline_ms

    def _is_winner(self, request: CompletionRequest) -> bool:
        return request.instance == self.winner and self._compare(request.offset) == 0

    def _compare(self, offset: str) -> int:
        """Return -1, 0 or 1 for an offset before, at or after the winning one."""
        assert self.winning_offset is not None
        mine, winning = self._setup.order(offset), self._setup.order(self.winning_offset)
        return int(mine > winning) - int(mine < winning)


def _answer(status: Status, offset: str | None = None) -> Outcome:
    return Outcome(CompletionResponse(status, offset))
