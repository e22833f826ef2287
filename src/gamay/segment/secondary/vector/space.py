"""The vectors of a column, and the space in which an index looks for the nearest of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gamay.functions.vector import Vector
from gamay.kernels.vector.clusters import scaled_products, squared_differences
from gamay.segment.encode.vectors import has_vector
from gamay.segment.spi import Ids, IndexSource, NearestSearch, Neighbours

Floats: TypeAlias = "np.ndarray[Any, np.dtype[np.float32]]"

COSINE, PRODUCT, EUCLID = "COSINE", "PRODUCT", "EUCLID"
FAMILIES = {"COSINE": COSINE, "INNER_PRODUCT": PRODUCT, "DOT_PRODUCT": PRODUCT, "EUCLIDEAN": EUCLID, "L2": EUCLID}
"""Distances by what they order vectors by."""
_ROWS_AT_ONCE = 1 << 14
# Squares of larger elements, and sums of smaller ones, are beyond float32.
_LARGEST, _SHORTEST = 1e15, 1e-15


class UnfitError(Exception):
    """Vectors that cannot be indexed; the message says why."""


def read_vectors(column: IndexSource, dimension: int, family: str) -> tuple[Ids, Floats]:
    """Return the rows that can be near something, int32 [n] ascending, and their vectors, float32 [n, dimension].

    Raises UnfitError.
    """
    nulls = np.zeros(column.num_docs, np.bool_)
    if column.null_docs is not None:
        nulls[column.null_docs.to_array()] = True
    docs, vectors = np.empty(column.num_docs, np.int32), np.empty((column.num_docs, dimension), np.float32)
    count = 0
    for start in range(0, column.num_docs, _ROWS_AT_ONCE):
        stop = min(start + _ROWS_AT_ONCE, column.num_docs)
        rows, block = _block(column.values(start, stop), nulls[start:stop], dimension)
        kept = _near_something(block, family)
        last = count + int(np.count_nonzero(kept))
        docs[count:last], vectors[count:last] = rows[kept] + start, block[kept]
        count = last
    return docs[:count], vectors[:count]


def _block(values: Vector, nulls: Any, dimension: int) -> tuple[Ids, Floats]:
    assert values.offsets is not None
    rows = np.flatnonzero(has_vector(values, dimension, nulls))
    starts, lengths = values.offsets[:-1][rows], np.diff(values.offsets)[rows]
    if (lengths != dimension).any():
        raise UnfitError(f"some vectors have {int(lengths[lengths != dimension][0])} elements, not {dimension}")
    if len(rows) == len(nulls) and values.offsets[0] == 0:
        return rows, values.values.reshape(-1, dimension)
    return rows, values.values[starts[:, None] + np.arange(dimension)].reshape(-1, dimension)


def _near_something(vectors: Floats, family: str) -> Any:
    """Return which vectors have a distance at all. Raises UnfitError for what float32 cannot tell apart."""
    largest = np.abs(vectors).max(axis=1, initial=0)
    kept = ~np.isnan(largest)
    if family == COSINE:
        kept &= largest > 0
    if (largest[kept] > _LARGEST).any() or (family == COSINE and (largest[kept] < _SHORTEST).any()):
        raise UnfitError(f"some vectors have elements above {_LARGEST:g}, or none above {_SHORTEST:g}")
    return kept


def lengths(vectors: Floats) -> Floats:
    """Return the lengths of vectors."""
    found: Floats = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    return found


@dataclass(frozen=True)
class Space:
    """Where the nearest by a distance are the nearest points by Euclid's.

    Vectors of COSINE are made equally long, and so are those of PRODUCT by one more element (Bachrach et al.: Speeding
    Up the Xbox Recommender System Using a Euclidean Transformation for Inner-Product Spaces, 2014).
    family: what FAMILIES has. dimension: of vectors. longest: of PRODUCT the greatest length of a vector.
    """

    family: str
    dimension: int
    longest: float = 0.0

    @staticmethod
    def of(family: str, vectors: Floats) -> "Space":
        """Return the space of vectors."""
        longest = float(lengths(vectors).max(initial=0)) if family == PRODUCT else 0.0
        return Space(family, vectors.shape[1], longest)

    @property
    def width(self) -> int:
        """Elements of a point."""
        return self.dimension + (self.family == PRODUCT)

    def points(self, vectors: Floats) -> Floats:
        """Return the points of vectors: float32 [n, width]."""
        if self.family == COSINE:
            return vectors / lengths(vectors)[:, None]
        if self.family == EUCLID:
            return vectors
        rest = np.sqrt(np.maximum(0, self.longest**2 - lengths(vectors).astype(np.float64) ** 2))
        return np.column_stack([vectors, rest.astype(np.float32)])

    def point(self, vector: Floats) -> Floats:
        """Return the point of a vector that is searched for: float32 [width]."""
        if self.family == PRODUCT:
            return np.append(vector, np.float32(0))
        point: Floats = self.points(vector[None])[0]
        return point

    def can_search(self, vector: Floats, distance: str) -> bool:
        """Whether the nearest of a vector by a distance can be told here."""
        if FAMILIES.get(distance) != self.family or len(vector) != self.dimension:
            return False
        largest = float(np.abs(vector).max())
        return largest <= _LARGEST and (self.family == EUCLID or largest >= _SHORTEST)

    def scales(self, vectors: Floats) -> Floats:
        """Return what products with vectors are multiplied by to order them: float32 [n], empty for EUCLID."""
        if self.family == EUCLID:
            return np.empty(0, np.float32)
        return np.reciprocal(lengths(vectors)) if self.family == COSINE else np.ones(len(vectors), np.float32)

    def order(self, vectors: Floats, scales: Floats, ranges: Ids, vector: Floats) -> Floats:
        """Return numbers that order the vectors of row ranges, int64 [k, 2], by their distance from one."""
        out = np.empty(int((ranges[:, 1] - ranges[:, 0]).sum()), np.float32)
        if self.family == EUCLID:
            squared_differences(vectors, ranges, vector, out)
        else:
            scaled_products(vectors, scales, ranges, vector, out)
        return out


def counting(found: Neighbours, search: NearestSearch, num_vectors: int) -> Neighbours | None:
    """Return those candidates that count; None where so few do that nearer ones than theirs may be left out."""
    kept = found
    if search.visible is not None:
        counts = search.visible[found.docs]
        kept = Neighbours(found.docs[counts], found.vectors[counts])
    return kept if len(kept.docs) >= search.count or len(found.docs) == num_vectors else None


# Calibration

SAMPLED = 64
"""Vectors of the segment that are looked for."""
COUNTS = (10, 100, 1000)
"""So many of their neighbours: who asks for more rows has to search further."""
RECALL = 0.98
"""The share of the true neighbours, on average, that an index has to find."""
Enough: TypeAlias = Sequence[tuple[int, int | None]]
"""How far a search has to go for each of COUNTS; None where it is better to look at every vector."""


def sampled(count: int, rng: np.random.Generator) -> Ids:
    """Return the places of the vectors that are looked for."""
    return rng.choice(count, min(SAMPLED, count), replace=False)


def true_neighbours(space: Space, vectors: Floats, scales: Floats, sample: Ids) -> Iterator[Ids]:
    """Yield for each row of a sample the places of the nearest others, the nearest first: int64 [COUNTS[-1] or fewer]."""
    everything = np.array([[0, len(vectors)]])
    count = min(COUNTS[-1], len(vectors) - len(sample))
    for row in sample.tolist():
        order = space.order(vectors, scales, everything, vectors[row])
        order[sample] = np.inf
        nearest = np.argpartition(order, count - 1)[:count] if count else np.empty(0, np.int64)
        yield nearest[np.argsort(order[nearest])]


def enough_for(count: int, enough: Enough) -> int | None:
    """Return how far to search for so many rows; for more than were looked for, in proportion."""
    for known, value in enough:
        if count <= known:
            return value
    known, value = enough[-1]
    return None if value is None else -(-value * count // known)
