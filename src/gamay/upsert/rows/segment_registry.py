"""The segments that the index of a partition refers to: their ordinals and their valid docs.

A row's location is int64: its segment's ordinal << 32 | its doc id; the doc id is NO_DOC for a key without a row.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from gamay.base.arrays import Array
from gamay.kernels.keys.table import DELETED_BIT, NO_DOC
from gamay.segment.spi import Segment
from gamay.upsert.index.ordinals import Ordinals
from gamay.upsert.rows.ranking import Ranks, SegmentRank
from gamay.upsert.rows.valid_docs import SegmentDocs

Install: TypeAlias = Callable[[SegmentDocs], None]
"""Publishes a segment to queries, with its valid docs."""

DOC_BITS = DELETED_BIT - 1
"""The bits of a location that are the doc id."""

_OVER_ANY = 2  # for `wins_tie` of the kernels


@dataclass(slots=True, eq=False)
class Tracked:
    """A segment whose rows are in the index. read: returns its current state; is_consuming: whether it still grows;
    has_undone: whether keys without a row may refer to it. is_shown: whether it is published to queries: not yet if its
    keys were preloaded and it is about to be loaded.
    """

    name: str
    ordinal: int
    rank: SegmentRank
    docs: SegmentDocs
    read: Callable[[], Segment]
    is_consuming: bool = False
    has_undone: bool = False
    is_shown: bool = True


@dataclass(slots=True)
class Counted:
    """Rows of a segment that become valid. docs: int64 [n]; deletes: uint8 [n], which delete their key; None: none."""

    segment: Tracked
    docs: Array
    deletes: "Array | None" = None


class TrackedSegments:
    """The registry of a partition's segments.

    publishing: the table's lock; held, for microseconds, while the valid docs change, so that its holder
    sees the table between two batches. All other operations are serialised by the caller.
    """

    def __init__(self, publishing: threading.Lock, *, has_deletes: bool) -> None:
        self.publishing = publishing
        self._has_deletes = has_deletes
        self._by_name: dict[str, Tracked] = {}
        self._ordinals = Ordinals()
        self._by_ordinal: list[Tracked | None] = []
        self._ordinals_of: dict[str, list[int]] = {}  # a segment has two while its new copy replaces it
        self._ranks = Ranks()

    @property
    def num_ordinals(self) -> int:
        """An upper bound of the ordinals: all allocated ones are smaller."""
        return self._ordinals.count

    @property
    def num_bytes(self) -> int:
        """Bytes of the valid docs."""
        return sum(tracked.docs.num_bytes for tracked in self.by_name().values())

    def by_name(self) -> dict[str, Tracked]:
        """Return a copy of the segments by name."""
        return dict(self._by_name)

    def find(self, name: str) -> Tracked | None:
        """Return the segment of this name, or None."""
        return self._by_name.get(name)

    def holds(self, tracked: Tracked) -> bool:
        """Whether a segment still has its ordinal."""
        return self._by_ordinal[tracked.ordinal] is tracked

    def track(
        self, name: str, created_ms: int, num_docs: int, read: Callable[[], Segment], *, is_consuming: bool = False
    ) -> Tracked:
        """Register a segment under the smallest free ordinal, replacing the one of its name; none of its rows is valid
        yet."""
        ordinal = self._ordinals.take()
        if ordinal == len(self._by_ordinal):
            self._by_ordinal.append(None)
        docs = SegmentDocs(num_docs, self._has_deletes)
        tracked = Tracked(name, ordinal, SegmentRank.of(name, created_ms), docs, read, is_consuming)
        self._by_ordinal[ordinal] = tracked
        self._by_name[name] = tracked
        self._ranks.put(ordinal, tracked.rank)
        self._ordinals_of.setdefault(name, []).append(ordinal)
        return tracked

    def track_sealed(self, segment: Segment, created_ms: int) -> Tracked:
        """Register an immutable segment."""
        return self.track(segment.name, created_ms, segment.num_docs, lambda: segment)

    def remove(self, name: str) -> Tracked | None:
        """Remove and return the segment of this name; its ordinal stays allocated until it is released."""
        return self._by_name.pop(name, None)

    def release(self, tracked: Tracked) -> None:
        """Free a segment's ordinal, when no key refers to it any more."""
        self._by_ordinal[tracked.ordinal] = None
        self._ordinals.give_back(tracked.ordinal)
        self._ordinals_of[tracked.name].remove(tracked.ordinal)
        if not self._ordinals_of[tracked.name]:
            del self._ordinals_of[tracked.name]

    def ties_won_by(self, tracked: Tracked) -> Array:
        """Return the segments whose rows lose against those of a segment at equal comparison values, for `KeyIndex.put`.

        uint8 [num_ordinals]; 2: they always lose, as the segment's former copy must not keep any row.
        """
        wins = self._ranks.beaten_by(tracked.rank, self.num_ordinals).astype(np.uint8)
        wins[self._ordinals_of[tracked.name]] = _OVER_ANY
        wins[tracked.ordinal] = 1
        return wins

    def located(self, locations: Array) -> Iterator[tuple[Tracked | None, Array]]:
        """Yield the rows at these locations by segment: (segment, None if removed; doc ids int64 [n])."""
        locations = locations[locations & DOC_BITS != NO_DOC]
        ordinals, docs = locations >> 32, locations & DOC_BITS
        for ordinal in np.flatnonzero(np.bincount(ordinals)):  # faster than sorting, as there are few ordinals
            yield self._by_ordinal[ordinal], docs[ordinals == ordinal]

    def publish(
        self, segment: Tracked, begun: Sequence[Counted], ended: Array, install: "Install | None", num_docs: int = 0
    ) -> None:
        """Update the valid docs and publish the segment to queries atomically.

        begun: rows that become valid; ended: locations of rows that become invalid, int64 [n]. num_docs: the least number
        of rows of the segment.
        """
        with self.publishing:
            segment.docs.grow(num_docs)
            for rows in begun:
                rows.segment.docs.add(rows.docs, rows.deletes)
            self._end(ended)
            if install is not None:
                install(segment.docs)

    def end(self, locations: Array) -> None:
        """Make the rows at these locations, int64 [n], invalid."""
        with self.publishing:
            self._end(locations)

    def _end(self, locations: Array) -> None:
        for segment, docs in self.located(locations):
            assert segment is not None
            segment.docs.remove(docs)
