"""What the rows of consuming segments have replaced, so that it counts again when these rows are taken back.

That happens where a replica has committed a segment with fewer rows than this one has consumed.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from gamay.upsert.key_index import KeyIndex, Rules
from gamay.upsert.segment_rows import deletes_of
from gamay.upsert.settings import UpsertSettings
from gamay.upsert.tracked import Counted, Tracked, TrackedSegments

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


@dataclass(slots=True)
class _Replaced:
    """begun_at: the watermark at the consuming segment's first row. rows: of sealed segments, their doc ids, int64 [n], in
    the order in which they were replaced.
    """

    begun_at: int
    rows: list[tuple[Tracked, Array]] = field(default_factory=list)


class ReplacedRows:
    """Keeps this for the consuming segments of a partition that are to be protected."""

    def __init__(self, settings: UpsertSettings, index: KeyIndex, segments: TrackedSegments) -> None:
        self._settings = settings
        self._index = index
        self._segments = segments
        self._of: dict[Tracked, _Replaced] = {}

    def begin(self, consuming: Tracked) -> None:
        """Keep from now on what the rows of a segment replace, which has none yet."""
        self._of[consuming] = _Replaced(self._index.watermark)

    def keeps(self, consuming: Tracked) -> bool:
        """Whether what the rows of a segment have replaced is known."""
        return consuming in self._of

    def forget(self, consuming: Tracked) -> None:
        """Keep this no longer."""
        self._of.pop(consuming, None)

    def remember(self, consuming: Tracked, locations: Array) -> None:
        """Note that rows of a consuming segment have replaced those at these locations; only sealed ones matter."""
        rows = self._of[consuming].rows
        rows += [
            (other, docs)
            for other, docs in self._segments.located(locations)
            if other is not None and not other.is_consuming
        ]  # fmt: skip

    def follow(self, old: Tracked, new: Tracked, doc_map: Array) -> None:
        """Where rows of a sealed segment may have to count again, let those of its new copy do so, which has them all."""
        for replaced in self._of.values():
            for place, (segment, docs) in enumerate(replaced.rows):
                if segment is old:
                    replaced.rows[place] = (new, doc_map[docs])

    def take_back(self, consuming: Tracked) -> list[Counted]:
        """Bring the index to where it was at a consuming segment's first row; return the rows that count again.

        Keys point to what its rows had replaced, or are gone, and the watermark is that of then.
        """
        replaced = self._of.pop(consuming)
        self._index.remove_segment(consuming.ordinal)
        back = []
        for segment, places in reversed(replaced.rows):
            if self._segments.find(segment.name) is segment:
                back.append(self._put_back(segment, np.unique(places)))
        self._index.set_watermark(replaced.begun_at)
        return back

    def _put_back(self, segment: Tracked, docs: Array) -> Counted:
        """Let those of the rows' keys that are gone point to these rows again. docs: int64 [n], ascending."""
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
