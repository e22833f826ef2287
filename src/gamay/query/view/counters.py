"""Counters of filters: values that they read, and rows that they match."""

import threading

from gamay.base import guard

# shared by all counters, as many are created and each is used only once per block
_COUNTING = threading.Lock()


class EntryCounter:
    """Counter of values that scans read; thread-safe."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, entries: int) -> None:
        """Add to the count."""
        with _COUNTING:
            self.count += entries

    def take(self) -> int:
        """Return the count and reset it to zero."""
        with _COUNTING:
            taken, self.count = self.count, 0
        return taken


class ScannedEntries(EntryCounter):
    """Counter of values that scans read; also informs the guard of the query, which may end it."""

    __slots__ = ()

    def add(self, entries: int) -> None:
        """Add to the count. Raises QueryError if the query must end."""
        super().add(entries)
        guard.scanned(entries)


class MatchedRows(EntryCounter):
    """Counter of rows that scans match; also informs the guard of the query, which may end it."""

    __slots__ = ()

    def add(self, entries: int) -> None:
        """Add to the count. Raises QueryError if the query must end."""
        super().add(entries)
        guard.matched(entries)
