"""The lead controller's side of segment completion: machines in memory, effects on the records."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from gamay.base.errors import GamayError
from gamay.cluster.records.completion import Call, CompletionRequest, CompletionResponse, Status
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import COMMITTING, CONSUMING, Assignment, SegmentRecord
from gamay.controller.completion.machine import EffectKind, Outcome, SegmentCompletion, State, Timing
from gamay.controller.counts import Counted
from gamay.controller.realtime.context import RealtimeContext, is_pauseless
from gamay.controller.realtime.ideal_steps import marked_offline
from gamay.controller.realtime.lifecycle import Committed, SegmentLifecycle
from gamay.ingest.stream.config import stream_configs
from gamay.model.cluster_settings import SEGMENT_COMMIT_TIMEOUT
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType, typed_table_name

_log = logging.getLogger(__name__)

_FAILED = CompletionResponse(Status.FAILED)
Event: TypeAlias = Callable[[SegmentCompletion, CompletionRequest, int], Outcome]
Describe: TypeAlias = Callable[[TableConfig], SegmentRecord]

_EVENTS: dict[Call, Event] = {
    Call.CONSUMED: SegmentCompletion.consumed,
    Call.STOPPED_CONSUMING: SegmentCompletion.stopped_consuming,
    Call.EXTEND_BUILD_TIME: SegmentCompletion.extend_build_time,
    Call.COMMIT_START: SegmentCompletion.commit_start,
    Call.COMMIT_END: SegmentCompletion.commit_end,
}


@dataclass
class _Entry:
    """A machine with its lock.

    winner_lived: whether the winner was live in the cluster when it was told to commit, so that its death can be noticed.
    is_counted: whether the machine's abort was counted.
    """

    machine: SegmentCompletion
    lock: threading.Lock = field(default_factory=threading.Lock)
    winner_lived: bool = False
    is_counted: bool = False


class CompletionManager:
    """Server side of the completion protocol.

    Its methods may be called from any thread and never raise: errors are answered by FAILED. is_lead: whether this
    controller leads a typed table now. controller_url: the URL for servers' uploads. split_commit: False makes servers
    commit in one call.
    """

    def __init__(
        self,
        context: RealtimeContext,
        is_lead: Callable[[str], bool],
        controller_url: str | None = None,
        *,
        split_commit: bool = True,
    ) -> None:
        self._context = context
        self._lifecycle = SegmentLifecycle(context)
        self._is_lead = is_lead
        self._controller_url = controller_url
        self._split_commit = split_commit
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._lock = threading.Lock()

    def ask(self, call: Call, request: CompletionRequest) -> CompletionResponse:
        """Answer a call that brings no file: all but COMMIT_END, COMMIT and UPLOAD."""
        return self._answer(call, request, lambda table: self._ask(call, table, request))

    def commit_end(self, request: CompletionRequest, describe: Describe) -> CompletionResponse:
        """Answer the end of a commit. describe: returns the record of what was uploaded, or raises."""
        return self._answer(Call.COMMIT_END, request, lambda table: self._commit_end(table, request, describe))

    def state_of(self, table: str, segment: str) -> State | None:
        """Return the state of a segment's completion, or None if no replica has asked lately."""
        with self._lock:
            entry = self._entries.get((table, segment))
        return None if entry is None else entry.machine.state

    def forget_stale(self) -> None:
        """Drop the machines of segments that no server asks about any more."""
        now_ms = self._now_ms()
        with self._lock:
            for key in [key for key, entry in self._entries.items() if entry.machine.expired(now_ms)]:
                del self._entries[key]

    def resign(self) -> None:
        """Drop all machines: another controller leads now, or this one has just become the lead."""
        with self._lock:
            self._entries.clear()

    # calls

    def _answer(
        self, call: Call, request: CompletionRequest, handle: Callable[[str], CompletionResponse]
    ) -> CompletionResponse:
        name = LlcName.parse(request.segment)
        if name is None:
            _log.error("%s: '%s' is not the name of a consuming segment", call.value, request.segment)
            return _FAILED
        table = typed_table_name(name.table, TableType.REALTIME)
        if not self._is_lead(table):
            return CompletionResponse(Status.NOT_LEADER)
        try:
            return handle(table)
        except (GamayError, OSError, ValueError) as error:
            _log.warning("%s of %s by %s failed: %s", call.value, request.segment, request.instance, error)
            return _FAILED

    def _ask(self, call: Call, table: str, request: CompletionRequest) -> CompletionResponse:
        if call is Call.BUILD_FAILURE:
            return self._build_failed(table, request)
        config = self._context.config_of(table)
        entry = self._living_entry(table, request, config)
        with entry.lock:
            outcome = _EVENTS[call](entry.machine, request, self._now_ms())
            self._drop_if_finished(table, request.segment, entry)
        if outcome.response.status is Status.COMMIT:
            entry.winner_lived = self._is_alive(request.instance)
        if outcome.effect is EffectKind.DECIDE_END:
            decided = False
            try:  # not under the lock: the other replicas are still answered
                decided = self._decide_end(table, request, entry.machine.winning_reason)
            finally:
                with entry.lock:
                    response = entry.machine.end_decided(decided)
                    self._drop_if_finished(table, request.segment, entry)
            return response
        if outcome.effect is EffectKind.MARK_OFFLINE:
            _log.warning("%s stopped consuming %s: %s", request.instance, request.segment, request.reason)
            self._mark_offline(table, request)
        return outcome.response

    def _commit_end(self, table: str, request: CompletionRequest, describe: Describe) -> CompletionResponse:
        config = self._context.config_of(table)
        entry = self._entry(table, request.segment, config)
        with entry.lock:
            outcome = entry.machine.commit_end(request, self._now_ms())
            self._drop_if_finished(table, request.segment, entry)
        if outcome.effect is not EffectKind.COMMIT:
            return outcome.response
        done = False
        try:
            done = self._commit(table, config, request, describe, entry.machine.winning_reason)
        finally:
            with entry.lock:
                response = entry.machine.committed(done)
                self._drop_if_finished(table, request.segment, entry)
                took_ms = entry.machine.age_ms(self._now_ms())
        if done:
            longest = self._context.longest_commit_ms
            longest[table] = max(longest.get(table, 0), took_ms)
        return response

    def _commit(self, table: str, config: TableConfig, request: CompletionRequest, describe: Describe, reason: str) -> bool:
        try:
            built = describe(config)
            size = request.segment_size_bytes if request.segment_size_bytes > 0 else built.size_bytes
            rows = max(request.row_count, built.total_docs)
            committed = Committed(request.offset, rows, size, request.reason or reason)
            self._lifecycle.complete(table, built, committed)
        except (GamayError, OSError, ValueError) as error:
            _log.warning("the commit of %s by %s failed: %s", request.segment, request.instance, error)
            return False
        try:
            self._lifecycle.advance(table, request.segment, by_committer=True)
        except (GamayError, OSError) as error:
            # the rows are committed; the next request about the segment, or the repair, creates the successor
            _log.warning("segment %s is committed, but its successor could not be created yet: %s", request.segment, error)
        return True

    def _decide_end(self, table: str, request: CompletionRequest, reason: str) -> bool:
        try:
            self._lifecycle.decide_end(table, request.segment, request.offset, reason)
            self._lifecycle.advance(table, request.segment, by_committer=True)
        except (GamayError, OSError) as error:
            _log.warning("the end of %s could not be decided for %s: %s", request.segment, request.instance, error)
            return False
        return True

    def _mark_offline(self, table: str, request: CompletionRequest) -> None:
        """Set a replica that stopped consuming OFFLINE, from where the repair restarts it."""
        registry, segment = self._context.registry, request.segment

        def change(ideal: Assignment) -> Assignment:
            # read after the ideal state: if that says ONLINE already, the end was decided before
            record = registry.get_segment(table, segment)
            is_committing = record is not None and record.status == COMMITTING
            return marked_offline(ideal, segment, request.instance, is_committing=is_committing)

        registry.update_ideal_state(table, change)

    def _build_failed(self, table: str, request: CompletionRequest) -> CompletionResponse:
        """Replace a segment that no replica can build by one with half of its rows."""
        if self.state_of(table, request.segment) in (State.COMMITTER_UPLOADING, State.COMMITTING):
            return CompletionResponse(Status.DISCARD)
        record = self._context.registry.get_segment(table, request.segment)
        if record is None or record.complete or record.status == COMMITTING:
            return CompletionResponse(Status.DISCARD)
        rows = max(1, min(request.row_count, record.flush_threshold_rows) // 2)
        successor = self._lifecycle.restart(table, request.segment, rows)
        _log.warning(
            "segment %s cannot be built from %d rows; %s replaces it", request.segment, request.row_count, successor
        )
        with self._lock:
            self._entries.pop((table, request.segment), None)
        return CompletionResponse(Status.PROCESSED)

    # machines

    def _entry(self, table: str, segment: str, config: TableConfig) -> _Entry:
        with self._lock:
            entry = self._entries.get((table, segment))
        if entry is not None and not entry.machine.finished:
            return entry
        machine = self._new_machine(table, segment, config)
        with self._lock:
            other = self._entries.get((table, segment))
            if other is not None and not other.machine.finished:
                return other
            entry = _Entry(machine)
            if not machine.finished:
                self._entries[table, segment] = entry
            return entry

    def _living_entry(self, table: str, request: CompletionRequest, config: TableConfig) -> _Entry:
        """Return the segment's machine, or a new one if it waits for a dead server while another server asks."""
        entry = self._entry(table, request.segment, config)
        winner = entry.machine.awaited
        if winner is None or winner == request.instance or not entry.winner_lived or self._is_alive(winner):
            return entry
        _log.warning("%s, the committer of %s, is not live; another replica will commit", winner, request.segment)
        with entry.lock:
            entry.machine.died(winner)
            self._drop_if_finished(table, request.segment, entry)
        return self._entry(table, request.segment, config)

    def _new_machine(self, table: str, segment: str, config: TableConfig) -> SegmentCompletion:
        registry = self._context.registry
        record, ideal = registry.get_segment(table, segment), registry.must_get_ideal_state(table)
        if record is None or record.abandoned_ms >= 0:
            raise GamayError(f"table '{table}' does not consume a segment '{segment}'")
        replicas = frozenset(server for server, state in ideal.states.get(segment, {}).items() if state == CONSUMING)
        if record.end_decided_ms >= 0:
            self._finish_interrupted(table, segment)
        partition = LlcName.must_parse(segment).partition
        return SegmentCompletion(
            replicas,
            self._context.offset_order(config, partition),
            self._timing(config, partition),
            pauseless=is_pauseless(config),
            split_commit=self._split_commit,
            controller_url=self._controller_url,
            decided_end=record.end_offset if record.status == COMMITTING else None,
            committed_end=record.end_offset if record.complete else None,
        )

    def _finish_interrupted(self, table: str, segment: str) -> None:
        """Complete a commit whose end an earlier controller decided without finishing it."""
        try:
            self._lifecycle.advance(table, segment)
        except (GamayError, OSError) as error:
            _log.warning("the interrupted completion of %s cannot be finished yet: %s", segment, error)

    def _timing(self, config: TableConfig, partition: int) -> Timing:
        topics = stream_configs(config)
        topic = topics[min(LlcName("", partition, 0, "").topic_index, len(topics) - 1)]
        seconds = topic.commit_timeout_s
        if seconds is None:
            seconds = SEGMENT_COMMIT_TIMEOUT.whole(self._context.registry.cluster_config())
        plain = Timing()
        longest = self._context.longest_commit_ms.get(config.typed_name, 0) - plain.notify_ms
        return Timing(commit_ms=max(1000 * seconds, longest))

    def _drop_if_finished(self, table: str, segment: str, entry: _Entry) -> None:
        if entry.machine.finished:
            if entry.machine.state is State.ABORTED and not entry.is_counted:
                entry.is_counted = True
                self._context.counts.add(Counted.COMMIT_ABORTED, table)
            with self._lock:
                if self._entries.get((table, segment)) is entry:
                    del self._entries[table, segment]

    def _is_alive(self, instance: str) -> bool:
        return instance in self._context.registry.live_instance_ids()

    def _now_ms(self) -> int:
        return int(self._context.clock.monotonic_s() * 1000)
