"""Geospatial functions: geometries in the plane, and geographies on the globe (SRID 4326; x is longitude, y latitude).

Values are BYTES. They need the packages of the extra `gamay[geo]`, except points and their distances.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base import guard
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arguments import check_count, check_elements, wrong
from gamay.functions.convert import convert, to_vector
from gamay.functions.distinct import distinct_rows
from gamay.functions.expression import Call
from gamay.functions.geometry import (
    GEOGRAPHY,
    Geometry,
    deserialize,
    geo_library,
    point_of,
    points_array,
    serialize,
    type_name,
)
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.define import by_value, each, fixed, scalar, type_of
from gamay.functions.scalar.values import lists_vector
from gamay.functions.vector import Operand, Scalar, Vector, take, take_rows
from gamay.model.types import DataType

STRING, BYTES, INT, LONG, DOUBLE, BOOLEAN = (
    DataType.STRING,
    DataType.BYTES,
    DataType.INT,
    DataType.LONG,
    DataType.DOUBLE,
    DataType.BOOLEAN,
)
EARTH_RADIUS_M = 6_371_010.0


# -- making and printing


@scalar("ST_Point", params=(each(DOUBLE), each(DOUBLE), fixed(BOOLEAN)), returns=BYTES, optional=1)
def st_point(x: Any, y: Any, is_geography: bool = False) -> pa.Array:
    """A point; on the globe if the third argument is true or not 0."""
    x, y = np.broadcast_arrays(np.atleast_1d(x), np.atleast_1d(y))
    return points_array(x, y, bool(is_geography))


def _parsed(parse: str, value: Any) -> Any:
    """Parse with a function of Shapely; raises ValueError for invalid input."""
    shapely = geo_library("shapely")
    try:
        return getattr(shapely, parse)(value)
    except shapely.errors.ShapelyError as error:
        raise ValueError(str(error)) from None


def _reader(parse: str, is_geography: bool) -> Callable[[Any], bytes]:
    def read(value: Any) -> bytes:
        return serialize(Geometry(_parsed(parse, value), is_geography))

    return read


for _form_name, _parse, _source in (
    ("Text", "from_wkt", STRING),
    ("GeoJSON", "from_geojson", STRING),
    ("WKB", "from_wkb", BYTES),
):
    by_value(f"ST_GeomFrom{_form_name}", params=(_source,), returns=BYTES)(_reader(_parse, False))
    by_value(f"ST_GeogFrom{_form_name}", params=(_source,), returns=BYTES)(_reader(_parse, True))


@by_value("ST_Polygon", params=(STRING,), returns=BYTES)
def st_polygon(wkt: str) -> bytes:
    shape = _parsed("from_wkt", wkt)
    if shape.geom_type != "Polygon":
        raise ValueError(f"a POLYGON is needed, not a {shape.geom_type}")
    return serialize(Geometry(shape, False))


@by_value("ST_AsText", params=(BYTES,), returns=STRING)
def st_as_text(geometry: bytes) -> str:
    """Well-known text with as many digits as necessary."""
    shape = deserialize(geometry).shape
    text: str = geo_library("shapely").to_wkt(shape, trim=True, rounding_precision=-1)
    return text


@by_value("ST_AsBinary", params=(BYTES,), returns=BYTES)
def st_as_binary(geometry: bytes) -> bytes:
    """Well-known binary, big-endian."""
    data: bytes = geo_library("shapely").to_wkb(deserialize(geometry).shape, byte_order=0)
    return data


@by_value("ST_AsGeoJSON", params=(BYTES,), returns=STRING)
def st_as_geojson(geometry: bytes) -> str:
    text: str = geo_library("shapely").to_geojson(deserialize(geometry).shape)
    return text


@by_value("ST_GeometryType", params=(BYTES,), returns=STRING)
def st_geometry_type(geometry: bytes) -> str:
    return type_name(geometry)


@by_value("toSphericalGeography", params=(BYTES,), returns=BYTES)
def to_spherical_geography(geometry: bytes) -> bytes:
    return _marked(geometry, True)


@by_value("toGeometry", params=(BYTES,), returns=BYTES)
def to_geometry(geography: bytes) -> bytes:
    return _marked(geography, False)


def _marked(data: bytes, is_geography: bool) -> bytes:
    if type_name(data) == "GeometryCollection":  # its members carry the flag, too
        return serialize(Geometry(deserialize(data).shape, is_geography))
    kind = data[0] | GEOGRAPHY if is_geography else data[0] & ~GEOGRAPHY
    return bytes([kind]) + data[1:]


# -- measuring


def sphere_distance_m(x1: float, y1: float, x2: float, y2: float) -> float:
    """Return the metres between two points of the globe in degrees (longitude, latitude), by the haversine formula."""
    for longitude, latitude in ((x1, y1), (x2, y2)):
        if not (abs(latitude) <= 90 and abs(longitude) <= 180):
            raise ValueError(f"({longitude}, {latitude}) is no longitude and latitude")
    a, b = math.radians(y1), math.radians(y2)
    half = math.sin((b - a) / 2) ** 2 + math.cos(a) * math.cos(b) * math.sin(math.radians(x2 - x1) / 2) ** 2
    return 2 * EARTH_RADIUS_M * math.asin(math.sqrt(min(half, 1.0)))


def _same_space(one: bytes, other: bytes) -> bool:
    """Return whether both are geographies; raises ValueError if only one is."""
    if not one or not other or (one[0] ^ other[0]) & GEOGRAPHY:
        raise ValueError("a geometry and a geography cannot be combined; use toGeometry or toSphericalGeography")
    return bool(one[0] & GEOGRAPHY)


@by_value("ST_Distance", params=(BYTES, BYTES), returns=DOUBLE)
def st_distance(one: bytes, other: bytes) -> float:
    """Metres between two points of the globe; distance in the plane between any two geometries."""
    if _same_space(one, other):
        return sphere_distance_m(*point_of(one), *point_of(other))
    if len(one) == len(other) == 17:
        (x1, y1), (x2, y2) = point_of(one), point_of(other)
        return math.hypot(x2 - x1, y2 - y1)
    distance: float = deserialize(one).shape.distance(deserialize(other).shape)
    return distance


@by_value("ST_Area", params=(BYTES,), returns=DOUBLE)
def st_area(geometry: bytes) -> float:
    """Square metres on the globe (spherical excess times the square of its radius); area in the plane of a geometry."""
    parsed = deserialize(geometry)
    if not parsed.is_geography:
        return float(parsed.shape.area)
    polygons = getattr(parsed.shape, "geoms", [parsed.shape])
    if any(polygon.geom_type != "Polygon" for polygon in polygons):
        raise ValueError(f"the area of a {parsed.shape.geom_type} on the globe is not defined; a polygon is needed")
    return sum(_sphere_area(polygon) for polygon in polygons) * EARTH_RADIUS_M**2


def _sphere_area(polygon: Any) -> float:
    if polygon.is_empty:
        return 0.0
    return abs(_excess(polygon.exterior)) - sum(abs(_excess(hole)) for hole in polygon.interiors)


def _excess(ring: Any) -> float:
    """Return the spherical excess of a ring, in steradians: of the triangles between each edge and the pole.

    tan(E / 2) = tan(dlon / 2) (tan(lat1 / 2) + tan(lat2 / 2)) / (1 + tan(lat1 / 2) tan(lat2 / 2)), edge by edge, as
    https://www.movable-type.co.uk/scripts/latlong-vectors.html derives it; a ring around a pole has another 2 pi.
    """
    longitude, latitude = np.radians(np.asarray(ring.coords)[:, :2]).T
    step = np.diff(longitude)
    step = np.where(step > np.pi, step - 2 * np.pi, np.where(step < -np.pi, step + 2 * np.pi, step))
    tangent = np.tan(latitude / 2)
    first, second = tangent[:-1], tangent[1:]
    excess = float(np.sum(2 * np.arctan2(np.tan(step / 2) * (first + second), 1 + first * second)))
    return abs(excess) - 2 * math.pi if abs(float(np.sum(step))) > math.pi else excess


# -- relations; geographies are treated as in the plane


def _relation(name: str, test: Callable[[Any, Any], bool]) -> None:
    def compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
        result_type(call, [type_of(arg) for arg in args])
        if any(isinstance(arg, Scalar) and arg.value is None for arg in args):
            return Scalar(None, INT)
        constant = all(isinstance(arg, Scalar) for arg in args)
        columns = [to_vector(convert(arg, BYTES), 1 if constant else num_rows) for arg in args]
        answers = related(name, columns[0], columns[1], test)
        return Scalar(int(answers[0]), INT) if constant else Vector(INT, answers, None, _nulls(columns))

    def result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
        check_count(name, len(types), 2, 2)
        for i, (data_type, multi_value) in enumerate(types):
            if multi_value or not (data_type.is_binary or data_type.is_text or data_type is DataType.UNKNOWN):
                raise wrong(name, f"argument {i + 1} must be a single value of BYTES")
        return INT, False

    register_scalar([name], ScalarFunction(name, 2, 2, result_type, compute))


def _nulls(columns: Sequence[Vector]) -> Any:
    given = [column.nulls for column in columns if column.nulls is not None]
    return np.logical_or.reduce(given) if given else None


def related(name: str, left: Vector, right: Vector, test: Callable[[Any, Any], Any]) -> Any:
    """Return for each row whether two geometries are related: int32. Each distinct pair is tested once, in one call."""
    codes, rows = distinct_rows([left, right])
    shapes: dict[bytes, Any] = {}
    try:
        for data in (data for row in rows for data in row):
            if data not in shapes:
                shapes[data] = deserialize(data).shape
        for one, other in rows:
            _same_space(one, other)
    except ValueError as error:
        raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}': {error}") from error
    pairs = np.empty((2, len(rows)), object)
    for i, row in enumerate(rows):
        pairs[:, i] = [shapes[data] for data in row]
    return np.asarray(test(pairs[0], pairs[1])).astype(np.int32)[codes]


def _by_shapely(function: str) -> Callable[[Any, Any], Any]:
    def test(left: Any, right: Any) -> Any:
        shapely = geo_library("shapely")
        few, others = (left, right) if function == "contains" else (right, left)
        if len(set(map(id, few))) * 4 < len(others):
            shapely.prepare(few)
        return getattr(shapely, function)(left, right)

    return test


_relation("ST_Contains", _by_shapely("contains"))
_relation("ST_Within", _by_shapely("within"))
_relation("ST_Equals", _by_shapely("equals"))


# -- cells


def _cell(longitude: float, latitude: float, resolution: int) -> int:
    if not 0 <= resolution <= 15:
        raise ValueError(f"the resolution {resolution} is invalid; it must be from 0 to 15")
    if not (abs(latitude) <= 90 and abs(longitude) <= 180):
        raise ValueError(f"({longitude}, {latitude}) is no longitude and latitude")
    return int(geo_library("h3.api.basic_int").latlng_to_cell(latitude, longitude, resolution))


def _geo_to_h3_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("geoToH3", len(types), 2, 3)
    if any(multi_value for _, multi_value in types):
        raise wrong("geoToH3", "the arguments must be single-value")
    first = types[0][0]
    if first.is_binary != (len(types) == 2) and not first.is_text and first is not DataType.UNKNOWN:
        raise wrong("geoToH3", "the arguments are longitude, latitude and resolution, or a point and a resolution")
    return LONG, False


def _geo_to_h3(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    form = "geoToH3Point" if len(args) == 2 else "geoToH3Degrees"
    return _FORMS[form](args, num_rows)


def _form(params: tuple[DataType, ...], function: Callable[..., int]) -> Callable[[Sequence[Operand], int], Operand]:
    def compute(args: Sequence[Operand], num_rows: int) -> Operand:
        if any(isinstance(arg, Scalar) and arg.value is None for arg in args):
            return Scalar(None, LONG)
        constant = all(isinstance(arg, Scalar) for arg in args)
        rows = 1 if constant else num_rows
        columns = [to_vector(convert(arg, kind), rows) for arg, kind in zip(args, params, strict=True)]
        codes, distinct_args = distinct_rows(columns)
        try:
            cells = np.array([function(*row) for row in distinct_args], np.int64)
        except ValueError as error:
            raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function 'geoToH3': {error}") from error
        values = take(cells, codes)
        return Scalar(int(values[0]), LONG) if constant else Vector(LONG, values, None, _nulls(columns))

    return compute


_FORMS = {
    "geoToH3Point": _form((BYTES, INT), lambda point, resolution: _cell(*point_of(point), resolution)),
    "geoToH3Degrees": _form((DOUBLE, DOUBLE, INT), _cell),
}
register_scalar(["geoToH3"], ScalarFunction("geoToH3", 2, 3, _geo_to_h3_type, _geo_to_h3))


def _checked_cell(h3: Any, cell: int) -> int:
    if not h3.is_valid_cell(cell):
        raise ValueError(f"{cell} is not an H3 cell")
    return cell


@by_value("gridDistance", params=(LONG, LONG), returns=LONG)
def grid_distance(cell: int, other: int) -> int:
    """The number of steps between two H3 cells of one resolution; -1 if H3 cannot compute it, as across a pentagon."""
    h3, errors = geo_library("h3.api.basic_int"), geo_library("h3")
    try:
        return int(h3.grid_distance(_checked_cell(h3, cell), _checked_cell(h3, other)))
    except errors.H3ResMismatchError:
        raise ValueError("the cells have different resolutions") from None
    except errors.H3BaseException:
        return -1


# about 100,000 cells, which take H3 a second or so where there are pentagons, without a way to interrupt it
_STEPS_MAX = 180


@scalar("gridDisk", params=(each(LONG), each(INT)), returns=LONG, multi_value=True)
def grid_disk(cell: Any, k: Any) -> Vector:
    """The H3 cells at most k steps away, in ascending order."""
    h3 = geo_library("h3.api.basic_int")
    cells, steps = np.broadcast_arrays(np.atleast_1d(cell), np.atleast_1d(k))
    radii = steps.astype(np.int64)
    for wrong_one, what in (
        (radii < 0, "few; at least 0 are needed"),
        (radii > _STEPS_MAX, f"many; at most {_STEPS_MAX} are allowed"),
    ):
        if wrong_one.any():
            detail = f"{radii[wrong_one][0]} steps are too {what}"
            raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function 'gridDisk': {detail}")
    check_elements("gridDisk", int((3 * radii * (radii + 1) + 1).sum()))
    pairs, codes = np.unique(np.stack([cells, radii], axis=1), axis=0, return_inverse=True)
    found = []
    for centre, radius in pairs.tolist():
        guard.check()
        if not h3.is_valid_cell(centre):
            raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function 'gridDisk': {centre} is not an H3 cell")
        found.append(sorted(h3.grid_disk(centre, radius)))
    taken = take_rows(lists_vector(found, LONG), codes.ravel())
    assert isinstance(taken, Vector)
    return taken
