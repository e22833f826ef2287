"""The primary keys of one partition: the valid row of each key, during consumption, commits, loads and removals.

All replicas decide alike. Rows of the stream are processed in order; a key whose row is beyond metadataTTL is treated as
absent in every lookup, so the time of its removal does not matter; ties between segments do not depend on the
order in which they are loaded (`gamay.upsert.rows.ranking`).

`gamay.upsert.rows.segment_registry` has the segments, `gamay.upsert.partitions.batches` processes consumed rows,
`gamay.upsert.partitions.sealed` loaded segments, `gamay.upsert.partitions.copies` replacements of segments; this module
coordinates them.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.keys.table import ABSENT
from gamay.segment.spi import Segment
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.index.generations import GenerationIndex
from gamay.upsert.index.key_index import KeyIndex, Rules
from gamay.upsert.partitions.batches import Batches, Consuming
from gamay.upsert.partitions.copies import Copies
from gamay.upsert.partitions.deleted_keys import remove_deleted_alone
from gamay.upsert.partitions.sealed import SealedSegments
from gamay.upsert.rows.counters import UpsertCounters
from gamay.upsert.rows.merging import Merger
from gamay.upsert.rows.rollback import UndoLog
from gamay.upsert.rows.segment_registry import Install, Tracked, TrackedSegments
from gamay.upsert.rows.segment_rows import StoredRows
from gamay.upsert.rows.valid_docs import SegmentDocs


class PartitionUpsert:
    """One partition of a table with `upsertConfig`.

    publishing: the table's lock, see `TrackedSegments`. All operations are serialised; loads and
    removals wait while a batch has been prepared and not yet published.
    """

    def __init__(
        self, settings: UpsertSettings, partition: int, publishing: threading.Lock, merger: "Merger | None"
    ) -> None:
        self.settings = settings
        self.partition = partition
        self.counters = UpsertCounters()
        shape = settings.encoder.words, len(settings.comparison.fields)
        self._index = (
            GenerationIndex(*shape, settings.ttl, is_float=settings.comparison.is_float)
            if settings.in_generations
            else KeyIndex(*shape)
        )
        self._segments = TrackedSegments(publishing, has_deletes=settings.delete_column is not None)
        parts = (settings, self._index, self._segments)
        self._replaced = UndoLog(*parts)
        self._batches = Batches(*parts, self._replaced, merger, self.counters)
        self._sealed = SealedSegments(*parts)
        self._copies = Copies(*parts, self._sealed, self._replaced, self.counters)

    @property
    def num_keys(self) -> int:
        """The number of primary keys in the index."""
        return len(self._index)

    @property
    def num_bytes(self) -> int:
        """Bytes of the index and of the valid docs."""
        return self._index.num_bytes + self._segments.num_bytes

    @property
    def watermark(self) -> int | None:
        """The greatest comparison value so far, in the form of `gamay.upsert.index.comparing`; None before the first row."""
        return None if self._index.watermark == ABSENT else self._index.watermark

    def raise_watermark(self, value: int) -> None:
        """Apply a stored watermark."""
        with self.quiet():
            self._index.raise_watermark(value)

    def begin_anew(self) -> None:
        """Reset the watermark, unless there are segments."""
        with self.quiet():
            if not self._segments.by_name():
                self._index.set_watermark(ABSENT)

    def segments(self) -> Mapping[str, Tracked]:
        """Return the segments by name."""
        return self._segments.by_name()

    def has_segment(self, name: str) -> bool:
        """Whether there is a segment of this name."""
        return self._segments.find(name) is not None

    def unsealed(self, but: str) -> set[str]:
        """Return the segments, except `but`, that consume, or have consumed and are not yet replaced by sealed copies."""
        return {name for name, tracked in self.segments().items() if tracked.is_consuming and name != but}

    def quiet(self, name: str = "") -> AbstractContextManager[None]:
        """Exclude other writers, between two batches of the stream; name: as in `Batches.quiet`."""
        return self._batches.quiet(name)

    def consume(
        self, name: str, created_ms: int, read: Callable[[], Segment], install: "Install | None" = None,
        *, protects: bool = False,
    ) -> Consuming:  # fmt: skip
        """Start a consuming segment, from its first row. read: returns a view of its current rows.

        protects: if the sealed copy has fewer rows, make the rows that the missing ones had replaced valid again.
        """
        self.remove_segment(name)
        with self.quiet():
            tracked = self._segments.track(name, created_ms, 0, read, is_consuming=True)
            if protects:
                self._replaced.begin(tracked)
            self._segments.publish(tracked, (), np.empty(0, np.int64), install)
            return Consuming(self._batches, tracked)

    def preload(self, segments: Sequence[StoredRows]) -> bool:
        """Add the rows of snapshots of new segments in bulk; `show_preloaded` then publishes each segment.

        Return False, with nothing changed, if that is impossible or not worthwhile: then add them one by one. It is
        impossible if a key is valid in two of the segments, as after a crash between two snapshots.
        """
        with self.quiet():
            return self._sealed.preload(segments)

    def show_preloaded(self, name: str, install: Install) -> SegmentDocs | None:
        """Publish a preloaded segment to queries; return None if there is none of this name or it is already published."""
        with self.quiet():
            return self._sealed.show_preloaded(name, install)

    def add_segment(
        self, segment: Segment, created_ms: int, install: "Install | None" = None, stored: StoredRows | None = None
    ) -> SegmentDocs:
        """Add the rows of a new segment.

        stored: the rows that were valid at an earlier time; only these are then put, and their keys are not read from
        the segment if they are stored, too. Rows beyond metadataTTL are not looked up: the stored ones are valid, or all
        without `stored`. install: publishes the segment to queries, atomically with the invalidation of the rows that it
        replaces.
        """
        with self.quiet():
            return self._sealed.add(segment, created_ms, install, stored)

    def replace_segment(
        self, segment: Segment, created_ms: int, install: "Install | None" = None, doc_map: "Array | None" = None
    ) -> SegmentDocs:
        """Replace the segment of the same name: a consuming segment by its sealed copy, or one that is reloaded.

        doc_map: int64, the new doc id of each old one, if the new segment has the same rows: then the same rows
        stay valid, as they do if the rows turn out to be the same in the same order. Otherwise every row is
        compared again, and keys that the new segment does not have are removed.
        """
        with self.quiet(segment.name):
            return self._copies.replace(segment, created_ms, install, doc_map)

    def remove_segment(self, name: str, install: "Callable[[], None] | None" = None) -> None:
        """Remove a segment and the keys whose rows are in it; older rows of these keys do not become valid again."""
        with self.quiet(name):
            tracked = self._segments.remove(name)
            with self._segments.publishing:
                if install is not None:
                    install()
            if tracked is not None:
                self._sealed.forget(tracked, tracked.docs.snapshot(with_deleted=True).count)
                self._replaced.forget(tracked)

    def remove_expired(self) -> None:
        """Remove the keys beyond metadataTTL, whose rows stay valid, and the deleted ones beyond deletedKeysTTL."""
        settings = self.settings
        if not settings.forgets:
            return
        with self.quiet():
            float_ = settings.comparison.is_float
            if settings.ttl > 0:
                removed = self._index.remove_expired(Rules(-1, ttl=settings.ttl, is_float=float_))
                self.counters.ttl_removed += len(removed)
                if isinstance(self._index, GenerationIndex):
                    self.counters.ttl_removed = self._index.num_dropped
            if settings.deleted_ttl > 0:
                if settings.keeps_deleted:
                    removed = remove_deleted_alone(settings, self._index, self._segments)
                else:
                    removed = self._index.remove_expired(Rules(-1, deleted_ttl=settings.deleted_ttl, is_float=float_))
                self.counters.deleted_ttl_removed += len(removed)
                self._segments.end(removed)
