"""HNSW index: a graph of vectors with edges to near ones, which a search follows (library usearch).

graph.usearch := the library's file. Keys are docs; the vectors are the column's, for PRODUCT with an additional element.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from usearch.index import Index

from gamay.base.errors import CorruptSegmentError
from gamay.segment.secondary.vector.space import (
    COSINE,
    COUNTS,
    PRODUCT,
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

_FILE = "graph.usearch"
_ROWS_AT_ONCE = 1 << 10
_EFFORT_MIN = 64
# For each node in its candidate list, a search reads some thirty vectors at random addresses; a scan reads this number of
# rows in the same time (20,000 vectors of 128 elements: 400 nodes take 4.5 ms, a scan 8.5 ms).
_ROWS_PER_NODE = 32

# Build


def build(docs: Ids, vectors: Floats, space: Space, settings: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Write the index of rows and their vectors; return the content for `open_hnsw`."""
    graph = Index(
        ndim=space.width,
        metric="cos" if space.family == COSINE else "l2sq",
        dtype="f32",
        connectivity=settings["maxCon"],
        expansion_add=settings["beamWidth"],
    )
    sample = sampled(len(docs), np.random.default_rng(0))
    others = np.setdiff1d(np.arange(len(docs)), sample)
    for rows in np.split(others, range(_ROWS_AT_ONCE, len(others), _ROWS_AT_ONCE)):
        _add(graph, space, docs[rows], vectors[rows])
    # before the sample is added to the graph: a search that starts at its target would find all its neighbours
    wanted = [docs[found] for found in true_neighbours(space, vectors, space.scales(vectors), sample)]
    searched = [_searched(space, vector) for vector in vectors[sample]]
    efforts = [(count, _enough_effort(graph, searched, [keys[:count] for keys in wanted], len(docs))) for count in COUNTS]
    _add(graph, space, docs[sample], vectors[sample])
    graph.save(str(folder / _FILE))
    return {"longest": space.longest, "efforts": efforts, "rows": len(docs)}


def _add(graph: Any, space: Space, docs: Ids, vectors: Floats) -> None:
    if len(docs):
        graph.add(docs.astype(np.uint64), _stored(space, vectors), threads=1)


def _stored(space: Space, vectors: Floats) -> Floats:
    return space.points(vectors) if space.family == PRODUCT else vectors


def _enough_effort(graph: Any, searched: Sequence[Floats], wanted: Sequence[Ids], rows: int) -> int | None:
    """Return the least number of candidate nodes to find most true neighbours; None if a scan is as fast."""
    total = sum(map(len, wanted))
    effort = max(_EFFORT_MIN, len(wanted[0]))
    while effort * _ROWS_PER_NODE <= rows and total:
        keys = (graph.search(vector, effort, threads=1).keys for vector in searched)
        found = sum(int(np.isin(neighbours, near).sum()) for neighbours, near in zip(wanted, keys, strict=True))
        if found >= RECALL * total:
            return effort
        effort *= 2
    return None


def _searched(space: Space, vector: Floats) -> Floats:
    return space.point(vector) if space.family == PRODUCT else vector


# Read


def open_hnsw(folder: Path, content: Mapping[str, Any], family: str, dimension: int) -> "HnswIndex":
    """Open the index that `build` wrote; raises CorruptSegmentError."""
    graph = Index.restore(str(folder / _FILE), view=True)
    if graph is None or len(graph) != content["rows"]:
        raise CorruptSegmentError(f"{folder / _FILE} is no graph of {content['rows']} vectors")
    return HnswIndex(graph, content["efforts"], Space(family, dimension, content["longest"]))


class HnswIndex(SecondaryIndex):
    """A graph of a column's vectors. efforts: numbers of candidate nodes for a search."""

    kind = "vector"

    def __init__(self, graph: Any, efforts: Enough, space: Space) -> None:
        self._graph = graph
        self._efforts = efforts
        self._space = space

    def nearest(self, search: NearestSearch) -> Neighbours | None:
        effort = search.effort or enough_for(search.count, self._efforts)
        if effort is None or not self._space.can_search(search.vector, search.distance):
            return None
        effort = max(effort, search.candidates)
        if search.effort is None and effort * _ROWS_PER_NODE > len(self._graph):
            return None
        # the library uses as many candidate nodes as it has to return
        keys = self._graph.search(_searched(self._space, search.vector), effort, threads=1).keys[: search.candidates]
        docs = np.sort(keys)
        vectors = np.asarray(self._graph.get(docs)).reshape(-1, self._space.width)[:, : self._space.dimension]
        found = Neighbours(docs.astype(np.int32), np.ascontiguousarray(vectors))
        return counting(found, search, len(self._graph))
