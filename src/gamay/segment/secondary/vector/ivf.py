"""IVF index: vectors in lists, each around a centroid; a search reads the lists of the nearest centroids.

centroids := f32[nlist, width], of points (`space.Space`) minus the origin
origin    := f32[width], the mean of the points: the differences are small, so that their products are accurate
starts    := i64[nlist + 1]: list i has the rows [starts[i], starts[i + 1]) of the following arrays
docs      := i32[n], ascending in each list
vectors   := f32[n, dimension]
scales    := f32[n], or f32[0]: `space.Space.scales`
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gamay.kernels.vector.clusters import nearest_centroids, squared_differences
from gamay.segment.encode.format import BufferMeta, BufferWriter
from gamay.segment.secondary.files import read_buffers, write_buffers
from gamay.segment.secondary.vector.space import (
    COUNTS,
    RECALL,
    Enough,
    Floats,
    Space,
    counting,
    enough_for,
    sampled,
    true_neighbours,
)
from gamay.segment.spi import Ids, NearestSearch, Neighbours, SecondaryIndex

_ROUNDS = 10
_SAMPLE_PER_LIST = 64
_ROWS_AT_ONCE = 1 << 14

# Build


def build(docs: Ids, vectors: Floats, space: Space, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Write the index of rows and their vectors; return the content for `open_ivf`."""
    rng = np.random.default_rng(settings.get("trainingSeed", 0))
    count = len(docs)
    nlist = min(settings.get("nlist") or round(count**0.5), count)
    size = min(count, max(nlist, settings.get("trainSampleSize") or _SAMPLE_PER_LIST * nlist))
    sample = space.points(vectors[np.sort(rng.choice(count, size, replace=False))])
    origin = sample.mean(axis=0)
    centroids = k_means(sample - origin, nlist, rng)
    lists = np.concatenate([_assigned(points - origin, centroids) for points in _points(space, vectors)])
    order = np.argsort(lists, kind="stable")
    starts = np.searchsorted(lists[order], np.arange(nlist + 1))
    scales = space.scales(vectors)

    def write(writer: BufferWriter) -> list[BufferMeta]:
        parts = (order[first : first + _ROWS_AT_ONCE] for first in range(0, count, _ROWS_AT_ONCE))
        return [
            writer.add("centroids", [centroids]),
            writer.add("origin", [origin]),
            writer.add("starts", [starts.astype(np.int64)]),
            writer.add("docs", [docs[order]]),
            writer.add("vectors", (vectors[part] for part in parts)),
            writer.add("scales", [scales[order] if len(scales) else scales]),
        ]

    content = {"buffers": write_buffers(folder, write), "longest": space.longest}
    sample = sampled(count, rng)
    points = space.points(vectors[sample]) - origin
    neighbours = [lists[found] for found in true_neighbours(space, vectors, scales, sample)]
    return {**content, "probes": _enough_probes(points, neighbours, centroids)}


def k_means(points: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Return k centroids of points, float32 [k, width], after some rounds of Lloyd's algorithm."""
    centroids = points[np.sort(rng.choice(len(points), k, replace=False))]
    for _ in range(_ROUNDS):
        lists = _assigned(points, centroids)
        sizes = np.bincount(lists, minlength=k)
        order = np.argsort(lists, kind="stable")
        firsts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        used = np.flatnonzero(sizes)
        sums = np.add.reduceat(points[order], firsts[used], axis=0, dtype=np.float64)
        centroids[used] = sums / sizes[used, None]
        # a centroid without points is reset to a random point
        centroids[sizes == 0] = points[rng.choice(len(points), k - len(used))]
    return centroids


def _points(space: Space, vectors: Floats) -> Iterator[Floats]:
    for first in range(0, len(vectors), _ROWS_AT_ONCE):
        yield space.points(vectors[first : first + _ROWS_AT_ONCE])


def _assigned(points: Floats, centroids: Floats) -> Ids:
    nearest = np.empty(len(points), np.int32)
    halves = np.einsum("ij,ij->i", centroids, centroids) / 2
    nearest_centroids(np.ascontiguousarray(points), np.ascontiguousarray(centroids.T), halves, nearest)
    return nearest


def _by_distance(centroids: Floats, point: Floats) -> Ids:
    """Return the lists by the distance of their centroids, nearest first."""
    far = np.empty(len(centroids), np.float32)
    squared_differences(centroids, np.array([[0, len(centroids)]]), point, far)
    return np.argsort(far, kind="stable")


def _enough_probes(points: Floats, neighbours: Sequence[Ids], centroids: Floats) -> Enough:
    """Return the number of lists to read to find most true neighbours. neighbours: the lists of each point's neighbours."""
    ranks = []
    for point, lists in zip(points, neighbours, strict=True):
        rank = np.empty(len(centroids), np.int64)
        rank[_by_distance(centroids, point)] = np.arange(len(centroids))
        ranks.append(rank[lists])
    by_point = np.array(ranks)
    return [
        (count, int(np.quantile(by_point[:, :count], RECALL, method="higher")) + 1 if by_point.size else len(centroids))
        for count in COUNTS
    ]


# Read


def open_ivf(folder: Path, content: Mapping[str, Any], family: str, dimension: int) -> "IvfIndex":
    """Open the index that `build` wrote."""
    return IvfIndex(folder, content, Space(family, dimension, content["longest"]))


class IvfIndex(SecondaryIndex):
    """The vectors of a column in lists."""

    kind = "vector"

    def __init__(self, folder: Path, content: Mapping[str, Any], space: Space) -> None:
        file, buffers = read_buffers(folder, content["buffers"])
        self._space = space
        self._centroids = file.array(buffers["centroids"], np.float32).reshape(-1, space.width)
        self._origin = file.array(buffers["origin"], np.float32)
        self._starts = file.array(buffers["starts"], np.int64)
        self._docs = file.array(buffers["docs"], np.int32)
        self._vectors = file.array(buffers["vectors"], np.float32).reshape(-1, space.dimension)
        self._scales = file.array(buffers["scales"], np.float32)
        self._probes: Enough = content["probes"]

    def nearest(self, search: NearestSearch) -> Neighbours | None:
        space = self._space
        if not space.can_search(search.vector, search.distance):
            return None
        lists = _by_distance(self._centroids, space.point(search.vector) - self._origin)
        sizes = np.cumsum(self._starts[lists + 1] - self._starts[lists])
        # read more lists if these have fewer rows than requested
        probes = search.probes or enough_for(search.count, self._probes) or 1
        probes = max(probes, int(np.searchsorted(sizes, search.candidates)) + 1)
        probed = np.sort(lists[:probes])
        ranges = np.column_stack([self._starts[probed], self._starts[probed + 1]])
        order = space.order(self._vectors, self._scales, ranges, search.vector)
        if len(order) > search.candidates:
            # keep all with the distance of the last one, so that none of equal vectors is preferred
            kept = np.flatnonzero(order <= np.partition(order, search.candidates - 1)[search.candidates - 1])
        else:
            kept = np.arange(len(order))
        places = _places(ranges)[kept]
        places = places[np.argsort(self._docs[places])]
        return counting(Neighbours(self._docs[places], self._vectors[places]), search, len(self._docs))


def _places(ranges: Ids) -> Ids:
    """Return the rows of ranges, int64 [k, 2], in order."""
    sizes = ranges[:, 1] - ranges[:, 0]
    ends = np.cumsum(sizes)
    found: Ids = np.arange(ends[-1]) + np.repeat(ranges[:, 0] - (ends - sizes), sizes)
    return found
