"""Zone map of a growing raw column of numbers, updated with each batch."""

from typing import Any

import numpy as np

from gamay.kernels.encode.postings import widen_zones
from gamay.segment.spi import Ids
from gamay.segment.zones import ZONE_ROWS, Zones, telling

_ZONE_BITS = ZONE_ROWS.bit_length() - 1


class GrowingZones:
    """The writer's zone map: the least and the greatest value of each zone, infinite for zones with NaN."""

    def __init__(self, dtype: "np.dtype[Any]") -> None:
        self._bounds = np.empty((2, 1), dtype)

    def append(self, values: Ids, num_docs: int) -> None:
        """Add the values of the rows after the first `num_docs`."""
        needed = -(-(num_docs + len(values)) // ZONE_ROWS)
        if needed > self._bounds.shape[1]:
            grown = np.empty((2, 2 * needed), self._bounds.dtype)
            grown[:, : self._bounds.shape[1]] = self._bounds
            self._bounds = grown
        widen_zones(values, num_docs, _ZONE_BITS, *self._bounds)

    def of_first(self, num_docs: int) -> Zones | None:
        """Return the zones of the first rows, if selective enough; the last one may have wider bounds than its rows."""
        return telling(Zones(*self._bounds[:, : -(-num_docs // ZONE_ROWS)].copy()))
