"""Repair of consumption after a crash, a lost message or a change of the stream: every partition of a table is
consumed, once.

Runs periodically on the lead controller, when it becomes the lead, and after a table is resumed. Each repair is a step of
`gamay.controller.realtime.lifecycle`, so it is safe beside a commit in progress or another repair; the guard times only
skip work that is probably still in progress.
"""

import logging
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial

from gamay.base.errors import GamayError
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import CONSUMING, IN_PROGRESS, OFFLINE, Assignment, SegmentRecord
from gamay.controller.counts import Counted
from gamay.controller.realtime.context import RealtimeContext
from gamay.controller.realtime.ideal_steps import (
    KEYS_MOVED,
    consumed_segment,
    is_online,
    latest_segments,
    let_go,
    pause_state,
    revived,
)
from gamay.controller.realtime.lifecycle import SegmentLifecycle, has_ended
from gamay.controller.realtime.streams import TableStreams
from gamay.ingest.stream.offsets import SMALLEST, OffsetCriteria
from gamay.model.table.table_config import TableConfig

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ValidationReport:
    """The repairs of one table. problems: sentences about what could not be repaired now."""

    advanced: list[str] = field(default_factory=list)
    continued: list[str] = field(default_factory=list)
    revived: list[str] = field(default_factory=list)
    let_go: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class PartitionValidator:
    """Repair of the consuming segments of tables."""

    context: RealtimeContext

    @property
    def _lifecycle(self) -> SegmentLifecycle:
        return SegmentLifecycle(self.context)

    def validate(
        self, table: str, *, criteria: OffsetCriteria | None = None, guard_ms: int | None = None
    ) -> ValidationReport:
        """Repair a typed table.

        A disabled table is left alone, and a paused one gets no new segments. criteria: where idle partitions continue,
        instead of where they stopped. guard_ms: skip work begun less than this ago; None takes the cluster's longest
        completion time. Raises NotFoundError if the table does not exist.
        """
        report = ValidationReport()
        registry = self.context.registry
        ideal = registry.must_get_ideal_state(table)
        if not ideal.enabled:
            return report
        guard = self.context.completion_time_max_ms() if guard_ms is None else guard_ms
        config = self.context.config_of(table)
        self._finish_interrupted(table, ideal, guard, report)
        ideal = registry.must_get_ideal_state(table)
        self._revive(table, ideal, report)
        if not pause_state(ideal).paused:
            self._continue_all(config, ideal, criteria, report)
        self._remove_leftovers(table, guard, report)
        for sentence in report.problems:
            _log.error("table %s: %s", table, sentence)
        return report

    def _finish_interrupted(self, table: str, ideal: Assignment, guard: int, report: ValidationReport) -> None:
        now_ms = self.context.clock.now_ms()
        unsettled = [name for name, states in ideal.states.items() if not is_online(states) and LlcName.parse(name)]
        records = self.context.registry.get_segments(table, unsettled)
        for segment in unsettled:
            record = records.get(segment)
            if record is None:
                # records are written before ideal states name them, so this one was deleted
                self._change(table, partial(_without, segment=segment))
                report.removed.append(segment)
            elif record.end_decided_ms >= 0 and now_ms - record.end_decided_ms >= guard:
                self._lifecycle.advance(table, segment)
                report.advanced.append(segment)
            elif record.abandoned_ms >= 0 and let_go(ideal, name := LlcName.must_parse(segment)) != ideal:
                self._change(table, partial(let_go, segment=name))
                report.let_go.append(segment)

    def _revive(self, table: str, ideal: Assignment, report: ValidationReport) -> None:
        """Restart replicas that stopped consuming segments that other replicas still consume."""
        for name in latest_segments(ideal).values():
            segment = str(name)
            if revived(ideal, segment) != ideal:
                self._change(table, partial(revived, segment=segment))
                report.revived.append(segment)

    def _continue_all(
        self, config: TableConfig, ideal: Assignment, criteria: OffsetCriteria | None, report: ValidationReport
    ) -> None:
        latest = latest_segments(ideal)
        idle = {p: name for p, name in latest.items() if CONSUMING not in ideal.states[str(name)].values()}
        with closing(self.context.open_streams(config)) as streams:
            try:
                partitions = self.context.partitions(config, streams)
            except GamayError as error:
                report.problems.append(f"the partitions of the stream cannot be read: {error}")
                return
            for partition in partitions:
                if partition in latest and partition not in idle:
                    continue
                if (earlier := consumed_segment(ideal, partition)) is not None:
                    report.problems.append(f"partition {partition} continues when segment {earlier} is committed")
                    continue
                try:
                    self._continue(config, ideal, partition, idle.get(partition), streams, criteria, report)
                except GamayError as error:
                    report.problems.append(f"partition {partition} is not consumed: {error}")

    def _continue(
        self, config: TableConfig, ideal: Assignment, partition: int, last: LlcName | None, streams: TableStreams,
        criteria: OffsetCriteria | None, report: ValidationReport,
    ) -> None:  # fmt: skip
        if pause_state(ideal).pauses(LlcName("", partition, 0, "")):
            return
        wanted: str | None = None
        if last is not None:
            wanted = self._offset_after(config.typed_name, ideal, last, report)
            if wanted is None:
                return
        start = streams.offset(partition, criteria or _first_criteria(ideal, partition, streams))
        lost = ""
        if wanted is not None:
            is_behind = streams.order(partition, wanted) < streams.order(partition, start)
            if is_behind:
                lost = f"{wanted},{start}"
            elif criteria is None:
                start = wanted
        moves_keys = config.has_keys and last is None and _is_added(ideal, partition)
        name = self._lifecycle.continue_partition(config, last, partition, start, lost, moves_keys=moves_keys)
        if name is None:
            return
        if moves_keys:
            _log.error("table %s: partition %d was added: %s", config.typed_name, partition, KEYS_MOVED)
        report.continued.append(str(name))
        if lost:
            self.context.counts.add(Counted.DATA_LOST, config.typed_name)
            report.lost.append(f"partition {partition}: {lost}")
            _log.error(
                "table %s: the stream no longer has the rows of partition %d from offset %s; segment %s continues at "
                "%s, and its record names the gap", config.typed_name, partition, wanted, name, start,
            )  # fmt: skip

    def _offset_after(self, table: str, ideal: Assignment, last: LlcName, report: ValidationReport) -> str | None:
        """Return the offset where an idle partition continues; None if it must not, or if the offset is unknown."""
        segment = str(last)
        record = self.context.registry.get_segment(table, segment)
        if record is not None and record.status == IN_PROGRESS and set(ideal.states[segment].values()) == {OFFLINE}:
            if self._lifecycle.abandon(table, segment):
                return record.start_offset
            record = self.context.registry.get_segment(table, segment)  # committed meanwhile
        if record is None:
            report.problems.append(
                f"segment {segment} has no record, so the offset where partition {last.partition} continues is unknown"
            )
            return None
        if record.end_offset:
            return None if has_ended(record) else record.end_offset
        report.problems.append(
            f"segment {segment} is {record.status}, but assigned {sorted(set(ideal.states[segment].values()))}"
        )
        return None

    def _remove_leftovers(self, table: str, guard: int, report: ValidationReport) -> None:
        """Remove segments that were replaced by another one, and records that never got into the ideal state."""
        registry, now_ms = self.context.registry, self.context.clock.now_ms()
        # even a new lead waits: a slow writer of a record may be about to add it to the ideal state
        age_ms = 2 * max(guard, self.context.completion_time_max_ms())
        names = {name: parsed for name in registry.segment_names(table) if (parsed := LlcName.parse(name)) is not None}
        ideal = registry.must_get_ideal_state(table)
        latest = latest_segments(ideal)
        for segment, name in names.items():
            states = ideal.states.get(segment)
            if states is not None and set(states.values()) != {OFFLINE}:
                continue
            record = registry.get_segment(table, segment)
            if record is None or record.status != IN_PROGRESS:
                continue
            if states is None:
                leftover = now_ms - record.creation_time_ms >= age_ms
            else:
                leftover = record.abandoned_ms >= 0 and latest[name.partition] != name
            if leftover:
                self._change(table, partial(_without_idle, segment=segment))
                if self._delete_unless_assigned(table, record):
                    report.removed.append(segment)

    def _delete_unless_assigned(self, table: str, judged: SegmentRecord) -> bool:
        """Delete a record by compare-and-set, so that one that was changed or recreated since it was judged stays."""
        deleted = False

        def delete(record: SegmentRecord | None) -> SegmentRecord | None:
            nonlocal deleted
            deleted = record == judged and judged.name not in self.context.registry.must_get_ideal_state(table).states
            return None if deleted else record

        self.context.registry.update_segment(table, judged.name, delete)
        return deleted

    def _change(self, table: str, change: Callable[[Assignment], Assignment]) -> None:
        self.context.registry.update_ideal_state(table, change)


