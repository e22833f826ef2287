"""The points of the rows of columns: serialised ones, well-known text, or a longitude and a latitude."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from pyroaring import BitMap

from gamay.functions.arrow import binary_buffers
from gamay.functions.geometry import GEOGRAPHY, POINT, POINT_BYTES, geo_library
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.segment.spi import Ids, IndexSource

_BATCH_ROWS = 1 << 16
_Found: TypeAlias = "tuple[Ids, Ids, Ids, Ids]"
"""Rows of a batch that have points, x and y of each, and whether it is a geography."""


@dataclass(frozen=True)
class Points:
    """The points of some rows.

    docs: uint32 [n], ascending; x, y: float64 [n], degrees of longitude and latitude; is_geography: whether all are
    geographies,
    None if the condition determines it.
    """

    docs: Ids
    x: Ids
    y: Ids
    is_geography: bool | None


def read_points(columns: Sequence[IndexSource]) -> Points:
    """Return the points on the globe; of geometries and geographies, only the more common kind."""
    kind = columns[0].data_type
    read = _READERS.get(kind, _coordinates)
    num_docs = columns[0].num_docs
    found: list[_Found] = []
    for start in range(0, num_docs, _BATCH_ROWS):
        stop = min(start + _BATCH_ROWS, num_docs)
        rows, x, y, flags = read([column.values(start, stop) for column in columns])
        on_globe = (np.abs(x) <= 180) & (np.abs(y) <= 90)
        found.append((rows[on_globe] + start, x[on_globe], y[on_globe], flags[on_globe]))
    if not found:
        return Points(np.empty(0, np.uint32), np.empty(0), np.empty(0), None)
    docs, x, y, flags = (np.concatenate(parts) for parts in zip(*found, strict=True))
    if kind is not DataType.BYTES:
        # a row without one of its coordinates is null, regardless of the default stored in its place
        unknown = [column.null_docs for column in columns if len(columns) > 1 and column.null_docs is not None]
        kept = ~np.isin(docs, np.array(BitMap().union(*unknown), np.int64)) if unknown else slice(None)
        return Points(docs[kept].astype(np.uint32), x[kept], y[kept], None)
    is_geography = 2 * int(np.count_nonzero(flags)) > len(flags)
    kept = flags == is_geography
    return Points(docs[kept].astype(np.uint32), x[kept], y[kept], is_geography)


def _serialised(vectors: Sequence[Vector]) -> _Found:
    offsets, data = binary_buffers(vectors[0].values)
    rows = np.flatnonzero(np.diff(offsets) == POINT_BYTES)
    rows = rows[data[offsets[rows]] & ~np.uint8(GEOGRAPHY) == POINT]
    starts = offsets[rows].astype(np.int64)
    x, y = data[starts[:, None] + np.arange(1, POINT_BYTES)].view(">f8").astype(np.float64).T
    return rows, x, y, data[starts] == GEOGRAPHY


def _texts(vectors: Sequence[Vector]) -> _Found:
    shapely = geo_library("shapely")
    shapes = shapely.from_wkt(vectors[0].values.to_numpy(zero_copy_only=False), on_invalid="ignore")
    rows = np.flatnonzero(shapely.get_type_id(shapes) == 0)  # an empty point has NaN coordinates
    return rows, shapely.get_x(shapes[rows]), shapely.get_y(shapes[rows]), np.zeros(len(rows), np.bool_)


def _coordinates(vectors: Sequence[Vector]) -> _Found:
    x, y = (np.asarray(vector.values, np.float64) for vector in vectors)
    return np.arange(len(x)), x, y, np.zeros(len(x), np.bool_)


_READERS: dict[DataType, Callable[[Sequence[Vector]], Any]] = {DataType.BYTES: _serialised, DataType.STRING: _texts}
