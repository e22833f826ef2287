"""The numbers of dictionary ids: the value of each id, and sums over rows of ids."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.vector import Values, Vector
from gamay.kernels.group.aggregation import total_coded, total_coded_kept, total_ids, total_ids_kept
from gamay.model.types import DataType

# limits the lookups of a thousand columns to 32 MiB
_KEPT_ENTRIES_MAX = 1 << 12

INTEGERS = frozenset({DataType.INT, DataType.LONG, DataType.BOOLEAN, DataType.TIMESTAMP})


def numbers(data_type: DataType, values: Values) -> Array:
    """Return values of a numeric type, BOOLEAN or TIMESTAMP, as an ndarray that compiled loops accept."""
    array: Array = values
    if data_type is DataType.BIG_DECIMAL:
        return array.astype(np.float64)
    if data_type is DataType.BOOLEAN:
        return array.view(np.uint8)
    return array


def lookup_values(dictionary: Vector) -> Array:
    """Return the value of each id as int64 or float64."""
    integers = dictionary.type in INTEGERS
    return numbers(dictionary.type, dictionary.values).astype(np.int64 if integers else np.float64, copy=False)


def largest_magnitude(values: Array) -> int:
    """Return the largest absolute value of integers; 0 when there are none."""
    return max(-int(values.min()), int(values.max())) if len(values) else 0


@dataclass(frozen=True, slots=True, eq=False)
class Lookup:
    """The numbers of one dictionary.

    dictionary: the values that it was made from. values: the value of each id, int64 or float64. magnitude: the largest
    absolute value of integers, else 0. step: the common difference of consecutive values (as in counts and ages that all
    occur), None if there is none; sums of values then follow from sums of ids, without lookups. ascends: whether values
    ascend with their ids.
    """

    dictionary: Values
    values: Array
    magnitude: int
    step: int | None
    ascends: bool

    @staticmethod
    def of(dictionary: Vector) -> "Lookup":
        """Return the lookup of a dictionary of numbers; that of a small segment dictionary is cached in it."""
        if dictionary.derived is None or len(dictionary) > _KEPT_ENTRIES_MAX:
            return Lookup._made_of(dictionary)
        kept: Lookup | None = dictionary.derived.get("lookup")
        if kept is None:
            kept = dictionary.derived["lookup"] = Lookup._made_of(dictionary)
        return kept

    @staticmethod
    def _made_of(dictionary: Vector) -> "Lookup":
        values = np.ascontiguousarray(lookup_values(dictionary))
        if values.dtype != np.int64:
            return Lookup(dictionary.values, values, 0, None, dictionary.ascends)
        magnitude = largest_magnitude(values[[0, -1]] if dictionary.ascends and len(values) else values)
        return Lookup(dictionary.values, values, magnitude, _common_step(values, dictionary.ascends), dictionary.ascends)

    def as_doubles(self) -> "Lookup":
        """Return the same numbers as float64."""
        if self.values.dtype == np.float64:
            return self
        return replace(self, values=self.values.astype(np.float64), step=None)

    def total(self, ids: Array) -> Any:
        """Return the sum of the values of all ids."""
        if self.step is None:
            return total_coded(ids, self.values)
        return len(ids) * int(self.values[0]) + self.step * int(total_ids(ids))

    def total_kept(self, ids: Array, mask: Array, kept: int) -> Any:
        """Return the sum of the values of those ids whose `mask` (uint8) is 1, not 0; kept: the number of ones."""
        if self.step is None:
            return total_coded_kept(ids, mask, self.values)
        return kept * int(self.values[0]) + self.step * int(total_ids_kept(ids, mask))


def _common_step(values: Array, ascends: bool) -> int | None:
    """Return the common difference of consecutive integers, None if they differ; ascends: whether the values ascend."""
    if len(values) == 0:
        return None
    if len(values) == 1:
        return 0
    step = int(values[1]) - int(values[0])
    if int(values[-1]) - int(values[0]) != step * (len(values) - 1):
        return None
    return step if (ascends and step == 1) or bool((np.diff(values) == step).all()) else None
