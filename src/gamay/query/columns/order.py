"""Sorting: every key becomes an int64 array that ascends in row order, so that one implementation sorts all types.

NaN is greater than all numbers, -0.0 equals 0.0 (as in predicates and group keys), text and bytes are ordered by their
bytes. Ties keep the input order.
"""

import operator
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow.compute as pc

from gamay.base.arrays import Mask
from gamay.functions.frame import Frame, FramedVector
from gamay.functions.ranking import comparable
from gamay.functions.vector import EncodedVector, Vector
from gamay.kernels.rows.filter import rows_from, rows_in_id_range, rows_up_to
from gamay.model.types import DataType
from gamay.segment.spi import Dictionary

SortArray: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]

# sample size, and the margin added to the requested share of the sample for the bound
_SAMPLE = 1 << 10
_SAMPLE_MARGIN = 16
_SAMPLED_LEAST = 1 << 12
# up to this multiple of the limit, all candidates are sorted by all keys
_FEW_FACTOR = 4
_INT64_MAX = int(np.iinfo(np.int64).max)
# types whose Python values compare in the order of their sorted dictionaries
_SHARED = frozenset(
    {DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.FLOAT, DataType.DOUBLE, DataType.BOOLEAN, DataType.STRING}
)


def sort_array(key: Vector | EncodedVector, descending: bool, nulls_last: bool) -> SortArray:
    """Return an int64 array [n] in row order; comparable only within one key (ids: within one dictionary)."""
    key = comparable(key)
    values = key.ids.astype(np.int64) if isinstance(key, EncodedVector) else _ascending(key.type, key.values)
    if descending:
        values = ~values
    if key.nulls is not None:
        info = np.iinfo(np.int64)
        place = info.max if nulls_last else info.min
        if (values[~key.nulls] == place).any():  # a value collides with the position of nulls: ranks leave room
            values = np.unique(values, return_inverse=True)[1].astype(np.int64)
        values = np.where(key.nulls, place, values)
    return values


def _ascending(data_type: DataType, values: Any) -> SortArray:
    if data_type in (DataType.FLOAT, DataType.DOUBLE):
        doubles = values.astype(np.float64) + 0.0  # -0.0 + 0.0 is 0.0
        doubles[np.isnan(doubles)] = np.nan  # one NaN, with the sign bit clear
        bits = doubles.view(np.int64)
        ordered: SortArray = np.where(bits < 0, bits ^ _INT64_MAX, bits)
        return ordered
    if not isinstance(values, np.ndarray):
        ranks: SortArray = pc.rank(values, tiebreaker="dense").to_numpy().astype(np.int64)
        return ranks
    return _decimal_ranks(values) if values.dtype == object else values.astype(np.int64)


def _decimal_ranks(values: Any) -> SortArray:
    """Return the ranks of decimals; NaN, which is unordered, ranks above all numbers."""
    numbers = np.array([value == value for value in values], np.bool_)
    ranks = np.full(len(values), len(values), np.int64)
    ranks[numbers] = np.unique(values[numbers], return_inverse=True)[1]
    return ranks


def top_rows(keys: Sequence[SortArray], limit: int) -> Indices:
    """Return the positions of the first `limit` rows in the order of the keys, most significant first."""
    chosen = _leading(keys, limit)
    if chosen is None:
        return np.lexsort(list(reversed(keys)))[:limit]
    return chosen[np.lexsort([key[chosen] for key in reversed(keys)])[:limit]]


def _leading(keys: Sequence[SortArray], limit: int) -> Indices | None:
    """Return the positions, ascending, of the rows that may be among the first `limit`; None if most may.

    If many rows are equal in one key, the next one selects among them.
    """
    first, *others = keys
    chosen = candidates(first, limit)
    if chosen is None or not others or len(chosen) <= _FEW_FACTOR * limit:
        return chosen
    found = first[chosen]
    last = found.max()
    alike = chosen[found == last]
    before = chosen[found != last]
    needed = _leading([key[alike] for key in others], limit - len(before))
    return chosen if needed is None else np.sort(np.concatenate([before, alike[needed]]))


def candidates(first: SortArray, limit: int) -> Indices | None:
    """Return the positions of the rows that may be among the first `limit` by their first key; None if most may.

    The others need not be sorted, nor their other keys be read.
    """
    if not 0 < limit < len(first) // 4:
        return None
    return np.flatnonzero(first <= _value_at(first, limit))


