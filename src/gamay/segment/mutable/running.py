"""Statistics of a growing column, updated with each batch."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gamay.functions.expression import LiteralValue
from gamay.kernels.encode.encoding import is_ascending
from gamay.model.types import DataType
from gamay.segment.encode.storage_form import Stored, to_python
from gamay.segment.spi import Ids
from gamay.segment.write.stats import integer_total

_INTEGERS = (DataType.INT, DataType.LONG)


@dataclass(frozen=True, slots=True)
class Running:
    """Bounds, total and order of the values so far.

    minimum, maximum: of fixed-width values, else None. total: of INT and LONG, exact; None for other types, whose sum would
    depend on the division of rows into batches, which differs between replicas. is_sorted: single fixed-width values ascend.
    """

    minimum: LiteralValue = None
    maximum: LiteralValue = None
    total: int | None = None
    is_sorted: bool = False
    last: Any = None
    max_values_per_row: int = 0

    @classmethod
    def empty(cls, data_type: DataType, single_value: bool) -> "Running":
        """Return the statistics of no rows."""
        ordered = single_value and data_type.is_fixed_width and data_type is not DataType.BIG_DECIMAL
        return cls(total=0 if data_type in _INTEGERS else None, is_sorted=ordered)

    def after(self, values: Stored, lengths: "Ids | None", data_type: DataType) -> "Running":
        """Return the statistics after more values, at least one."""
        longest = self.max_values_per_row
        longest = max(longest, 1 if lengths is None else int(lengths.max()))
        if not isinstance(values, np.ndarray):
            return Running(max_values_per_row=longest)
        low, high = _bound(values.min(), data_type), _bound(values.max(), data_type)
        return Running(
            minimum=least(self.minimum, low),
            maximum=greatest(self.maximum, high),
            total=None if self.total is None else self.total + integer_total(values),
            is_sorted=self.is_sorted and (self.last is None or self.last <= low) and bool(is_ascending(values)),
            last=to_python(values, len(values) - 1, data_type),
            max_values_per_row=longest,
        )


def least(one: LiteralValue, other: LiteralValue) -> Any:
    """Return the lesser of two values of one type; None stands for no value."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


def greatest(one: LiteralValue, other: LiteralValue) -> Any:
    """Return the greater of two values of one type; None stands for no value."""
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)


def _bound(value: Any, data_type: DataType) -> Any:
    return bool(value) if data_type is DataType.BOOLEAN else value.item()
