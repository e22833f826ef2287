"""Choice of the cuboids that a star-tree stores.

In Pinot, a star-tree has a star node below each node that is split: the records of the node without the split dimension.
Records without the same dimensions form a cuboid, the groups of a GROUP BY of the remaining dimensions. Gamay stores each
cuboid contiguously and sorted, so that a query reads one range of records and follows no pointers; and it leaves out cuboids
that would hardly be smaller than another one that answers the same queries.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from typing import TypeAlias

# A cuboid must have at most this fraction of the records, or rows, that would be read without it.
_SHARE_MAX = 0.5
# The most sets of dimensions to consider: with many dimensions only small sets are considered, as queries use few.
_CANDIDATES_MAX = 2048
# The most cuboids to compute from the rows: others are computed from cuboids, which takes much less time.
_PASSES_MAX = 128
# The size of all cuboids, relative to the size of the tree, above which some are left out.
_HELD_FACTOR = 4

Kept: TypeAlias = int
"""The dimensions that a cuboid keeps: bit d stands for dimension d."""


@dataclass(frozen=True, slots=True)
class LatticeLimits:
    """Limits on the cuboids of a tree.

    leaf_records: cuboids of up to this many records are not reduced further. num_docs: the rows of the segment. max_bytes:
    the maximum total size of all cuboids.
    """

    leaf_records: int
    num_docs: int
    max_bytes: int


def candidates(num_dimensions: int, unstarred: Kept) -> Iterator[Kept]:
    """Yield the sets of dimensions that a cuboid may keep, large ones first: all subsets, or the full set and small ones."""
    free = [1 << d for d in range(num_dimensions) if not unstarred >> d & 1]
    largest = len(free)
    while sum(comb(len(free), size) for size in range(largest + 1)) > _CANDIDATES_MAX:
        largest -= 1
    if largest < len(free):
        yield sum(free) | unstarred
    for size in range(largest, -1, -1):
        for chosen in combinations(free, size):
            yield sum(chosen) | unstarred


def grow(
    num_dimensions: int,
    unstarred: Kept,
    limits: LatticeLimits,
    reduce_: Callable[[Kept | None, Kept, int], int | None],
    num_bytes: Callable[[Kept], int],
    forget: Callable[[Kept], None],
) -> list[Kept]:
    """Choose the cuboids of a tree.

    reduce_(parent, kept, most): computes a cuboid from another, or from the rows (None), and returns its number of records;
    None if there are, or seem to be, more than `most`. num_bytes: the size of a computed cuboid. forget: called for those
    left out while others are still computed, so that the memory stays below a multiple of `max_bytes`.
    """
    sizes: dict[Kept, int] = {}
    taken: dict[Kept, int] = {}
    passes = 0
    for kept in candidates(num_dimensions, unstarred):
        parent = min((other for other in sizes if kept & other == kept), key=sizes.__getitem__, default=None)
        read = limits.num_docs if parent is None else sizes[parent]
        if passes >= _PASSES_MAX if parent is None else read <= limits.leaf_records:
            continue
        size = reduce_(parent, kept, int(read * _SHARE_MAX))
        if size is not None:
            sizes[kept], taken[kept] = size, num_bytes(kept)
            passes += parent is None
            if sum(taken.values()) > _HELD_FACTOR * limits.max_bytes:
                _within(sizes, taken, replace(limits, max_bytes=_HELD_FACTOR // 2 * limits.max_bytes))
                for left_out in taken.keys() - sizes.keys():
                    del taken[left_out]
                    forget(left_out)
    return _within(sizes, taken, limits)


def _within(sizes: dict[Kept, int], num_bytes: Mapping[Kept, int], limits: LatticeLimits) -> list[Kept]:
    """Leave out cuboids until the total size is within the limit, beginning with those that save queries the least for their
    size.

    Remaining space is used for the smallest of those that were left out.
    """

    def benefit(kept: Kept) -> float:
        others = [size for other, size in sizes.items() if other != kept and kept & other == kept]
        return min(others, default=limits.num_docs) / max(1, sizes[kept])

    total, left_out = sum(num_bytes[kept] for kept in sizes), []
    while total > limits.max_bytes:
        least = min(sizes, key=lambda kept: (benefit(kept), -num_bytes[kept]))
        left_out.append((num_bytes[least], least, sizes.pop(least)))
        total -= num_bytes[least]
    for size, kept, records in sorted(left_out):
        if total + size <= limits.max_bytes:
            sizes[kept] = records
            total += size
    return sorted(sizes, key=lambda kept: (-kept.bit_count(), kept))
