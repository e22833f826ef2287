"""How large a consuming segment will become: the history of a table's last completed segments, in a small local file."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from gamay.storage.files import atomic_write

HISTORY_FILE = "segment-stats.json"
SEGMENTS_KEPT = 16
# Segments of a table complete at about the same time on a server, and are alike: one of them speaks for all.
_PAUSE_MS = 30 * 60 * 1000


@dataclass(frozen=True, slots=True)
class ColumnSizing:
    """What to expect of a column: distinct values, bytes of a value on average, values of a row on average."""

    cardinality: int = 200
    width: float = 16.0
    values_per_row: float = 1.0


@dataclass(frozen=True, slots=True)
class Sizing:
    """What to expect of a segment: rows, and its columns as far as they are known."""

    rows: int = 100_000
    columns: Mapping[str, ColumnSizing] = field(default_factory=dict)

    def column(self, name: str) -> ColumnSizing:
        """Return what to expect of a column, which may be new."""
        return self.columns.get(name, ColumnSizing())


class SizingHistory:
    """The last 16 completed segments of a table; the file is replaced whole, and made anew when it cannot be read."""

    def __init__(self, folder: Path) -> None:
        """`folder` is the table's own, where its consuming segments are."""
        self._path = folder / HISTORY_FILE
        self._segments = _read(self._path)

    def expected(self, rows: int) -> Sizing:
        """Return what to expect of a segment that is to hold up to so many rows: the average of those that were."""
        names = {name for segment in self._segments for name in segment["columns"]}
        return Sizing(rows, {name: self._average(name, rows) for name in names})

    def _average(self, name: str, rows: int) -> ColumnSizing:
        known = [(segment["rows"], segment["columns"][name]) for segment in self._segments if name in segment["columns"]]
        return ColumnSizing(
            # more rows may bring more values, but never more than rows
            cardinality=round(fmean(min(entry["cardinality"], rows) for _, entry in known)),
            width=fmean(entry["width"] for _, entry in known),
            values_per_row=fmean(entry["valuesPerRow"] for _, entry in known),
        )

    def record(self, sizing: Sizing, now_ms: int) -> bool:
        """Take a completed segment in; returns False, having done nothing, when another was taken in shortly before."""
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
    """Return the segments of a file; none when there is none or another release wrote it, for it only saves time."""
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
