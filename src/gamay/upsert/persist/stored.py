"""Persistence of a table's key state across restarts of a server: valid docs, the watermark, then the keys.

Valid docs are stored between two consuming segments, on the server's disk (`gamay.upsert.persist.snapshots`) and from
there in the deep store (`gamay.upsert.persist.sharing`); the keys of these rows follow in the background.
"""

import logging
from collections.abc import Sequence
from functools import partial

from gamay.base.clock import Clock
from gamay.base.errors import GamayError
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.partitions.partition import PartitionUpsert
from gamay.upsert.persist.host import Host
from gamay.upsert.persist.sharing import SharedStates
from gamay.upsert.persist.snapshots import SnapshotFolder, SnapshotRows
from gamay.upsert.rows.key_files import StoredKeys
from gamay.upsert.rows.segment_rows import StoredRows
from gamay.upsert.rows.valid_docs import SegmentDocs
from gamay.upsert.spi import SegmentSource

_log = logging.getLogger(__name__)
_FEW_KEYS = 1 << 12


class StoredState:
    """The persistent state of one table. crcs: of the loaded or preloaded copies, by segment name."""

    def __init__(self, settings: UpsertSettings, folder: SnapshotFolder, clock: Clock, host: Host) -> None:
        self.crcs: dict[str, int] = {}
        self._settings = settings
        self._folder = folder
        self._clock = clock
        self._host = host
        self._shared = SharedStates(settings, host, self.crcs)
        self._has_deletes = settings.delete_column is not None

    # reading

    def has(self, source: SegmentSource) -> bool:
        """Whether the valid docs of a segment are stored."""
        name, crc = source.segment.name, source.crc
        return self._settings.snapshot and (
            self._shared.received(name, crc) is not None or self._folder.has(name, crc)
        )  # fmt: skip

    def rows_on_disk(self, segment: str, crc: int, num_docs: int) -> SnapshotRows | None:
        """Return the valid docs of a segment as last stored here; None if never."""
        return self._folder.read(segment, crc, num_docs, self._has_deletes)

    def find(self, source: SegmentSource) -> StoredRows | None:
        """Return the stored rows of a segment, None if there are none or they cannot be used."""
        if not self.has(source):
            return None
        segment, crc = source.segment, source.crc
        found = self._shared.received(segment.name, crc) or self.rows_on_disk(segment.name, crc, segment.num_docs)
        if found is None:
            return None
        keys = self._folder.read_keys(segment.name, crc, self._settings.signature)
        return StoredRows(segment, source.created_ms, *found, keys)

    def receive(self, partition: PartitionUpsert, sources: Sequence[SegmentSource]) -> None:
        """Read the state from the deep store if none of these segments is stored locally."""
        if not any(map(self.has, sources)):
            self._shared.receive(partition, sources)

    def restore_watermark(self, partition: PartitionUpsert) -> None:
        """Restore the watermark of a new partition; remove an obsolete one if the table no longer has a TTL."""
        if not self._settings.forgets:
            self._folder.remove_watermark(partition.partition)
            return
        stored = self._folder.read_watermark(partition.partition)
        if stored is not None:
            partition.raise_watermark(self._settings.comparison.as_ordered(stored))

    # tracking of segments

    def note_stored(self, source: SegmentSource, docs: SegmentDocs, rows: StoredRows) -> None:
        """Record that the valid docs of a segment equal its snapshot, and so need not be stored again."""
        if self._shared.received(source.segment.name, source.crc) is None:
            docs.stored_version = docs.version
            docs.num_stored_keys = 0 if rows.keys is None else len(rows.keys)

    def note_copy(self, source: SegmentSource) -> None:
        """Record which copy of a segment is the current one."""
        self.crcs[source.segment.name] = source.crc

    def note_loaded(self, source: SegmentSource) -> None:
        """Record that a segment is loaded, and remove the snapshots of its other copies."""
        name, crc = source.segment.name, source.crc
        self._shared.forget(name, crc)
        self.note_copy(source)
        self._folder.remove(name, crc if self._settings.snapshot else None)

    def forget(self, name: str) -> None:
        """Remove the stored state of a removed segment."""
        self.crcs.pop(name, None)
        self._folder.remove(name)

    # writing

    def store(self, partition: PartitionUpsert, sequence: int | None) -> None:
        """Store the changes: first replace existing snapshots, then write new ones, unless one of the former failed.

        So no key has valid rows in two snapshots after a crash. Failed writes are counted and repeated the next
        time; they do not stop consumption.
        Nothing is stored if rows inherit values from the rows that they replace, while a segment before the one that
        starts is not sealed: after a crash its rows are consumed again, and must find the same state as before.
        sequence: the number of the segment that starts, None for none.
        """
        if not self._settings.snapshot or (self._settings.takes_over and partition.unsealed("")):
            return
        counters, begun_s = partition.counters, self._clock.monotonic_s()
        with partition.quiet():
            self._store_changed(partition)
            stored = [t.docs for t in partition.segments().values() if t.docs.stored_version >= 0]
            counters.snapshot_segments = len(stored)
            counters.snapshot_keys = sum(docs.snapshot(with_deleted=True).count for docs in stored)
            self._host.later(partial(self._store_keys, partition))
            self._shared.share(partition, sequence)
            counters.snapshot_ms = 1000 * (self._clock.monotonic_s() - begun_s)

    def _store_changed(self, partition: PartitionUpsert) -> None:
        changed = [
            (tracked.name, self.crcs[tracked.name], tracked.docs)
            for tracked in partition.segments().values()
            if tracked.name in self.crcs and tracked.docs.version != tracked.docs.stored_version
        ]
        left = sorted(changed, key=lambda entry: not self._folder.has(entry[0], entry[1]))
        try:
            while left:
                self._folder.write(*left[0], self._has_deletes)
                del left[0]
            if partition.watermark is not None and self._settings.forgets:
                watermark = self._settings.comparison.as_number(partition.watermark)
                self._folder.write_watermark(partition.partition, watermark)
        except (GamayError, OSError) as error:
            partition.counters.snapshots_missed += len(left)
            _log.warning("partition %d: %d snapshots are not stored: %s", partition.partition, len(left), error)

    def store_new_copy(self, source: SegmentSource, docs: SegmentDocs, partition: PartitionUpsert) -> None:
        """Store the valid docs of a new copy immediately, if the state of any moment is suitable.

        It is if a row that is consumed again replaces the same rows in any state; otherwise wait for the next segment.
        """
        settings, name = self._settings, source.segment.name
        if not settings.snapshot or settings.takes_over or settings.forgets:
            return
        try:
            self._folder.write(name, source.crc, docs, self._has_deletes)
        except (GamayError, OSError) as error:
            partition.counters.snapshots_missed += 1
            _log.warning("the snapshot of segment '%s' is not stored: %s", name, error)

    def _store_keys(self, partition: PartitionUpsert) -> None:
        """Store the keys of segments whose snapshot has none, or has more than twice as many as there are valid rows."""
        for tracked in partition.segments().values():
            docs, crc = tracked.docs, self.crcs.get(tracked.name)
            if crc is None or docs.stored_version < 0 or tracked.is_consuming:
                continue
            rows = docs.snapshot(with_deleted=True).docs
            if not len(rows) or len(rows) <= docs.num_stored_keys <= max(2 * len(rows), _FEW_KEYS):
                continue
            segment, settings = tracked.read(), self._settings
            keys = StoredKeys.sorted(rows, settings.encoder.at(segment, rows), settings.comparison.at(segment, rows))
            try:
                self._folder.write_keys(tracked.name, crc, settings.signature, keys)
            except (GamayError, OSError) as error:
                _log.warning("the keys of segment '%s' are not stored: %s", tracked.name, error)
                return
            docs.num_stored_keys = len(rows)
            if self.crcs.get(tracked.name) != crc:  # it was removed meanwhile
                self._folder.remove(tracked.name, self.crcs.get(tracked.name))
