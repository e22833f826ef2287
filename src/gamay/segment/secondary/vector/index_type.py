"""The vector index type."""

import logging
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gamay.base.errors import CorruptSegmentError
from gamay.model.index.vector_index import HNSW_LIBRARY
from gamay.segment.secondary.vector.space import FAMILIES, Space, UnfitError, read_vectors
from gamay.segment.spi import IndexSource, SecondaryIndex

_log = logging.getLogger(__name__)
MIN_ROWS = 4096
"""Default of `minRowsForIndex`, the least number of vectors with an index: scanning fewer takes a millisecond."""
_HNSW, _IVF = "HNSW", "IVF"


class VectorIndexType:
    """Implements `IndexType` for multi-value FLOAT columns.

    The library's file cannot be verified, so each server builds its own.
    """

    kind = "vector"
    needs = None
    extra = "vector"
    of_blocks = True
    is_portable = False

    def build(self, columns: Sequence[IndexSource], settings: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
        (column,) = columns
        family = FAMILIES[settings["vectorDistanceFunction"]]
        try:
            docs, vectors = read_vectors(column, settings["vectorDimension"], family)
        except UnfitError as error:
            _log.warning("the vectors of '%s' are searched without an index: %s", column.name, error)
            return {"form": None}
        least = settings.get("minRowsForIndex")
        if len(docs) < max(1, MIN_ROWS if least is None else least):
            return {"form": None}
        space = Space.of(family, vectors)
        if settings["vectorIndexType"] == "HNSW" and _has_library():
            from gamay.segment.secondary.vector import hnsw

            return {"form": _HNSW, **hnsw.build(docs, vectors, space, settings, folder)}
        from gamay.segment.secondary.vector import ivf

        return {"form": _IVF, **ivf.build(docs, vectors, space, settings, folder)}

    def open(
        self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource], settings: Mapping[str, Any]
    ) -> SecondaryIndex:
        family, dimension = FAMILIES[settings["vectorDistanceFunction"]], settings["vectorDimension"]
        if content["form"] == _IVF:
            from gamay.segment.secondary.vector.ivf import open_ivf

            return open_ivf(folder, content, family, dimension)
        if content["form"] == _HNSW and _has_library():
            from gamay.segment.secondary.vector.hnsw import open_hnsw

            return open_hnsw(folder, content, family, dimension)
        return _NoIndex()

    def check(self, folder: Path, content: Mapping[str, Any], columns: Sequence[IndexSource]) -> None:
        raise CorruptSegmentError(f"{folder} came with its segment; vector indexes of unknown origin are not used")


class _NoIndex(SecondaryIndex):
    """Placeholder where a scan of the vectors is faster; it answers no query."""

    kind = "vector"


def _has_library() -> bool:
    return find_spec(HNSW_LIBRARY) is not None


VECTOR = VectorIndexType()
