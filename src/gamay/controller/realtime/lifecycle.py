"""The life cycle of consuming segments, as changes of records and ideal states.

A commit is three writes, each a compare-and-set, in this order:

1. the record of the segment: IN_PROGRESS becomes DONE (pauseless tables: COMMITTING first, when the end is decided);
2. the record of its successor, IN_PROGRESS, from the end offset on;
3. the ideal state: the segment ONLINE, the successor CONSUMING.

Only one server's commit passes step 1, which determines the rest: the successor's name derives from the time written
by step 1, so any controller can do steps 2 and 3, repeatedly and concurrently, with the same result. `advance` does
them, for the controller that commits, for the one that takes over after a crash, and for the periodic repair.

A record that did not get into the ideal state, because the partition was paused or has continued meanwhile, stays
until the periodic repair removes it: another controller may be about to add it. A segment whose record is gone is
never added.

A segment that no server can complete any more is abandoned: a mark in its record, also set by compare-and-set from
IN_PROGRESS, keeps late commits from passing step 1; only then another segment replaces it, from the same start
offset.
"""

import logging
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass

import orjson

from gamay.base.errors import ConflictError, GamayError, InvalidConfigError
from gamay.cluster.records.completion import StopReason
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import COMMITTING, CONSUMING, DONE, IN_PROGRESS, Assignment, SegmentRecord
from gamay.controller.counts import Counted
from gamay.controller.present_servers import segments_per_server
from gamay.controller.realtime.context import RealtimeContext
from gamay.controller.realtime.ideal_steps import (
    advanced,
    continued,
    is_online,
    latest_segments,
    may_be_followed,
    pause_state,
    replaced,
    with_keys_moved,
)
from gamay.controller.realtime.streams import TableStreams
from gamay.controller.realtime.thresholds import CommittedSize, row_limit
from gamay.ingest.stream.config import StreamConfig, stream_configs
from gamay.ingest.stream.offsets import OffsetCriteria, OffsetKind
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import raw_table_name

_log = logging.getLogger(__name__)

_MINUTE_MS = 60_000
_NAME_ATTEMPTS_MAX = 1_000


class CommitRefusedError(GamayError):
    """A commit that came too late, or twice, or for a segment that was replaced by another one."""

    http_status = 409


