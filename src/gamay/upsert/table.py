"""The primary keys of a table on one server: its partitions, its snapshots on disk, and what queries see."""

import logging
import threading
from collections.abc import Callable

import numpy as np
from pyroaring import BitMap

from gamay.base.clock import Clock
from gamay.base.errors import GamayError, InvalidConfigError
from gamay.segment.spi import Segment
from gamay.upsert.comparing import ordered, restored
from gamay.upsert.docs import SegmentDocs
from gamay.upsert.merging import Merger, Transform
from gamay.upsert.parallel import Phase, must_wait
from gamay.upsert.partition import Consuming, Install, PartitionUpsert
from gamay.upsert.ranking import partition_of
from gamay.upsert.settings import UpsertSettings
from gamay.upsert.snapshots import SnapshotFolder
from gamay.upsert.spi import SegmentSource
from gamay.upsert.views import NewSegments, Views

_log = logging.getLogger(__name__)


class TableUpsert:
    """A table with `upsertConfig`; `metadataManagerClass` may name a subclass.

    transform: `postPartialUpsertTransformConfigs`, made by whoever can parse expressions. protects: whether commits at will
    are allowed and taken back rows are to have no effect (PROTECTED of `pinot.server.consuming.segment.consistency.mode`).
    """

    def __init__(
        self, settings: UpsertSettings, folder: SnapshotFolder, clock: Clock, transform: "Transform | None" = None,
        protects: Callable[[], bool] = lambda: False,
    ) -> None:  # fmt: skip
        self.settings = settings
        config = settings.config
        publishing = threading.Lock()
        names = [spec.name for spec in settings.comparison.fields]
        self._merger = Merger(settings.schema, config, names, transform) if settings.is_partial else None
        self._publishing = publishing
        self._protects = protects
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
        return self.settings.snapshot and self._folder.has(source.segment.name, source.crc)

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
        segment, settings = source.segment, self.settings
        partition = self._partition(self.partition_id(segment))
        if segment.name in partition.segments():
            docs = partition.replace_segment(segment, source.created_ms, install)
        else:
            snapshot, begun_s = None, self._clock.monotonic_s()
            if self.has_snapshot(source):
                has_deletes = settings.delete_column is not None
                snapshot = self._folder.read(segment.name, source.crc, segment.num_docs, has_deletes)
                partition.counters.snapshots_unreadable += snapshot is None
            docs = partition.add_segment(segment, source.created_ms, snapshot, install)
            if snapshot is not None:
                docs.stored_version = docs.version
                partition.counters.preload_ms += 1000 * (self._clock.monotonic_s() - begun_s)
        self._crcs[segment.name] = source.crc
        self._partition_of[segment.name] = partition.partition
        self._folder.remove(segment.name, source.crc if settings.snapshot else None)
        self.new_segments.note(segment.name)
        return docs

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
        self.settle(partition_id)
        self._partition_of[name] = partition_id
        protects = self.settings.depends and self._protects()
        consuming = self._partition(partition_id).consume(name, created_ms, read, install, protects=protects)
        self.new_segments.note(name)
        return consuming

    def must_wait(self, partition_id: int, name: str, phase_of: Callable[[str], Phase]) -> bool:
        """Whether a consuming segment must not begin yet, because the one before it is not sealed yet.

        So it is where rows depend on what they replace: all replicas then begin at the same state, and what is stored in
        between is the state at the segment's first row.
        """
        return must_wait(self.settings.parallel_policy, map(phase_of, self._partition(partition_id).unsealed(name)))

    def commit(
        self, source: SegmentSource, install: Install, doc_map: "np.ndarray[tuple[int], np.dtype[np.int64]] | None" = None
    ) -> SegmentDocs:
        """Put a sealed segment in the place of the consuming one with its name; doc_map as in `replace_segment`."""
        partition = self._partition(self._partition_of[source.segment.name])
        docs = partition.replace_segment(source.segment, source.created_ms, install, doc_map)
        self._crcs[source.segment.name] = source.crc
        return docs

    def settle(self, partition_id: int) -> None:
        """Store the snapshots of a partition and remove expired keys: between two consuming segments, or after loads."""
        partition = self._partition(partition_id)
        if self.settings.ttl > 0:
            self._store(partition)
            self._expire(partition)
        else:
            self._expire(partition)
            self._store(partition)

    def _expire(self, partition: PartitionUpsert) -> None:
        begun_s = self._clock.monotonic_s()
        partition.remove_expired()
        partition.counters.expiry_ms = 1000 * (self._clock.monotonic_s() - begun_s)

    def _store(self, partition: PartitionUpsert) -> None:
        """Store what has changed: first over snapshots that are there, then new ones, unless one of the former failed.

        So no row of a key counts in two snapshots, whenever the server dies. What cannot be written is tried at the next
        time, and counted; rows are consumed all the same.
        """
        if not self.settings.snapshot:
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
            counters.snapshot_ms = 1000 * (self._clock.monotonic_s() - begun_s)

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
