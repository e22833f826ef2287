"""Theta and integer-tuple sketches: the smallest hashes of the values of each group, and the range that they cover.

A sketch keeps at most k hashes of 63 bits, the smallest ones, and theta: every hash below theta is kept. It is empty
until it has seen a value. So sketches of parts merge to exactly the sketch of the whole, and the number of distinct
values is the number of hashes divided by theta's share of the hash range. Tuple sketches keep a number with each hash.
All functions here process many sketches at once. Hashes are those of the datasketches library (seed 9001), and so are the
bytes (its compact form, serial version 3): tests compare both with the library.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.aggregate.percentile.points import groups_of, sort_points
from gamay.functions.sketch.hashing import value_hashes
from gamay.functions.vector import Vector

SEED = 9001
SEED_HASH = 0x93CC
THETA_MAX = (1 << 63) - 1


class Mode(Enum):
    """How tuple sketches combine the numbers of one hash; the values are those of the serialised form."""

    SUM = 0
    MIN = 1
    MAX = 2


_REDUCE: dict[Mode, "np.ufunc"] = {Mode.SUM: np.add, Mode.MIN: np.minimum, Mode.MAX: np.maximum}


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Many sketches: those of groups 0, 1, ...

    groups: int32 [n] and hashes: uint64 [n], ascending by group, then hash. numbers: int64 [n], None in theta sketches.
    thetas: uint64 [number of groups]. seen: bool [number of groups], whether the sketch has seen a value.
    """

    groups: Array
    hashes: Array
    numbers: Array | None
    thetas: Array
    seen: Array

    @property
    def num_groups(self) -> int:
        return len(self.thetas)

    @property
    def counts(self) -> Array:
        """The number of hashes of each sketch: int64."""
        return np.bincount(self.groups, minlength=self.num_groups)


def no_entries(num_groups: int, theta: int = THETA_MAX, *, numbers: bool = False) -> Entries:
    """Return empty sketches."""
    return Entries(
        np.empty(0, np.int32),
        np.empty(0, np.uint64),
        np.empty(0, np.int64) if numbers else None,
        np.full(num_groups, theta, np.uint64),
        np.zeros(num_groups, np.bool_),
    )


def hashes_of(vector: Vector) -> Array:
    """Return the hash of each value: uint64, 0 for an empty text, which datasketches skips."""
    hashes = value_hashes(vector, SEED)[0] >> np.uint64(1)
    if not vector.type.is_fixed_width and not isinstance(vector.values, np.ndarray):
        offsets = np.frombuffer(vector.values.buffers()[1], np.int32)[vector.values.offset :][: len(vector) + 1]
        hashes[np.diff(offsets) == 0] = 0
    return hashes


def limited(
    groups: Array, hashes: Array, numbers: Array | None, thetas: Array, seen: Array, k: int, mode: Mode = Mode.SUM
) -> Entries:
    """Return the sketches of hashes in any order: deduplicated, those below theta, at most k per sketch.

    numbers: those of equal hashes of a sketch are combined by `mode`.
    """
    below = (hashes < thetas[groups]) & (hashes != 0)
    if not below.all():
        groups, hashes = groups[below], hashes[below]
        numbers = None if numbers is None else numbers[below]
    if numbers is None:
        points = sort_points(groups, hashes, len(thetas))
        groups, hashes = groups_of(points.starts), points.values
    else:
        order = np.lexsort((hashes, groups))
        groups, hashes, numbers = groups[order], hashes[order], numbers[order]
    first = np.ones(len(hashes), np.bool_)
    first[1:] = (hashes[1:] != hashes[:-1]) | (groups[1:] != groups[:-1])
    if not first.all():
        starts = np.flatnonzero(first)
        groups, hashes = groups[starts], hashes[starts]
        numbers = None if numbers is None else _REDUCE[mode].reduceat(numbers, starts)
    counts = np.bincount(groups, minlength=len(thetas))
    if counts.max(initial=0) > k:
        places = np.arange(len(groups)) - np.repeat(np.cumsum(counts) - counts, counts)
        thetas = thetas.copy()
        thetas[groups[places == k]] = hashes[places == k]
        kept = places < k
        groups, hashes = groups[kept], hashes[kept]
        numbers = None if numbers is None else numbers[kept]
    return Entries(groups.astype(np.int32, copy=False), hashes, numbers, thetas, seen)


