"""What filters count as they read: values, and rows that they let through."""

import threading

from gamay.base import guard

# of all counters, for they are made by the dozen, and each counts but once for a block
_COUNTING = threading.Lock()


class EntryCounter:
    """Counts values read by scans, from any thread."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def add(self, entries: int) -> None:
        """Count so many more values."""
        with _COUNTING:
            self.count += entries

    def take(self) -> int:
        """Return the count and start again at zero."""
        with _COUNTING:
            taken, self.count = self.count, 0
        return taken


class ScannedEntries(EntryCounter):
    """Counts values read by scans, and lets the guard of the query know, which may end it."""

    __slots__ = ()

    def add(self, entries: int) -> None:
        """Count so many more values. Raises QueryError when the query must end."""
        super().add(entries)
        guard.scanned(entries)


class MatchedRows(EntryCounter):
    """Counts rows that scans let through, and lets the guard of the query know, which may end it."""

    __slots__ = ()

    def add(self, entries: int) -> None:
        """Count so many more rows. Raises QueryError when the query must end."""
        super().add(entries)
        guard.matched(entries)
