"""The loaded segments of one table, as an immutable snapshot that queries hold on to."""

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from gamay.segment.reader import ImmutableSegment


@dataclass(frozen=True, slots=True)
class LoadedSegment:
    """A segment in memory.

    folder: where its files are. owned: whether they are this server's copy, to be removed when it is dropped.
    """

    segment: ImmutableSegment
    crc: int
    folder: Path
    owned: bool
    loaded_ms: int
    size_bytes: int


class TableData:
    """What queries see of a table.

    A query takes `snapshot` once and keeps it: the mapping never changes, and Python's reference counts keep the memory
    maps of segments alive that were swapped or dropped meanwhile (removing a mapped file frees it only when it is unmapped).
    So a query sees one consistent set of segments, and nothing is unmapped under its feet.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._snapshot: Mapping[str, LoadedSegment] = {}

    def snapshot(self) -> Mapping[str, LoadedSegment]:
        """Return the segments by name, as they are at this moment, for good."""
        return self._snapshot

    def swap(self, added: Mapping[str, LoadedSegment], removed: Iterable[str] = ()) -> list[LoadedSegment]:
        """Add or replace segments and remove others, in one step; return those that are no longer visible."""
        with self._lock:
            gone = [self._snapshot[name] for name in {*added, *removed} if name in self._snapshot]
            kept = {name: loaded for name, loaded in self._snapshot.items() if name not in {*added, *removed}}
            self._snapshot = {**kept, **added}
        return gone