def _first_criteria(ideal: Assignment, partition: int, streams: TableStreams) -> OffsetCriteria:
    """Return where a partition begins. Partitions added to a consumed topic, and topics that are new to the table,
    begin at the start of the stream. A topic that the table consumes in the other way already (as a whole, or by
    partition) begins at the configured offset criteria.
    """
    name = LlcName("", partition, 0, "")
    if _is_added(ideal, partition) or (name.topic_index, not name.is_stream_level) not in _ways(ideal):
        return SMALLEST
    return streams.configs[name.topic_index].offset_criteria


def _is_added(ideal: Assignment, partition: int) -> bool:
    """Whether the table already consumes other partitions of the same topic."""
    name = LlcName("", partition, 0, "")
    return (name.topic_index, name.is_stream_level) in _ways(ideal)


def _ways(ideal: Assignment) -> set[tuple[int, bool]]:
    """Return the consumed topics, each with whether it is consumed as a whole (at stream level)."""
    return {(name.topic_index, name.is_stream_level) for name in latest_segments(ideal).values()}


def _without(ideal: Assignment, segment: str) -> Assignment:
    return ideal.with_segments({}, frozenset({segment}))


def _without_idle(ideal: Assignment, segment: str) -> Assignment:
    states = ideal.states.get(segment, {})
    return _without(ideal, segment) if set(states.values()) == {OFFLINE} else ideal
