"""The primary keys of a table on one server; dispatches each segment to its partition."""

import threading
from collections.abc import Callable, Collection, Sequence

import numpy as np

from gamay.base.clock import Clock
from gamay.base.errors import InvalidConfigError
from gamay.segment.spi import Segment
from gamay.upsert.config.parallel import Phase, must_wait
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.partitions.batches import Consuming
from gamay.upsert.partitions.partition import PartitionUpsert
from gamay.upsert.partitions.views import NewSegments, Views
from gamay.upsert.persist.host import ALONE, Host
from gamay.upsert.persist.snapshots import SnapshotFolder, SnapshotRows
from gamay.upsert.persist.stored import StoredState
from gamay.upsert.rows.merging import Merger, Transform
from gamay.upsert.rows.ranking import partition_of, sequence_of
from gamay.upsert.rows.segment_registry import Install
from gamay.upsert.rows.valid_docs import SegmentDocs
from gamay.upsert.spi import SegmentSource


class TableUpsert:
    """A table with `upsertConfig`; `metadataManagerClass` may name a subclass.

    transform: `postPartialUpsertTransformConfigs`, compiled by the caller. host: the interface to the server.
    """

    def __init__(
        self, settings: UpsertSettings, folder: SnapshotFolder, clock: Clock, transform: "Transform | None" = None,
        host: Host = ALONE,
    ) -> None:  # fmt: skip
        self.settings = settings
        config = settings.config
        publishing = threading.Lock()
        names = [spec.name for spec in settings.comparison.fields]
        self._merger = Merger(settings.schema, config, names, transform) if settings.is_partial else None
        self._publishing = publishing
        self._host = host
        self._clock = clock
        self._stored = StoredState(settings, folder, clock, host)
        self._lock = threading.Lock()
        self._partitions: dict[int, PartitionUpsert] = {}
        self._partition_of: dict[str, int] = {}
        self.views = Views(config.consistency_mode, config.upsert_view_refresh_interval_ms, publishing, clock)
        self.new_segments = NewSegments(config.new_segment_tracking_time_ms, clock)

    def partitions(self) -> dict[int, PartitionUpsert]:
        """Return the partitions that have a segment here, by id."""
        return dict(self._partitions)

    @property
    def num_keys(self) -> int:
        """The number of primary keys in all partitions."""
        return sum(partition.num_keys for partition in self._partitions.values())

    @property
    def num_bounded(self) -> int | None:
        """The number of INCREMENT sums clamped to the range of their type; None for tables that do not merge."""
        return None if self._merger is None else self._merger.num_bounded

    def has_snapshot(self, source: SegmentSource) -> bool:
        """Whether the valid docs of a segment are stored on disk, so that it should be loaded first."""
        return self._stored.has(source)

    def stored_rows(self, segment: str, crc: int, num_docs: int) -> SnapshotRows | None:
        """Return the valid and the queryable rows of a segment as last stored; None if never."""
        return self._stored.rows_on_disk(segment, crc, num_docs)

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
        """Add a segment, or replace the one of its name. Raises InvalidConfigError."""
        segment = source.segment
        partition = self._partition(self.partition_id(segment))
        self._note(segment.name, partition.partition)  # before its rows replace others
        is_preloaded = self._stored.crcs.get(segment.name) == source.crc
        docs = partition.show_preloaded(segment.name, install) if is_preloaded else None
        if docs is None and partition.has_segment(segment.name):
            docs = partition.replace_segment(segment, source.created_ms, install)
            self._stored.store_new_copy(source, docs, partition)
        elif docs is None:
            docs = self._add(source, partition, install)
        self._stored.note_loaded(source)
        self._note(segment.name, partition.partition)  # loading may have taken longer than the tracking time
        return docs

    def new_beside(self, segments: Collection[str]) -> list[str]:
        """Return the segments recently added to the partitions of the given ones, without these."""
        new = self.new_segments.names()
        if not new:
            return []
        known = self._partition_of
        partitions = {known.get(name) for name in segments} - {None}
        given = frozenset(segments)
        return [name for name in new if name not in given and known.get(name) in partitions]

    def _note(self, segment: str, partition_id: int) -> None:
        self._partition_of[segment] = partition_id
        self.new_segments.note(segment)

    def _add(self, source: SegmentSource, partition: PartitionUpsert, install: Install) -> SegmentDocs:
        """Add a segment, from its snapshot if there is one."""
        begun_s = self._clock.monotonic_s()
        rows = self._stored.find(source)
        if rows is None:
            partition.counters.snapshots_unreadable += self.has_snapshot(source)
            return partition.add_segment(source.segment, source.created_ms, install)
        docs = partition.add_segment(source.segment, source.created_ms, install, rows)
        self._stored.note_stored(source, docs, rows)
        partition.counters.preload_ms += 1000 * (self._clock.monotonic_s() - begun_s)
        return docs

    def expect(self, sources: Sequence[SegmentSource]) -> None:
        """Prepare for segments that will be loaded: preload the keys of those with snapshots in bulk."""
        by_partition: dict[int, list[SegmentSource]] = {}
        for source in sources:
            if source.segment.name not in self._stored.crcs:
                by_partition.setdefault(self.partition_id(source.segment), []).append(source)
        for partition_id, mine in by_partition.items():
            partition = self._partition(partition_id)
            self._stored.receive(partition, mine)
            if not any(map(self._stored.has, mine)):
                # a watermark from when this server last had the partition must not apply: rows are put in stream order
                partition.begin_anew()
            if self.settings.preload:
                self._preload(partition, mine)

    def _preload(self, partition: PartitionUpsert, sources: Sequence[SegmentSource]) -> None:
        begun_s = self._clock.monotonic_s()
        found = [(source, rows) for source in sources if (rows := self._stored.find(source)) is not None]
        if not partition.preload([rows for _, rows in found]):
            return
        segments = partition.segments()
        for source, rows in found:
            name = source.segment.name
            self._stored.note_stored(source, segments[name].docs, rows)
            self._stored.note_copy(source)
            self._partition_of[name] = partition.partition
        partition.counters.preload_ms += 1000 * (self._clock.monotonic_s() - begun_s)

    def remove(self, name: str, install: Callable[[], None]) -> None:
        """Remove a segment and its snapshot; install: hides it from queries."""
        partition = self._partitions.get(self._partition_of.pop(name, -1))
        if partition is None:
            install()
        else:
            partition.remove_segment(name, install)
        self.new_segments.forget(name)
        self._stored.forget(name)

    def consume(
        self, partition_id: int, name: str, created_ms: int, read: Callable[[], Segment], install: "Install | None" = None
    ) -> Consuming:
        """Start a consuming segment, after storing the state of earlier segments and removing expired keys.

        Raises InvalidConfigError if the table's merger class cannot be loaded.
        """
        if self._merger is not None:
            self._merger.open()
        self._settle(partition_id, sequence_of(name))
        self._note(name, partition_id)
        settings = self.settings
        protects = self._host.protects() if settings.depends else settings.remembers
        return self._partition(partition_id).consume(name, created_ms, read, install, protects=protects)

    def must_wait(
        self, partition_id: int, name: str, phase_of: Callable[[str], Phase], absent: Collection[str] = ()
    ) -> bool:
        """Whether a consuming segment must not start yet, because an earlier one is not sealed yet, or absent.

        It must wait if rows depend on the rows that they replace: all replicas then start from the same state, and the
        state stored in between is that at the segment's first row. If keys expire, new rows could expire the keys
        of segments that are loaded later without a snapshot. Other replicas may have committed segments while this server
        was down or busy; these must be loaded regardless of the policy.
        """
        unsealed = self._partition(partition_id).unsealed(name)
        if (self.settings.takes_over or self.settings.forgets) and not unsealed >= set(absent):
            return True
        return must_wait(self.settings.parallel_policy, map(phase_of, unsealed))

    def commit(
        self, source: SegmentSource, install: Install, doc_map: "np.ndarray[tuple[int], np.dtype[np.int64]] | None" = None
    ) -> SegmentDocs:
        """Replace a consuming segment by its sealed copy; doc_map as in `replace_segment`."""
        partition = self._partition(self._partition_of[source.segment.name])
        docs = partition.replace_segment(source.segment, source.created_ms, install, doc_map)
        self._stored.note_copy(source)
        return docs

    def settle(self, partition_id: int) -> None:
        """Store the snapshots of a partition and remove expired keys after loads."""
        self._settle(partition_id, None)

    def _settle(self, partition_id: int, sequence: int | None) -> None:
        """Store the state and remove expired keys. sequence: the number of the consuming segment that starts, None for
        none."""
        partition = self._partition(partition_id)
        if self.settings.ttl > 0:
            self._stored.store(partition, sequence)
            self._expire(partition)
        else:
            self._expire(partition)
            self._stored.store(partition, sequence)

    def _expire(self, partition: PartitionUpsert) -> None:
        begun_s = self._clock.monotonic_s()
        partition.remove_expired()
        partition.counters.expiry_ms = 1000 * (self._clock.monotonic_s() - begun_s)

    def _partition(self, partition_id: int) -> PartitionUpsert:
        with self._lock:
            found = self._partitions.get(partition_id)
            if found is None:
                found = PartitionUpsert(self.settings, partition_id, self._publishing, self._merger)
                self._stored.restore_watermark(found)
                self._partitions[partition_id] = found
            return found
