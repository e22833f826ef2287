"""The consumers of a server, by table and segment, and what is remembered of each table."""

import logging
import shutil
import threading
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.llc_name import LlcName, partition_of
from gamay.cluster.records.records import SegmentRecord
from gamay.ingest.stream.config import stream_configs
from gamay.segment.mutable.buffers import SpareBuffers
from gamay.segment.mutable.sizing import SizingHistory
from gamay.server.consuming.ahead import ReadAhead
from gamay.server.consuming.consumer import SegmentConsumer
from gamay.server.consuming.counts import PartitionCounts
from gamay.server.consuming.dead_letters import DeadLetters
from gamay.server.consuming.host import Resources
from gamay.server.consuming.machine import ConsumerState
from gamay.server.consuming.status import BuiltSegment, StreamError
from gamay.server.loading.rebuild import TableLayout
from gamay.server.loading.table import ConsumingSegment, TableData
from gamay.server.loading.upserts import UpsertTables
from gamay.upsert.config.parallel import Phase
from gamay.upsert.rows.valid_docs import SegmentDocs
from gamay.upsert.spi import ConsumingKeys, KeyedTable

_log = logging.getLogger(__name__)
_REMEMBERED = 100
_STOP_S = 10
_PHASES = {
    ConsumerState.RETAINING: Phase.BUILDING,
    ConsumerState.COMMITTING: Phase.BUILDING,
    ConsumerState.RETAINED: Phase.BUILDING,
    ConsumerState.COMMITTED: Phase.BUILDING,
    ConsumerState.DISCARDED: Phase.DOWNLOADING,
    ConsumerState.ERROR: Phase.DOWNLOADING,
}
_DEAD_LETTERS_FILE = "dead-letters.jsonl"


@dataclass
class _Table:
    """What is remembered of a table."""

    letters: DeadLetters
    history: SizingHistory
    errors: deque[StreamError] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    builds: deque[BuiltSegment] = field(default_factory=lambda: deque(maxlen=_REMEMBERED))
    permanent_errors: int = 0
    counts: dict[int, PartitionCounts] = field(default_factory=dict)


