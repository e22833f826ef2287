"""The distinct values of each group, with or without how often each occurs.

DISTINCTCOUNT, DISTINCTSUM, DISTINCTAVG and SUMPRECISION are computed from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.functions.aggregate.coding import (
    Coder,
    DictionaryCoder,
    HashNumbers,
    Key,
    coder_of,
    common_codes,
    decimal_texts,
    decimals,
)
from gamay.functions.aggregate.spi import GroupIds
from gamay.functions.aggregate.totals import flatten, unsigned
from gamay.functions.vector import EncodedVector, Operand, Vector, take
from gamay.kernels.aggregation import count_groups, mark_coded, mark_ids, tally_coded
from gamay.kernels.tuning import FLAG_CELLS_MAX, TALLY_CELLS_MAX
from gamay.model.types import DataType

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

_CODE_BITS = 32
_CODE_MASK = (1 << _CODE_BITS) - 1


@dataclass(frozen=True, slots=True, eq=False)
class PairsPartial:
    """The values of each group, in no order: groups int32 [m], values [m], counts int64 [m] or None when not kept."""

    groups: Array
    values: Key
    counts: Array | None
    num_groups: int


class Pairs:
    """Distinct (group, value) pairs of one segment. `counted`: whether occurrences are counted.

    Values of a dictionary are ticked off in a table with a cell for each pair while that is small; other pairs are numbered
    by a hash table.
    """

    def __init__(self, data_type: DataType, num_groups: int, counted: bool) -> None:
        self.num_groups = num_groups
        self._type = data_type
        self._counted = counted
        self._cells_max = TALLY_CELLS_MAX if counted else FLAG_CELLS_MAX
        self._coder: Coder | None = None
        self._tally: Array | None = None
        self._numbers = HashNumbers()
        self._counts = np.zeros(1 << 10, np.int64)

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        if self._tally is not None:
            width = len(self._tally) // self.num_groups if self.num_groups else 0
            if width * num_groups > self._cells_max:
                keys, counts = self._tallied(width)
                self._tally = None
                self._add_pairs(keys, counts)
            else:
                tally = np.zeros(width * num_groups, self._tally.dtype)
                tally[: len(self._tally)] = self._tally
                self._tally = tally
        self.num_groups = num_groups

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        """Add a batch of rows."""
        groups, values = flatten(None if groups is None else unsigned(groups), operand, num_rows)
        if self._coder is None:
            self._start(values)
        elif isinstance(self._coder, DictionaryCoder) and not self._coder.holds(values):
            self._leave_dictionary([self.partial()])
        codes = self._required_coder().codes(values, len(values))
        if self._tally is not None:
            self._tick(groups, codes)
        else:
            self._add_pairs(_keys(groups, codes), None)

    def combine(self, other: "Pairs") -> None:
        """Add the pairs of another thread over the same groups."""
        if self._tally is not None and other._tally is not None:
            if self._counted:
                self._tally += other._tally
            else:
                self._tally |= other._tally
            return
        self._leave_dictionary([self.partial(), other.partial()])

    def partial(self) -> PairsPartial:
        """Return the pairs."""
        if self._coder is None:
            return PairsPartial(np.empty(0, np.int32), no_values(self._type), self._no_counts(), self.num_groups)
        if self._tally is not None:
            keys, counts = self._tallied(len(self._tally) // self.num_groups if self.num_groups else 0)
        else:
            keys, counts = self._numbers.keys, self._counts[: self._numbers.count]
        values = self._coder.decode(keys & _CODE_MASK)
        return PairsPartial(
            (keys >> _CODE_BITS).astype(np.int32), values, counts if self._counted else None, self.num_groups
        )

    def _start(self, values: Vector | EncodedVector) -> None:
        if isinstance(values, EncodedVector):
            self._coder = DictionaryCoder(values.dictionary)
            cells = self.num_groups * len(values.dictionary)
            if cells <= self._cells_max:
                self._tally = np.zeros(cells, np.int64 if self._counted else np.uint8)
        else:
            self._coder = coder_of(self._type)

    def _leave_dictionary(self, partials: Sequence[PairsPartial]) -> None:
        """Start anew with these pairs, by value: some values do not come from the one dictionary."""
        groups = np.arange(self.num_groups, dtype=np.int32)
        known = merge_pairs(partials, [groups] * len(partials), self.num_groups)
        self._coder, self._tally, self._numbers = coder_of(self._type), None, HashNumbers()
        self._counts = np.zeros(1 << 10, np.int64)
        self._add_pairs(_keys(known.groups, self._coder.codes(known.values, len(known.groups))), known.counts)

    def _required_coder(self) -> Coder:
        if self._coder is None:
            raise ValueError("no row was added yet")
        return self._coder

    def _tick(self, groups: GroupIds | None, codes: Array) -> None:
        tally = self._tally
        if tally is None:
            raise ValueError("there is no table of pairs")
        width = len(tally) // self.num_groups if self.num_groups else 0
        if groups is None:
            if self._counted:
                count_groups(codes, tally, 0)
            else:
                mark_ids(codes, tally)
        elif self._counted:
            tally_coded(groups, codes, width, tally)
        else:
            mark_coded(groups, codes, width, tally)

    def _tallied(self, width: int) -> tuple[Array, Array]:
        """The pairs in the table, as keys, and their cells."""
        if self._tally is None or width == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        cells = np.flatnonzero(self._tally)
        groups, codes = np.divmod(cells, width)
        return (groups << _CODE_BITS) | codes, self._tally[cells].astype(np.int64)

    def _add_pairs(self, keys: Array, counts: Array | None) -> None:
        numbers = self._numbers.number(keys)
        if not self._counted:
            return
        if self._numbers.count > len(self._counts):
            longer = np.zeros(2 * self._numbers.count, np.int64)
            longer[: len(self._counts)] = self._counts
            self._counts = longer
        if counts is None:
            count_groups(unsigned(numbers), self._counts, 0)
        else:
            self._counts[numbers] += counts  # the keys are distinct, so no number occurs twice

    def _no_counts(self) -> Array | None:
        return np.empty(0, np.int64) if self._counted else None


def _keys(groups: GroupIds | None, codes: Array) -> Array:
    keys = codes.astype(np.int64)
    if groups is not None:
        keys |= groups.astype(np.int64) << _CODE_BITS
    return keys


def no_values(data_type: DataType) -> Vector:
    """Return an empty vector."""
    nothing = coder_of(data_type).decode(np.empty(0, np.int64))
    return nothing if isinstance(nothing, Vector) else nothing.decode()


def select_pairs(partial: PairsPartial, groups: Array) -> PairsPartial:
    """Return the pairs of these groups only, renumbered."""
    places = np.full(partial.num_groups, -1, np.int32)
    places[groups] = np.arange(len(groups), dtype=np.int32)
    moved = places[partial.groups]
    kept = np.flatnonzero(moved >= 0)
    counts = None if partial.counts is None else partial.counts[kept]
    return PairsPartial(moved[kept], _take(partial.values, kept), counts, len(groups))


def merge_pairs(partials: Sequence[PairsPartial], maps: Sequence[GroupIds], num_groups: int) -> PairsPartial:
    """Merge: entry i of partials[k] goes to group maps[k][i]."""
    coder, codes = common_codes([partial.values for partial in partials])
    keys = np.concatenate(
        [_keys(groups[partial.groups], part) for partial, groups, part in zip(partials, maps, codes, strict=True)]
    )
    numbers = HashNumbers()
    of_pairs = numbers.number(keys)
    counts = None
    if all(partial.counts is not None for partial in partials):
        every = np.concatenate([partial.counts for partial in partials if partial.counts is not None])
        counts = np.bincount(of_pairs, weights=every, minlength=numbers.count).astype(np.int64)
    merged = numbers.keys
    values = coder.decode(merged & _CODE_MASK)
    return PairsPartial((merged >> _CODE_BITS).astype(np.int32), values, counts, num_groups)


def encode_pairs(partial: PairsPartial) -> list[pa.Array]:
    """Return the values, and the counts if there are any, as one list for each group."""
    order = np.argsort(partial.groups, kind="stable")
    offsets = np.zeros(partial.num_groups + 1, np.int32)
    np.cumsum(np.bincount(partial.groups, minlength=partial.num_groups), out=offsets[1:])
    ordered = _take(partial.values, order)
    values = ordered.decode() if isinstance(ordered, EncodedVector) else ordered
    stored = decimal_texts(values.values) if values.type is DataType.BIG_DECIMAL else pa.array(values.values)
    arrays = [pa.ListArray.from_arrays(pa.array(offsets), stored)]
    if partial.counts is not None:
        arrays.append(pa.ListArray.from_arrays(pa.array(offsets), pa.array(partial.counts[order])))
    return arrays


def decode_pairs(data_type: DataType, arrays: Sequence[pa.Array]) -> PairsPartial:
    """Return what `encode_pairs` was given."""
    lists = arrays[0]
    lengths = np.diff(lists.offsets.to_numpy())
    groups = np.repeat(np.arange(len(lists), dtype=np.int32), lengths)
    flat = lists.flatten()
    values = flat
    if data_type is DataType.BIG_DECIMAL:
        values = decimals(flat)
    elif data_type.is_fixed_width:
        values = flat.to_numpy(zero_copy_only=False)
    counts = arrays[1].flatten().to_numpy() if len(arrays) > 1 else None
    return PairsPartial(groups, Vector(data_type, values), counts, len(lists))


def _take(values: Key, places: Array) -> Key:
    if isinstance(values, EncodedVector):
        return EncodedVector(values.ids[places], values.dictionary)
    return Vector(values.type, take(values.values, places))