@dataclass(frozen=True, slots=True)
class Committed:
    """A server's description of the segment that it built.

    rows: consumed, before any compaction; size_bytes: of the built segment. reason: value of StopReason, or '' if
    unknown.
    """

    end_offset: str
    rows: int
    size_bytes: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SegmentLifecycle:
    """Steps that create, end and succeed consuming segments. Safe from any thread and on any number of controllers."""

    context: RealtimeContext

    # the first segments of a table

    def first_segments(self, config: TableConfig, streams: TableStreams) -> tuple[list[SegmentRecord], Assignment]:
        """Return the records of a new table's first segments, and its ideal state with them; nothing is written.

        Raises InvalidConfigError if there are too few servers, and the errors of the stream.
        """
        table = config.typed_name
        ideal = Assignment.new_table(table, config.replication)
        partitions = self.context.partitions(config, streams)
        now_ms = self.context.clock.now_ms()
        records: list[SegmentRecord] = []
        for partition in partitions:
            topic = _topic(streams.configs, partition)
            name = LlcName.new(raw_table_name(table), partition, 0, now_ms)
            servers = self.context.servers_of(config, ideal, partition)
            start = streams.offset(partition, topic.offset_criteria)
            records.append(self.new_record(config, name, start, len(servers), partitions))
            ideal = ideal.with_segments({str(name): dict.fromkeys(sorted(servers), CONSUMING)})
        return records, ideal

    def new_record(
        self,
        config: TableConfig,
        name: LlcName,
        start_offset: str,
        replicas: int,
        partitions: Collection[int],
        lost_offsets: str = "",
    ) -> SegmentRecord:
        """Return the record of a new consuming segment. partitions: ids of all partitions of the table."""
        context = self.context
        topic = _topic(stream_configs(config), name.partition)
        tuner = context.tuner(config.typed_name, name.topic_index)
        flush = topic.high_level_flush if name.is_stream_level else topic.flush
        rows = row_limit(flush, tuner, self._segments_per_server(config, partitions), context.uniform)
        return SegmentRecord(
            str(name),
            status=IN_PROGRESS,
            creation_time_ms=context.clock.now_ms(),
            start_offset=start_offset,
            num_replicas=replicas,
            flush_threshold_rows=rows,
            partition_metadata=_partition_metadata(config, name, len(partitions)),
            lost_offsets=lost_offsets,
        )

    # completion

    def decide_end(self, table: str, segment: str, end_offset: str, reason: str) -> SegmentRecord:
        """Write the end offset of a pauseless table's segment, unless it is already written, and return the record.

        reason: value of StopReason.

        Raises CommitRefusedError if it has another end offset, or may not be committed.
        """
        now_ms = self.context.clock.now_ms()

        def decide(record: SegmentRecord) -> SegmentRecord:
            if record.status == COMMITTING and record.end_offset == end_offset:
                return record
            _check_in_progress(record)
            return record.with_changes(status=COMMITTING, end_offset=end_offset, end_decided_ms=now_ms, stop_reason=reason)

        return self._change(table, segment, decide)

    def complete(self, table: str, built: SegmentRecord, committed: Committed) -> SegmentRecord:
        """Set a segment DONE with the description of the built one, tune the row limit by it, and return its record.

        built: the record that describes the verified segment, with its download URL.
        Raises CommitRefusedError if it is already complete, has another end offset, or may not be committed.
        """
        now_ms = self.context.clock.now_ms()

        def finish(record: SegmentRecord) -> SegmentRecord:
            if record.status == COMMITTING:
                if record.end_offset != committed.end_offset:
                    raise CommitRefusedError(
                        f"segment '{record.name}' ends at offset {record.end_offset}, not at {committed.end_offset}"
                    )
            else:
                _check_in_progress(record)
            return built.with_changes(
                status=DONE,
                creation_time_ms=record.creation_time_ms,
                start_offset=record.start_offset,
                end_offset=committed.end_offset,
                end_decided_ms=record.end_decided_ms if record.status == COMMITTING else now_ms,
                stop_reason=record.stop_reason or committed.reason,
                num_replicas=record.num_replicas,
                flush_threshold_rows=record.flush_threshold_rows,
                lost_offsets=record.lost_offsets,
                push_time_ms=now_ms,
                custom=record.custom,
                extra=record.extra,
            )

        record = self._change(table, built.name, finish)
        if not record.download_url:
            self.context.counts.add(Counted.NO_COPY, table)
        self._learn(table, record, committed, now_ms)
        return record

    def advance(self, table: str, segment: str, *, by_committer: bool = False) -> None:
        """Do the remaining steps once a segment's end is decided: its successor, then the ideal state.

        Safe at any time. by_committer: refuse if too much time has passed since the end was decided, and leave the steps
        to the periodic repair. Raises NotFoundError if the table does not exist, CommitRefusedError for `by_committer`.
        """
        context, registry = self.context, self.context.registry
        record, ideal = registry.get_segment(table, segment), registry.must_get_ideal_state(table)
        states = ideal.states.get(segment)
        if record is None or record.end_decided_ms < 0 or states is None or is_online(states):
            return
        done = LlcName.must_parse(segment)
        config = context.config_of(table)
        successor: LlcName | None = None
        servers: Sequence[str] = ()
        rests = pause_state(ideal).pauses(done) or has_ended(record) or not is_wanted(config, done)
        # an abandoned successor that another one replaced must not come back as a record that can be committed
        if not rests and may_be_followed(ideal, done):
            successor = done.next(record.end_decided_ms)
            servers = self._create_successor(config, ideal, done, successor, record.end_offset)
        if by_committer and context.clock.now_ms() - record.end_decided_ms > context.completion_time_max_ms():
            raise CommitRefusedError(f"the completion of segment '{segment}' took too long; the repair will finish it")
        registry.update_ideal_state(
            table, lambda now: advanced(now, done, successor if self._has_record(table, successor) else None, servers)
        )

    # continuing idle partitions

    def abandon(self, table: str, segment: str) -> bool:
        """Mark a segment so that it is never committed; return False if it is too late for that."""
        now_ms = self.context.clock.now_ms()

        def mark(record: SegmentRecord) -> SegmentRecord:
            if record.status != IN_PROGRESS:
                raise CommitRefusedError(f"segment '{segment}' is {record.status}")
            return record if record.abandoned_ms >= 0 else record.with_changes(abandoned_ms=now_ms)

        try:
            self._change(table, segment, mark)
        except CommitRefusedError:
            return False
        return True

    def continue_partition(
        self, config: TableConfig, last: LlcName | None, partition: int, start_offset: str, lost_offsets: str = "",
        *, moves_keys: bool = False,
    ) -> LlcName | None:  # fmt: skip
        """Start a new segment of an idle partition, after `last`; return its name, or None if the partition was
        continued by another controller or paused meanwhile.

        moves_keys: whether the partition was added to the topic of a table with primary keys. Raises InvalidConfigError
        if there are too few servers.
        """
        registry, table = self.context.registry, config.typed_name
        ideal = registry.must_get_ideal_state(table)
        servers = self.context.servers_of(config, ideal, partition)
        partitions = latest_segments(ideal).keys() | {partition}
        name = LlcName(raw_table_name(table), partition, 0 if last is None else last.sequence + 1, "")
        name = self._create_anew(config, name, start_offset, len(servers), partitions, lost_offsets)

        def named(now: Assignment) -> Assignment:
            if not self._has_record(table, name) or (after := continued(now, last, name, servers)) == now:
                return now
            return with_keys_moved(after, self.context.clock.now_ms()) if moves_keys else after

        registry.update_ideal_state(table, named)
        return self._if_assigned(table, name)

    def restart(self, table: str, segment: str, rows_max: int) -> LlcName | None:
        """Replace a segment that cannot be built by one with a lower row limit; return its name.

        None if the segment is committed, or no server consumes it any more.
        """
        registry, config = self.context.registry, self.context.config_of(table)
        record, last = registry.get_segment(table, segment), LlcName.must_parse(segment)
        if record is None or not self.abandon(table, segment):
            return None
        wanted = LlcName(last.table, last.partition, last.sequence + 1, "")
        ideal = registry.must_get_ideal_state(table)
        servers = sorted(ideal.states.get(segment, {}))
        partitions = latest_segments(ideal).keys()
        name = self._create_anew(
            config, wanted, record.start_offset, len(servers), partitions, record.lost_offsets, rows_max
        )
        registry.update_ideal_state(table, lambda now: replaced(now, last, name) if self._has_record(table, name) else now)
        self.context.counts.add(Counted.ROWS_HALVED, table)
        return self._if_assigned(table, name)

    # parts

    def _create_successor(
        self, config: TableConfig, ideal: Assignment, done: LlcName, successor: LlcName, start_offset: str
    ) -> Sequence[str]:
        """Create the successor's record unless it exists, and return its servers."""
        try:
            servers: Sequence[str] = self.context.servers_of(config, ideal, done.partition)
        except InvalidConfigError as error:
            # the stream continues: better fewer replicas, or untagged servers, than none
            _log.warning("%s; segment %s stays on the servers of %s", error, successor, done)
            servers = sorted(ideal.states[str(done)])
        start, lost = self._start_of_successor(config, successor, start_offset)
        record = self.new_record(config, successor, start, len(servers), latest_segments(ideal).keys(), lost)
        try:
            self.context.registry.create_segment(config.typed_name, record)
        except ConflictError:
            _log.info("segment %s was created by an earlier attempt", successor)
        return servers

    def _start_of_successor(self, config: TableConfig, successor: LlcName, end_offset: str) -> tuple[str, str]:
        """Return the start offset of a successor, and the skipped range: '' unless the table lags and is configured
        to skip."""
        topic = _topic(stream_configs(config), successor.partition)
        reset = topic.offset_auto_reset
        if reset is None or topic.is_backfill_topic:  # a backfill topic always lags
            return end_offset, ""
        try:
            with closing(self.context.open_streams(config)) as streams:
                latest = streams.latest_offset(successor.partition)
                is_behind = False
                if reset.time_threshold_s is not None:
                    recent = streams.offset(
                        successor.partition, OffsetCriteria(OffsetKind.PERIOD, 1000 * reset.time_threshold_s)
                    )
                    is_behind = bool(
                        streams.order(successor.partition, end_offset) < streams.order(successor.partition, recent)
                    )
                if reset.offset_threshold is not None and end_offset.isdecimal() and latest.isdecimal():
                    is_behind = is_behind or int(latest) - int(end_offset) > reset.offset_threshold
        except GamayError as error:
            _log.warning(
                "segment %s starts where its predecessor ended, since the stream does not answer: %s", successor, error
            )
            return end_offset, ""
        if not is_behind:
            return end_offset, ""
        _log.error(
            "segment %s skips the offsets from %s to %s: the table lags too far behind", successor, end_offset, latest
        )
        return latest, f"{end_offset},{latest}"

    def _segments_per_server(self, config: TableConfig, partitions: Collection[int]) -> int:
        try:
            return segments_per_server(partitions, self.context.placement(config), config.replication)
        except InvalidConfigError:
            return len(partitions)  # with too few servers, one may have all partitions

    def _create_anew(
        self, config: TableConfig, wanted: LlcName, start_offset: str, replicas: int, partitions: Collection[int],
        lost: str, rows_max: int | None = None,
    ) -> LlcName:  # fmt: skip
        """Create a record under a free name: names contain the minute, so a taken one moves to the next minute."""
        now_ms = self.context.clock.now_ms()
        for attempt in range(_NAME_ATTEMPTS_MAX):
            name = LlcName.new(wanted.table, wanted.partition, wanted.sequence, now_ms + attempt * _MINUTE_MS)
            record = self.new_record(config, name, start_offset, replicas, partitions, lost)
            if rows_max is not None:
                record = record.with_changes(flush_threshold_rows=min(rows_max, record.flush_threshold_rows))
            try:
                self.context.registry.create_segment(config.typed_name, record)
            except ConflictError:
                continue
            return name
        raise ConflictError(f"no free name for segment {wanted.sequence} of partition {wanted.partition}")

    def _has_record(self, table: str, name: LlcName | None) -> bool:
        """Whether a segment may be added to the ideal state: a repair may have removed its record since it was
        written."""
        return name is not None and self.context.registry.get_segment(table, str(name)) is not None

    def _if_assigned(self, table: str, name: LlcName) -> LlcName | None:
        return name if str(name) in self.context.registry.must_get_ideal_state(table).states else None

    def _change(self, table: str, segment: str, change: Callable[[SegmentRecord], SegmentRecord]) -> SegmentRecord:
        changed: list[SegmentRecord] = []

        def apply(record: SegmentRecord | None) -> SegmentRecord:
            if record is None:
                raise CommitRefusedError(f"table '{table}' has no segment '{segment}'")
            changed[:] = [change(record)]
            return changed[0]

        self.context.registry.update_segment(table, segment, apply)
        return changed[0]

    def _learn(self, table: str, record: SegmentRecord, committed: Committed, now_ms: int) -> None:
        size = committed.size_bytes
        if committed.rows > record.total_docs > 0:  # the commit left out rows, but the limit is about consumed ones
            size = size * committed.rows // record.total_docs
        self.context.tuner(table, LlcName.must_parse(record.name).topic_index).committed(
            CommittedSize(
                rows=committed.rows,
                size_bytes=size,
                elapsed_ms=now_ms - record.creation_time_ms,
                limit=record.flush_threshold_rows,
                forced=committed.reason == StopReason.FORCE_COMMIT.value,
            )
        )


