"""Count and sum of each group packed into one integer, so that a row costs one memory update instead of two.

A cell holds the count in its upper 24 bits, and in its lower 40 the sum of the values' differences from the least. Before
either could overflow, the cells are unpacked and added to the totals.
"""

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.lookup import Lookup
from gamay.kernels.group.aggregation import add_coded
from gamay.kernels.tuning import PACKED_GROUPS_MAX

_SUM_BITS = 40
_SUM_MASK = (1 << _SUM_BITS) - 1
_ROWS_MAX = 1 << 22
_SPAN_MAX = 1 << 17  # _ROWS_MAX rows of this span stay below 1 << 40


class Packed:
    """Counts and sums of groups, for the values of one dictionary; lanes: see `gamay.kernels.group.aggregation`.

    rows: the number of rows added since the cells were last taken.
    """

    def __init__(self, words: Array, least: int, num_groups: int, lanes: int) -> None:
        self._words = words
        self._least = least
        self._lanes = lanes
        self._cells = np.zeros(lanes * num_groups, np.int64)
        self._stride = num_groups if lanes > 1 else 0
        self.rows = 0

    @staticmethod
    def of(lookup: Lookup, num_groups: int, lanes: int) -> "Packed | None":
        """Return empty totals; None unless the values are integers of a small range, and the groups few enough."""
        values = lookup.values
        if values.dtype != np.int64 or len(values) == 0 or num_groups > PACKED_GROUPS_MAX:
            return None
        least = int(values.min())
        if int(values.max()) - least > _SPAN_MAX:
            return None
        return Packed(values - least + (1 << _SUM_BITS), least, num_groups, lanes)

    def has_room(self, rows: int) -> bool:
        """Whether this many rows can be added before the cells must be taken."""
        return self.rows + rows <= _ROWS_MAX

    def add(self, groups: Array, ids: Array) -> None:
        """Count and sum rows; `has_room` must hold for them."""
        add_coded(groups, ids, self._words, self._cells, self._stride)
        self.rows += len(ids)

    def take(self) -> Array:
        """Return counts and sums, int64 [num_groups, 2], and reset them to zero."""
        lanes = self._cells.reshape(self._lanes, -1)
        counts = (lanes >> _SUM_BITS).sum(axis=0)
        sums = (lanes & _SUM_MASK).sum(axis=0) + counts * self._least
        self._cells[:] = 0
        self.rows = 0
        return np.stack([counts, sums], axis=1)
