"""Upsert semantics row by row in plain Python: one partition, no batches, no bitmaps, no index."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]


@dataclass(frozen=True)
class Options:
    """A table's settings. comparisons: the columns; deletes, marks: the names of the columns or None."""

    comparisons: tuple[str, ...]
    strategies: dict[str, str] | None = None
    deletes: str | None = None
    marks: str | None = None
    drop: bool = False
    ttl: float = 0
    deleted_ttl: float = 0
    skip_late: bool = False


@dataclass
class Stored:
    """A row in a segment; counts: whether it is the one of its key; replay: it was late when it came."""

    row: Row
    counts: bool


@dataclass
class UpsertModel:
    """One partition: sealed segments in the order of the stream, and the rows of the consuming one."""

    options: Options
    sealed: list[list[Stored]] = field(default_factory=list)
    consuming: list[Stored] = field(default_factory=list)
    log: list[Row] = field(default_factory=list)
    latest: dict[Any, Stored] = field(default_factory=dict)
    watermark: Any = None
    outcomes: list[str] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Take the next row of the stream."""
        self.log.append(dict(row))
        self.outcomes.append(self._add(dict(row)))

    def _expired(self, stored: Stored, ttl: float) -> bool:
        return ttl > 0 and stored.row[self.options.comparisons[0]] < self.watermark - ttl

    def _deleted(self, row: Row) -> bool:
        return self.options.deletes is not None and bool(row[self.options.deletes])

    def _add(self, row: Row) -> str:
        options = self.options
        given = [name for name in options.comparisons if row[name] is not None]
        if len(given) != 1:
            return "rejected"
        column = given[0]
        if len(options.comparisons) == 1:
            self.watermark = row[column] if self.watermark is None else max(self.watermark, row[column])
            if options.skip_late and row[column] < self.watermark - options.ttl:
                return "skipped"
        old = self.latest.get(row["k"])
        if old is not None and self._expired(old, options.ttl):
            old = None
        forgotten = old is not None and self._deleted(old.row) and self._expired(old, options.deleted_ttl)
        late = old is not None and not forgotten and old.row[column] is not None and row[column] < old.row[column]
        if options.marks is not None:
            row[options.marks] = late
        if late:
            if not options.drop and (options.strategies is None or options.marks is not None):
                self.consuming.append(Stored(row, False))
            return "late"
        if old is not None:
            old.counts = False
            for name in options.comparisons:
                row[name] = old.row[name] if row[name] is None else row[name]
            if options.strategies is not None and not self._deleted(row) and not self._deleted(old.row):
                for name, strategy in options.strategies.items():
                    row[name] = merged(strategy, old.row[name], row[name])
        stored = Stored(row, True)
        self.latest[row["k"]] = stored
        self.consuming.append(stored)
        return "added"

    def commit(self) -> None:
        """Seal the consuming segment and begin the next."""
        self.sealed.append(self.consuming)
        self.consuming = []
        self.log = []
        for key in [
            k for k, s in self.latest.items() if self._deleted(s.row) and self._expired(s, self.options.deleted_ttl)
        ]:
            self.latest.pop(key).counts = False

    def drop_oldest(self) -> None:
        """Remove the oldest sealed segment."""
        gone = {id(stored) for stored in self.sealed.pop(0)}
        self.latest = {key: stored for key, stored in self.latest.items() if id(stored) not in gone}

    def compact(self, number: int) -> None:
        """Keep only the rows of a sealed segment that count."""
        self.sealed[number] = [stored for stored in self.sealed[number] if stored.counts]

    def forget(self) -> None:
        """Restart without snapshots: compare all rows of all sealed segments, then consume again."""
        self.latest, self.watermark = {}, None
        names = self.options.comparisons
        for segment in self.sealed:
            for stored in segment:
                stored.counts = False
                first = stored.row[names[0]]
                if first is not None:
                    self.watermark = first if self.watermark is None else max(self.watermark, first)
                best = self.latest.get(stored.row["k"])
                if best is None or rank(stored.row, names) >= rank(best.row, names):
                    self.latest[stored.row["k"]] = stored
        for stored in self.latest.values():
            stored.counts = True
        log, self.log, self.consuming = self.log, [], []
        for row in log:
            self.log.append(row)
            self._add(dict(row))

    def visible(self, with_deleted: bool = False) -> list[Row]:
        """Return the rows that a query sees, in no order."""
        rows = [s.row for segment in [*self.sealed, self.consuming] for s in segment if s.counts]
        return [row for row in rows if with_deleted or not self._deleted(row)]


def rank(row: Row, names: Sequence[str]) -> list[tuple[bool, Any]]:
    """Return the sort key of rows of sealed segments: column by column, null first."""
    return [(row[name] is not None, row[name] or 0) for name in names]


def merged(strategy: str, old: Any, new: Any) -> Any:
    """Return the merged value of one column."""
    if strategy == "FORCE_OVERWRITE":
        return new
    if new is None or old is None:
        return old if new is None else new
    if strategy in ("OVERWRITE", "IGNORE"):
        return new if strategy == "OVERWRITE" else old
    if strategy in ("MAX", "MIN"):
        return max(old, new) if strategy == "MAX" else min(old, new)
    if strategy == "INCREMENT":
        return old + new
    return [*old, *new] if strategy == "APPEND" else sorted({*old, *new})
