"""The primary keys of one partition: which row of each key counts, through consuming, commits, loads and removals.

All replicas decide alike. Rows of the stream are taken in its order; a key whose row lies beyond metadataTTL counts as
absent *whenever* it is looked up, so it does not matter when it is removed; ties between segments do not depend on the
order in which they are loaded (`gamay.upsert.rows.ranking`).

`gamay.upsert.rows.segment_registry` knows the segments, `gamay.upsert.partitions.batches` takes what is consumed,
`gamay.upsert.partitions.sealed` what is loaded, `gamay.upsert.partitions.copies` what is put in the place of a segment; each
of them has its turn here.
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

    publishing: the table's lock, see `TrackedSegments`. Everything else here is done by one thread at a time; loads and
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
        """How many primary keys the index holds."""
        return len(self._index)

    @property
    def num_bytes(self) -> int:
        """Bytes of the index and of the sets of rows."""
        return self._index.num_bytes + self._segments.num_bytes

    @property
    def watermark(self) -> int | None:
        """The greatest comparison value so far, in the form of `gamay.upsert.index.comparing`; None before the first row."""
        return None if self._index.watermark == ABSENT else self._index.watermark

    def raise_watermark(self, value: int) -> None:
        """Take over a watermark that was stored."""
        with self.quiet():
            self._index.raise_watermark(value)

    def begin_anew(self) -> None:
        """Forget the watermark, unless a segment is here that it is of."""
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
        """Return the segments, `but` not, that consume, or have consumed and not been replaced by their sealed copies."""
        return {name for name, tracked in self.segments().items() if tracked.is_consuming and name != but}

    def quiet(self, name: str = "") -> AbstractContextManager[None]:
        """Keep everybody else from changing anything, between two batches of the stream; name: as in `Batches.quiet`."""
        return self._batches.quiet(name)

    def consume(
        self, name: str, created_ms: int, read: Callable[[], Segment], install: "Install | None" = None,
        *, protects: bool = False,
    ) -> Consuming:  # fmt: skip
        """Begin a consuming segment, from its first row; `read` gives its rows as they are now.

        protects: where the sealed copy turns out to lack rows, those count again that these had replaced.
        """
        self.remove_segment(name)
        with self.quiet():
            tracked = self._segments.track(name, created_ms, 0, read, is_consuming=True)
            if protects:
                self._replaced.begin(tracked)
            self._segments.publish(tracked, (), np.empty(0, np.int64), install)
            return Consuming(self._batches, tracked)

    def preload(self, segments: Sequence[StoredRows]) -> bool:
        """Take the rows of snapshots of segments that were not here before, all at once; `show_preloaded` shows each.

        False, and nothing has changed, where that cannot be done, or is not worth it: then add them one by one. It cannot
        when a key counts in two of the segments: so it may when the server died between two snapshots.
        """
        with self.quiet():
            return self._sealed.preload(segments)

    def show_preloaded(self, name: str, install: Install) -> SegmentDocs | None:
        """Let queries see a segment that was preloaded; None when none of that name was, or it is seen already."""
        with self.quiet():
            return self._sealed.show_preloaded(name, install)

    def add_segment(
        self, segment: Segment, created_ms: int, install: "Install | None" = None, stored: StoredRows | None = None
    ) -> SegmentDocs:
        """Take the rows of a segment that was not here before.

        stored: which of its rows counted at an earlier time; only these are looked at then, and their keys are not read from
        the segment where they are stored, too. Beyond metadataTTL nothing is looked at: the stored rows are valid, without
        them all are. install: makes the segment visible to queries; it is called in the step in which the rows that it
        replaces become invalid.
        """
        with self.quiet():
            return self._sealed.add(segment, created_ms, install, stored)

    def replace_segment(
        self, segment: Segment, created_ms: int, install: "Install | None" = None, doc_map: "Array | None" = None
    ) -> SegmentDocs:
        """Put a segment in the place of the one with its name: a consuming one that was sealed, or one loaded again.

        doc_map: int64, the new doc id of each old one, where the new segment has the same rows: then exactly the rows that
        counted go on to count; so do they when the rows turn out to be the same in the same order. Otherwise every row is
        compared anew, and keys that the new segment lacks are removed.
        """
        with self.quiet(segment.name):
            return self._copies.replace(segment, created_ms, install, doc_map)

    def remove_segment(self, name: str, install: "Callable[[], None] | None" = None) -> None:
        """Forget a segment and the keys whose rows are in it; older rows of these keys do not come back."""
        with self.quiet(name):
            tracked = self._segments.remove(name)
            with self._segments.publishing:
                if install is not None:
                    install()
            if tracked is not None:
                self._sealed.forget(tracked, tracked.docs.snapshot(with_deleted=True).count)
                self._replaced.forget(tracked)

    def remove_expired(self) -> None:
        """Remove the keys beyond metadataTTL, whose rows stay as they are, and the deleted ones beyond deletedKeysTTL."""
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
