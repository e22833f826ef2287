"""Count and sum of each group in one number, so that a row costs one addition to memory instead of two.

A cell holds the count in its upper 24 bits and the sum, of how far values lie above the least, in its lower 40. Before
either could run over, the cells are taken apart and added up elsewhere.
"""

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.lookup import Lookup
from gamay.kernels.group.aggregation import add_coded
from gamay.kernels.tuning import PACKED_GROUPS_MAX

_SUM_BITS = 40
_SUM_MASK = (1 << _SUM_BITS) - 1
_ROWS_MAX = 1 << 22
_SPAN_MAX = 1 << 17  # so many rows of it stay below 1 << 40


class Packed:
    """Counts and sums of groups, of the values of one dictionary; lanes: see `gamay.kernels.group.aggregation`.

    rows: how many have been added since the cells were last taken.
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
        """Return empty totals; None unless the values are integers close to each other, and the groups not too many."""
        values = lookup.values
        if values.dtype != np.int64 or len(values) == 0 or num_groups > PACKED_GROUPS_MAX:
            return None
        least = int(values.min())
        if int(values.max()) - least > _SPAN_MAX:
            return None
        return Packed(values - least + (1 << _SUM_BITS), least, num_groups, lanes)

    def has_room(self, rows: int) -> bool:
        """Whether so many rows can be added before the cells must be taken."""
        return self.rows + rows <= _ROWS_MAX

    def add(self, groups: Array, ids: Array) -> None:
        """Count and sum rows; there must be room for them."""
        add_coded(groups, ids, self._words, self._cells, self._stride)
        self.rows += len(ids)

    def take(self) -> Array:
        """Return counts and sums, int64 [num_groups, 2], and begin again at zero."""
        lanes = self._cells.reshape(self._lanes, -1)
        counts = (lanes >> _SUM_BITS).sum(axis=0)
        sums = (lanes & _SUM_MASK).sum(axis=0) + counts * self._least
        self._cells[:] = 0
        self.rows = 0
        return np.stack([counts, sums], axis=1)
