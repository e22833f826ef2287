"""The primary keys of one partition: which row of each key counts, through consuming, commits, loads and removals.

All replicas decide alike. Rows of the stream are taken in its order; a key whose row lies beyond metadataTTL counts as
absent *whenever* it is looked up, so it does not matter when it is removed; ties between segments do not depend on the
order in which they are loaded (`gamay.upsert.ranking`).
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from gamay.base.errors import ConflictError
from gamay.kernels.key_table import ABSENT, DELETED_BIT, LATE, NO_DOC, REPLACED, SKIPPED
from gamay.segment.spi import Segment
from gamay.upsert.comparing import Comparisons, beyond, ordered
from gamay.upsert.deleted_keys import rows_left_elsewhere
from gamay.upsert.docs import SegmentDocs
from gamay.upsert.generations import GenerationIndex
from gamay.upsert.key_files import StoredKeys
from gamay.upsert.key_index import BATCH_ROWS, KeyIndex, Keys, NewRows, Put, Rules
from gamay.upsert.merging import Merger, RejectedRowsError
from gamay.upsert.ranking import SegmentRank
from gamay.upsert.segment_rows import (
    Rows,
    StoredRows,
    all_rows,
    deletes_in,
    deletes_of,
    new_rows,
    snapshot_rows,
    stable_order,
)  # fmt: skip
from gamay.upsert.settings import UpsertSettings
from gamay.upsert.spi import PreparedRows

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
Install: TypeAlias = Callable[[SegmentDocs], None]

_DOC = DELETED_BIT - 1
# Keys that are there for each that a snapshot brings, up to which writing the directory anew beats looking for places in it:
# 15 ns for each of all keys, 300 for each that is put.
_KEYS_PER_NEW = 16
_NOT_ONE = "the row must give exactly one of the table's comparisonColumns"


@dataclass(slots=True)
class Tracked:
    """A segment whose rows are in the index. read: gives it as it is now; is_consuming: whether it still grows;
    has_undone: whether keys may point to it that have no row. replaced: the rows of sealed segments that its rows have
    replaced, in this order, so that they can count again; None: that is not wanted. begun_at: the watermark at its first
    row. is_shown: whether queries may see it: not yet where its keys were preloaded and it is about to be loaded.
    """

    name: str
    ordinal: int
    rank: SegmentRank
    docs: SegmentDocs
    read: Callable[[], Segment]
    is_consuming: bool = False
    has_undone: bool = False
    replaced: "list[tuple[Tracked, Array]] | None" = None
    begun_at: int = ABSENT
    is_shown: bool = True


@dataclass(slots=True)
class _Effect:
    """What `publish` does. added, deletes: of the batch's segment; removed: where rows are that do not count any more."""

    segment: Tracked
    added: Array
    deletes: Array
    removed: Array
    keys: Keys
    put: Put


@dataclass(slots=True)
class UpsertCounters:
    """How often something happened since the start, and the last times of what is done at each commit.

    snapshots_missed: snapshots that could not be written; snapshots_unreadable: that were there and could not be used.
    snapshot_segments, snapshot_keys: how many segments have a snapshot, and how many rows count in these.
    """

    out_of_order: int = 0
    rejected: int = 0
    skipped: int = 0
    keys_not_replaced: int = 0
    ttl_removed: int = 0
    deleted_ttl_removed: int = 0
    snapshots_missed: int = 0
    snapshots_unreadable: int = 0
    snapshot_segments: int = 0
    snapshot_keys: int = 0
    snapshot_ms: float = 0
    expiry_ms: float = 0
    preload_ms: float = 0


