"""Sorting rows: every key becomes an int64 array that ascends as the rows should, so that one code sorts all types.

NaN is greater than all numbers, -0.0 equals 0.0 (as in predicates and group keys), text and bytes order by their bytes. Ties
keep the order of the input.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow.compute as pc

from gamay.functions.ranking import comparable
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType

SortArray: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


def sort_array(key: Vector | EncodedVector, descending: bool, nulls_last: bool) -> SortArray:
    """Return int64 [n] that ascends as the rows should; comparable only within one key (ids: within one dictionary)."""
    key = comparable(key)
    values = key.ids.astype(np.int64) if isinstance(key, EncodedVector) else _ascending(key.type, key.values)
    if descending:
        values = ~values
    if key.nulls is not None:
        info = np.iinfo(np.int64)
        place = info.max if nulls_last else info.min
        if (values[~key.nulls] == place).any():  # a number stands where the nulls go: ranks leave room
            values = np.unique(values, return_inverse=True)[1].astype(np.int64)
        values = np.where(key.nulls, place, values)
    return values


def _ascending(data_type: DataType, values: Any) -> SortArray:
    if data_type in (DataType.FLOAT, DataType.DOUBLE):
        doubles = values.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        doubles[np.isnan(doubles)] = np.nan  # one NaN, with the sign bit clear
        bits = doubles.view(np.int64)
        ordered: SortArray = np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)
        return ordered
    if not isinstance(values, np.ndarray):
        ranks: SortArray = pc.rank(values, tiebreaker="dense").to_numpy().astype(np.int64)
        return ranks
    return _decimal_ranks(values) if values.dtype == object else values.astype(np.int64)


def _decimal_ranks(values: Any) -> SortArray:
    """Return the places of decimals among each other; NaN, which nothing compares with, is greater than all numbers."""
    numbers = np.array([value == value for value in values], np.bool_)
    ranks = np.full(len(values), len(values), np.int64)
    ranks[numbers] = np.unique(values[numbers], return_inverse=True)[1]
    return ranks


def top_rows(keys: Sequence[SortArray], limit: int) -> Indices:
    """Return the positions of the first `limit` rows in the order of the keys (the first key decides, then the next)."""
    first = keys[0]
    if 0 < limit < len(first) // 4:
        # rows that cannot be among the first are dropped before anything is sorted
        bound = np.partition(first, limit - 1)[limit - 1]
        candidates = np.flatnonzero(first <= bound)
        order = np.lexsort([key[candidates] for key in reversed(keys)])[:limit]
        return candidates[order]
    return np.lexsort(list(reversed(keys)))[:limit]


@dataclass(frozen=True, slots=True)
class Bound:
    """The last value of a first sort key that can still be among the first rows: an id, or a number."""

    value: Any
    descending: bool
    nulls_last: bool

    def candidates(self, key: Vector | EncodedVector) -> Indices:
        """Return the positions of the rows that may still be among the first, by this key alone."""
        values = key.ids if isinstance(key, EncodedVector) else key.values
        if values.dtype.kind == "f":
            # NaN is greater than all numbers, and no comparison with it holds
            inside = ~(values < self.value) if self.descending else ~(values > self.value) & ~np.isnan(values)
        else:
            inside = values >= self.value if self.descending else values <= self.value
        if key.nulls is not None:
            # the bound is a value, so nulls are beyond it when they come last and before it when they come first
            inside = inside & ~key.nulls if self.nulls_last else inside | key.nulls
        return np.flatnonzero(inside)


def bound_of(key: Vector | EncodedVector, descending: bool, nulls_last: bool) -> Bound | None:
    """Return the bound that the last row of a key in order sets; None for keys that cannot be compared block by block."""
    if key.nulls is not None and key.nulls[-1]:
        return None
    if isinstance(key, EncodedVector):
        return Bound(int(key.ids[-1]), descending, nulls_last)
    if not isinstance(key.values, np.ndarray) or key.values.dtype == object:
        return None
    last = key.values[-1]
    return None if last != last else Bound(last, descending, nulls_last)
