"""The consumers of a server, by table and segment, and the server's state of each table."""

import logging
import shutil
import threading
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.llc_name import LlcName, partition_of
from gamay.cluster.records.records import SegmentRecord
from gamay.ingest.stream.config import stream_configs
from gamay.query.layout.rebuild import TableLayout
from gamay.server.consuming.consumer import SegmentConsumer
from gamay.server.consuming.context import SegmentTask, ShownRows
from gamay.server.consuming.counts import PartitionCounts
from gamay.server.consuming.dead_letters import DeadLetters
from gamay.server.consuming.host import Resources, Surroundings
from gamay.server.consuming.machine import ConsumerState
from gamay.server.consuming.partition import Partition
from gamay.server.consuming.table_memory import TableMemory
from gamay.server.loading.table import ConsumingSegment, TableData
from gamay.server.loading.upserts import UpsertTables
from gamay.upsert.config.parallel import Phase
from gamay.upsert.rows.valid_docs import SegmentDocs
from gamay.upsert.spi import ConsumingKeys, KeyedTable

_log = logging.getLogger(__name__)
_STOP_S = 10
_PHASES = {
    ConsumerState.RETAINING: Phase.BUILDING,
    ConsumerState.COMMITTING: Phase.BUILDING,
    ConsumerState.RETAINED: Phase.BUILDING,
    ConsumerState.COMMITTED: Phase.BUILDING,
    ConsumerState.DISCARDED: Phase.DOWNLOADING,
    ConsumerState.ERROR: Phase.DOWNLOADING,
}


