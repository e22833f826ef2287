"""Range index of a growing raw column of numbers: the bounds of each zone of rows.

A range takes the zones that lie within it whole, passes over those that lie outside, and looks at the rows of the others. It
is exact, and fast where neighbouring rows hold near values, as times do; elsewhere it costs what a scan does.
"""

from typing import Any

import numpy as np
from pyroaring import BitMap

from gamay.functions.expression import LiteralValue
from gamay.kernels.encode.postings import widen_zones
from gamay.segment.mutable.buffers import BufferFolder, MemoryUse
from gamay.segment.spi import Ids

_ZONE_BITS = 12
ZONE_ROWS = 1 << _ZONE_BITS


class Zones:
    """What the writer keeps: the least and the greatest value of each zone."""

    def __init__(self, dtype: "np.dtype[Any]", buffers: BufferFolder, rows: int) -> None:
        self._lows = buffers.array(dtype, rows // ZONE_ROWS + 1)
        self._highs = buffers.array(dtype, rows // ZONE_ROWS + 1)

    def append(self, values: Ids, num_docs: int) -> None:
        """Take the values of the rows behind the first `num_docs`."""
        zones = -(-(num_docs + len(values)) // ZONE_ROWS)
        self._lows.reserve(zones)
        self._highs.reserve(zones)
        widen_zones(values, num_docs, _ZONE_BITS, self._lows.array, self._highs.array)
        self._lows.used = self._highs.used = zones

    def bounds(self, num_docs: int) -> tuple[Ids, Ids]:
        """Return bounds of the zones of the first rows; those of the last one may be wider than its rows."""
        zones = -(-num_docs // ZONE_ROWS)
        return self._lows.readable[:zones], self._highs.readable[:zones]

    def memory(self) -> MemoryUse:
        """Return what the bounds take."""
        return self._lows.memory + self._highs.memory


class ViewZones:
    """The docs of ranges among the rows of a view; implements `segment.spi.RangeIndex`."""

    def __init__(self, zones: Zones, values: Ids) -> None:
        """values: of all rows of the view."""
        self._zones = zones
        self._values = values

    def docs_between(self, lower: LiteralValue, upper: LiteralValue, lower_inclusive: bool, upper_inclusive: bool) -> BitMap:
        """Return the docs whose value lies between the bounds; None is no bound."""

        def above(values: Ids) -> Any:
            if lower is None:
                return np.ones(len(values), np.bool_)
            return values >= lower if lower_inclusive else values > lower

        def below(values: Ids) -> Any:
            if upper is None:
                return np.ones(len(values), np.bool_)
            return values <= upper if upper_inclusive else values < upper

        num_docs = len(self._values)
        lows, highs = (bounds.copy() for bounds in self._zones.bounds(num_docs))
        whole = above(lows) & below(highs)
        found = BitMap()
        edges = np.flatnonzero(np.diff(whole.astype(np.int8), prepend=0, append=0))
        for first, last in edges.reshape(-1, 2).tolist():
            found.add_range(first * ZONE_ROWS, min(last * ZONE_ROWS, num_docs))
        for zone in np.flatnonzero(above(highs) & below(lows) & ~whole).tolist():
            start = zone * ZONE_ROWS
            rows = self._values[start : start + ZONE_ROWS]
            found |= BitMap((np.flatnonzero(above(rows) & below(rows)) + start).astype(np.uint32))
        return found
