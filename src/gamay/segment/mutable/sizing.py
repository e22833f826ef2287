"""Expected sizes of a consuming segment, from the history of the table's completed segments in a small local file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from gamay.storage.files import atomic_write

HISTORY_FILE = "segment-stats.json"
SEGMENTS_KEPT = 16
# Segments of a table complete at about the same time on a server, and are similar, so one of them is recorded.
_PAUSE_MS = 30 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ColumnSizing:
    """Expected sizes of a column: distinct values, average bytes of a value, average values of a row."""

    cardinality: int = 200
    width: float = 16.0
    values_per_row: float = 1.0


@dataclass(frozen=True, slots=True)
class Sizing:
    """Expected sizes of a segment: rows, and its columns as far as they are known."""

    rows: int = 100_000
    columns: Mapping[str, ColumnSizing] = field(default_factory=dict)

    def column(self, name: str) -> ColumnSizing:
        """Return the expected sizes of a column, which may be new."""
        return self.columns.get(name, ColumnSizing())


class SizingHistory:
    """The sizes of the last 16 completed segments of a table; the file is replaced atomically, and an unreadable one
    ignored."""

    def __init__(self, folder: Path) -> None:
        """`folder`: that of the table's consuming segments."""
        self._path = folder / HISTORY_FILE
        self._segments = _read(self._path)

    def expected(self, rows: int) -> Sizing:
        """Return the expected sizes of a segment of up to `rows` rows: the average of the history."""
        names = {name for segment in self._segments for name in segment["columns"]}
        return Sizing(rows, {name: self._average(name, rows) for name in names})

    def _average(self, name: str, rows: int) -> ColumnSizing:
        known = [(segment["rows"], segment["columns"][name]) for segment in self._segments if name in segment["columns"]]
        return ColumnSizing(
            # more rows may have more distinct values, but never more than rows
            cardinality=round(fmean(min(entry["cardinality"], rows) for _, entry in known)),
            width=fmean(entry["width"] for _, entry in known),
            values_per_row=fmean(entry["valuesPerRow"] for _, entry in known),
        )

    def record(self, sizing: Sizing, now_ms: int) -> bool:
        """Record a completed segment; return False, without doing so, if another was recorded shortly before."""
        if sizing.rows == 0 or (self._segments and now_ms - self._segments[-1]["recordedAtMs"] < _PAUSE_MS):
            return False
        columns = {
            name: {"cardinality": c.cardinality, "width": c.width, "valuesPerRow": c.values_per_row}
            for name, c in sorted(sizing.columns.items())
        }
        self._segments.append({"recordedAtMs": now_ms, "rows": sizing.rows, "columns": columns})
        del self._segments[:-SEGMENTS_KEPT]
        self._path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(self._path, json.dumps({"version": 1, "segments": self._segments}).encode())
        return True


def _read(path: Path) -> list[dict[str, Any]]:
    """Return the segments of a file; none if it is missing or from another release, since it only saves time."""
    try:
        document = json.loads(path.read_bytes())
        segments = document["segments"] if document["version"] == 1 else []
        for segment in segments:
            _ = segment["recordedAtMs"] + segment["rows"]
            for entry in segment["columns"].values():
                _ = entry["cardinality"] + entry["width"] + entry["valuesPerRow"]
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return []
    return list(segments)
