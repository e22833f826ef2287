"""The loaded segments of one table, as an immutable snapshot for queries."""

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from gamay.base.errors import NotFoundError
from gamay.cluster.records.llc_name import partition_of
from gamay.segment.read.reader import ImmutableSegment
from gamay.segment.spi import Segment
from gamay.storage.archive import pack
from gamay.upsert.rows.valid_docs import SegmentDocs

if TYPE_CHECKING:
    from gamay.ingest.stream.offsets import Offset


@dataclass(frozen=True, slots=True)
class LoadedSegment:
    """A segment in memory.

    folder: where its files are. owned: whether they are this server's copy, to be removed when it is dropped. docs: the
    valid docs, in an upsert table.
    """

    segment: ImmutableSegment
    crc: int
    folder: Path
    owned: bool
    loaded_ms: int
    size_bytes: int
    docs: SegmentDocs | None = None


class ConsumingSegment:
    """A segment that still grows: each query uses the rows present at its start.

    freshness_ms: when the last row was written to the stream or, if unknown, indexed, in milliseconds.
    docs: the valid docs, in an upsert table. start: the offset of its first row. end: that after its last row, None while
    it is consuming.
    """

    def __init__(
        self,
        name: str,
        view: Callable[[], Segment],
        freshness_ms: Callable[[], int],
        docs: SegmentDocs | None = None,
        start: "Offset | None" = None,
        end: "Callable[[], Offset | None]" = lambda: None,
    ) -> None:
        self.name = name
        self.docs = docs
        self.start = start
        self._view = view
        self._freshness_ms = freshness_ms
        self._end = end

    def freeze(self) -> tuple[Segment, int]:
        """Return an immutable view of the present rows, and a lower bound of their freshness."""
        freshness_ms = self._freshness_ms()  # first: rows that arrive between the two calls only increase the freshness
        return self._view(), freshness_ms

    def freeze_to_end(self) -> "tuple[Segment, int, Offset | None]":
        """Return what `freeze` returns, and the end of these rows: None if more may have arrived meanwhile."""
        end = self._end()
        view, freshness_ms = self.freeze()
        # Read twice: before, to know that all rows are present; after, to know that there are no later ones.
        return view, freshness_ms, end if end is not None and end == self._end() else None


@dataclass(frozen=True, slots=True)
class Contents:
    """The segments of a table at one moment, by name; no name is in both of the first two.

    following: segment -> its successor, for the last ones of each partition. ahead: segment -> prefetched rows
    after its end, while its successor has not started.
    """

    loaded: Mapping[str, LoadedSegment]
    consuming: Mapping[str, ConsumingSegment]
    following: Mapping[str, str] = field(default_factory=dict)
    ahead: Mapping[str, ConsumingSegment] = field(default_factory=dict)

    def all_docs(self) -> list[SegmentDocs]:
        """Return the valid docs of every segment that has them."""
        found = [*(s.docs for s in self.loaded.values()), *(s.docs for s in self.consuming.values())]
        return [docs for docs in found if docs is not None]


class TableData:
    """The visible data of a table.

    A query reads `contents` once and keeps it: the mappings never change, and Python's reference counts keep the memory
    maps of segments alive that were swapped or dropped meanwhile (removing a mapped file frees it only when it is unmapped).
    So a query sees one consistent set of segments, and nothing is unmapped during its execution.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._contents = Contents({}, {})

    def contents(self) -> Contents:
        """Return an immutable snapshot of all segments; consuming ones have to be frozen."""
        return self._contents

    def snapshot(self) -> Mapping[str, LoadedSegment]:
        """Return an immutable snapshot of the loaded segments by name."""
        return self._contents.loaded

    def pack(self, segment: str, archive: Path) -> None:
        """Write the archive of a loaded segment. Raises NotFoundError when it is not loaded."""
        loaded = self.snapshot().get(segment)
        if loaded is None:
            raise NotFoundError(f"segment '{segment}' of table '{self.name}' is not loaded here")
        pack(loaded.folder, archive)

    def swap(self, added: Mapping[str, LoadedSegment], removed: Iterable[str] = ()) -> list[LoadedSegment]:
        """Add or replace loaded segments and remove others atomically; return those that are no longer visible.

        A loaded segment replaces a consuming one of its name.
        """
        with self._lock:
            loaded, consuming = self._contents.loaded, self._contents.consuming
            changed = {*added, *removed}
            gone = [loaded[name] for name in changed if name in loaded]
            kept = dict(loaded)  # a copy and a few changes: tables of many segments are loaded one by one
            for name in changed:
                kept.pop(name, None)
            still = {name: segment for name, segment in consuming.items() if name not in added}
            self._contents = replace(self._contents, loaded={**kept, **added}, consuming=still)
        return gone

    def add_consuming(self, segment: ConsumingSegment, after: str | None = None) -> None:
        """Publish a consuming segment, unless a loaded one of its name exists.

        after: its predecessor, whose prefetched rows are hidden.
        """
        with self._lock:
            contents = self._contents
            if segment.name in contents.loaded:
                return
            following, ahead = contents.following, contents.ahead
            if after is not None:
                # a broker may not know the last few yet
                recent = {name: then for name, then in following.items() if then == after or _differs(name, after)}
                following = {**recent, after: segment.name}
                ahead = {name: rows for name, rows in ahead.items() if name != after}
            consuming = {**contents.consuming, segment.name: segment}
            self._contents = Contents(contents.loaded, consuming, following, ahead)

    def show_prefetched(self, segment: str, rows: ConsumingSegment) -> None:
        """Publish prefetched rows after the end of a segment, until they are hidden or the successor starts."""
        with self._lock:
            self._contents = replace(self._contents, ahead={**self._contents.ahead, segment: rows})

    def hide_prefetched(self, segment: str) -> None:
        """Hide the prefetched rows after a segment."""
        with self._lock:
            if segment in self._contents.ahead:
                ahead = {name: rows for name, rows in self._contents.ahead.items() if name != segment}
                self._contents = replace(self._contents, ahead=ahead)

    def remove_consuming(self, names: Iterable[str]) -> None:
        """Hide consuming segments."""
        with self._lock:
            gone = frozenset(names)
            still = {name: segment for name, segment in self._contents.consuming.items() if name not in gone}
            self._contents = replace(self._contents, consuming=still)


def _differs(segment: str, other: str) -> bool:
    """Whether segments are of different partitions."""
    return partition_of(segment) != partition_of(other)