class ConsumerManager:
    """Starts and stops consumers; its methods may be called from any thread.

    serve: gives a built segment to queries: (typed table, segment, folder). left: a consumer's work is done, its segment
    is to be as the ideal state says. upserts: the primary keys of tables that have some.
    """

    def __init__(
        self,
        resources: Resources,
        serve: Callable[[str, str, Path], None],
        left: Callable[[str, str], None],
        upserts: UpsertTables,
    ) -> None:
        self._resources = resources
        self._upserts = upserts
        self._serve = serve
        self._left = left
        self._lock = threading.Lock()
        self._started = threading.Condition(self._lock)
        self._consumers: dict[str, dict[str, SegmentConsumer]] = {}
        self._tables: dict[str, _Table] = {}
        self._ahead: dict[tuple[str, int], ReadAhead] = {}
        self._spare: dict[tuple[str, int], SpareBuffers] = {}
        self._data: dict[str, TableData] = {}
        self._assigned: dict[str, Collection[str]] = {}
        # rows that were not committed are consumed again, so what a crash left is of no use
        shutil.rmtree(resources.folder, ignore_errors=True)

    def consumers(self, table: str) -> dict[str, SegmentConsumer]:
        """Return the consumers of a typed table, by segment."""
        with self._lock:
            return dict(self._consumers.get(table, {}))

    def assign(self, table: str, segments: Collection[str]) -> None:
        """Take note of the segments of a typed table that are to be here, loaded or consumed."""
        self._assigned[table] = segments

    def start(self, data: TableData, record: SegmentRecord, layout: TableLayout, after: str | None = None) -> None:
        """Begin to consume a segment. after: the one consumed here that ends where this one begins.

        Raises GamayError and OSError when that is not possible.
        """
        table = data.name
        topics = stream_configs(layout.config)
        topic = LlcName.must_parse(record.name).topic_index
        if topic >= len(topics):
            raise InvalidConfigError(f"segment '{record.name}' is of topic {topic}, and {table} has {len(topics)} topics")
        known = self._table(table)
        keys = self._upserts.of(table, layout)
        partition = LlcName.must_parse(record.name).partition
        ahead, spare = self._take_ahead(table, partition), self.take_spare(table, partition)
        self._data[table] = data
        try:
            consumer = SegmentConsumer(
                self._resources, self, table, record, layout, topics[topic], known.letters, known.history,
                None if keys is None else partial(self._open_keys, data, keys, record), ahead, spare,
                known.counts.setdefault(partition, PartitionCounts()),
            )  # fmt: skip
        except BaseException:
            if ahead is not None:
                data.hide_ahead(ahead.segment)
                ahead.close()
            raise
        shown = ConsumingSegment(record.name, consumer.view, consumer.freshness_ms, start=consumer.begin, end=consumer.end)
        data.add_consuming(shown, after)
        if ahead is not None:
            data.hide_ahead(ahead.segment)
        with self._lock:
            self._consumers.setdefault(table, {})[record.name] = consumer
            self._started.notify_all()
        if record.end_offset:
            # without pauses: who built it has gone, so whoever has its rows again, and not one more, commits it
            consumer.end_at(record.end_offset, committed=record.complete)
        consumer.start()

    def _open_keys(
        self, data: TableData, keys: KeyedTable, record: SegmentRecord, consumer: SegmentConsumer
    ) -> ConsumingKeys | None:
        """Begin to look up primary keys, unless the segment must wait for the one before it.

        Segments of a partition begin in order: after a restart without pauses there are two at once, and where rows depend
        on those before, the second would begin without the first one's, and let that wait.
        """
        name, parsed = record.name, LlcName.must_parse(record.name)
        partition = parsed.partition
        for other, before in self.consumers(data.name).items():
            known = LlcName.must_parse(other)
            if known.partition == partition and known.sequence < parsed.sequence and before.lacks_keys:
                return None

        def phase_of(segment: str) -> Phase:
            before = self.consumers(data.name).get(segment)
            if before is None:
                return Phase.DOWNLOADING
            if before.state is ConsumerState.HOLDING and before.has_all_rows:  # a commit that failed is tried again later
                return Phase.BUILDING
            return _PHASES.get(before.state, Phase.CONSUMING)

        if keys.must_wait(partition, name, phase_of, self._absent_before(data, parsed)):
            return None

        def install(docs: SegmentDocs | None) -> None:
            if self.consumers(data.name).get(name) is consumer:
                data.add_consuming(ConsumingSegment(name, consumer.view, consumer.freshness_ms, docs))

        return keys.consume(partition, name, record.creation_time_ms, consumer.view, install)

    def _absent_before(self, data: TableData, name: LlcName) -> list[str]:
        """Return the segments of a partition that are to be here before another begins, neither loaded nor consumed."""
        assigned = self._assigned.get(data.name, ())
        # Those that are loaded are asked for last: a consumer that has ended meanwhile has its segment there.
        missing = set(assigned) - self.consumers(data.name).keys() - data.snapshot().keys()
        found = []
        for segment in missing:
            other = LlcName.parse(segment)
            is_after = other is not None and other.sequence >= name.sequence
            if not is_after and partition_of(segment) in (None, name.partition):
                found.append(segment)
        return found

    def stop(self, data: TableData, segment: str) -> None:
        """Give up a segment: its rows are no longer seen, and consumed again by whoever hosts it next."""
        with self._lock:
            consumer = self._consumers.get(data.name, {}).pop(segment, None)
            partition = (data.name, LlcName.must_parse(segment).partition)
            is_ahead = partition in self._ahead and self._ahead[partition].segment == segment
            ahead = self._ahead.pop(partition) if is_ahead else None
            spare = self._spare.pop(partition, None)
        if ahead is not None:
            data.hide_ahead(segment)
            ahead.close()
        if spare is not None:  # the partition may go to another server
            spare.remove()
        keys = self._upserts.of(data.name, None)
        if keys is None:
            data.remove_consuming([segment])
        else:
            keys.remove(segment, partial(data.remove_consuming, [segment]))
        if consumer is not None:
            consumer.stop()

    def end_at(self, data: TableData, segment: str, end_offset: str, *, committed: bool) -> None:
        """A segment has the rows before an offset; a consumer that has more of them shows none any more."""
        with self._lock:
            consumer = self._consumers.get(data.name, {}).get(segment)
            ahead = self._ahead.get((data.name, LlcName.must_parse(segment).partition))
        if ahead is not None and ahead.segment == segment and str(ahead.start) != end_offset:
            self.drop_ahead(data.name, segment)
        if consumer is not None and consumer.end_at(end_offset, committed=committed):
            data.remove_consuming([segment])

    def force_commit(self, table: str, segments: Collection[str]) -> None:
        """Have segments of a typed table committed with what they have."""
        for name, consumer in self.consumers(table).items():
            if name in segments:
                consumer.force_commit()

    def close(self) -> None:
        """Stop all consumers and wait for their threads."""
        with self._lock:
            stopping = [consumer for consumers in self._consumers.values() for consumer in consumers.values()]
            self._consumers = {}
            reading, self._ahead = list(self._ahead.values()), {}
        for consumer in stopping:
            consumer.stop()
        for ahead in reading:
            ahead.close()
        for consumer in stopping:
            consumer.join(_STOP_S)

    def forget(self, table: str) -> None:
        """Remove what is remembered of a table that is gone."""
        with self._lock:
            self._tables.pop(table, None)
            self._assigned.pop(table, None)
            self._data.pop(table, None)
            self._spare = {key: spare for key, spare in self._spare.items() if key[0] != table}
        shutil.rmtree(self._resources.kept / table, ignore_errors=True)
        shutil.rmtree(self._resources.folder / table, ignore_errors=True)

    def dead_letters(self, table: str) -> DeadLetters:
        """Return the dead letters of a typed table."""
        return self._table(table).letters

    def counts(self, table: str) -> dict[int, PartitionCounts]:
        """Return what is counted of the partitions of a typed table."""
        with self._lock:
            known = self._tables.get(table)
        return {} if known is None else dict(known.counts)

    @property
    def num_building(self) -> int:
        """How many segments are built at this moment."""
        return self._resources.permits.num_building

    def status(self, table: str) -> dict[str, Any]:
        """Return all that is known of a typed table's consumption, as a JSON object."""
        known = self._table(table)
        consumers = self.consumers(table)
        return {
            "tableName": table,
            "instance": self._resources.server,
            "consumers": [consumers[name].status().to_json() for name in sorted(consumers)],
            "builds": [built.to_json() for built in list(known.builds)],
            "errors": [error.to_json() for error in list(known.errors)],
            "numPermanentErrors": known.permanent_errors,
            "deadLetters": known.letters.counts(),
        }

    def consuming_info(self, table: str) -> list[dict[str, Any]]:
        """Return the consuming segments of a typed table, in the shape of Pinot's servers."""
        found = []
        for name, consumer in sorted(self.consumers(table).items()):
            status = consumer.status()
            partition = str(status.partition)
            latest, lag, behind_ms = status.end_offset, status.lag, status.availability_lag_ms
            found.append(
                {
                    "segmentName": name,
                    "consumerState": "CONSUMING" if consumer.state.is_consuming else "NOT_CONSUMING",
                    "lastConsumedTimestamp": status.last_consumed_ms,
                    "partitionToOffsetMap": {partition: status.current_offset},
                    "partitionOffsetInfo": {
                        "currentOffsets": {partition: status.current_offset},
                        "latestUpstreamOffsets": {} if latest is None else {partition: latest},
                        "recordsLag": {partition: "UNKNOWN" if lag is None else str(lag)},
                        "availabilityLagMs": {partition: "UNKNOWN" if behind_ms is None else str(behind_ms)},
                    },
                }
            )
        return found

    # what consumers call

    def serve(self, table: str, segment: str, folder: Path) -> None:
        """A segment was built and is committed: queries see it from now on."""
        self._serve(table, segment, folder)

    def leave(self, table: str, segment: str) -> None:
        """The work of a consumer is done."""
        with self._lock:
            self._consumers.get(table, {}).pop(segment, None)
        self._left(table, segment)

    def await_successor(self, table: str, segment: str, timeout_s: float) -> None:
        """Wait until the next segment of a partition has begun, if one begins here in time."""
        clock = self._resources.clock
        end_s = clock.monotonic_s() + timeout_s
        with self._started:
            found = self._started.wait_for(lambda: self._successor(table, segment), timeout_s)
        if found is not None:
            found.began.wait(max(0.0, end_s - clock.monotonic_s()))

    def begin_anew(self, table: str, segment: str) -> None:
        """A consumer has rows beyond the end of its segment."""
        known = self._table(table)
        known.counts.setdefault(LlcName.must_parse(segment).partition, PartitionCounts()).ahead += 1
        self._left(table, segment)

    def has_successor(self, table: str, segment: str) -> bool:
        """Return whether a later segment of a partition is consumed here."""
        with self._lock:
            return self._successor(table, segment) is not None

    def _successor(self, table: str, segment: str) -> SegmentConsumer | None:
        name = LlcName.must_parse(segment)
        for other, consumer in self._consumers.get(table, {}).items():
            parsed = LlcName.must_parse(other)
            if parsed.partition == name.partition and parsed.sequence > name.sequence:
                return consumer
        return None

    def keep_ahead(self, table: str, ahead: ReadAhead, *, shows: bool) -> None:
        """Keep what is read behind a segment's end for its successor."""
        unwanted: ReadAhead | None = ahead
        with self._lock:
            key = (table, LlcName.must_parse(ahead.segment).partition)
            data, shown = self._data.get(table), ahead.shown()
            if ahead.segment in self._consumers.get(table, {}) and data is not None:
                unwanted, self._ahead[key] = self._ahead.get(key), ahead
                if shows and shown is not None:
                    data.show_ahead(ahead.segment, shown)
        if unwanted is not None:
            unwanted.close()

    def ahead_of(self, table: str) -> list[str]:
        """Return the segments of a typed table behind whose end something is read."""
        with self._lock:
            return [ahead.segment for (name, _), ahead in self._ahead.items() if name == table]

    def drop_ahead(self, table: str, segment: str) -> None:
        """Throw away what was read behind a segment's end."""
        with self._lock:
            key = (table, LlcName.must_parse(segment).partition)
            ahead = self._ahead.pop(key) if key in self._ahead and self._ahead[key].segment == segment else None
            data = self._data.get(table)
        if ahead is not None and data is not None:
            data.hide_ahead(segment)
        if ahead is not None:
            ahead.close()

    def take_spare(self, table: str, partition: int) -> SpareBuffers | None:
        """Return the buffers that are kept for the next segment of a partition, which are given away."""
        with self._lock:
            return self._spare.pop((table, partition), None)

    def keep_spare(self, table: str, partition: int, spare: SpareBuffers) -> None:
        """Keep buffers for the next segment of a partition, unless the partition is no longer consumed here."""
        with self._lock:
            unwanted: SpareBuffers | None = spare
            if any(LlcName.must_parse(name).partition == partition for name in self._consumers.get(table, {})):
                unwanted, self._spare[table, partition] = self._spare.get((table, partition)), spare
        if unwanted is not None:
            unwanted.remove()

    def _take_ahead(self, table: str, partition: int) -> ReadAhead | None:
        with self._lock:
            ahead = self._ahead.pop((table, partition), None)
        if ahead is not None:
            ahead.stop()
        return ahead

    def note_error(self, table: str, error: StreamError) -> None:
        """Remember an error of a consumer."""
        known = self._table(table)
        known.errors.append(error)
        known.permanent_errors += error.permanent

    def note_build(self, table: str, built: BuiltSegment) -> None:
        """Remember a segment that was built."""
        self._table(table).builds.append(built)

    def _table(self, table: str) -> _Table:
        with self._lock:
            if table not in self._tables:
                folder = self._resources.kept / table
                letters = DeadLetters(table, folder / _DEAD_LETTERS_FILE)
                self._tables[table] = _Table(letters, SizingHistory(folder))
            return self._tables[table]
