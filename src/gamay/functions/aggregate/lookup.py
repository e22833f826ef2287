"""Numbers behind dictionary ids: the value of each id, and sums over rows of ids."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.vector import Values, Vector
from gamay.kernels.group.aggregation import total_coded, total_coded_kept, total_ids, total_ids_kept
from gamay.model.types import DataType

# so that the lookups of a thousand columns take no more than 32 MiB
_KEPT_ENTRIES_MAX = 1 << 12

INTEGERS = frozenset({DataType.INT, DataType.LONG, DataType.BOOLEAN, DataType.TIMESTAMP})


def numbers(data_type: DataType, values: Values) -> Array:
    """Return values of a type with an order of numbers as an ndarray that compiled loops take."""
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

    dictionary: the values that it was made of. values: that of each id, int64 or float64. magnitude: the largest absolute
    value of integers, else 0. step: what each value is above the one before, where that is always the
    same (as in counts and ages that all occur); sums of values are then sums of ids, of which no value is looked up.
    ascends: whether order of ids is order of values.
    """

    dictionary: Values
    values: Array
    magnitude: int
    step: int | None
    ascends: bool

    @staticmethod
    def of(dictionary: Vector) -> "Lookup":
        """Look up the values of a dictionary of numbers; what a small one of a segment gives is kept with it."""
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
        """Return the sum of the values of those ids whose `mask` (uint8) is 1, not 0; kept: how many they are."""
        if self.step is None:
            return total_coded_kept(ids, mask, self.values)
        return kept * int(self.values[0]) + self.step * int(total_ids_kept(ids, mask))


def _common_step(values: Array, ascends: bool) -> int | None:
    """Return the difference between neighbours in integers, if there is but one; ascends: each is above the one before."""
    if len(values) == 0:
        return None
    if len(values) == 1:
        return 0
    step = int(values[1]) - int(values[0])
    if int(values[-1]) - int(values[0]) != step * (len(values) - 1):
        return None
    return step if (ascends and step == 1) or bool((np.diff(values) == step).all()) else None
