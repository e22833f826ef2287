"""Which cuboids a star-tree keeps.

A star-tree as Pinot describes it has a star node below each node that is split: the records of the node without the
dimension that it was split by. Records that have lost the same dimensions make up one cuboid, the groups of a GROUP BY of
the dimensions that are left. Gamay keeps each cuboid in one piece, sorted, so that a query reads one range of records and
follows no pointers; and it leaves out those that would hardly be smaller than another one that answers the same queries.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import TypeAlias

# A cuboid must have at most this part of the records that would be read without it.
_SHARE_MAX = 0.5
# More sets of dimensions than this are not looked at: of many dimensions only small sets are, which is what queries ask for.
_CANDIDATES_MAX = 2048

Kept: TypeAlias = int
"""The dimensions that a cuboid keeps: bit d stands for dimension d."""


@dataclass(frozen=True, slots=True)
class Limits:
    """leaf_records: cuboids of at most so many records are not reduced further. num_docs: the rows of the segment.

    max_records: how many records all cuboids may have together.
    """

    leaf_records: int
    num_docs: int
    max_records: int


def candidates(num_dimensions: int, unstarred: Kept) -> Iterator[Kept]:
    """Yield the sets of dimensions that a cuboid may keep, large ones first, but for the set of all."""
    free = [1 << d for d in range(num_dimensions) if not unstarred >> d & 1]
    largest = len(free) - 1
    while sum(comb(len(free), size) for size in range(largest + 1)) > _CANDIDATES_MAX:
        largest -= 1
    for size in range(largest, -1, -1):
        for chosen in combinations(free, size):
            yield sum(chosen) | unstarred


def grow(
    finest: Kept,
    num_records: int,
    unstarred: Kept,
    limits: Limits,
    reduce_: Callable[[Kept, Kept, int], int | None],
) -> list[Kept]:
    """Choose the cuboids below the finest one.

    reduce_(parent, kept, most): computes a cuboid from another, and returns its records; None when these would be more than
    `most`. Returns the cuboids to keep, the finest one among them only where it is worth it.
    """
    sizes = {finest: num_records}
    for kept in candidates(finest.bit_length(), unstarred):
        parent = min((other for other in sizes if kept & other == kept), key=sizes.__getitem__)
        if sizes[parent] <= limits.leaf_records:
            continue
        size = reduce_(parent, kept, int(sizes[parent] * _SHARE_MAX))
        if size is not None:
            sizes[kept] = size
    if num_records > limits.num_docs * _SHARE_MAX:
        del sizes[finest]
    return _within(sizes, limits)


def _within(sizes: dict[Kept, int], limits: Limits) -> list[Kept]:
    """Leave out cuboids until there are not too many records: first those that spare queries the least for their size."""

    def benefit(kept: Kept) -> float:
        others = [size for other, size in sizes.items() if other != kept and kept & other == kept]
        return min(others, default=limits.num_docs) / sizes[kept]

    while sizes and sum(sizes.values()) > limits.max_records:
        del sizes[min(sizes, key=lambda kept: (benefit(kept), -sizes[kept]))]
    return sorted(sizes, key=lambda kept: (-kept.bit_count(), kept))
