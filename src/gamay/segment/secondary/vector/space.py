"""The vectors of a column, and the space in which an index searches for the nearest of them."""

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
"""The family of each distance: distances of a family order vectors equally."""
_ROWS_AT_ONCE = 1 << 14
# Squares of larger elements overflow float32, and those of smaller ones underflow.
_LARGEST, _SHORTEST = 1e15, 1e-15


class UnfitError(Exception):
    """Vectors cannot be indexed; the message says why."""


def read_vectors(column: IndexSource, dimension: int, family: str) -> tuple[Ids, Floats]:
    """Return the rows that have a distance, int32 [n] ascending, and their vectors, float32 [n, dimension].

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
    """Return which vectors have a distance. Raises UnfitError for vectors beyond the precision of float32."""
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
    """A space in which the nearest vectors by a distance are the nearest points by Euclidean distance.

    Vectors of COSINE are normalised to equal length, and those of PRODUCT by an additional element (Bachrach et al.:
    Speeding Up the Xbox Recommender System Using a Euclidean Transformation for Inner-Product Spaces, 2014).
    family: a value of FAMILIES. dimension: of vectors. longest: for PRODUCT, the greatest length of a vector.
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
        """The number of elements of a point."""
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
        """Return the point of a query vector: float32 [width]."""
        if self.family == PRODUCT:
            return np.append(vector, np.float32(0))
        point: Floats = self.points(vector[None])[0]
        return point

    def can_search(self, vector: Floats, distance: str) -> bool:
        """Whether the space supports a search for a vector by a distance."""
        if FAMILIES.get(distance) != self.family or len(vector) != self.dimension:
            return False
        largest = float(np.abs(vector).max())
        return largest <= _LARGEST and (self.family == EUCLID or largest >= _SHORTEST)

    def scales(self, vectors: Floats) -> Floats:
        """Return the factors of products with vectors by which these are ordered: float32 [n], empty for EUCLID."""
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
    """Return the valid candidates; None if they are so few that nearer rows may be missing."""
    kept = found
    if search.visible is not None:
        counts = search.visible[found.docs]
        kept = Neighbours(found.docs[counts], found.vectors[counts])
    return kept if len(kept.docs) >= search.count or len(found.docs) == num_vectors else None


# Calibration

SAMPLED = 64
"""Number of the segment's vectors that are searched for in the calibration."""
COUNTS = (10, 100, 1000)
"""Numbers of neighbours to calibrate for: queries for more rows have to search further."""
RECALL = 0.98
"""The average fraction of true neighbours that an index must find."""
Enough: TypeAlias = Sequence[tuple[int, int | None]]
"""The search effort for each of COUNTS; None if a scan is faster."""


def sampled(count: int, rng: np.random.Generator) -> Ids:
    """Return the positions of the vectors to search for."""
    return rng.choice(count, min(SAMPLED, count), replace=False)


def true_neighbours(space: Space, vectors: Floats, scales: Floats, sample: Ids) -> Iterator[Ids]:
    """Yield for each sampled row the positions of its nearest neighbours, nearest first: int64 [COUNTS[-1] or fewer]."""
    everything = np.array([[0, len(vectors)]])
    count = min(COUNTS[-1], len(vectors) - len(sample))
    for row in sample.tolist():
        order = space.order(vectors, scales, everything, vectors[row])
        order[sample] = np.inf
        nearest = np.argpartition(order, count - 1)[:count] if count else np.empty(0, np.int64)
        yield nearest[np.argsort(order[nearest])]


def enough_for(count: int, enough: Enough) -> int | None:
    """Return the search effort for `count` rows; beyond the calibrated counts, in proportion."""
    for known, value in enough:
        if count <= known:
            return value
    known, value = enough[-1]
    return None if value is None else -(-value * count // known)