def merged(parts: Sequence[Entries], maps: Sequence[Array], num_groups: int, k: int, mode: Mode = Mode.SUM) -> Entries:
    """Return the union: sketch i of parts[j] goes to group maps[j][i]."""
    thetas, seen = np.full(num_groups, THETA_MAX, np.uint64), np.zeros(num_groups, np.bool_)
    for part, groups in zip(parts, maps, strict=True):
        np.minimum.at(thetas, groups, part.thetas)
        np.logical_or.at(seen, groups, part.seen)
    numbers = [part.numbers for part in parts if part.numbers is not None]
    return limited(
        np.concatenate([groups[part.groups] for part, groups in zip(parts, maps, strict=True)]).astype(np.int32),
        np.concatenate([part.hashes for part in parts]),
        np.concatenate(numbers) if numbers else None,
        thetas,
        seen,
        k,
        mode,
    )


def union(parts: Sequence[Entries], k: int, mode: Mode = Mode.SUM) -> Entries:
    """Return the union, sketch by sketch."""
    return merged(parts, [np.arange(part.num_groups, dtype=np.int32) for part in parts], parts[0].num_groups, k, mode)


def intersection(parts: Sequence[Entries], mode: Mode = Mode.SUM) -> Entries:
    """Return the intersection, sketch by sketch."""
    groups, hashes, numbers, thetas = _together(parts)
    starts = _starts(groups, hashes)
    lengths = np.diff(np.append(starts, len(hashes)))
    found = lengths == len(parts)
    seen = np.logical_and.reduce([part.seen for part in parts])
    if numbers is not None and len(starts):
        numbers = _REDUCE[mode].reduceat(numbers, starts)[found]
    groups, hashes = groups[starts][found], hashes[starts][found]
    thetas = np.where(seen, thetas, np.uint64(THETA_MAX))
    return limited(groups, hashes, numbers, thetas, seen, len(hashes))


def difference(left: Entries, right: Entries) -> Entries:
    """Return the difference of `left` and `right`, sketch by sketch, with the numbers of `left`."""
    groups, hashes, _, thetas = _together([left, right])
    starts = _starts(groups, hashes)
    both = np.diff(np.append(starts, len(hashes))) == 2
    common = Entries(groups[starts][both], hashes[starts][both], None, thetas, left.seen)
    kept = ~_contained(left, common) & (left.hashes < thetas[left.groups])
    numbers = None if left.numbers is None else left.numbers[kept]
    thetas = np.where(left.seen, thetas, np.uint64(THETA_MAX))
    return limited(left.groups[kept], left.hashes[kept], numbers, thetas, left.seen, len(left.hashes))


def estimates(entries: Entries) -> Array:
    """Return the number of distinct values of each sketch: float64."""
    return np.asarray(entries.counts / (entries.thetas.astype(np.float64) / float(THETA_MAX)))


def selected(entries: Entries, groups: Array) -> Entries:
    """Return only these sketches, renumbered."""
    places = np.full(entries.num_groups, -1, np.int32)
    places[groups] = np.arange(len(groups), dtype=np.int32)
    moved = places[entries.groups]
    kept = np.flatnonzero(moved >= 0)
    kept = kept[np.argsort(moved[kept], kind="stable")]
    numbers = None if entries.numbers is None else entries.numbers[kept]
    return Entries(moved[kept], entries.hashes[kept], numbers, entries.thetas[groups], entries.seen[groups])


def _together(parts: Sequence[Entries]) -> tuple[Array, Array, Array | None, Array]:
    """Return all entries by group and hash, those of one hash in the order of the parts, and the smallest thetas."""
    groups = np.concatenate([part.groups for part in parts])
    hashes = np.concatenate([part.hashes for part in parts])
    thetas = np.minimum.reduce([part.thetas for part in parts])
    order = np.lexsort((hashes, groups))
    numbers = [part.numbers for part in parts if part.numbers is not None]
    return groups[order], hashes[order], np.concatenate(numbers)[order] if numbers else None, thetas


def _starts(groups: Array, hashes: Array) -> Array:
    first = np.ones(len(hashes), np.bool_)
    first[1:] = (hashes[1:] != hashes[:-1]) | (groups[1:] != groups[:-1])
    return np.flatnonzero(first)


def _contained(entries: Entries, others: Entries) -> Array:
    """Whether each entry is also among `others` in the same sketch: bool [n]."""
    groups = np.concatenate([entries.groups, others.groups])
    hashes = np.concatenate([entries.hashes, others.hashes])
    order = np.lexsort((hashes, groups))
    groups, hashes = groups[order], hashes[order]
    same = np.zeros(len(hashes), np.bool_)
    same[:-1] = (hashes[1:] == hashes[:-1]) & (groups[1:] == groups[:-1])
    found = np.zeros(len(hashes), np.bool_)
    found[order] = same
    return found[: len(entries.hashes)]