class ConsumerManager:
    """Manager of the consumers. Thread-safe.

    serve: publishes a built segment to queries: (typed table, segment, folder). left: called when a consumer has ended, to
    reconcile its segment with the ideal state. upserts: the primary keys of tables.
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
        self._consumers: dict[str, dict[str, SegmentConsumer]] = {}
        self._tables: dict[str, TableMemory] = {}
        self._partitions: dict[str, dict[int, Partition]] = {}
        self._assigned: dict[str, Collection[str]] = {}
        # uncommitted rows are consumed again, so files left by a crash are useless
        shutil.rmtree(resources.folder, ignore_errors=True)

    def consumers(self, table: str) -> dict[str, SegmentConsumer]:
        """Return the consumers of a typed table, by segment."""
        with self._lock:
            return dict(self._consumers.get(table, {}))

    def assign(self, table: str, segments: Collection[str]) -> None:
        """Record the segments of a typed table that are assigned to this server, loaded or consuming."""
        self._assigned[table] = segments

    def start(self, data: TableData, record: SegmentRecord, layout: TableLayout, after: str | None = None) -> None:
        """Start consuming a segment. after: its predecessor, if consumed here.

        Raises GamayError and OSError on failure.
        """
        table, name = data.name, LlcName.must_parse(record.name)
        topics = stream_configs(layout.config)
        if name.topic_index >= len(topics):
            raise InvalidConfigError(
                f"segment '{record.name}' is of topic {name.topic_index}, and {table} has {len(topics)} topics"
            )
        keys = self._upserts.of(table, layout)
        open_keys = None if keys is None else partial(self._open_keys, data, keys, record)
        partition = self._partition_of(data, name.partition)
        prefetch, spare = partition.take_prefetch(), partition.take_spare()
        task = SegmentTask(record, layout, topics[name.topic_index], open_keys, prefetch, spare)
        try:
            consumer = SegmentConsumer(Surroundings(self._resources, self, self._table(table), partition), task)
        except BaseException:
            if prefetch is not None:
                data.hide_prefetched(prefetch.segment)
                prefetch.close()
            raise
        shown = ConsumingSegment(record.name, consumer.view, consumer.freshness_ms, start=consumer.begin, end=consumer.end)
        data.add_consuming(shown, after)
        if prefetch is not None:
            data.hide_prefetched(prefetch.segment)
        with self._lock:
            self._consumers.setdefault(table, {})[record.name] = consumer
        partition.enter(record.name, consumer.began)
        if record.end_offset:
            # pauseless: the replica that built it is gone, so one that consumes exactly its rows again commits it
            consumer.end_at(record.end_offset, committed=record.complete)
        consumer.start()

    def _open_keys(
        self, data: TableData, keys: KeyedTable, record: SegmentRecord, consumer: ShownRows
    ) -> ConsumingKeys | None:
        """Open the primary keys, unless the segment must wait for the previous one.

        Segments of a partition start in order: after a restart in pauseless consumption there are two at once, and if rows
        depend on earlier ones, the second would start without the first one's rows, and make that wait.
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
            if before.state is ConsumerState.HOLDING and before.has_all_rows:  # a failed commit is retried later
                return Phase.BUILDING
            return _PHASES.get(before.state, Phase.CONSUMING)

        if keys.must_wait(partition, name, phase_of, self._absent_before(data, parsed)):
            return None

        def install(docs: SegmentDocs | None) -> None:
            if self.consumers(data.name).get(name) is consumer:
                data.add_consuming(ConsumingSegment(name, consumer.view, consumer.freshness_ms, docs))

        return keys.consume(partition, name, record.creation_time_ms, consumer.view, install)

    def _absent_before(self, data: TableData, name: LlcName) -> list[str]:
        """Return the earlier segments of a partition that are assigned to this server but neither loaded nor consumed."""
        assigned = self._assigned.get(data.name, ())
        # Loaded segments are read last, since they include those of consumers that have ended meanwhile.
        missing = set(assigned) - self.consumers(data.name).keys() - data.snapshot().keys()
        found = []
        for segment in missing:
            other = LlcName.parse(segment)
            is_after = other is not None and other.sequence >= name.sequence
            if not is_after and partition_of(segment) in (None, name.partition):
                found.append(segment)
        return found

    def stop(self, data: TableData, segment: str) -> None:
        """Stop consuming a segment: its rows become invisible, and are consumed again by the next server that hosts it."""
        with self._lock:
            consumer = self._consumers.get(data.name, {}).pop(segment, None)
        if (partition := self._partition(data.name, segment)) is not None:
            partition.give_up(segment)
        keys = self._upserts.of(data.name, None)
        if keys is None:
            data.remove_consuming([segment])
        else:
            keys.remove(segment, partial(data.remove_consuming, [segment]))
        if consumer is not None:
            consumer.stop()

    def end_at(self, data: TableData, segment: str, end_offset: str, *, committed: bool) -> None:
        """Set the decided end of a segment; a consumer with rows beyond it is hidden from queries."""
        with self._lock:
            consumer = self._consumers.get(data.name, {}).get(segment)
        if (partition := self._partition(data.name, segment)) is not None:
            partition.drop_prefetch(segment, unless_from=end_offset)
        if consumer is not None and consumer.end_at(end_offset, committed=committed):
            data.remove_consuming([segment])

    def force_commit(self, table: str, segments: Collection[str]) -> None:
        """Commit segments of a typed table with their present rows."""
        for name, consumer in self.consumers(table).items():
            if name in segments:
                consumer.force_commit()

    def close(self) -> None:
        """Stop all consumers and wait for their threads."""
        with self._lock:
            stopping = [consumer for consumers in self._consumers.values() for consumer in consumers.values()]
            self._consumers = {}
            partitions = [partition for known in self._partitions.values() for partition in known.values()]
        for consumer in stopping:
            consumer.stop()
        for partition in partitions:
            partition.close()
        for consumer in stopping:
            consumer.join(_STOP_S)

    def forget(self, table: str) -> None:
        """Remove the state of a deleted table."""
        with self._lock:
            memory = self._tables.pop(table, None)
            self._assigned.pop(table, None)
            partitions = self._partitions.pop(table, {})
        if memory is not None:
            memory.letters.close()  # its consumers end soon, but may still be running
        for partition in partitions.values():
            partition.close()
        shutil.rmtree(self._resources.kept / table, ignore_errors=True)
        shutil.rmtree(self._resources.folder / table, ignore_errors=True)

    def dead_letters(self, table: str) -> DeadLetters:
        """Return the dead letters of a typed table."""
        return self._table(table).letters

    def counts(self, table: str) -> dict[int, PartitionCounts]:
        """Return the counters of the partitions of a typed table."""
        with self._lock:
            return {number: partition.counts for number, partition in self._partitions.get(table, {}).items()}

    @property
    def num_building(self) -> int:
        """The number of segments being built."""
        return self._resources.permits.num_building

    def status(self, table: str) -> dict[str, Any]:
        """Return the status of a typed table's consumption, as a JSON object."""
        consumers = self.consumers(table)
        return {
            "tableName": table,
            "instance": self._resources.server,
            "consumers": [consumers[name].status().to_json() for name in sorted(consumers)],
            **self._table(table).to_json(),
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

    # called by consumers

    def serve(self, table: str, segment: str, folder: Path) -> None:
        """Publish a segment that was built here and is committed."""
        self._serve(table, segment, folder)

    def leave(self, table: str, segment: str) -> None:
        """Handle the end of a consumer."""
        with self._lock:
            self._consumers.get(table, {}).pop(segment, None)
        if (partition := self._partition(table, segment)) is not None:
            partition.leave(segment)
        self._left(table, segment)

    def begin_anew(self, table: str, segment: str) -> None:
        """Handle a consumer that has rows beyond the end of its segment."""
        self._left(table, segment)

    # handover to successors

    def prefetched_behind(self, table: str) -> list[str]:
        """Return the segments of a typed table with prefetched rows after their end."""
        with self._lock:
            found = [partition.prefetched_behind for partition in self._partitions.get(table, {}).values()]
        return [segment for segment in found if segment is not None]

    def drop_prefetch(self, table: str, segment: str) -> None:
        """Discard the rows prefetched after a segment's end."""
        if (partition := self._partition(table, segment)) is not None:
            partition.drop_prefetch(segment)

    # state of tables and partitions

    def _table(self, table: str) -> TableMemory:
        with self._lock:
            if table not in self._tables:
                self._tables[table] = TableMemory(table, self._resources.kept / table)
            return self._tables[table]

    def _partition(self, table: str, segment: str) -> Partition | None:
        with self._lock:
            return self._partitions.get(table, {}).get(LlcName.must_parse(segment).partition)

    def _partition_of(self, data: TableData, number: int) -> Partition:
        with self._lock:
            known = self._partitions.setdefault(data.name, {})
            if number not in known:
                known[number] = Partition(data, self._resources.clock)
            known[number].data = data
            return known[number]
