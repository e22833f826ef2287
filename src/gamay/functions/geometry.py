"""Geometries as bytes and as objects of Shapely (`pip install 'gamay[geo]'`), which is imported only when needed.

One byte for the type, with 0x80 set for a geography (SRID 4326); then big-endian int32 and float64:

| type | geometry           | what follows                                                                       |
| ---- | ------------------ | ---------------------------------------------------------------------------------- |
| 0    | Point              | x, y; both NaN when empty                                                          |
| 1    | MultiPoint         | number of points, their x and y                                                    |
| 2, 3 | (Multi)LineString  | number of parts, number of points, where each part begins, x and y of every point  |
| 4, 5 | (Multi)Polygon     | the same, a ring being a part; shells run clockwise, holes counter-clockwise       |
| 6    | GeometryCollection | the geometries, each with its type                                                 |

This is the form of geometries in Pinot's segments and clients.
"""

import importlib
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError

GEOGRAPHY = 0x80
POINT = 0
_TYPES = ("Point", "MultiPoint", "LineString", "MultiLineString", "Polygon", "MultiPolygon", "GeometryCollection")
_CODES = {name: code for code, name in enumerate(_TYPES)} | {"LinearRing": 2}
POINT_BYTES = 17


@dataclass(frozen=True, slots=True)
class Geometry:
    """A Shapely geometry, and whether its coordinates are longitude and latitude on the globe."""

    shape: Any
    is_geography: bool


def geo_library(name: str) -> Any:
    """Import shapely, shapely.… or h3; raises QueryError with the command that installs them."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"This function needs the package {name.split('.')[0]}, which is not installed; run: pip install 'gamay[geo]'",
        ) from None


def type_name(data: bytes) -> str:
    """Return the name of a serialised geometry's type; raises ValueError for invalid bytes."""
    code = data[0] & ~GEOGRAPHY if data else len(_TYPES)
    if code >= len(_TYPES):
        raise ValueError(f"{data[:8].hex()}... are not the bytes of a geometry")
    return _TYPES[code]


def point_bytes(x: float, y: float, is_geography: bool) -> bytes:
    """Return the bytes of a point."""
    return struct.pack(">Bdd", POINT | (GEOGRAPHY if is_geography else 0), x, y)


def points_array(x: "np.ndarray[Any, Any]", y: "np.ndarray[Any, Any]", is_geography: bool) -> pa.Array:
    """Return the bytes of points."""
    out = np.empty((len(x), POINT_BYTES), np.uint8)
    out[:, 0] = POINT | (GEOGRAPHY if is_geography else 0)
    out[:, 1:] = np.stack([x, y], axis=1).astype(">f8").view(np.uint8).reshape(len(x), 16)
    offsets = np.arange(len(out) + 1, dtype=np.int32) * POINT_BYTES
    return pa.Array.from_buffers(pa.binary(), len(out), [None, pa.py_buffer(offsets), pa.py_buffer(out)])


def point_of(data: bytes) -> tuple[float, float]:
    """Return x and y of a serialised point; raises ValueError for anything else."""
    if len(data) != POINT_BYTES or data[0] & ~GEOGRAPHY != POINT:
        raise ValueError(f"a point is needed, not a {type_name(data)}")
    x, y = struct.unpack_from(">dd", data, 1)
    return x, y


# -- writing


def serialize(geometry: Geometry) -> bytes:
    """Return the bytes of a geometry; coordinates beyond x and y are dropped."""
    return _written(geometry.shape, GEOGRAPHY if geometry.is_geography else 0)


def _written(shape: Any, flag: int) -> bytes:
    kind = shape.geom_type
    if kind not in _CODES:
        raise ValueError(f"a {kind} cannot be stored")
    code = _CODES[kind]
    head = bytes([code | flag])
    if kind == "GeometryCollection":
        return head + b"".join(_written(part, flag) for part in shape.geoms)
    if kind == "Point":
        x, y = (math.nan, math.nan) if shape.is_empty else (shape.x, shape.y)
        return point_bytes(x, y, bool(flag))
    if kind == "MultiPoint":
        return head + struct.pack(">i", len(shape.geoms)) + _coordinates([np.array([[p.x, p.y]]) for p in shape.geoms])
    parts = _parts(shape, kind)
    starts = np.cumsum([0, *map(len, parts)])
    counts = struct.pack(f">ii{len(parts)}i", len(parts), starts[-1], *starts[:-1])
    return head + counts + _coordinates(parts)