def _value_at(keys: SortArray, limit: int) -> Any:
    """Return the last of the first `limit` keys in order.

    If there are many, a sample sets a bound, and only keys within it are considered: np.partition takes 4 to 100 ns per key,
    most if few values repeat.
    """
    if len(keys) >= _SAMPLED_LEAST:
        sample = keys[:: len(keys) // _SAMPLE]
        place = min(2 * limit * len(sample) // len(keys) + _SAMPLE_MARGIN, len(sample) - 1)
        bound = np.partition(sample, place)[place]
        inside = keys[keys <= bound]
        if len(inside) >= limit:
            below = inside[inside < bound]
            return bound if len(below) < limit else np.partition(below, limit - 1)[limit - 1]
    return np.partition(keys, limit - 1)[limit - 1]


@dataclass(frozen=True, slots=True)
class Bound:
    """The last value of a first sort key that can still be among the first rows: an id, a number, or an Arrow scalar."""

    value: Any
    descending: bool
    nulls_last: bool

    def candidates(self, key: Vector | EncodedVector) -> Indices:
        """Return the positions of the rows that may still be among the first, by this key alone."""
        if isinstance(key, EncodedVector) and key.nulls is None:
            return self._of_ids(key.ids)
        if isinstance(key, FramedVector) and key.nulls is None and not len(key.patches):
            return self._of_codes(key.frame)
        values = key.ids if isinstance(key, EncodedVector) else key.values
        if not isinstance(values, np.ndarray):
            compared = pc.greater_equal if self.descending else pc.less_equal
            inside = compared(values, self.value).to_numpy(zero_copy_only=False)
        elif key.nulls is None:
            found = np.empty(len(values) + 1, np.int64)
            rows = rows_from if self.descending else rows_up_to
            return found[: rows(values, values.dtype.type(self.value), found)]
        elif values.dtype.kind == "f":
            # NaN is greater than all numbers, and comparisons with it are false
            inside = ~(values < self.value) if self.descending else ~(values > self.value) & ~np.isnan(values)
        else:
            inside = values >= self.value if self.descending else values <= self.value
        if key.nulls is not None:
            # the bound is not null, so nulls are beyond it if they come last and within it if they come first
            inside = inside & ~key.nulls if self.nulls_last else inside | key.nulls
        return np.flatnonzero(inside)

    def equals(self, key: Vector | EncodedVector) -> Mask:
        """Return the flags of the rows equal to the bound."""
        values = key.ids if isinstance(key, EncodedVector) else key.values
        is_text = not isinstance(values, np.ndarray)
        equal: Mask = pc.equal(values, self.value).to_numpy(zero_copy_only=False) if is_text else values == self.value
        return equal if key.nulls is None else equal & ~key.nulls

    def excludes(self, value: Any) -> bool:
        """Whether an id or number other than NaN is beyond the bound. Always False for text bounds."""
        if hasattr(self.value, "as_py"):
            return False
        return bool(value < self.value if self.descending else value > self.value)

    def admits(self, values: "np.ndarray[Any, np.dtype[Any]]") -> Mask:
        """Return the flags of ids or numbers, without NaN, that are within the bound."""
        inside: Mask = values >= self.value if self.descending else values <= self.value
        return inside

    def _of_ids(self, ids: "np.ndarray[Any, np.dtype[Any]]") -> Indices:
        first, last = (self.value, int(np.iinfo(ids.dtype).max)) if self.descending else (0, self.value)
        if first > last:  # a bound of another segment, beyond all values of this one
            return np.empty(0, np.int64)
        found = np.empty(len(ids) + 1, np.int64)
        return found[: rows_in_id_range(ids, first, last, found)]

    def _of_codes(self, frame: Frame) -> Indices:
        above = frame.first_code(partial(operator.le if self.descending else operator.lt, self.value))
        return np.flatnonzero(frame.mark(above, 1 << frame.bits) if self.descending else frame.mark(0, above))


class CommonBound:
    """The tightest bound of a first sort key among the parts of a query, as a value; thread-safe.

    Rows beyond it are not among the first of all parts, so no part needs to keep them. Equal rows are kept.
    """

    def __init__(self, descending: bool) -> None:
        self._descending = descending
        self._lock = threading.Lock()
        self._value: Any = None

    def offer(self, bound: Bound, data_type: DataType, dictionary: Dictionary | None = None) -> None:
        """Offer the bound of one part: an id of its dictionary, or a value without one."""
        if data_type not in _SHARED:
            return
        value = bound.value if dictionary is None else dictionary.values.values[bound.value]
        value = value.as_py() if hasattr(value, "as_py") else value.item()
        if value != value:
            return
        with self._lock:
            if self._value is None or (value > self._value if self._descending else value < self._value):
                self._value = value

    def excludes(self, first: Any) -> bool:
        """Whether all rows of a part are beyond the bound. first: their first value in sort order."""
        value = self._value
        return value is not None and (first < value if self._descending else first > value)

    def tightened(self, bound: Bound | None, dictionary: Dictionary, nulls_last: bool) -> Bound | None:
        """Return the tighter one of a part's bound and this one, as an id of the part's dictionary."""
        value = self._value
        if value is None:
            return bound
        if self._descending:
            place = dictionary.id_range(value, None, True, True)[0]
        else:
            place = dictionary.id_range(None, value, True, True)[1] - 1
        if bound is not None and (bound.value >= place if self._descending else bound.value <= place):
            return bound
        return Bound(place, self._descending, nulls_last)


def bound_of(key: Vector | EncodedVector, descending: bool, nulls_last: bool) -> Bound | None:
    """Return the bound set by the last row of an ordered key; None for keys that cannot be compared between blocks."""
    if key.nulls is not None and key.nulls[-1]:
        return None
    if isinstance(key, EncodedVector):
        return Bound(int(key.ids[-1]), descending, nulls_last)
    if not isinstance(key.values, np.ndarray):
        return Bound(key.values[-1], descending, nulls_last)
    if key.values.dtype == object:
        return None
    last = key.values[-1]
    return None if last != last else Bound(last, descending, nulls_last)
