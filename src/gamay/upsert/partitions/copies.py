"""Replacement of a segment by another copy of it: a consuming segment that was sealed, or one that is reloaded.

If the new copy has the same rows, the same rows stay valid. Otherwise they are compared again; those of a
sealed copy of a consuming segment whose replaced rows are known, as if they arrived from the stream now.
"""

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.keys.table import DELETED_BIT
from gamay.segment.spi import Segment
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.index.comparing import beyond
from gamay.upsert.index.key_index import BATCH_ROWS, KeyIndex
from gamay.upsert.partitions.sealed import SealedSegments
from gamay.upsert.rows.counters import UpsertCounters
from gamay.upsert.rows.rollback import UndoLog
from gamay.upsert.rows.segment_registry import Counted, Install, Tracked, TrackedSegments
from gamay.upsert.rows.segment_rows import stable_order
from gamay.upsert.rows.valid_docs import SegmentDocs


class Copies:
    """The replacements in one partition; the caller excludes other writers."""

    def __init__(
        self, settings: UpsertSettings, index: KeyIndex, segments: TrackedSegments, sealed: SealedSegments,
        replaced: UndoLog, counters: UpsertCounters,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._index = index
        self._segments = segments
        self._sealed = sealed
        self._replaced = replaced
        self._counters = counters

    def replace(self, segment: Segment, created_ms: int, install: "Install | None", doc_map: "Array | None") -> SegmentDocs:
        """Replace the segment of the same name; see `PartitionUpsert.replace_segment`."""
        old = self._segments.remove(segment.name)
        if old is None:
            raise ValueError(f"segment '{segment.name}' does not exist: add it")
        if doc_map is None:
            doc_map = self._same_rows(old, segment)
        new = self._segments.track_sealed(segment, created_ms)
        if doc_map is not None:
            self._move(old, new, segment, doc_map, install)
        elif self._replaced.keeps(old):
            self._consume_again(old, new, segment, install)
        else:
            self._compare_anew(old, new, segment, install)
        self._replaced.forget(old)
        return new.docs

    def _same_rows(self, old: Tracked, segment: Segment) -> "Array | None":
        """Return the new doc id of each old row, if the new segment has the same rows, in the same order or sorted.

        Return None unless each valid row has a row with the same key at the expected position.
        """
        if segment.num_docs != old.docs.num_docs:
            return None
        doc_map = np.arange(segment.num_docs)
        if old.is_consuming and self._settings.sorted_column is not None:
            order = stable_order(old.read().column(self._settings.sorted_column).values(0, segment.num_docs))
            doc_map[order] = np.arange(segment.num_docs)
        valid = old.docs.snapshot(with_deleted=True).docs.astype(np.int64)
        valid = valid[np.argsort(doc_map[valid])]
        for start in range(0, len(valid), BATCH_ROWS):
            docs = valid[start : start + BATCH_ROWS]
            rows = doc_map[docs].astype(np.int32)
            locations, _ = self._index.find(self._settings.encoder.at(segment, rows))
            same = locations & ~DELETED_BIT == (old.ordinal << 32) | docs
            if self._settings.ttl > 0:  # expired keys may have been removed, or have newer rows elsewhere
                values = self._settings.comparison.at(segment, rows)[:, 0]
                same |= beyond(values, self._index.watermark, self._settings.ttl, self._settings.comparison.is_float)
            if not same.all():
                return None
        return doc_map

    def _move(self, old: Tracked, new: Tracked, segment: Segment, doc_map: Array, install: "Install | None") -> None:
        """Redirect the keys from rows in `old` to the same rows in `new`, and transfer the valid docs."""
        valid = old.docs.snapshot(with_deleted=True).docs.astype(np.int64)
        moved = doc_map[valid]
        order = np.argsort(moved)
        sources, targets = valid[order], moved[order]
        for start in range(0, len(targets), BATCH_ROWS):
            part = slice(start, start + BATCH_ROWS)
            keys = self._settings.encoder.at(segment, targets[part].astype(np.int32))
            self._index.move(keys, (old.ordinal << 32) | sources[part], (new.ordinal << 32) | targets[part])
        deletes = None
        if self._settings.delete_column is not None:
            deletes = (~old.docs.snapshot().mask[sources]).astype(np.uint8)
        num_left = self._sealed.forget(old, 0)
        self._replaced.follow(old, new, doc_map)
        self._segments.publish(new, [Counted(new, targets, deletes)], np.empty(0, np.int64), install)
        self._counters.keys_not_replaced += num_left

    def _compare_anew(self, old: Tracked, new: Tracked, segment: Segment, install: "Install | None") -> None:
        """Put every row of the new copy, and remove the keys that it does not have."""
        added, removed = self._sealed.put(new, segment)
        own = removed >> 32 == old.ordinal
        num_counting = old.docs.snapshot(with_deleted=True).count
        num_left = self._sealed.forget(old, num_counting - int(np.count_nonzero(own)))
        self._segments.publish(new, [added], removed[~own], install)
        self._counters.keys_not_replaced += num_left

    def _consume_again(self, old: Tracked, new: Tracked, segment: Segment, install: "Install | None") -> None:
        """Put the sealed copy of a consuming segment, which may have fewer rows, as if its rows arrived from the stream now.

        The state is first rolled back to the first row of `old`, so that late rows are late again, and no key keeps a
        row that was rolled back.
        """
        num_keys = len(self._index)
        back = self._replaced.take_back(old)
        added, removed = self._sealed.put(new, segment, deleted_ttl=self._settings.deleted_ttl)
        self._sealed.forget(old, 0)
        self._segments.publish(new, [added, *back], removed, install)
        self._counters.keys_not_replaced += max(0, num_keys - len(self._index))