def is_wanted(config: TableConfig, name: LlcName) -> bool:
    """Whether a table consumes the topic of a segment, in the segment's way: by partition or as a whole."""
    topics = stream_configs(config)
    if name.topic_index >= len(topics):
        return False
    topic = topics[name.topic_index]
    return topic.is_high_level if name.is_stream_level else topic.is_low_level


def has_ended(record: SegmentRecord) -> bool:
    """Whether the partition of the stream ends with a segment for good."""
    return record.stop_reason == StopReason.END_OF_PARTITION_GROUP.value


def _check_in_progress(record: SegmentRecord) -> None:
    if record.status != IN_PROGRESS:
        raise CommitRefusedError(f"segment '{record.name}' is already {record.status}")
    if record.abandoned_ms >= 0:
        raise CommitRefusedError(f"segment '{record.name}' was abandoned and replaced by another one")


def _topic(topics: Sequence[StreamConfig], partition: int) -> StreamConfig:
    index = LlcName("", partition, 0, "").topic_index
    if index >= len(topics):
        raise InvalidConfigError(f"partition {partition} belongs to a topic that the table no longer has")
    return topics[index]


def _partition_metadata(config: TableConfig, name: LlcName, num_partitions: int) -> str:
    """Return the partition metadata that follows from the stream partition, or '' unless exactly one column is
    partitioned."""
    columns = config.indexing.segment_partition.columns if config.indexing.segment_partition else {}
    if len(columns) != 1 or name.is_stream_level:
        return ""
    ((column, partitioning),) = columns.items()
    entry = {
        "functionName": partitioning.function_name,
        "numPartitions": num_partitions,
        "partitions": [name.stream_partition],
        "functionConfig": dict(partitioning.function_config) or None,
    }
    return orjson.dumps({"columnPartitionMap": {column: entry}}).decode()