class PartitionUpsert:
    """One partition of a table with `upsertConfig`.

    publishing: the table's lock; held, for microseconds, while the sets of rows that count change, so that whoever holds it
    sees the table between two batches. Everything else here is done by one thread at a time; loads and removals wait while a
    batch has been prepared and not yet published.
    """

    def __init__(
        self, settings: UpsertSettings, partition: int, publishing: threading.Lock, merger: "Merger | None"
    ) -> None:
        self.settings = settings
        self.partition = partition
        self._changed = threading.Condition(threading.RLock())
        self._pending: _Effect | None = None
        self.counters = UpsertCounters()
        self._publishing = publishing
        self._merger = merger
        shape = settings.encoder.words, len(settings.comparison.fields)
        self._index = (
            GenerationIndex(*shape, settings.ttl, is_float=settings.comparison.is_float)
            if settings.in_generations
            else KeyIndex(*shape)
        )
        self._segments: dict[str, Tracked] = {}
        self._by_ordinal: list[Tracked | None] = []

    # what others ask

    @property
    def num_keys(self) -> int:
        """How many primary keys the index holds."""
        return len(self._index)

    @property
    def num_bytes(self) -> int:
        """Bytes of the index and of the sets of rows."""
        return self._index.num_bytes + sum(tracked.docs.num_bytes for tracked in self._segments.values())

    @property
    def watermark(self) -> int | None:
        """The greatest comparison value so far, in the form of `gamay.upsert.comparing`; None before the first row."""
        return None if self._index.watermark == ABSENT else self._index.watermark

    def raise_watermark(self, value: int) -> None:
        """Take over a watermark that was stored."""
        with self.quiet():
            self._index.raise_watermark(value)

    def segments(self) -> Mapping[str, Tracked]:
        """Return the segments by name."""
        return dict(self._segments)

    @contextmanager
    def quiet(self, name: str = "") -> Iterator[None]:
        """Keep everybody else from changing anything, between two batches of the stream.

        name: a segment that is given up: a batch that was prepared for it, and will not be published, does not matter.
        """
        with self._changed:
            while self._pending is not None and self._pending.segment.name != name:
                self._changed.wait()
            if self._pending is not None:
                self.undo(self._pending)
            yield

    # consuming

    def consume(
        self, name: str, created_ms: int, read: Callable[[], Segment], install: "Install | None" = None,
        *, protects: bool = False,
    ) -> "Consuming":  # fmt: skip
        """Begin a consuming segment, from its first row; `read` gives its rows as they are now.

        protects: where the sealed copy turns out to lack rows, those count again that these had replaced.
        """
        self.remove_segment(name)
        with self.quiet():
            tracked = self._track(name, SegmentRank.of(name, created_ms), 0, read)
            tracked.is_consuming = True
            tracked.replaced = [] if protects else None
            tracked.begun_at = self._index.watermark
            with self._publishing:
                if install is not None:
                    install(tracked.docs)
            return Consuming(self, tracked)

    # segments that do not change

    def preload(self, segments: Sequence[StoredRows]) -> bool:
        """Take the rows of snapshots of segments that were not here before, all at once; `show_preloaded` shows each.

        False, and nothing has changed, where that cannot be done, or is not worth it: then add them one by one. It cannot
        when a key counts in two of the segments: so it may when the server died between two snapshots.
        """
        num_rows = sum(len(rows.valid) for rows in segments)
        if not segments or num_rows * _KEYS_PER_NEW < len(self._index):
            return False
        with self.quiet():
            added = [self._track_sealed(rows.segment, rows.created_ms) for rows in segments]
            for tracked, rows in zip(added, segments, strict=True):
                tracked.docs.load(rows.valid, rows.queryable)

            def parts() -> Iterator[NewRows]:
                for tracked, rows in zip(added, segments, strict=True):
                    if not self._is_stable(rows.segment):
                        yield from new_rows(self.settings, rows.segment, tracked.ordinal, tracked.docs, rows.keys)

            built, comparison = False, self.settings.comparison
            try:
                built = self._index.build(parts(), num_rows, ttl=self.settings.ttl, is_float=comparison.is_float)
            finally:
                for tracked in added:
                    tracked.is_shown = False
                    if not built:
                        del self._segments[tracked.name]
                        self._by_ordinal[tracked.ordinal] = None
            return built

    def show_preloaded(self, name: str, install: Install) -> "SegmentDocs | None":
        """Let queries see a segment that was preloaded; None when none of that name was, or it is seen already."""
        with self.quiet():
            tracked = self._segments.get(name)
            if tracked is None or tracked.is_shown:
                return None
            tracked.is_shown = True
            with self._publishing:
                install(tracked.docs)
            return tracked.docs

    def add_segment(
        self, segment: Segment, created_ms: int, snapshot: "tuple[BitMap, BitMap | None] | None" = None,
        install: "Install | None" = None, stored: "StoredKeys | None" = None,
    ) -> SegmentDocs:  # fmt: skip
        """Take the rows of a segment that was not here before.

        snapshot: the valid and the queryable rows of an earlier time; only these are looked at then. Beyond metadataTTL
        nothing is: the snapshot's rows count, without one all do. stored: keys of the segment's rows, which are not
        read from it where they are all of the snapshot's. install: makes the segment visible to queries; it is called in the
        step in which the rows that it replaces stop to count.
        """
        with self.quiet():
            if segment.name in self._segments:
                raise ValueError(f"segment '{segment.name}' is there already: replace it")
            tracked = self._track_sealed(segment, created_ms)
            if self._is_stable(segment):
                if snapshot is None:
                    tracked.docs.load(BitMap(range(segment.num_docs)), None)
                else:
                    tracked.docs.load(*snapshot)
                added, removed = _Added(), np.empty(0, np.int64)
            else:
                read = None if snapshot is None else snapshot_rows(self.settings, segment, *snapshot, stored)
                added, removed = self._put_segment(tracked, segment, read)
            self._publish(tracked, added, removed, install)
            return tracked.docs

    def replace_segment(
        self, segment: Segment, created_ms: int, install: "Install | None" = None, doc_map: "Array | None" = None
    ) -> SegmentDocs:
        """Put a segment in the place of the one with its name: a consuming one that was sealed, or one loaded again.

        doc_map: int64, the new doc id of each old one, where the new segment has the same rows: then exactly the rows that
        counted go on to count; so do they when the rows turn out to be the same in the same order. Otherwise every row is
        compared anew, and keys that the new segment lacks are removed.
        """
        with self.quiet(segment.name):
            old = self._segments.pop(segment.name)
            if doc_map is None:
                doc_map = self._same_rows(old, segment)
            tracked = self._track_sealed(segment, created_ms)
            if doc_map is None and old.replaced is not None:
                self._consume_again(old, tracked, segment, install)
                return tracked.docs
            if doc_map is not None:
                added, removed = self._move(old, tracked, segment, doc_map), np.empty(0, np.int64)
            else:
                added, removed = self._put_segment(tracked, segment, None)
            num_counting = old.docs.snapshot(with_deleted=True).count
            num_moved = len(added.docs) if doc_map is not None else int(np.count_nonzero(removed >> 32 == old.ordinal))
            num_left = self._forget(old, num_counting - num_moved)
            if doc_map is not None:
                self._follow(old, tracked, doc_map)
            self._publish(tracked, added, removed[removed >> 32 != old.ordinal], install)
            self.counters.keys_not_replaced += num_left
            return tracked.docs

    def remove_segment(self, name: str, install: "Callable[[], None] | None" = None) -> None:
        """Forget a segment and the keys whose rows are in it; older rows of these keys do not come back."""
        with self.quiet(name):
            tracked = self._segments.pop(name, None)
            with self._publishing:
                if install is not None:
                    install()
            if tracked is not None:
                self._forget(tracked, tracked.docs.snapshot(with_deleted=True).count)

    def remove_expired(self) -> None:
        """Remove the keys beyond metadataTTL, whose rows stay as they are, and the deleted ones beyond deletedKeysTTL."""
        settings = self.settings
        if settings.ttl <= 0 and settings.deleted_ttl <= 0:
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
                    removed = self._remove_deleted_alone()
                else:
                    removed = self._index.remove_expired(Rules(-1, deleted_ttl=settings.deleted_ttl, is_float=float_))
                self.counters.deleted_ttl_removed += len(removed)
                with self._publishing:
                    self._clear(removed)

    # inside

    def _remove_deleted_alone(self) -> Array:
        """Remove the deleted keys beyond deletedKeysTTL that have rows in one segment only; return where they were."""
        settings = self.settings
        locations, comparisons = self._index.items()
        deleted = (locations & DELETED_BIT != 0) & (locations & _DOC != NO_DOC)
        locations, comparisons = locations[deleted], comparisons[deleted]
        expired = beyond(comparisons, self._index.watermark, settings.deleted_ttl, settings.comparison.is_float)
        places = np.sort(locations[expired] & ~DELETED_BIT)
        segments = {tracked.ordinal: tracked.read() for tracked in self._segments.values()} if len(places) else {}
        groups = [places[places >> 32 == ordinal] for ordinal in np.unique(places >> 32)]
        wanted = [
            (ordinal, settings.encoder.at(segments[ordinal], (mine & _DOC).astype(np.int32)))
            for mine in groups
            for ordinal in [int(mine[0] >> 32)]
        ]
        elsewhere = rows_left_elsewhere(settings.encoder, list(segments.items()), wanted)
        unused, removed = len(self._by_ordinal), [np.empty(0, np.int64)]
        for mine, (_, keys), has_others in zip(groups, wanted, elsewhere, strict=True):
            alone = np.flatnonzero(~has_others)
            gone = mine[alone]
            self._index.move(keys.at(alone), gone, (unused << 32) | (gone & _DOC))
            removed.append(gone)
        self._index.remove_segment(unused)
        return np.concatenate(removed)

    def _track(self, name: str, rank: SegmentRank, num_docs: int, read: Callable[[], Segment]) -> Tracked:
        free = next((i for i, used in enumerate(self._by_ordinal) if used is None), len(self._by_ordinal))
        if free == len(self._by_ordinal):
            self._by_ordinal.append(None)
        docs = SegmentDocs(num_docs, self.settings.delete_column is not None)
        tracked = Tracked(name, free, rank, docs, read)
        self._by_ordinal[free] = tracked
        self._segments[name] = tracked
        return tracked

    def _track_sealed(self, segment: Segment, created_ms: int) -> Tracked:
        return self._track(segment.name, SegmentRank.of(segment.name, created_ms), segment.num_docs, lambda: segment)

    def _forget(self, tracked: Tracked, num_left: int) -> int:
        """Give a segment's ordinal back; remove the keys that still point to it, `num_left` at most, and return how many."""
        removed = len(self._index.remove_segment(tracked.ordinal)) if num_left or tracked.has_undone else 0
        self._by_ordinal[tracked.ordinal] = None
        return removed

    def _is_stable(self, segment: Segment) -> bool:
        """Whether all rows of a segment lie beyond metadataTTL."""
        ttl, watermark = self.settings.ttl, self._index.watermark
        comparison = self.settings.comparison
        if ttl <= 0 or watermark == ABSENT or not segment.num_docs:
            return False
        greatest = segment.column(comparison.fields[0].name).stats.maximum
        if greatest is None:
            return False
        return bool(beyond(ordered(np.array([greatest])), watermark, ttl, comparison.is_float)[0])

    def _put_segment(
        self, tracked: Tracked, segment: Segment, valid: "Iterator[Rows] | None", deleted_ttl: float = 0
    ) -> tuple["_Added", Array]:
        """Put the rows of a segment, or its valid ones; return which of them count, and where those are that they replace.

        The latter are int64, ordinal << 32 | doc.
        """
        settings, index = self.settings, self._index
        wins = np.zeros(len(self._by_ordinal), np.uint8)
        for other in self._by_ordinal:
            if other is not None and other.name == tracked.name:
                wins[other.ordinal] = 1 if other is tracked else 2  # of its former copy no row is left
            elif other is not None:
                wins[other.ordinal] = tracked.rank.beats(other.rank)
        # without a snapshot rows are taken as the stream brought them, each at its time
        rules = Rules(
            tracked.ordinal, check_expiry=valid is None and (settings.ttl > 0 or deleted_ttl > 0),
            is_float=settings.comparison.is_float, ttl=settings.ttl, deleted_ttl=deleted_ttl,
        )  # fmt: skip
        added, deletes, removed = [np.empty(0, np.int64)], [np.empty(0, np.uint8)], [np.empty(0, np.int64)]
        for batch in all_rows(settings, segment) if valid is None else valid:
            part, keys, values, deleted = batch.docs, batch.keys, batch.values, batch.deleted
            if valid is not None and settings.ttl > 0:
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
        return _Added(np.concatenate(added), np.concatenate(deletes)), np.concatenate(removed)

    def _same_rows(self, old: Tracked, segment: Segment) -> "Array | None":
        """Return the new doc id of each row of a segment whose rows another has, too: in their order, or sorted.

        None when it has not, for every row that counts, a row of the same key where that should be.
        """
        if segment.num_docs != old.docs.num_docs:
            return None
        doc_map = np.arange(segment.num_docs)
        if old.is_consuming and self.settings.sorted_column is not None:
            order = stable_order(old.read().column(self.settings.sorted_column).values(0, segment.num_docs))
            doc_map[order] = np.arange(segment.num_docs)
        valid = old.docs.snapshot(with_deleted=True).docs.astype(np.int64)
        valid = valid[np.argsort(doc_map[valid])]
        for start in range(0, len(valid), BATCH_ROWS):
            docs = valid[start : start + BATCH_ROWS]
            rows = doc_map[docs].astype(np.int32)
            locations, _ = self._index.find(self.settings.encoder.at(segment, rows))
            same = locations & ~DELETED_BIT == (old.ordinal << 32) | docs
            if self.settings.ttl > 0:  # keys beyond it may have been removed, or have newer rows elsewhere
                values = self.settings.comparison.at(segment, rows)[:, 0]
                same |= beyond(values, self._index.watermark, self.settings.ttl, self.settings.comparison.is_float)
            if not same.all():
                return None
        return doc_map

    def _move(self, old: Tracked, new: Tracked, segment: Segment, doc_map: Array) -> "_Added":
        """Let the keys whose rows were in `old` point to the same rows in `new`; the rows that count are the same."""
        valid = old.docs.snapshot(with_deleted=True).docs.astype(np.int64)
        moved = doc_map[valid]
        order = np.argsort(moved)
        sources, targets = valid[order], moved[order]
        for start in range(0, len(targets), BATCH_ROWS):
            part = slice(start, start + BATCH_ROWS)
            keys = self.settings.encoder.at(segment, targets[part].astype(np.int32))
            self._index.move(keys, (old.ordinal << 32) | sources[part], (new.ordinal << 32) | targets[part])
        deletes = None
        if self.settings.delete_column is not None:
            deletes = (~old.docs.snapshot().mask[sources]).astype(np.uint8)
        return _Added(targets, deletes)

    def _follow(self, old: Tracked, new: Tracked, doc_map: Array) -> None:
        """Where rows of `old` may have to count again, let those of `new` do so, which has them all."""
        for consuming in self._segments.values():
            known = consuming.replaced or ()
            for place, (segment, docs) in enumerate(known):
                if segment is old and consuming.replaced is not None:
                    consuming.replaced[place] = (new, doc_map[docs])

    def _consume_again(self, old: Tracked, new: Tracked, segment: Segment, install: "Install | None") -> None:
        """Put the sealed copy of a consuming segment, which may have fewer rows, as if its rows came from the stream now.

        All is as it was at the first row of `old` before: keys point to what its rows had replaced, or are gone, and the
        watermark is that of then. So late rows are late again, and no key stays with a row that is taken back.
        """
        num_keys = len(self._index)
        self._index.remove_segment(old.ordinal)
        back = self._take_back(old)
        self._index.set_watermark(old.begun_at)
        added, removed = self._put_segment(new, segment, None, deleted_ttl=self.settings.deleted_ttl)
        self._forget(old, 0)
        self._publish(new, added, removed, install, back)
        self.counters.keys_not_replaced += max(0, num_keys - len(self._index))

    def _take_back(self, old: Tracked) -> "list[tuple[Tracked, Array, Array]]":
        """Let keys that lost their rows with `old` point to what these had replaced; return the rows that count again."""
        back: list[tuple[Tracked, Array, Array]] = []
        for segment, places in reversed(old.replaced or ()):
            if self._segments.get(segment.name) is not segment:
                continue
            source, docs = segment.read(), np.unique(places)
            keys = self.settings.encoder.at(source, docs.astype(np.int32))
            lost = np.flatnonzero(self._index.find(keys)[0] < 0)
            docs = docs[lost]
            rows = docs.astype(np.int32)
            values = np.ascontiguousarray(self.settings.comparison.at(source, rows))
            deletes = deletes_of(source, self.settings.delete_column, rows)
            wins = np.ones(len(self._by_ordinal), np.uint8)
            rules = Rules(segment.ordinal, is_float=self.settings.comparison.is_float)
            self._index.put(keys.at(lost), values, np.full(len(docs), -1, np.int8), deletes, wins, rules, docs.copy())
            back.append((segment, docs, deletes))
        return back

    def _publish(
        self, tracked: Tracked, added: "_Added", removed: Array, install: "Install | None",
        back: "Sequence[tuple[Tracked, Array, Array]]" = (),
    ) -> None:  # fmt: skip
        with self._publishing:
            tracked.docs.add(added.docs, added.deletes)
            for other, docs, deletes in back:
                other.docs.add(docs, deletes)
            self._clear(removed)
            if install is not None:
                install(tracked.docs)

    def _clear(self, locations: Array) -> None:
        """Let rows count no longer, wherever they are."""
        locations = locations[locations & _DOC != NO_DOC]
        ordinals, docs = locations >> 32, locations & _DOC
        for ordinal in np.unique(ordinals):
            tracked = self._by_ordinal[ordinal]
            assert tracked is not None
            tracked.docs.remove(docs[ordinals == ordinal])

    # for Consuming

    def put_batch(self, tracked: Tracked, batch: pa.RecordBatch, first_doc: int) -> PreparedRows:
        """Decide about the rows of a conformed batch; see `spi.ConsumingKeys.prepare`."""
        with self.quiet():
            if self._by_ordinal[tracked.ordinal] is not tracked:
                raise ConflictError(f"segment '{tracked.name}' is consumed here no longer")
            rows = self._prepared(tracked, batch, first_doc)
            self._pending = rows.effect
            return rows

    def _prepared(self, tracked: Tracked, batch: pa.RecordBatch, first_doc: int) -> PreparedRows:
        comparisons = self.settings.comparison.of_batch(batch)
        rejected = dict.fromkeys(np.flatnonzero(comparisons.refused).tolist(), _NOT_ONE)
        while True:  # without a row that cannot be merged, those after it may be merged with others
            rows = np.arange(batch.num_rows)
            if rejected:
                rows = np.delete(rows, list(rejected))
            try:
                prepared = self._decide(tracked, batch, comparisons, rows, first_doc)
            except RejectedRowsError as error:
                rejected |= {int(rows[row]): reason for row, reason in error.reasons.items()}
                continue
            self.counters.rejected += len(rejected)
            return replace(prepared, rejected=rejected)

    def _decide(
        self, tracked: Tracked, batch: pa.RecordBatch, comparisons: Comparisons, rows: Array, first_doc: int
    ) -> PreparedRows:
        """Put some rows of a batch and merge them. Raises RejectedRowsError, and then nothing was done."""
        settings = self.settings
        if len(rows) < batch.num_rows:
            batch = batch.take(pa.array(rows))
        values, chosen = comparisons.values[rows], comparisons.chosen[rows]
        deletes = deletes_in(batch, settings.delete_column)
        keys = settings.encoder.of_batch(batch)
        put = self._index.put(
            keys, values, chosen, deletes, np.ones(len(self._by_ordinal), np.uint8),
            Rules(
                tracked.ordinal, first_doc, settings.drop_out_of_order, settings.skip_late, check_expiry=True,
                is_float=settings.comparison.is_float, ttl=settings.ttl, deleted_ttl=settings.deleted_ttl,
            ),
            undoable=True,
        )  # fmt: skip
        late = put.status == LATE
        if len(settings.comparison.fields) > 1:
            batch = settings.comparison.fill_in(batch, values)
        if self._merger is not None:
            try:
                batch = self._merged(self._merger, tracked, batch, put, deletes, first_doc)
            except RejectedRowsError:
                self._index.undo(keys, put)
                tracked.has_undone = True
                raise
        if settings.out_of_order_column is not None:
            index = batch.schema.get_field_index(settings.out_of_order_column)
            batch = batch.set_column(index, batch.schema.field(index), pa.array(late))
        kept = put.docs >= 0
        if not kept.all():
            batch = batch.filter(pa.array(kept))
        counts = kept & ~late
        effect = _Effect(tracked, put.docs[counts], deletes[counts], put.previous[put.previous >= 0], keys, put)
        skipped = int(np.count_nonzero(put.status == SKIPPED))
        num_late = int(np.count_nonzero(late))
        self.counters.out_of_order += num_late
        self.counters.skipped += skipped
        return PreparedRows(batch, first_doc, rows[kept], int(np.count_nonzero(~kept)), num_late, {}, effect)

    def _merged(
        self, merger: Merger, tracked: Tracked, batch: pa.RecordBatch, put: Put, deletes: Array, first_doc: int
    ) -> pa.RecordBatch:
        """Merge rows with those that they replace, which may be in the batch itself."""
        merges = (put.status == REPLACED) & (deletes == 0) & (put.previous & DELETED_BIT == 0)
        sources = np.full(batch.num_rows, -1, np.int64)
        places = np.where(merges, put.previous, -1)
        ordinals, docs = places >> 32, places & _DOC
        inside = merges & (ordinals == tracked.ordinal) & (docs >= first_doc)
        row_of = np.full(int(put.docs.max(initial=first_doc - 1)) + 1 - first_doc, -1, np.int64)
        with_doc = np.flatnonzero(put.docs >= 0)
        row_of[put.docs[with_doc] - first_doc] = with_doc
        sources[inside] = row_of[docs[inside] - first_doc]
        outside = np.flatnonzero(merges & ~inside)
        located, inverse = np.unique(places[outside], return_inverse=True)
        sources[outside] = batch.num_rows + inverse
        read: list[tuple[Segment, Array]] = []
        for ordinal in np.unique(located >> 32):
            other = self._by_ordinal[ordinal]
            assert other is not None
            read.append((other.read(), (located[located >> 32 == ordinal] & _DOC).astype(np.int32)))
        return merger.merge(batch, sources, read)

    def apply(self, effect: _Effect, num_docs: int) -> None:
        """Let the rows of a batch count; see `spi.ConsumingKeys.publish`."""
        with self._changed:
            if self._pending is not effect:
                return  # its segment has been given up
            with self._publishing:
                effect.segment.docs.grow(num_docs)
                effect.segment.docs.add(effect.added, effect.deletes)
                self._clear(effect.removed)
            if effect.segment.replaced is not None:
                # forgotten rows, too: before the row that raised the watermark they are not forgotten
                took = (effect.put.places >= 0) & (effect.put.status != LATE) & (effect.put.status != SKIPPED)
                self._remember(effect.segment.replaced, effect.put.places[took])
            self._pending = None
            self._changed.notify_all()

    def _remember(self, replaced: "list[tuple[Tracked, Array]]", locations: Array) -> None:
        """Keep which rows of sealed segments a batch has replaced."""
        locations = locations[locations & _DOC != NO_DOC]
        ordinals, docs = locations >> 32, locations & _DOC
        for ordinal in np.unique(ordinals):
            other = self._by_ordinal[ordinal]
            if other is not None and not other.is_consuming:
                replaced.append((other, docs[ordinals == ordinal]))

    def undo(self, effect: _Effect) -> None:
        """Forget a batch that was prepared and could not be appended."""
        with self._changed:
            if self._pending is effect:
                self._index.undo(effect.keys, effect.put)
                effect.segment.has_undone = True
                self._pending = None
                self._changed.notify_all()

    def unsealed(self, but: str) -> set[str]:
        """Return the segments, `but` not, that consume, or have consumed and not been replaced by their sealed copies."""
        return {name for name, tracked in self.segments().items() if tracked.is_consuming and name != but}


