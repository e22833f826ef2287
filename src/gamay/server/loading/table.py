"""The loaded segments of one table, as an immutable snapshot that queries hold on to."""

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
    valid rows, where rows replace each other.
    """

    segment: ImmutableSegment
    crc: int
    folder: Path
    owned: bool
    loaded_ms: int
    size_bytes: int
    docs: SegmentDocs | None = None


class ConsumingSegment:
    """A segment that still grows: each query takes the rows that there are when it begins.

    freshness_ms: when the last row was written to the stream or, where the stream does not say that, indexed; milliseconds.
    docs: the valid rows, where rows replace each other. start: where its rows begin. end: where they end, None while
    more are taken.
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
        """Return the rows of this moment, for good, and how fresh they are at least."""
        freshness_ms = self._freshness_ms()  # first: rows that come between the two only make them fresher
        return self._view(), freshness_ms

    def freeze_to_end(self) -> "tuple[Segment, int, Offset | None]":
        """Return what `freeze` does, and where these rows end: None where more may have come meanwhile."""
        end = self._end()
        view, freshness_ms = self.freeze()
        # Asked twice: before that all rows were there, after it that there are none behind them.
        return view, freshness_ms, end if end is not None and end == self._end() else None


@dataclass(frozen=True, slots=True)
class Contents:
    """The segments of a table at one moment, by name; no name is in both of the first two.

    following: segment -> the one that begins where it ends, of the last ones of each partition. ahead: segment -> rows that
    are behind its end, while the segment that will have them has not begun.
    """

    loaded: Mapping[str, LoadedSegment]
    consuming: Mapping[str, ConsumingSegment]
    following: Mapping[str, str] = field(default_factory=dict)
    ahead: Mapping[str, ConsumingSegment] = field(default_factory=dict)

    def all_docs(self) -> list[SegmentDocs]:
        """Return the valid rows of every segment that has some."""
        found = [*(s.docs for s in self.loaded.values()), *(s.docs for s in self.consuming.values())]
        return [docs for docs in found if docs is not None]


class TableData:
    """What queries see of a table.

    A query takes `contents` once and keeps it: the mappings never change, and Python's reference counts keep the memory
    maps of segments alive that were swapped or dropped meanwhile (removing a mapped file frees it only when it is unmapped).
    So a query sees one consistent set of segments, and nothing is unmapped under its feet.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._contents = Contents({}, {})

    def contents(self) -> Contents:
        """Return all segments as they are at this moment, for good; those that consume are to be frozen."""
        return self._contents

    def snapshot(self) -> Mapping[str, LoadedSegment]:
        """Return the loaded segments by name, as they are at this moment, for good."""
        return self._contents.loaded

    def pack(self, segment: str, archive: Path) -> None:
        """Write the archive of a loaded segment. Raises NotFoundError when it is not loaded."""
        loaded = self.snapshot().get(segment)
        if loaded is None:
            raise NotFoundError(f"segment '{segment}' of table '{self.name}' is not loaded here")
        pack(loaded.folder, archive)

    def swap(self, added: Mapping[str, LoadedSegment], removed: Iterable[str] = ()) -> list[LoadedSegment]:
        """Add or replace loaded segments and remove others, in one step; return those that are no longer visible.

        A loaded segment takes the place of a consuming one of its name.
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
        """Show a segment that consumes, unless there is a loaded one of its name already.

        after: the segment that ends where this one begins; what was shown as ahead of that is no longer.
        """
        with self._lock:
            contents = self._contents
            if segment.name in contents.loaded:
                return
            following, ahead = contents.following, contents.ahead
            if after is not None:
                # a broker may not know of the last few yet
                recent = {name: then for name, then in following.items() if then == after or _differs(name, after)}
                following = {**recent, after: segment.name}
                ahead = {name: rows for name, rows in ahead.items() if name != after}
            consuming = {**contents.consuming, segment.name: segment}
            self._contents = Contents(contents.loaded, consuming, following, ahead)

    def show_prefetched(self, segment: str, rows: ConsumingSegment) -> None:
        """Show rows behind the end of a segment, until they are hidden or the segment that has them begins."""
        with self._lock:
            self._contents = replace(self._contents, ahead={**self._contents.ahead, segment: rows})

    def hide_prefetched(self, segment: str) -> None:
        """Show no longer what was ahead of a segment."""
        with self._lock:
            if segment in self._contents.ahead:
                ahead = {name: rows for name, rows in self._contents.ahead.items() if name != segment}
                self._contents = replace(self._contents, ahead=ahead)

    def remove_consuming(self, names: Iterable[str]) -> None:
        """Show segments no longer that consumed."""
        with self._lock:
            gone = frozenset(names)
            still = {name: segment for name, segment in self._contents.consuming.items() if name not in gone}
            self._contents = replace(self._contents, consuming=still)


def _differs(segment: str, other: str) -> bool:
    """Whether segments are of different partitions."""
    return partition_of(segment) != partition_of(other)
