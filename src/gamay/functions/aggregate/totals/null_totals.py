"""Totals of the rows that are not null, without copying them: null rows are assigned to spare groups after the real ones."""

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.totals.totals import Needs, Totals, TotalsPartial, unsigned
from gamay.functions.aggregate_spi import GroupIds
from gamay.functions.flagged import flagged_rows
from gamay.functions.vector import Operand, Scalar
from gamay.kernels.rows.masks import mask_groups
from gamay.kernels.tuning import SPARE_GROUPS
from gamay.model.types import DataType

_ADDING = Needs.COUNT | Needs.SUM


class NullableTotals:
    """Totals of single values of one type. Rows are always counted, so that groups without rows are known."""

    def __init__(self, needs: Needs, data_type: DataType | None, num_groups: int) -> None:
        self._num_groups = num_groups
        self._totals = Totals(needs | Needs.COUNT, data_type, num_groups + SPARE_GROUPS)

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        self._totals.grow(num_groups + SPARE_GROUPS)
        self._totals.forget(self._num_groups, self._num_groups + SPARE_GROUPS)
        self._num_groups = num_groups

    def update(self, groups: GroupIds | None, operand: Operand | None, nulls: Array | None, num_rows: int) -> None:
        """Add a batch; `operand`: None if rows are only counted; `nulls` (bool): the rows to skip."""
        if nulls is None:
            self._totals.update(groups, operand, num_rows)
        elif groups is None:
            flags = np.logical_not(nulls).view(np.uint8)
            self._add_to_one(flags, int(np.count_nonzero(flags)), operand)
        else:
            self._totals.update(self._without(groups, nulls), operand, num_rows)

    def receive(self, groups: GroupIds | None, nulls: Array | None) -> tuple[Totals, GroupIds | None]:
        """Return the totals that a kernel adds values of DOUBLE to, and the groups of the rows there.

        Without groups no row is assigned to a spare one, as NaN would be skipped: the kernel itself skips nulls.
        """
        return self._totals, groups if groups is None or nulls is None else self._without(groups, nulls)

    def _without(self, groups: GroupIds, nulls: Array) -> GroupIds:
        """Return the groups, with a spare one for null rows."""
        chosen = np.empty(len(nulls), np.min_scalar_type(self._num_groups + SPARE_GROUPS))
        mask_groups(unsigned(groups), np.logical_not(nulls).view(np.uint8), self._num_groups, chosen)
        return chosen

    def update_kept(self, mask: Array, kept: int, nulls: Array | None, operand: Operand | None) -> None:
        """Add those rows of a batch of single values that are not null, and whose `mask` (uint8) is 1, to the only group.

        kept: the number of ones in the mask. Only if nothing but COUNT and SUM is needed.
        """
        if nulls is not None:
            mask = mask & np.logical_not(nulls).view(np.uint8)
            kept = int(np.count_nonzero(mask))
        self._totals.update_kept(mask, kept, operand)

    def combine(self, other: "NullableTotals") -> None:
        """Add totals of the same kind over the same groups."""
        self._totals.combine(other._totals)

    def partial(self, needs: Needs) -> TotalsPartial:
        """Return the totals that `needs` names, and the counts."""
        totals = self._totals.partial(needs | Needs.COUNT)
        fields = (totals.counts, totals.sums, totals.lows, totals.highs)
        return TotalsPartial(*(None if field is None else field[: self._num_groups] for field in fields))

    def _add_to_one(self, flags: Array, kept: int, operand: Operand | None) -> None:
        if operand is None or self._totals.needs in _ADDING:
            self._totals.update_kept(flags, kept, operand)
        elif kept and not isinstance(operand, Scalar):  # a constant is null in all rows or in none
            self._totals.update(None, flagged_rows(operand, flags, kept), kept)
