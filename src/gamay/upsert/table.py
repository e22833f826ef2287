"""The primary keys of a table on one server: its partitions, its snapshots on disk, and what queries see."""

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from pyroaring import BitMap

from gamay.base.clock import Clock
from gamay.base.errors import GamayError, InvalidConfigError
from gamay.segment.spi import Segment
from gamay.segment.visible import VisibleDocs
from gamay.upsert.comparing import ordered, restored
from gamay.upsert.docs import SegmentDocs
from gamay.upsert.key_files import StoredKeys
from gamay.upsert.merging import Merger, Transform
from gamay.upsert.parallel import Phase, must_wait
from gamay.upsert.partition import Consuming, Install, PartitionUpsert
from gamay.upsert.ranking import partition_of, sequence_of
from gamay.upsert.segment_rows import StoredRows
from gamay.upsert.settings import UpsertSettings
from gamay.upsert.shared_snapshots import PartitionState, SharedSnapshots
from gamay.upsert.snapshots import SnapshotFolder
from gamay.upsert.spi import SegmentSource
from gamay.upsert.views import NewSegments, Views

_log = logging.getLogger(__name__)
_FEW_KEYS = 1 << 12


@dataclass(frozen=True, slots=True)
class Host:
    """What a table needs of the server that it is on.

    protects: whether commits at will are allowed and taken back rows are to have no effect (PROTECTED of
    `pinot.server.consuming.segment.consistency.mode`). later: does what nothing waits for, one after the other. shared: the
    table's snapshots in the deep store, None where that is out of reach. first_unsealed: the sequence number of the first
    segment of a partition that is not sealed in the cluster, None when all are.
    """

    protects: Callable[[], bool] = lambda: False
    later: Callable[[Callable[[], None]], object] = lambda job: job()
    shared: SharedSnapshots | None = None
    first_unsealed: Callable[[int], int | None] = lambda _: None


ALONE = Host()