def _parts(shape: Any, kind: str) -> list[Any]:
    """Return the points of each line, or of each ring: float64 [points, 2]."""
    members = list(shape.geoms) if kind.startswith("Multi") else [shape]
    if "Polygon" not in kind:
        return [_flat(line) for line in members if not line.is_empty]
    rings = []
    for polygon in members:
        if polygon.is_empty:
            continue
        rings.append(_turned(_flat(polygon.exterior), clockwise=True))
        rings += [_turned(_flat(hole), clockwise=False) for hole in polygon.interiors]
    return rings


def _flat(line: Any) -> Any:
    return np.asarray(line.coords, np.float64)[:, :2]


def _turned(ring: Any, *, clockwise: bool) -> Any:
    return ring if _is_clockwise(ring) == clockwise else ring[::-1]


def _is_clockwise(ring: Any) -> bool:
    """Return whether a ring is clockwise: the sum of (x2 - x1)(y2 + y1) over its edges, twice its area, is positive then."""
    x, y = ring[:, 0], ring[:, 1]
    return bool(np.sum((x - np.roll(x, 1)) * (y + np.roll(y, 1))) > 0)


def _coordinates(parts: Sequence[Any]) -> bytes:
    return b"".join(part.astype(">f8").tobytes() for part in parts)


# -- reading


def deserialize(data: bytes) -> Geometry:
    """Parse a serialised geometry. Raises ValueError for invalid bytes, QueryError if Shapely is missing."""
    shapely = geo_library("shapely")
    type_name(data)
    try:
        shape, end = _read(shapely, data, 0)
    except (struct.error, IndexError, ValueError, shapely.errors.ShapelyError) as error:
        raise ValueError(f"{data[:8].hex()}... are not the bytes of a geometry: {error}") from None
    if end != len(data):
        raise ValueError(f"{len(data) - end} bytes follow the geometry")
    return Geometry(shape, bool(data[0] & GEOGRAPHY))


def _read(shapely: Any, data: bytes, at: int) -> tuple[Any, int]:
    kind = type_name(data[at:])
    at += 1
    if kind == "GeometryCollection":
        members = []
        while at < len(data):
            member, at = _read(shapely, data, at)
            members.append(member)
        return shapely.GeometryCollection(members), at
    if kind == "Point":
        x, y = struct.unpack_from(">dd", data, at)
        return (shapely.Point() if x != x or y != y else shapely.Point(x, y)), at + 16
    (count,) = struct.unpack_from(">i", data, at)
    at += 4
    if kind == "MultiPoint":
        points, at = _read_points(data, at, count)
        return shapely.MultiPoint(points), at
    (total,) = struct.unpack_from(">i", data, at)
    starts = struct.unpack_from(f">{count}i", data, at + 4)
    points, at = _read_points(data, at + 4 + 4 * count, total)
    parts = np.split(points, starts[1:]) if count else []
    return _shape_of(shapely, kind, parts), at


def _read_points(data: bytes, at: int, count: int) -> tuple[Any, int]:
    if count < 0 or at + 16 * count > len(data):
        raise IndexError(f"{count} points do not fit")
    return np.frombuffer(data, ">f8", 2 * count, at).reshape(-1, 2).astype(np.float64), at + 16 * count


def _shape_of(shapely: Any, kind: str, parts: Sequence[Any]) -> Any:
    if kind == "LineString":
        return shapely.LineString(parts[0]) if parts else shapely.LineString()
    if kind == "MultiLineString":
        return shapely.MultiLineString([shapely.LineString(part) for part in parts])
    groups: list[list[Any]] = []
    for ring in parts:
        if _is_clockwise(ring) or not groups:
            groups.append([])
        groups[-1].append(ring)
    polygons = [shapely.Polygon(rings[0], rings[1:]) for rings in groups]
    if kind == "MultiPolygon":
        return shapely.MultiPolygon(polygons)
    return polygons[0] if polygons else shapely.Polygon()
