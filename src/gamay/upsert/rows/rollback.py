"""Undo log of rows replaced by consuming segments, which become valid again if the replacing rows are rolled back.

That happens if a replica has committed a segment with fewer rows than this one has consumed.
"""

from dataclasses import dataclass, field

import numpy as np

from gamay.base.arrays import Array
from gamay.upsert.config.settings import UpsertSettings
from gamay.upsert.index.comparing import beyond
from gamay.upsert.index.generations import GenerationIndex
from gamay.upsert.index.key_index import BATCH_ROWS, KeyIndex, Rules
from gamay.upsert.rows.segment_registry import Counted, Tracked, TrackedSegments
from gamay.upsert.rows.segment_rows import deletes_of, is_beyond


@dataclass(slots=True)
class _Replaced:
    """begun_at: the watermark at the consuming segment's first row; num_dropped: the number of keys dropped with their
    generation until then. rows: replaced doc ids of sealed segments, int64 [n], in order of replacement.
    """

    begun_at: int
    num_dropped: int
    rows: list[tuple[Tracked, Array]] = field(default_factory=list)


class UndoLog:
    """Undo log of a partition: the rows replaced by its consuming segments, while a rollback is possible."""

    def __init__(self, settings: UpsertSettings, index: KeyIndex, segments: TrackedSegments) -> None:
        self._settings = settings
        self._index = index
        self._segments = segments
        self._of: dict[Tracked, _Replaced] = {}

    def begin(self, consuming: Tracked) -> None:
        """Start recording the rows that a segment replaces; the segment must be empty."""
        self._of[consuming] = _Replaced(self._index.watermark, self._num_dropped)

    def keeps(self, consuming: Tracked) -> bool:
        """Whether the rows replaced by a segment are recorded."""
        return consuming in self._of

    def forget(self, consuming: Tracked) -> None:
        """Discard the record of a segment."""
        self._of.pop(consuming, None)

    def remember(self, consuming: Tracked, locations: Array) -> None:
        """Record that a consuming segment has replaced the rows at these locations; only those in sealed segments matter."""
        rows = self._of[consuming].rows
        rows += [
            (other, docs)
            for other, docs in self._segments.located(locations)
            if other is not None and not other.is_consuming
        ]  # fmt: skip

    def follow(self, old: Tracked, new: Tracked, doc_map: Array) -> None:
        """Redirect recorded rows of a sealed segment to its new copy, which has all its rows."""
        for replaced in self._of.values():
            for place, (segment, docs) in enumerate(replaced.rows):
                if segment is old:
                    replaced.rows[place] = (new, doc_map[docs])

    def take_back(self, consuming: Tracked) -> list[Counted]:
        """Roll back the index to a consuming segment's first row; return the rows that become valid again.

        Keys refer to the replaced rows again or are removed, and the watermark is reset.
        """
        replaced = self._of.pop(consuming)
        self._index.remove_segment(consuming.ordinal)
        self._index.set_watermark(replaced.begun_at)  # first, so that no key expires by the former watermark
        back = []
        for segment, places in reversed(replaced.rows):
            if self._segments.find(segment.name) is segment:
                back.append(self._put_back(segment, np.unique(places)))
        if self._num_dropped > replaced.num_dropped:
            self._find_dropped(replaced.begun_at)
        self._index.set_watermark(replaced.begun_at)
        return back

    @property
    def _num_dropped(self) -> int:
        return self._index.num_dropped if isinstance(self._index, GenerationIndex) else 0

    def _find_dropped(self, begun_at: int) -> None:
        """Restore the keys that were dropped with their generation and are not beyond metadataTTL by this watermark.

        Their rows are still valid. No key has two such rows: the older one had expired when the younger one arrived.
        """
        comparison, ttl = self._settings.comparison, self._settings.ttl
        for tracked in self._segments.by_name().values():
            segment, rows = tracked.read(), tracked.docs.snapshot(with_deleted=True).docs
            if tracked.is_consuming or is_beyond(self._settings, segment, begun_at):
                continue
            for start in range(0, len(rows), BATCH_ROWS):
                part = rows[start : start + BATCH_ROWS]
                values = comparison.at(segment, part)[:, 0]
                alive = part[~beyond(values, begun_at, ttl, comparison.is_float)]
                self._put_back(tracked, alive.astype(np.int64))

    def _put_back(self, segment: Tracked, docs: Array) -> Counted:
        """Restore the missing keys of the given rows. docs: int64 [n], ascending."""
        settings, source = self._settings, segment.read()
        keys = settings.encoder.at(source, docs.astype(np.int32))
        lost = np.flatnonzero(self._index.find(keys)[0] < 0)
        docs = docs[lost]
        rows = docs.astype(np.int32)
        values = np.ascontiguousarray(settings.comparison.at(source, rows))
        deletes = deletes_of(source, settings.delete_column, rows)
        wins = np.ones(self._segments.num_ordinals, np.uint8)
        rules = Rules(segment.ordinal, is_float=settings.comparison.is_float)
        self._index.put(keys.at(lost), values, np.full(len(docs), -1, np.int8), deletes, wins, rules, docs.copy())
        return Counted(segment, docs, deletes)
