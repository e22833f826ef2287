"""Zone map of a column: the bounds of each block of 4,096 rows, which exclude zones where a condition cannot hold.

The zone map of a sealed column is computed on first use, in one pass, so it is not stored, and correct regardless of the
segment's writer. Rows in about the order of a time, or grouped by device, have selective zones. In other
columns every zone spans nearly all values; a sample of zones detects this, and then there is no zone map.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gamay.base.arrays import Array, Mask

ZONE_ROWS = 1 << 12

# scanning fewer zones takes no longer than checking their bounds
_ZONES_MIN = 8
# sampled zones, to decide on a full pass: half of them must span less than half of the range of all of them
_SAMPLED = 16
_SPAN_MAX = 0.5
# rows read at a time
_READ_ROWS = 16 * ZONE_ROWS


@dataclass(frozen=True, slots=True, eq=False)
class Zones:
    """Bounds of a column's zones, of which only the last one may have fewer rows than ZONE_ROWS.

    low, high: [n], the least and the greatest dictionary id of each zone, or value where there is no dictionary; infinite in
    a zone with NaN.
    """

    low: Array
    high: Array

    def meeting(self, first: Any, last: Any) -> Mask:
        """Return the zones that may have values from `first` to `last`, inclusive; None is unbounded."""
        found = np.ones(len(self.low), np.bool_)
        if first is not None:
            found &= self.high >= first
        if last is not None:
            found &= self.low <= last
        return found

    def holding(self, wanted: Array) -> Mask:
        """Return the zones that may have any of the given ids or values. wanted: ascending."""
        found: Mask = wanted.searchsorted(self.low, "left") < wanted.searchsorted(self.high, "right")
        return found

    def from_the_first(self, descending: bool) -> "np.ndarray[Any, np.dtype[np.intp]]":
        """Return the numbers of the zones ordered by their first possible value in the sort order."""
        return np.argsort(self.high, kind="stable")[::-1] if descending else np.argsort(self.low, kind="stable")


def zones_of(read: Callable[[int, int], Array], num_docs: int) -> Zones | None:
    """Return the zones of a column; None if they are not selective.

    read: returns the ids or numbers of rows [start, stop), at least one.
    """
    count = -(-num_docs // ZONE_ROWS)
    if count < _ZONES_MIN:
        return None
    sampled = np.linspace(0, count - 1, _SAMPLED, dtype=np.int64) * ZONE_ROWS
    if telling(_bounds([read(start, min(start + ZONE_ROWS, num_docs)) for start in sampled.tolist()])) is None:
        return None
    return _bounds([read(start, min(start + _READ_ROWS, num_docs)) for start in range(0, num_docs, _READ_ROWS)])


def telling(zones: Zones) -> Zones | None:
    """Return the given zones, of all rows or a sample; None if most of them span most of the value range."""
    if len(zones.low) < _ZONES_MIN:
        return None
    low, high = zones.low.astype(np.float64), zones.high.astype(np.float64)
    spans, is_known = high - low, np.isfinite(low) & np.isfinite(high)
    if not is_known.any():
        return None
    return zones if np.median(spans) < _SPAN_MAX * (high[is_known].max() - low[is_known].min()) else None


def _bounds(parts: Sequence[Array]) -> Zones:
    """Return the zones of consecutive rows, given in parts of whole zones."""
    low, high = [], []
    for part in parts:
        whole = len(part) - len(part) % ZONE_ROWS
        for rows in (part[:whole].reshape(-1, ZONE_ROWS), part[whole:].reshape(1, -1)):
            if rows.size:
                low.append(rows.min(axis=1))
                high.append(rows.max(axis=1))
    lows, highs = np.concatenate(low), np.concatenate(high)
    if lows.dtype.kind == "f":
        lows[np.isnan(lows)], highs[np.isnan(highs)] = -np.inf, np.inf
    return Zones(lows, highs)