class TableUpsert:
    """A table with `upsertConfig`; `metadataManagerClass` may name a subclass.

    transform: `postPartialUpsertTransformConfigs`, made by whoever can parse expressions. host: what is around the table.
    """

    def __init__(
        self, settings: UpsertSettings, folder: SnapshotFolder, clock: Clock, transform: "Transform | None" = None,
        host: "Host" = ALONE,
    ) -> None:  # fmt: skip
        self.settings = settings
        config = settings.config
        publishing = threading.Lock()
        names = [spec.name for spec in settings.comparison.fields]
        self._merger = Merger(settings.schema, config, names, transform) if settings.is_partial else None
        self._publishing = publishing
        self._host = host
        self._received: dict[tuple[str, int], tuple[BitMap, BitMap | None]] = {}
        self._uploaded: dict[int, list[tuple[str, int, int]]] = {}
        self._clock = clock
        self._folder = folder
        self._lock = threading.Lock()
        self._partitions: dict[int, PartitionUpsert] = {}
        self._partition_of: dict[str, int] = {}
        self._crcs: dict[str, int] = {}
        self.views = Views(config.consistency_mode, config.upsert_view_refresh_interval_ms, publishing, clock)
        self.new_segments = NewSegments(config.new_segment_tracking_time_ms, clock)

    def partitions(self) -> dict[int, PartitionUpsert]:
        """Return the partitions that have a segment here, by id."""
        return dict(self._partitions)

    @property
    def num_keys(self) -> int:
        """How many primary keys all partitions hold."""
        return sum(partition.num_keys for partition in self._partitions.values())

    @property
    def num_bounded(self) -> int | None:
        """How many sums of INCREMENT stayed at the bound of their type; None for tables that do not merge."""
        return None if self._merger is None else self._merger.num_bounded

    def has_snapshot(self, source: SegmentSource) -> bool:
        """Whether the rows of a segment that count are known from disk, so that it is loaded first."""
        name, crc = source.segment.name, source.crc
        return self.settings.snapshot and ((name, crc) in self._received or self._folder.has(name, crc))

    def _snapshot(self, source: SegmentSource) -> "tuple[BitMap, BitMap | None] | None":
        segment = source.segment
        return self._received.get((segment.name, source.crc)) or self.stored_rows(segment.name, source.crc, segment.num_docs)

    def _receive(self, partition_id: int, sources: Sequence[SegmentSource]) -> None:
        """Take over from the deep store which rows of segments count that were never here.

        Only the state at the first row of a segment that is not sealed yet, or of an earlier one: rows that replace others
        later are to find them here, too.
        """
        shared, partition = self._host.shared, self._partition(partition_id)
        state = None if shared is None or not self.settings.snapshot else shared.get(partition_id)
        if state is None:
            return
        if state.sequence is not None:
            unsealed = [sequence_of(name) for name in partition.unsealed("")]
            unsealed.append(self._host.first_unsealed(partition_id))
            if any(sequence is not None and sequence < state.sequence for sequence in unsealed):
                return
        has_deletes = self.settings.delete_column is not None
        for source in sources:
            rows = state.rows.get((source.segment.name, source.crc))
            if rows is None or (rows[0] and rows[0].max() >= source.segment.num_docs):
                continue
            valid, queryable = rows
            if not has_deletes or queryable is not None:
                self._received[source.segment.name, source.crc] = (valid, queryable if has_deletes else None)
                if state.watermark is not None and (self.settings.ttl > 0 or self.settings.deleted_ttl > 0):
                    partition.raise_watermark(self._as_int(state.watermark))

    def stored_rows(self, segment: str, crc: int, num_docs: int) -> "tuple[BitMap, BitMap | None] | None":
        """Return the rows of a segment that counted, and those that queries saw, when they were last stored; None: never."""
        return self._folder.read(segment, crc, num_docs, self.settings.delete_column is not None)

    def partition_id(self, segment: Segment) -> int:
        """Return the partition that a segment belongs to. Raises InvalidConfigError when it has rows of several."""
        by_name = partition_of(segment.name)
        if by_name is not None:
            return by_name
        keys = self.settings.schema.primary_key_columns
        for name in keys:
            found = segment.column(name).stats.partition if name in segment.column_names else None
            if found is not None and len(found.partitions) == 1:
                return found.partitions[0]
        if not segment.num_docs:
            return 0
        raise InvalidConfigError(
            f"segment '{segment.name}' has primary keys of several partitions, or none is known: a segment of an upsert "
            f"table must hold one partition, so set segmentPartitionConfig for a column of the primary key "
            f"({', '.join(keys)}) and push a segment for each of its partitions"
        )

    def load(self, source: SegmentSource, install: Install) -> SegmentDocs:
        """Add a segment, or put it in the place of the one with its name. Raises InvalidConfigError."""
        segment = source.segment
        partition = self._partition(self.partition_id(segment))
        docs = partition.show_preloaded(segment.name, install) if self._crcs.get(segment.name) == source.crc else None
        if docs is None and segment.name in partition.segments():
            docs = partition.replace_segment(segment, source.created_ms, install)
            self._store_replaced(source, docs, partition)
        elif docs is None:
            docs = self._add(source, partition, install)
        self._received.pop((segment.name, source.crc), None)
        self._crcs[segment.name] = source.crc
        self._partition_of[segment.name] = partition.partition
        self._folder.remove(segment.name, source.crc if self.settings.snapshot else None)
        self.new_segments.note(segment.name)
        return docs

    def _add(self, source: SegmentSource, partition: PartitionUpsert, install: Install) -> SegmentDocs:
        """Add a segment by its snapshot, where there is one."""
        begun_s = self._clock.monotonic_s()
        rows = self._rows(source)
        if rows is None:
            partition.counters.snapshots_unreadable += self.has_snapshot(source)
            return partition.add_segment(source.segment, source.created_ms, install=install)
        docs = partition.add_segment(source.segment, source.created_ms, (rows.valid, rows.queryable), install, rows.keys)
        self._stored_as(source, docs, rows)
        partition.counters.preload_ms += 1000 * (self._clock.monotonic_s() - begun_s)
        return docs

    def _rows(self, source: SegmentSource) -> StoredRows | None:
        """Return what is stored of a segment, None when there is nothing, or it cannot be used."""
        if not self.has_snapshot(source):
            return None
        name, found = source.segment.name, self._snapshot(source)
        if found is None:
            return None
        keys = self._folder.read_keys(name, source.crc, self.settings.signature)
        return StoredRows(source.segment, source.created_ms, *found, keys)

    def _stored_as(self, source: SegmentSource, docs: SegmentDocs, rows: StoredRows) -> None:
        """Note that the rows of a segment count which its snapshot names, and so need not be stored again."""
        if (source.segment.name, source.crc) not in self._received:
            docs.stored_version = docs.version
            docs.num_stored_keys = 0 if rows.keys is None else len(rows.keys)

    def expect(self, sources: Sequence[SegmentSource]) -> None:
        """Get ready for segments that are to be loaded: take the keys of those that have snapshots, all at once."""
        by_partition: dict[int, list[SegmentSource]] = {}
        for source in sources:
            if source.segment.name not in self._crcs:
                by_partition.setdefault(self.partition_id(source.segment), []).append(source)
        for partition_id, mine in by_partition.items():
            if not any(map(self.has_snapshot, mine)):
                self._receive(partition_id, mine)
            if self.settings.preload:
                self._preload(self._partition(partition_id), mine)

    def _preload(self, partition: PartitionUpsert, sources: Sequence[SegmentSource]) -> None:
        begun_s = self._clock.monotonic_s()
        found = [(source, rows) for source in sources if (rows := self._rows(source)) is not None]
        if not partition.preload([rows for _, rows in found]):
            return
        segments = partition.segments()
        for source, rows in found:
            name = source.segment.name
            self._stored_as(source, segments[name].docs, rows)
            self._crcs[name], self._partition_of[name] = source.crc, partition.partition
        partition.counters.preload_ms += 1000 * (self._clock.monotonic_s() - begun_s)

    def remove(self, name: str, install: Callable[[], None]) -> None:
        """Forget a segment and its snapshot; install: takes it from the sight of queries."""
        partition = self._partitions.get(self._partition_of.pop(name, -1))
        if partition is None:
            install()
        else:
            partition.remove_segment(name, install)
        self._crcs.pop(name, None)
        self.new_segments.forget(name)
        self._folder.remove(name)

    def consume(
        self, partition_id: int, name: str, created_ms: int, read: Callable[[], Segment], install: "Install | None" = None
    ) -> Consuming:
        """Begin a consuming segment, after storing and cleaning up what the segments before it have left."""
        self._settle(partition_id, sequence_of(name))
        self._partition_of[name] = partition_id
        settings = self.settings
        protects = self._host.protects() if settings.depends else settings.remembers
        consuming = self._partition(partition_id).consume(name, created_ms, read, install, protects=protects)
        self.new_segments.note(name)
        return consuming

    def must_wait(
        self, partition_id: int, name: str, phase_of: Callable[[str], Phase], absent: Collection[str] = ()
    ) -> bool:
        """Whether a consuming segment must not begin yet, because one before it is not sealed yet, or not here.

        So it is where rows depend on what they replace: all replicas then begin at the same state, and what is stored in
        between is the state at the segment's first row. Other replicas may have committed segments while this server was
        away, or busy with others: whatever the policy, these must be here, too.
        """
        unsealed = self._partition(partition_id).unsealed(name)
        if self._takes_over and not unsealed >= set(absent):
            return True
        return must_wait(self.settings.parallel_policy, map(phase_of, unsealed))

    def commit(
        self, source: SegmentSource, install: Install, doc_map: "np.ndarray[tuple[int], np.dtype[np.int64]] | None" = None
    ) -> SegmentDocs:
        """Put a sealed segment in the place of the consuming one with its name; doc_map as in `replace_segment`."""
        partition = self._partition(self._partition_of[source.segment.name])
        docs = partition.replace_segment(source.segment, source.created_ms, install, doc_map)
        self._crcs[source.segment.name] = source.crc
        return docs

    def settle(self, partition_id: int) -> None:
        """Store the snapshots of a partition and remove expired keys after loads."""
        self._settle(partition_id, None)

    def _settle(self, partition_id: int, sequence: int | None) -> None:
        """Do so between two consuming segments, too; sequence: the number of the one that begins."""
        partition = self._partition(partition_id)
        if self.settings.ttl > 0:
            self._store(partition, sequence)
            self._expire(partition)
        else:
            self._expire(partition)
            self._store(partition, sequence)

    def _expire(self, partition: PartitionUpsert) -> None:
        begun_s = self._clock.monotonic_s()
        partition.remove_expired()
        partition.counters.expiry_ms = 1000 * (self._clock.monotonic_s() - begun_s)

    def _store(self, partition: PartitionUpsert, sequence: int | None) -> None:
        """Store what has changed: first over snapshots that are there, then new ones, unless one of the former failed.

        So no row of a key counts in two snapshots, whenever the server dies. What cannot be written is tried at the next
        time, and counted; rows are consumed all the same.

        Nothing is stored where a row takes something over from the row that it replaces, while a segment before the one that
        begins is not sealed: after a crash its rows are consumed again, and are to find what they found before.
        """
        if not self.settings.snapshot or (self._takes_over and partition.unsealed("")):
            return
        counters, begun_s = partition.counters, self._clock.monotonic_s()
        with partition.quiet():
            changed = [
                (tracked.name, self._crcs[tracked.name], tracked.docs)
                for tracked in partition.segments().values()
                if tracked.name in self._crcs and tracked.docs.version != tracked.docs.stored_version
            ]
            has_deletes = self.settings.delete_column is not None
            known = [entry for entry in changed if self._folder.has(entry[0], entry[1])]
            left = [*known, *(entry for entry in changed if entry not in known)]
            try:
                while left:
                    self._folder.write(*left[0], has_deletes)
                    del left[0]
                if partition.watermark is not None and (self.settings.ttl > 0 or self.settings.deleted_ttl > 0):
                    self._folder.write_watermark(partition.partition, self._as_float(partition.watermark))
            except (GamayError, OSError) as error:
                counters.snapshots_missed += len(left)
                _log.warning("partition %d: %d snapshots are not stored: %s", partition.partition, len(left), error)
            stored = [t.docs for t in partition.segments().values() if t.docs.stored_version >= 0]
            counters.snapshot_segments = len(stored)
            counters.snapshot_keys = sum(docs.snapshot(with_deleted=True).count for docs in stored)
            self._share(partition, sequence)
            counters.snapshot_ms = 1000 * (self._clock.monotonic_s() - begun_s)

    def _store_replaced(self, source: SegmentSource, docs: SegmentDocs, partition: PartitionUpsert) -> None:
        """Store at once which rows of a new copy count, where the state of any moment will do.

        It does where a row that is consumed again replaces the same rows whatever it finds; else it waits for a segment.
        """
        settings, name = self.settings, source.segment.name
        if not settings.snapshot or self._takes_over or settings.ttl > 0 or settings.deleted_ttl > 0:
            return
        try:
            self._folder.write(name, source.crc, docs, settings.delete_column is not None)
        except (GamayError, OSError) as error:
            partition.counters.snapshots_missed += 1
            _log.warning("the snapshot of segment '%s' is not stored: %s", name, error)

    @property
    def _takes_over(self) -> bool:
        """Whether a row takes over values from the row that it replaces; with several comparison columns the others'."""
        return self.settings.depends or len(self.settings.comparison.fields) > 1

    def _share(self, partition: PartitionUpsert, sequence: int | None) -> None:
        """Have the state of a partition stored in the deep store, and the keys of its segments beside their snapshots."""
        self._host.later(partial(self._store_keys, partition))
        number, has_deletes = partition.partition, self.settings.delete_column is not None
        found = [
            (tracked.name, self._crcs[tracked.name], tracked.docs)
            for tracked in partition.segments().values()
            if tracked.name in self._crcs and not tracked.is_consuming
        ]
        marks = [(name, crc, docs.version) for name, crc, docs in found]
        if self._host.shared is None or not found or marks == self._uploaded.get(number):
            return
        rows = {
            (name, crc): (docs.snapshot(with_deleted=True), docs.snapshot() if has_deletes else None)
            for name, crc, docs in found
        }
        watermark = None if partition.watermark is None else self._as_float(partition.watermark)
        self._uploaded[number] = marks
        self._host.later(partial(self._upload, number, marks, sequence, watermark, rows))

    def _upload(
        self, partition: int, marks: "list[tuple[str, int, int]]", sequence: int | None, watermark: float | None,
        rows: "Mapping[tuple[str, int], tuple[VisibleDocs, VisibleDocs | None]]",
    ) -> None:  # fmt: skip
        """Store a state in the deep store unless a later one is to come."""
        shared = self._host.shared
        if shared is None or self._uploaded.get(partition) is not marks:
            return
        bitmaps = {
            key: (valid.bitmap(), None if queryable is None else queryable.bitmap())
            for key, (valid, queryable) in rows.items()
        }
        try:
            shared.put(partition, PartitionState(sequence, watermark, bitmaps))
        except (GamayError, OSError) as error:
            _log.warning("partition %d: the snapshots are not in the deep store: %s", partition, error)
            self._uploaded.pop(partition, None)

    def _store_keys(self, partition: PartitionUpsert) -> None:
        """Store the keys of segments that have a snapshot and not these, or more than twice as many as count."""
        for tracked in partition.segments().values():
            docs, crc = tracked.docs, self._crcs.get(tracked.name)
            if crc is None or docs.stored_version < 0 or tracked.is_consuming:
                continue
            rows = docs.snapshot(with_deleted=True).docs
            if not len(rows) or len(rows) <= docs.num_stored_keys <= max(2 * len(rows), _FEW_KEYS):
                continue
            segment, settings = tracked.read(), self.settings
            keys = StoredKeys.sorted(rows, settings.encoder.at(segment, rows), settings.comparison.at(segment, rows))
            try:
                self._folder.write_keys(tracked.name, crc, settings.signature, keys)
            except (GamayError, OSError) as error:
                _log.warning("the keys of segment '%s' are not stored: %s", tracked.name, error)
                return
            docs.num_stored_keys = len(rows)
            if self._crcs.get(tracked.name) != crc:  # it went meanwhile
                self._folder.remove(tracked.name, self._crcs.get(tracked.name))

    def _partition(self, partition_id: int) -> PartitionUpsert:
        with self._lock:
            found = self._partitions.get(partition_id)
            if found is None:
                found = PartitionUpsert(self.settings, partition_id, self._publishing, self._merger)
                if self.settings.ttl > 0 or self.settings.deleted_ttl > 0:
                    stored = self._folder.read_watermark(partition_id)
                    if stored is not None:
                        found.raise_watermark(self._as_int(stored))
                else:
                    self._folder.remove_watermark(partition_id)
                self._partitions[partition_id] = found
            return found

    def _as_float(self, watermark: int) -> float:
        if not self.settings.comparison.is_float:
            return float(watermark)
        return float(restored(np.array([watermark]), np.dtype(np.float64))[0])

    def _as_int(self, stored: float) -> int:
        return int(ordered(np.array([stored]))[0]) if self.settings.comparison.is_float else int(stored)
