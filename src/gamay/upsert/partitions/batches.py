"""Processing of the batches of consuming segments: rows are looked up, merged, and published or rolled back.

Between `prepare` and `publish` nothing else in the partition changes: other writers wait in `quiet`.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ConflictError
from gamay.kernels.keys.table import DELETED_BIT, LATE, REPLACED, SKIPPED
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.index.comparing import Comparisons
from gamay.upsert.index.key_index import KeyIndex, Keys, Put, Rules
from gamay.upsert.rows.counters import UpsertCounters
from gamay.upsert.rows.merging import Merger, RejectedRowsError
from gamay.upsert.rows.rollback import UndoLog
from gamay.upsert.rows.segment_registry import DOC_BITS, Counted, Tracked, TrackedSegments
from gamay.upsert.rows.segment_rows import deletes_in
from gamay.upsert.rows.valid_docs import SegmentDocs
from gamay.upsert.spi import PreparedRows

_NOT_ONE = "the row must give exactly one of the table's comparisonColumns"


@dataclass(slots=True)
class _Effect:
    """The effect of `publish`. added: rows of the batch; removed: the locations of rows that become invalid."""

    added: Counted
    removed: Array
    keys: Keys
    put: Put


class Batches:
    """Processor of the batches of a partition, one at a time and in the order of the stream."""

    def __init__(
        self, settings: UpsertSettings, index: KeyIndex, segments: TrackedSegments, replaced: UndoLog,
        merger: "Merger | None", counters: UpsertCounters,
    ) -> None:  # fmt: skip
        self._settings = settings
        self._index = index
        self._segments = segments
        self._replaced = replaced
        self._merger = merger
        self._counters = counters
        self._changed = threading.Condition(threading.RLock())
        self._pending: _Effect | None = None

    @contextmanager
    def quiet(self, name: str = "") -> Iterator[None]:
        """Exclude other writers of the partition, between two batches of the stream.

        name: a segment that is being abandoned, for whose prepared batch there is no need to wait.
        """
        with self._changed:
            while self._pending is not None and self._pending.added.segment.name != name:
                self._changed.wait()
            if self._pending is not None:
                self.undo(self._pending)
            yield

    def prepare(self, tracked: Tracked, batch: pa.RecordBatch, first_doc: int) -> PreparedRows:
        """Decide on the rows of a batch; see `spi.ConsumingKeys.prepare`."""
        with self.quiet():
            if not self._segments.holds(tracked):
                raise ConflictError(f"segment '{tracked.name}' is no longer consumed here")
            rows = self._prepared(tracked, batch, first_doc)
            self._pending = rows.effect
            return rows

    def publish(self, effect: _Effect, num_docs: int) -> None:
        """Make the rows of a batch valid; see `spi.ConsumingKeys.publish`. num_docs: rows of the segment afterwards."""
        with self._changed:
            if self._pending is not effect:
                return  # its segment has been abandoned
            segment, put = effect.added.segment, effect.put
            self._segments.publish(segment, [effect.added], effect.removed, None, num_docs)
            if self._replaced.keeps(segment):
                # including rows of expired keys, which had not expired before the row that raised the watermark
                took = (put.places >= 0) & (put.status != LATE) & (put.status != SKIPPED)
                self._replaced.remember(segment, put.places[took])
            self._pending = None
            self._changed.notify_all()

    def undo(self, effect: _Effect) -> None:
        """Roll back a batch that was prepared and could not be appended."""
        with self._changed:
            if self._pending is effect:
                self._index.undo(effect.keys, effect.put)
                effect.added.segment.has_undone = True
                self._pending = None
                self._changed.notify_all()

    def _prepared(self, tracked: Tracked, batch: pa.RecordBatch, first_doc: int) -> PreparedRows:
        comparisons = self._settings.comparison.of_batch(batch)
        rejected = dict.fromkeys(np.flatnonzero(comparisons.refused).tolist(), _NOT_ONE)
        while True:  # after removing a row that cannot be merged, later rows may merge with different ones
            rows = np.arange(batch.num_rows)
            if rejected:
                rows = np.delete(rows, list(rejected))
            try:
                prepared = self._decide(tracked, batch, comparisons, rows, first_doc)
            except RejectedRowsError as error:
                rejected |= {int(rows[row]): reason for row, reason in error.reasons.items()}
                continue
            self._counters.rejected += len(rejected)
            return replace(prepared, rejected=rejected)

    def _decide(
        self, tracked: Tracked, batch: pa.RecordBatch, comparisons: Comparisons, rows: Array, first_doc: int
    ) -> PreparedRows:
        """Put some rows of a batch and merge them. Raises RejectedRowsError, with nothing changed."""
        settings = self._settings
        if len(rows) < batch.num_rows:
            batch = batch.take(pa.array(rows))
        values, chosen = comparisons.values[rows], comparisons.chosen[rows]
        deletes = deletes_in(batch, settings.delete_column)
        keys = settings.encoder.of_batch(batch)
        put = self._index.put(
            keys, values, chosen, deletes, np.ones(self._segments.num_ordinals, np.uint8),
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
        added = Counted(tracked, put.docs[counts], deletes[counts])
        effect = _Effect(added, put.previous[put.previous >= 0], keys, put)
        skipped = int(np.count_nonzero(put.status == SKIPPED))
        num_late = int(np.count_nonzero(late))
        self._counters.out_of_order += num_late
        self._counters.skipped += skipped
        return PreparedRows(batch, first_doc, rows[kept], int(np.count_nonzero(~kept)), num_late, {}, effect)

    def _merged(
        self, merger: Merger, tracked: Tracked, batch: pa.RecordBatch, put: Put, deletes: Array, first_doc: int
    ) -> pa.RecordBatch:
        """Merge rows with the rows that they replace, possibly in the same batch."""
        merges = (put.status == REPLACED) & (deletes == 0) & (put.previous & DELETED_BIT == 0)
        sources = np.full(batch.num_rows, -1, np.int64)
        places = np.where(merges, put.previous, -1)
        ordinals, docs = places >> 32, places & DOC_BITS
        inside = merges & (ordinals == tracked.ordinal) & (docs >= first_doc)
        row_of = np.full(int(put.docs.max(initial=first_doc - 1)) + 1 - first_doc, -1, np.int64)
        with_doc = np.flatnonzero(put.docs >= 0)
        row_of[put.docs[with_doc] - first_doc] = with_doc
        sources[inside] = row_of[docs[inside] - first_doc]
        outside = np.flatnonzero(merges & ~inside)
        located, inverse = np.unique(places[outside], return_inverse=True)
        sources[outside] = batch.num_rows + inverse
        read = []
        for other, rows in self._segments.located(located):
            assert other is not None
            read.append((other.read(), rows.astype(np.int32)))
        return merger.merge(batch, sources, read)


class Consuming:
    """The keys of a consuming segment; implements `spi.ConsumingKeys`. Made by `PartitionUpsert.consume`."""

    def __init__(self, batches: Batches, tracked: Tracked) -> None:
        self._batches = batches
        self._tracked = tracked
        self._num_docs = 0

    @property
    def docs(self) -> SegmentDocs:
        """The valid docs of the segment."""
        return self._tracked.docs

    def prepare(self, batch: pa.RecordBatch) -> PreparedRows:
        """Look up the keys of a batch and decide on each row, in order."""
        return self._batches.prepare(self._tracked, batch, self._num_docs)

    def counting(self) -> "np.ndarray[Any, np.dtype[np.int32]]":
        """Return the current valid rows, including those that delete their key: int32, ascending."""
        return self._tracked.docs.snapshot(with_deleted=True).docs.astype(np.int32)

    def publish(self, rows: PreparedRows) -> None:
        """Make the appended rows valid, and the rows that they replace invalid."""
        self._num_docs = rows.first_doc + rows.batch.num_rows
        self._batches.publish(rows.effect, self._num_docs)

    def undo(self, rows: PreparedRows) -> None:
        """Roll back prepared rows that could not be appended."""
        self._batches.undo(rows.effect)
