"""Vector search: the rows of a segment nearest to a vector, or all within a distance.

Candidates are all vectors, or those that a vector index returns; their distances are computed and compared in the same way.
A row that is null, or holds only the default of a missing FLOAT, has no vector and is never found.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from pyroaring import BitMap

from gamay.base.arrays import Mask
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.vector import Vector, take_rows
from gamay.kernels.vector.vectors import cosines, dot_products, squared_distances
from gamay.query.bind.predicate import Near
from gamay.query.view.counters import EntryCounter
from gamay.query.view.docset import DocFlags, doc_mask
from gamay.query.view.matches import BLOCK_ROWS, AllDocs, DocIds, DocList, flagged_docs
from gamay.query.view.read import read_values
from gamay.query.view.vector_options import VectorOptions
from gamay.segment.encode.vectors import has_vector
from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.spi import Column, NearestSearch, Neighbours, SecondaryIndex

Distances: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"

# the distance of a row without a vector, or with a zero vector
_NONE = np.nan
# the number of index candidates per row to find
_CANDIDATES_PER_ROW = 10
# With fewer rows per candidate, finding and copying candidates is no faster than scanning the rows.
_ROWS_PER_CANDIDATE = 4


def _of(kernel: Callable[..., None], finish: Callable[[Distances], Distances]) -> Callable[..., Distances]:
    def distances(values: Any, offsets: Any, vector: Any) -> Distances:
        out = np.empty(len(offsets) - 1)
        kernel(values, offsets, vector, np.zeros(len(out), np.int64), out)
        return finish(out)

    return distances


_DISTANCES: dict[str, Callable[..., Distances]] = {
    "COSINE": _of(cosines, lambda found: 1 - found),
    "INNER_PRODUCT": _of(dot_products, np.negative),
    "DOT_PRODUCT": _of(dot_products, np.negative),
    "EUCLIDEAN": _of(squared_distances, lambda found: found),
    "L2": _of(squared_distances, np.sqrt),
}


class NearScan:
    """Computes the distances between the vectors of rows and a given one, and tests whether they are within
    `leaf.radius`."""

    cost = 200.0

    def __init__(self, column: Column, leaf: Near, counter: EntryCounter) -> None:
        self._column, self._leaf, self._counter = column, leaf, counter
        self._vector = np.array(leaf.vector, np.float32)
        self._distances = _DISTANCES[leaf.distance]
        self._nulls = None if column.null_docs is None else doc_mask(column.null_docs, column.num_docs)

    def mask(self, first: int, last: int) -> Mask:
        return self._within(AllDocs(first, last))

    def mask_at(self, docs: DocIds) -> Mask:
        return self._within(DocList(docs))

    def _within(self, block: AllDocs | DocList) -> Mask:
        radius = self._leaf.radius
        assert radius is not None
        within: Mask = self.distances(block) <= radius
        return within

    def distances(self, block: AllDocs | DocList) -> Distances:
        """Return the distance of each row's vector: float64, NaN without one. Raises QueryError if lengths differ."""
        rows = read_values(self._column, block)
        self._counter.add(len(rows.values))
        nulls = None
        if self._nulls is not None:
            nulls = self._nulls[slice(block.start, block.stop) if isinstance(block, AllDocs) else block.ids]
        kept = np.flatnonzero(has_vector(rows, len(self._vector), nulls))
        num_rows = len(rows)
        if len(kept) < len(rows):
            taken = take_rows(rows, kept)
            assert isinstance(taken, Vector)
            rows = taken
        assert rows.offsets is not None
        different = np.flatnonzero(np.diff(rows.offsets) != len(self._vector))
        if len(different):
            length = int(np.diff(rows.offsets)[different[0]])
            raise QueryError(
                ErrorCode.QUERY_EXECUTION,
                f"The vectors of '{self._leaf.column}' have {length} elements in some rows, but the search vector "
                f"has {len(self._vector)}",
            )
        out = np.full(num_rows, _NONE)
        out[kept] = self._distances(rows.values, rows.offsets, self._vector)
        return out

    def neighbours(
        self, indexes: Iterable[SecondaryIndex], options: VectorOptions, num_docs: int, visible: DocFlags | None
    ) -> Neighbours | None:
        """Return the visible candidates of an index; None if every vector must be scanned."""
        count = self._leaf.count
        assert count is not None
        candidates = max(count, options.candidates or _CANDIDATES_PER_ROW * count)
        if visible is not None:
            # request more in proportion to the invalid rows, wherever these are
            candidates = -(-candidates * num_docs // max(1, visible.count))
        if candidates * _ROWS_PER_CANDIDATE > num_docs:
            return None
        mask = None if visible is None else visible.mask
        search = NearestSearch(self._vector, self._leaf.distance, count, candidates, options.probes, options.effort, mask)
        return next((found for index in indexes if (found := index.nearest(search)) is not None), None)

    def distances_of(self, found: Neighbours) -> Distances:
        """Return the distances of candidates: float64."""
        rows, dimension = found.vectors.shape
        self._counter.add(rows * dimension)
        return self._distances(found.vectors.ravel(), np.arange(0, rows * dimension + 1, dimension), self._vector)


def nearest_docs(scan: NearScan, count: int, num_docs: int, visible: Mask | None, found: Neighbours | None = None) -> BitMap:
    """Return the docs with the smallest distances, at most `count`; among equal distances the first docs.

    visible: bool [num_docs], the docs to search; None for all. found: candidates among them, which replace a scan of the
    docs that their index covers.
    """
    best, docs, first = np.empty(0), np.empty(0, np.int64), 0
    if found is not None:
        distances = scan.distances_of(found)
        order = np.argsort(distances, kind="stable")[:count]
        best, docs = distances[order], found.docs[order].astype(np.int64)
        first = num_docs if found.covered is None else found.covered
    for block, ids in _blocks(first, num_docs, visible):
        distances = scan.distances(block)
        nearer = np.flatnonzero(distances < best[-1] if len(best) == count else distances == distances)
        best, docs = np.concatenate([best, distances[nearer]]), np.concatenate([docs, ids[nearer]])
        order = np.argsort(best, kind="stable")[:count]
        best, docs = best[order], docs[order]
    return bitmap_of(docs)


def _blocks(first: int, num_docs: int, visible: Mask | None) -> Iterator[tuple[AllDocs | DocList, DocIds]]:
    """Yield the visible docs from `first` on, block by block, with their ids."""
    for start in range(first, num_docs, BLOCK_ROWS):
        stop = min(num_docs, start + BLOCK_ROWS)
        if visible is None:
            yield AllDocs(start, stop), np.arange(start, stop, dtype=np.int32)
        elif len(ids := flagged_docs(visible[start:stop], start)):
            yield DocList(ids), ids
