"""The distinct values of each group, with or without how often each occurs.

DISTINCTCOUNT, DISTINCTSUM, DISTINCTAVG and SUMPRECISION are computed from them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import (
    Coder,
    DictionaryCoder,
    Key,
    coder_of,
    common_codes,
    decimal_texts,
    decimals,
)
from gamay.functions.aggregate.distinct.pair_sets import Entries, HashedPairs, PairBits, PairSet, PairTally, SortedPairs
from gamay.functions.aggregate.totals.totals import flatten
from gamay.functions.aggregate_spi import GroupIds
from gamay.functions.vector import EncodedVector, Operand, Vector, take
from gamay.model.types import DataType


@dataclass(frozen=True, slots=True, eq=False)
class PairsPartial:
    """The values of each group, in no order: groups int32 [m], values [m], counts int64 [m] or None if not kept."""

    groups: Array
    values: Key
    counts: Array | None
    num_groups: int


class Pairs:
    """Distinct (group, value) pairs of one segment. `counted`: whether occurrences are counted.

    If the number of possible pairs is small, each has a place in a table; otherwise pairs are hashed or sorted.
    """

    def __init__(self, data_type: DataType, num_groups: int, counted: bool) -> None:
        self.num_groups = num_groups
        self._type = data_type
        self._counted = counted
        self._coder: Coder | None = None
        self._pairs: PairSet = HashedPairs(counted=counted)

    def grow(self, num_groups: int) -> None:
        """Make room for more groups."""
        self.num_groups = num_groups

    def update(self, groups: GroupIds | None, operand: Operand, num_rows: int) -> None:
        """Add a batch of rows."""
        groups, values = flatten(groups, operand, num_rows)
        codes = self._coder_for(values).codes(values, len(values))
        self._room(len(codes)).add(groups, codes)

    def combine(self, other: "Pairs") -> None:
        """Add the pairs of another thread over the same groups."""
        if other._coder is None:
            return
        if self._coder is None:
            self._coder, self._pairs = other._coder, other._pairs
            return
        mine, theirs = self._pairs, other._pairs
        shared = isinstance(self._coder, DictionaryCoder) and self._coder.equals(other._coder)
        if not (shared and type(mine) is type(theirs) and mine.unite(theirs)):
            self._add(other.partial())

    def partial(self) -> PairsPartial:
        """Return the pairs."""
        if self._coder is None:
            counts = np.empty(0, np.int64) if self._counted else None
            return PairsPartial(np.empty(0, np.int32), no_values(self._type), counts, self.num_groups)
        return _partial(self._pairs.entries(), self._coder, self.num_groups)

    def _coder_for(self, values: Key) -> Coder:
        coder = self._coder
        if coder is None:
            coder = DictionaryCoder(values.dictionary) if isinstance(values, EncodedVector) else coder_of(self._type)
            self._coder = coder
        elif isinstance(coder, DictionaryCoder) and not coder.holds(values):
            # some values are not encoded with the one dictionary: restart with these pairs, coded by value
            known = self.partial()
            coder = self._coder = coder_of(self._type)
            self._pairs = HashedPairs(counted=self._counted)
            self._add(known)
        return coder

    def _add(self, partial: PairsPartial) -> None:
        codes = self._coder_for(partial.values).codes(partial.values, len(partial.groups))
        pairs = self._room(len(codes))
        if partial.counts is None:
            pairs.add(partial.groups, codes)
            return
        if not isinstance(pairs, HashedPairs):
            pairs = self._pairs = _hashed(pairs.entries(), counted=True)
        pairs.add_entries(Entries(partial.groups, codes, partial.counts))

    def _room(self, num_rows: int) -> PairSet:
        """Return the set that the pairs of `num_rows` further rows, which are coded already, go to."""
        num_groups = self.num_groups
        num_codes = 0 if self._coder is None else self._coder.num_codes
        pairs = self._pairs
        if isinstance(pairs, SortedPairs):
            return pairs
        if not isinstance(pairs, HashedPairs):
            if not pairs.has_room(num_groups, num_codes):
                pairs = self._pairs = _hashed(pairs.entries(), counted=self._counted)
        elif self._counted:
            if pairs.count == 0 and isinstance(self._coder, DictionaryCoder) and PairTally.pays(num_groups, num_codes):
                pairs = self._pairs = PairTally(num_groups, num_codes)
        elif PairBits.pays(num_groups, num_codes, pairs.count + num_rows):
            pairs = self._pairs = _with(PairBits(num_groups, num_codes), pairs.entries())
        elif SortedPairs.pays(pairs.count):
            pairs = self._pairs = _with(SortedPairs(), pairs.entries())
        return pairs


def _with(pairs: PairBits | SortedPairs, known: Entries) -> PairBits | SortedPairs:
    """Add known pairs to an empty set and return it."""
    pairs.add(known.groups, known.codes)
    return pairs


def _hashed(entries: Entries, *, counted: bool) -> HashedPairs:
    pairs = HashedPairs(counted=counted)
    pairs.add_entries(entries)
    return pairs


def _partial(entries: Entries, coder: Coder, num_groups: int) -> PairsPartial:
    return PairsPartial(entries.groups, coder.decode(entries.codes), entries.counts, num_groups)


def no_values(data_type: DataType) -> Vector:
    """Return an empty vector."""
    nothing = coder_of(data_type).decode(np.empty(0, np.int64))
    return nothing if isinstance(nothing, Vector) else nothing.decode()


def select_pairs(partial: PairsPartial, groups: Array) -> PairsPartial:
    """Return the pairs of these groups only, renumbered in their order."""
    if len(groups) == partial.num_groups and np.array_equal(groups, np.arange(partial.num_groups)):
        return partial
    places = np.full(partial.num_groups, -1, np.int32)
    places[groups] = np.arange(len(groups), dtype=np.int32)
    moved = places[partial.groups]
    kept = np.flatnonzero(moved >= 0)
    counts = None if partial.counts is None else partial.counts[kept]
    return PairsPartial(moved[kept], _take(partial.values, kept), counts, len(groups))


def merge_pairs(partials: Sequence[PairsPartial], maps: Sequence[GroupIds], num_groups: int) -> PairsPartial:
    """Merge: entry i of partials[k] goes to group maps[k][i]."""
    coder, codes = common_codes([partial.values for partial in partials])
    pairs: PairBits | SortedPairs | HashedPairs
    if all(partial.counts is not None for partial in partials):
        pairs = HashedPairs(counted=True)
    elif PairBits.pays(num_groups, coder.num_codes, sum(map(len, codes))):
        pairs = PairBits(num_groups, coder.num_codes)
    elif SortedPairs.pays(sum(map(len, codes))):
        pairs = SortedPairs()
    else:
        pairs = HashedPairs(counted=False)
    for partial, groups, part in zip(partials, maps, codes, strict=True):
        entries = Entries(groups[partial.groups], part, partial.counts)
        if isinstance(pairs, HashedPairs):
            pairs.add_entries(entries)
        else:
            pairs.add(entries.groups, entries.codes)
    return _partial(pairs.entries(), coder, num_groups)


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
    """Invert `encode_pairs`."""
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
