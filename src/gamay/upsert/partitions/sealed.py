"""Segments that come and go whole: added row by row or by their snapshots, preloaded before they are loaded, and removed."""

from collections.abc import Iterator, Sequence

import numpy as np
from pyroaring import BitMap

from gamay.base.arrays import Array
from gamay.kernels.keys.table import LATE
from gamay.segment.spi import Segment
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.index.comparing import beyond
from gamay.upsert.index.key_index import KeyIndex, NewRows, Rules
from gamay.upsert.rows.segment_registry import Counted, Install, Tracked, TrackedSegments
from gamay.upsert.rows.segment_rows import Rows, StoredRows, all_rows, is_beyond, new_rows, snapshot_rows
from gamay.upsert.rows.valid_docs import SegmentDocs

# Keys that are there for each that a snapshot brings, up to which writing the directory anew beats looking for places in it:
# 15 ns for each of all keys, 300 for each that is put.
_KEYS_PER_NEW = 16
_NOWHERE: Array = np.empty(0, np.int64)


class SealedSegments:
    """Does this for one partition, while nobody else changes it."""

    def __init__(self, settings: UpsertSettings, index: KeyIndex, segments: TrackedSegments) -> None:
        self._settings = settings
        self._index = index
        self._segments = segments

    def preload(self, stored: Sequence[StoredRows]) -> bool:
        """Take the rows of snapshots of segments that were not here before, all at once; see `PartitionUpsert.preload`."""
        num_rows = sum(len(rows.valid) for rows in stored)
        if not stored or num_rows * _KEYS_PER_NEW < len(self._index):
            return False
        added = [self._segments.track_sealed(rows.segment, rows.created_ms) for rows in stored]
        for tracked, rows in zip(added, stored, strict=True):
            tracked.docs.load(rows.valid, rows.queryable)

        def parts() -> Iterator[NewRows]:
            for tracked, rows in zip(added, stored, strict=True):
                if not is_beyond(self._settings, rows.segment, self._index.watermark):
                    yield from new_rows(self._settings, rows.segment, tracked.ordinal, tracked.docs, rows.keys)

        built, settings = False, self._settings
        try:
            built = self._index.build(parts(), num_rows, ttl=settings.ttl, is_float=settings.comparison.is_float)
        finally:
            for tracked in added:
                tracked.is_shown = False
                if not built:
                    self._segments.remove(tracked.name)
                    self._segments.release(tracked)
        return built

    def show_preloaded(self, name: str, install: Install) -> SegmentDocs | None:
        """Let queries see a segment that was preloaded; None when none of that name was, or it is seen already."""
        tracked = self._segments.find(name)
        if tracked is None or tracked.is_shown:
            return None
        tracked.is_shown = True
        self._segments.publish(tracked, (), _NOWHERE, install)
        return tracked.docs

    def add(self, segment: Segment, created_ms: int, install: "Install | None", stored: StoredRows | None) -> SegmentDocs:
        """Take the rows of a segment that was not here before; see `PartitionUpsert.add_segment`."""
        if self._segments.find(segment.name) is not None:
            raise ValueError(f"segment '{segment.name}' is there already: replace it")
        tracked = self._segments.track_sealed(segment, created_ms)
        if is_beyond(self._settings, segment, self._index.watermark):
            if stored is None:
                tracked.docs.load(BitMap(range(segment.num_docs)), None)
            else:
                tracked.docs.load(stored.valid, stored.queryable)
            self._segments.publish(tracked, (), _NOWHERE, install)
        else:
            added, removed = self.put(tracked, segment, stored)
            self._segments.publish(tracked, [added], removed, install)
        return tracked.docs

    def put(
        self, tracked: Tracked, segment: Segment, stored: StoredRows | None = None, deleted_ttl: float = 0
    ) -> tuple[Counted, Array]:
        """Put the rows of a segment into the index, or those that are stored of it; nothing is published.

        Returns those that count, and the locations of rows that they replace, int64 [n].
        """
        settings, index = self._settings, self._index
        wins = self._segments.ties_won_by(tracked)
        # without a snapshot rows are taken as the stream brought them, each at its time
        rules = Rules(
            tracked.ordinal, check_expiry=stored is None and (settings.ttl > 0 or deleted_ttl > 0),
            is_float=settings.comparison.is_float, ttl=settings.ttl, deleted_ttl=deleted_ttl,
        )  # fmt: skip
        added, deletes, removed = [np.empty(0, np.int64)], [np.empty(0, np.uint8)], [_NOWHERE]
        for batch in self._rows(segment, stored):
            part, keys, values, deleted = batch.docs, batch.keys, batch.values, batch.deleted
            if stored is not None and settings.ttl > 0:
                # what counted when it was beyond the TTL goes on to count, beside newer rows of its key
                stable = beyond(values[:, 0], index.watermark, settings.ttl, settings.comparison.is_float)
                added.append(part[stable])
                deletes.append(deleted[stable])
                alive = np.flatnonzero(~stable)
                part, keys, values, deleted = part[alive], keys.at(alive), values[alive], deleted[alive]
            chosen = np.full(len(part), -1, np.int8)
            put = index.put(keys, np.ascontiguousarray(values), chosen, deleted, wins, rules, part.copy())
            counts = put.status != LATE
            added.append(part[counts])
            deletes.append(deleted[counts])
            removed.append(put.previous[put.previous >= 0])
        return Counted(tracked, np.concatenate(added), np.concatenate(deletes)), np.concatenate(removed)

    def forget(self, tracked: Tracked, num_left: int) -> int:
        """Give a segment's ordinal back; remove the keys that still point to it, `num_left` at most, and return how many."""
        removed = len(self._index.remove_segment(tracked.ordinal)) if num_left or tracked.has_undone else 0
        self._segments.release(tracked)
        return removed

    def _rows(self, segment: Segment, stored: StoredRows | None) -> Iterator[Rows]:
        if stored is None:
            return all_rows(self._settings, segment)
        return snapshot_rows(self._settings, segment, stored.valid, stored.queryable, stored.keys)
