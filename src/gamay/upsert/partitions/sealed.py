"""Loading of sealed segments, row by row or from snapshots, their preloading, and their removal."""

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

# Maximum ratio of present keys to new ones for which rebuilding the directory is faster than inserting into it:
# 15 ns per key of the whole index, 300 per inserted key.
_KEYS_PER_NEW = 16
_NOWHERE: Array = np.empty(0, np.int64)


class SealedSegments:
    """The sealed segments of one partition; the caller excludes other writers."""

    def __init__(self, settings: UpsertSettings, index: KeyIndex, segments: TrackedSegments) -> None:
        self._settings = settings
        self._index = index
        self._segments = segments

    def preload(self, stored: Sequence[StoredRows]) -> bool:
        """Add the rows of snapshots of new segments in bulk; see `PartitionUpsert.preload`."""
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
        """Publish a preloaded segment to queries; return None if there is none of this name or it is already published."""
        tracked = self._segments.find(name)
        if tracked is None or tracked.is_shown:
            return None
        tracked.is_shown = True
        self._segments.publish(tracked, (), _NOWHERE, install)
        return tracked.docs

    def add(self, segment: Segment, created_ms: int, install: "Install | None", stored: StoredRows | None) -> SegmentDocs:
        """Add the rows of a new segment; see `PartitionUpsert.add_segment`."""
        if self._segments.find(segment.name) is not None:
            raise ValueError(f"segment '{segment.name}' exists already: replace it")
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
        """Put the rows of a segment, or its stored rows, into the index without publishing them.

        Return the valid ones, and the locations of rows that they replace, int64 [n].
        """
        settings, index = self._settings, self._index
        wins = self._segments.ties_won_by(tracked)
        # without a snapshot, rows are put in the order of the stream, each with the watermark of its time
        rules = Rules(
            tracked.ordinal, check_expiry=stored is None and (settings.ttl > 0 or deleted_ttl > 0),
            is_float=settings.comparison.is_float, ttl=settings.ttl, deleted_ttl=deleted_ttl,
        )  # fmt: skip
        added, deletes, removed = [np.empty(0, np.int64)], [np.empty(0, np.uint8)], [_NOWHERE]
        for batch in self._rows(segment, stored):
            part, keys, values, deleted = batch.docs, batch.keys, batch.values, batch.deleted
            if stored is not None and settings.ttl > 0:
                # rows that were valid when they passed the TTL stay valid, even if their key has newer rows
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
        """Free a segment's ordinal; remove the keys that still refer to it, at most `num_left`, and return their number."""
        removed = len(self._index.remove_segment(tracked.ordinal)) if num_left or tracked.has_undone else 0
        self._segments.release(tracked)
        return removed

    def _rows(self, segment: Segment, stored: StoredRows | None) -> Iterator[Rows]:
        if stored is None:
            return all_rows(self._settings, segment)
        return snapshot_rows(self._settings, segment, stored.valid, stored.queryable, stored.keys)
