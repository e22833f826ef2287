"""Sets of distinct pairs of a group and a code, with or without how often each occurs.

All sets have the same methods, and `entries` returns the pairs in no order. The caller of `add` calls `has_room` first
(see `gamay.functions.aggregate.distinct.pairs`), because the numbers of groups and codes may grow.
"""

from dataclasses import dataclass
from typing import Protocol, Self

import numpy as np

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import DISTINCT, HashNumbers
from gamay.functions.aggregate.totals.totals import unsigned
from gamay.functions.aggregate_spi import GroupIds
from gamay.kernels.group.aggregation import count_groups, mark_ids, tally_coded
from gamay.kernels.group.pairs import drop_repeats, list_pairs, mark_cells, mark_codes, mark_pairs
from gamay.kernels.rows.radix import sort_numbers
from gamay.kernels.tuning import PAIR_BITS_MAX, PAIR_BITS_PER_PAIR, PAIR_CELLS_MAX, SORTED_PAIRS_MIN, TALLY_CELLS_MAX

_CODE_BITS = 32
_CODE_MASK = (1 << _CODE_BITS) - 1
_WORD = 64
# larger sets reserve memory first
_RESERVED_BYTES = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Pairs: groups int32 [n], codes [n], unsigned; counts int64 [n], None where they are not kept."""

    groups: Array
    codes: Array
    counts: Array | None


class PairSet(Protocol):
    """Pairs of groups and codes."""

    @property
    def count(self) -> int:
        """The number of pairs, or an upper bound of it."""
        ...

    def has_room(self, num_groups: int, num_codes: int) -> bool:
        """Whether pairs of `num_groups` groups and `num_codes` codes can be added; may enlarge the set."""
        ...

    def add(self, groups: GroupIds | None, codes: Array) -> None:
        """Add the pair of each row; groups: None if there is only one group."""
        ...

    def unite(self, other: Self) -> bool:
        """Add the pairs of another set over the same groups and codes; return False and change nothing if that is costly."""
        ...

    def entries(self) -> Entries:
        """Return the pairs."""
        ...


class PairBits:
    """A bitmap of all possible pairs: adding a pair costs one memory access, uniting sets next to
    nothing. The pairs of a code are adjacent, so that new codes are appended.
    """

    def __init__(self, num_groups: int, num_codes: int) -> None:
        self._width = max(1, num_groups)
        self._words = _zeros(self._width * num_codes)

    @staticmethod
    def pays(num_groups: int, num_codes: int, num_pairs: int) -> bool:
        """Whether this many pairs, including duplicates, are better kept as bits than in a hash table."""
        num_bits = num_groups * num_codes
        return num_bits <= min(_bits_max(), PAIR_BITS_PER_PAIR * num_pairs)

    @property
    def count(self) -> int:
        return int(np.bitwise_count(self._words).sum())

    def has_room(self, num_groups: int, num_codes: int) -> bool:
        width = self._width if num_groups <= self._width else max(num_groups, 2 * self._width)
        num_bits = width * num_codes
        if num_bits > _bits_max():
            return False
        if width > self._width:
            known = self.entries()
            self._width, self._words = width, _zeros(num_bits)
            self.add(known.groups, known.codes)
        elif num_bits > _WORD * len(self._words):
            longer = _zeros(min(2 * num_bits, _bits_max()))
            longer[: len(self._words)] = self._words
            self._words = longer
        return True

    def add(self, groups: GroupIds | None, codes: Array) -> None:
        if groups is None and self._width > 1:
            groups = np.zeros(len(codes), np.uint32)
        if _WORD * len(self._words) <= min(PAIR_CELLS_MAX, len(codes)):
            self._add_many(groups, unsigned(codes))
        elif groups is None:
            mark_codes(unsigned(codes), self._words)
        else:
            mark_pairs(unsigned(codes), unsigned(groups), self._width, self._words)

    def _add_many(self, groups: GroupIds | None, codes: Array) -> None:
        """Add pairs whose distinct number is far smaller than the number of rows."""
        cells = np.zeros(_WORD * len(self._words), np.uint8)
        if groups is None:
            mark_ids(codes, cells)
        else:
            mark_cells(codes, unsigned(groups), self._width, cells)
        self._words |= np.packbits(cells, bitorder="little").view(np.uint64)

    def unite(self, other: "PairBits") -> bool:
        if self._width != other._width:
            return False
        if len(self._words) < len(other._words):
            self._words, other._words = other._words, self._words
        self._words[: len(other._words)] |= other._words
        return True

    def entries(self) -> Entries:
        count = self.count
        if 8 * count > _RESERVED_BYTES:
            guard.reserve(DISTINCT, 8 * count)
        codes, groups = np.empty(count, np.uint32), np.empty(count, np.int32)
        list_pairs(self._words, self._width, codes, groups)
        return Entries(groups, codes, None)


class PairTally:
    """A counter for each possible pair, for few possible pairs."""

    def __init__(self, num_groups: int, num_codes: int) -> None:
        self._width = num_codes
        self._cells = np.zeros(num_groups * num_codes, np.int64)

    @staticmethod
    def pays(num_groups: int, num_codes: int) -> bool:
        """Whether the number of possible pairs is small enough."""
        return num_groups * num_codes <= TALLY_CELLS_MAX

    @property
    def count(self) -> int:
        return len(self._cells)

    def has_room(self, num_groups: int, num_codes: int) -> bool:
        if num_codes != self._width or not self.pays(num_groups, num_codes):
            return False
        if num_groups * num_codes > len(self._cells):
            cells = np.zeros(num_groups * num_codes, np.int64)
            cells[: len(self._cells)] = self._cells
            self._cells = cells
        return True

    def add(self, groups: GroupIds | None, codes: Array) -> None:
        if groups is None:
            count_groups(unsigned(codes), self._cells, 0)
        else:
            tally_coded(unsigned(groups), unsigned(codes), self._width, self._cells)

    def unite(self, other: "PairTally") -> bool:
        if self._width != other._width or len(self._cells) != len(other._cells):
            return False
        self._cells += other._cells
        return True

    def entries(self) -> Entries:
        cells = np.flatnonzero(self._cells)
        groups, codes = np.divmod(cells, max(1, self._width))
        return Entries(groups.astype(np.int32), codes.astype(np.uint32), self._cells[cells])


class HashedPairs:
    """A hash table of pairs. `counted`: whether occurrences are counted."""

    def __init__(self, *, counted: bool) -> None:
        self._numbers = HashNumbers()
        self._counts = np.zeros(1 << 10, np.int64) if counted else None

    @property
    def count(self) -> int:
        return self._numbers.count

    def has_room(self, num_groups: int, num_codes: int) -> bool:
        return True

    def add(self, groups: GroupIds | None, codes: Array) -> None:
        numbers = self._numbered(groups, codes)
        if self._counts is not None:
            count_groups(unsigned(numbers), self._room(self._counts), 0)

    def add_entries(self, entries: Entries) -> None:
        """Add pairs with their numbers of occurrences."""
        numbers = self._numbered(entries.groups, entries.codes)
        if self._counts is not None and entries.counts is not None:
            # a pair may occur twice, where groups were merged
            np.add.at(self._room(self._counts), numbers, entries.counts)

    def unite(self, other: "HashedPairs") -> bool:
        self.add_entries(other.entries())
        return True

    def entries(self) -> Entries:
        counts = None if self._counts is None else self._counts[: self._numbers.count]
        return _entries_of(self._numbers.keys, counts)

    def _numbered(self, groups: GroupIds | None, codes: Array) -> Array:
        return self._numbers.number(_keys_of(groups, codes))

    def _room(self, counts: Array) -> Array:
        if self._numbers.count > len(counts):
            longer = np.zeros(2 * self._numbers.count, np.int64)
            longer[: len(counts)] = counts
            self._counts = counts = longer
        return counts


class SortedPairs:
    """A sorted list of many pairs, whose occurrences are not counted.

    New pairs are buffered until there are as many as known ones; then both are sorted together and deduplicated.
    """

    def __init__(self) -> None:
        self._known = np.empty(0, np.int64)
        self._waiting: list[Array] = []
        self._num_waiting = 0

    @staticmethod
    def pays(num_pairs: int) -> bool:
        """Whether this many pairs, including duplicates, are better sorted than hashed."""
        return num_pairs > SORTED_PAIRS_MIN

    @property
    def count(self) -> int:
        return len(self._known) + self._num_waiting

    def has_room(self, num_groups: int, num_codes: int) -> bool:
        return True

    def add(self, groups: GroupIds | None, codes: Array) -> None:
        self._wait(_keys_of(groups, codes))

    def unite(self, other: "SortedPairs") -> bool:
        for keys in (other._known, *other._waiting):
            self._wait(keys)
        return True

    def entries(self) -> Entries:
        self._settle()
        return _entries_of(self._known, None)

    def _wait(self, keys: Array) -> None:
        self._waiting.append(keys)
        self._num_waiting += len(keys)
        if self._num_waiting >= max(len(self._known), SORTED_PAIRS_MIN):
            self._settle()

    def _settle(self) -> None:
        if not self._num_waiting:
            return
        guard.reserve(DISTINCT, 8 * self.count)
        keys = np.concatenate([self._known, *self._waiting])
        self._waiting, self._num_waiting = [], 0
        sort_numbers(keys)
        self._known = keys[: drop_repeats(keys)]


def _keys_of(groups: GroupIds | None, codes: Array) -> Array:
    """Return each pair as one number: int64 [n]."""
    keys = codes.astype(np.int64)
    if groups is not None:
        keys |= groups.astype(np.int64) << _CODE_BITS
    return keys


def _entries_of(keys: Array, counts: Array | None) -> Entries:
    return Entries((keys >> _CODE_BITS).astype(np.int32), (keys & _CODE_MASK).astype(np.uint32), counts)


def _bits_max() -> int:
    """Return the maximum number of bits of one set: an eighth of the query's memory limit, as each thread has a set."""
    limit = guard.memory_limit()
    return PAIR_BITS_MAX if limit is None else min(PAIR_BITS_MAX, limit)


def _zeros(num_bits: int) -> Array:
    num_words = -(-num_bits // _WORD)
    if 8 * num_words > _RESERVED_BYTES:
        guard.reserve(DISTINCT, 8 * num_words)
    return np.zeros(num_words, np.uint64)
