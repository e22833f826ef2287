"""Numbering of groups: from the codes of several keys to one group number for each row.

Direct   the packed codes are the group numbers; every combination has a group, possibly empty
Lookup   packed codes are numbered through a table with a cell for every combination
Single   the same for one key, with a table that grows with its codes
Hashed   packed codes are numbered by a hash table; keys that do not fit in 63 bits together are numbered in several steps
"""

from collections.abc import Sequence
from math import prod
from typing import Any, Protocol

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import CODES_MAX, HashNumbers
from gamay.kernels.group.grouping import number_by_lookup, pack_pair

_PACKED_MAX = (1 << 63) - 1


class Numbering(Protocol):
    """Group numbers of rows; one instance per thread.

    num_groups: the number of groups so far. dropped: whether rows got the number `limit`, as there were too many groups.
    """

    @property
    def num_groups(self) -> int: ...

    @property
    def dropped(self) -> bool: ...

    def number(self, codes: Sequence[Array]) -> Array:
        """Return the group of each row, given the codes of each key."""
        ...

    def codes(self, groups: Array) -> list[Array]:
        """Return the codes of each key for some groups."""
        ...


def pack(codes: Sequence[Array], cardinalities: Sequence[int], dtype: Any) -> Array:
    """Return `(codes[0] * cardinalities[1] + codes[1]) * cardinalities[2] + …`."""
    if len(codes) == 1:
        return codes[0]
    packed = np.empty(len(codes[0]), dtype)
    high = codes[0]
    for low, cardinality in zip(codes[1:], cardinalities[1:], strict=True):
        pack_pair(high, low, cardinality, packed)
        high = packed
    return packed


def unpack(packed: Array, cardinalities: Sequence[int]) -> list[Array]:
    """Return the codes that were passed to `pack`."""
    codes: list[Array] = []
    for cardinality in reversed(cardinalities[1:]):
        packed, low = np.divmod(packed, cardinality)
        codes.append(low)
    return [packed, *reversed(codes)]


def unsigned_for(count: int) -> Any:
    """Return the narrowest unsigned dtype for the numbers below `count`."""
    return np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.uint32


class DirectNumbering:
    """Numbering in which every combination of codes is a group."""

    dropped = False

    def __init__(self, cardinalities: Sequence[int]) -> None:
        self._cardinalities = cardinalities
        self.num_groups = prod(cardinalities)
        self._dtype = unsigned_for(self.num_groups)

    def number(self, codes: Sequence[Array]) -> Array:
        return pack(codes, self._cardinalities, self._dtype)

    def codes(self, groups: Array) -> list[Array]:
        return unpack(groups, self._cardinalities)


class LookupNumbering:
    """Numbering of combinations of codes in order of appearance, through a table of all combinations."""

    def __init__(self, cardinalities: Sequence[int], limit: int) -> None:
        cells = prod(cardinalities)
        self.num_groups = 0
        self.dropped = False
        self._cardinalities = cardinalities
        self._limit = limit
        self._dtype = unsigned_for(cells)
        self._lookup = np.full(cells, -1, np.int32)
        self._keys = np.empty(min(cells, limit), np.int64)

    def number(self, codes: Sequence[Array]) -> Array:
        packed = pack(codes, self._cardinalities, self._dtype)
        out = np.empty(len(packed), np.int32)
        count = int(number_by_lookup(packed, self._lookup, self._keys, self.num_groups, self._limit, out))
        if count < 0:
            self.dropped, count = True, -1 - count
        self.num_groups = count
        return out

    def codes(self, groups: Array) -> list[Array]:
        return unpack(self._keys[groups], self._cardinalities)


class SingleNumbering:
    """Numbering of the codes of one key in order of appearance; the codes are dense, but some may have no row."""

    def __init__(self, limit: int) -> None:
        self.num_groups = 0
        self.dropped = False
        self._limit = limit
        self._lookup = np.full(1 << 12, -1, np.int32)
        self._keys = np.empty(1 << 12, np.int64)

    def number(self, codes: Sequence[Array]) -> Array:
        (only,) = codes
        highest = int(only.max()) if len(only) else 0
        if highest >= len(self._lookup):
            lookup = np.full(2 * (highest + 1), -1, np.int32)
            lookup[: len(self._lookup)] = self._lookup
            keys = np.empty(len(lookup), np.int64)
            keys[: self.num_groups] = self._keys[: self.num_groups]
            self._lookup, self._keys = lookup, keys
        out = np.empty(len(only), np.int32)
        count = int(number_by_lookup(only, self._lookup, self._keys, self.num_groups, self._limit, out))
        if count < 0:
            self.dropped, count = True, -1 - count
        self.num_groups = count
        return out

    def codes(self, groups: Array) -> list[Array]:
        return [self._keys[groups]]


class HashedNumbering:
    """Numbering of combinations of codes in order of appearance, by hash tables.

    As many keys as fit in 63 bits are packed together; the number of that combination is the first code of the next step.
    cardinalities: None if not known beforehand. expected: the approximate number of groups.
    """

    def __init__(self, cardinalities: Sequence[int | None], limit: int, expected: int = 0) -> None:
        self._steps: list[tuple[int, list[int], HashNumbers]] = []  # number of keys taken, cardinalities, numbers
        widths: list[int] = []
        taken = 0
        for cardinality in cardinalities:
            width = CODES_MAX if cardinality is None else max(cardinality, 1)
            if widths and prod(widths) * width > _PACKED_MAX:
                self._steps.append((taken, widths, HashNumbers()))
                widths, taken = [CODES_MAX], 0
            widths.append(width)
            taken += 1
        self._last = HashNumbers(limit, expected)
        self._steps.append((taken, widths, self._last))

    @property
    def num_groups(self) -> int:
        return self._last.count

    @property
    def dropped(self) -> bool:
        return self._last.dropped

    def number(self, codes: Sequence[Array]) -> Array:
        rest = list(codes)
        numbers: list[Array] = []
        for taken, widths, table in self._steps:
            packed = pack([*numbers, *rest[:taken]], widths, np.int64)
            numbers = [table.number(packed.astype(np.int64, copy=False))]
            rest = rest[taken:]
        return numbers[0]

    def codes(self, groups: Array) -> list[Array]:
        codes: list[Array] = []
        for step, (_, widths, table) in reversed(list(enumerate(self._steps))):
            unpacked = unpack(table.keys[groups], widths)
            if step:
                groups, *unpacked = unpacked
            codes = [*unpacked, *codes]
        return codes