@dataclass(slots=True)
class _Added:
    docs: Array = field(default_factory=lambda: np.empty(0, np.int64))
    deletes: "Array | None" = None


class Consuming:
    """The keys of a consuming segment; implements `spi.ConsumingKeys`. Made by `PartitionUpsert.consume`."""

    def __init__(self, partition: PartitionUpsert, tracked: Tracked) -> None:
        self._partition = partition
        self._tracked = tracked
        self._num_docs = 0

    @property
    def docs(self) -> SegmentDocs:
        """The rows of the segment that count."""
        return self._tracked.docs

    def prepare(self, batch: pa.RecordBatch) -> PreparedRows:
        """Look up the keys of a conformed batch and decide about each row, in its order."""
        return self._partition.put_batch(self._tracked, batch, self._num_docs)

    def counting(self) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """Return the rows that count as they are now, those that delete their key among them: int32, ascending."""
        return self._tracked.docs.snapshot(with_deleted=True).docs.astype(np.int32)

    def publish(self, rows: PreparedRows) -> None:
        """Let the appended rows count, and those that they replace no longer."""
        self._num_docs = rows.first_doc + rows.batch.num_rows
        self._partition.apply(rows.effect, self._num_docs)

    def undo(self, rows: PreparedRows) -> None:
        """Forget prepared rows that could not be appended."""
        self._partition.undo(rows.effect)
