"""Geospatial functions against Shapely, H3 and known values."""

import math
import sys
from typing import Any

import h3.api.basic_int as h3
import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.geometry import Geometry, deserialize, serialize
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

BYTES, DOUBLE, LONG, STRING = DataType.BYTES, DataType.DOUBLE, DataType.LONG, DataType.STRING

SHAPES = [
    "POINT (1 2)",
    "POINT (-2e3 -4e33)",
    "POINT EMPTY",
    "MULTIPOINT ((0 0), (1 1), (2 3))",
    "MULTIPOINT EMPTY",
    "LINESTRING (0 1, 2 3, 4 5)",
    "LINESTRING EMPTY",
    "MULTILINESTRING ((0 1, 2 3, 4 5), (10 10, 20 20))",
    "MULTILINESTRING EMPTY",
    "POLYGON ((30 10, 10 20, 20 40, 40 40, 30 10))",
    "POLYGON ((35 10, 10 20, 15 40, 45 45, 35 10), (20 30, 30 20, 35 35, 20 30))",
    "POLYGON EMPTY",
    "MULTIPOLYGON (((30 20, 10 40, 45 40, 30 20)), ((15 5, 5 10, 10 20, 40 10, 15 5), (15 8, 20 10, 15 12, 15 8)))",
    "MULTIPOLYGON EMPTY",
    "GEOMETRYCOLLECTION (POINT (4 6), LINESTRING (4 6, 7 10), POLYGON ((0 0, 1 1, 1 0, 0 0)))",
    "GEOMETRYCOLLECTION EMPTY",
]


def run(text: str, columns: dict[str, Operand] | None = None, num_rows: int = 1) -> Any:
    given = columns or {}
    expression = parse_expression(text)
    result = evaluate(expression, given.__getitem__, num_rows)
    if isinstance(result, Scalar):
        return result.value
    vector = result.decode() if isinstance(result, EncodedVector) else result
    assert result_type(expression, lambda name: (given[name].type, False)) == (vector.type, vector.is_multi_value)
    listed = vector.values.tolist()
    if vector.offsets is not None:
        return [listed[a:b] for a, b in zip(vector.offsets[:-1], vector.offsets[1:], strict=True)]
    return listed


@pytest.mark.parametrize("wkt", SHAPES)
@pytest.mark.parametrize("is_geography", [False, True])
def test_every_geometry_survives_its_bytes(wkt: str, is_geography: bool) -> None:
    shape = shapely.from_wkt(wkt)
    data = serialize(Geometry(shape, is_geography))
    assert bool(data[0] & 0x80) == is_geography
    back = deserialize(data)
    assert back.is_geography == is_geography
    assert back.shape.geom_type == shape.geom_type
    assert shapely.equals(back.shape, shape) or (back.shape.is_empty and shape.is_empty)


@pytest.mark.parametrize(
    ("wkt", "expected"),
    [
        ("POINT (1 2)", "00" + "3ff0000000000000" + "4000000000000000"),
        ("MULTIPOINT ((0 0))", "01" + "00000001" + "0" * 32),
        ("LINESTRING (0 0, 0 1)", "02" + "00000001" + "00000002" + "00000000" + "0" * 48 + "3ff0000000000000"),
        # the shell is turned so that it runs clockwise
        (
            "POLYGON ((0 0, 1 0, 0 1, 0 0))",
            "04" + "00000001" + "00000004" + "00000000" + "0" * 48 + "3ff0000000000000" * 2 + "0" * 48,
        ),
    ],
)
def test_the_form_of_bytes(wkt: str, expected: str) -> None:
    assert run(f"ST_GeomFromText('{wkt}')").hex() == expected
    assert run(f"ST_GeogFromText('{wkt}')").hex() == f"{int(expected[:2], 16) | 0x80:02x}{expected[2:]}"


@pytest.mark.parametrize("wkt", [wkt for wkt in SHAPES if "EMPTY" not in wkt and "e33" not in wkt])
def test_texts_and_wkb_are_read_and_printed(wkt: str) -> None:
    shape = shapely.from_wkt(wkt)
    data = run(f"ST_GeomFromText('{wkt}')")
    assert run(f"ST_GeometryType(ST_GeomFromText('{wkt}'))") == shape.geom_type
    assert shapely.equals(shapely.from_wkt(run(f"ST_AsText(ST_GeomFromText('{wkt}'))")), shape)
    assert shapely.equals(shapely.from_wkb(run(f"ST_AsBinary(ST_GeomFromText('{wkt}'))")), shape)
    geojson = shapely.to_geojson(shape)
    assert shapely.equals(deserialize(run(f"ST_GeomFromGeoJSON('{geojson}')")).shape, shape)
    assert shapely.equals(shapely.from_geojson(run(f"ST_AsGeoJSON(ST_GeogFromGeoJSON('{geojson}'))")), shape)
    wkb = shapely.to_wkb(shape, hex=True)
    assert shapely.equals(deserialize(run(f"ST_GeomFromWKB('{wkb}')")).shape, shape)
    assert run(f"toGeometry(toSphericalGeography('{data.hex()}'))") == data
    assert deserialize(run(f"toSphericalGeography('{data.hex()}')")).is_geography


_coordinate = st.tuples(st.floats(-179, 179), st.floats(-89, 89))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(_coordinate, _coordinate), min_size=1, max_size=5))
def test_distances(pairs: list[tuple[tuple[float, float], tuple[float, float]]]) -> None:
    columns: dict[str, Operand] = {
        name: Vector(DOUBLE, np.array([pair[i][j] for pair in pairs]))
        for name, i, j in (("x1", 0, 0), ("y1", 0, 1), ("x2", 1, 0), ("y2", 1, 1))
    }
    planar = run("ST_Distance(ST_Point(x1, y1), ST_Point(x2, y2))", columns, len(pairs))
    assert planar == pytest.approx([math.dist(a, b) for a, b in pairs])
    metres = run("ST_Distance(ST_Point(x1, y1, true), ST_Point(x2, y2, 1))", columns, len(pairs))
    for (a, b), found in zip(pairs, metres, strict=True):
        (x1, y1), (x2, y2) = (map(math.radians, point) for point in (a, b))
        # the angle between two vectors, from sine and cosine
        east = math.hypot(
            math.cos(y2) * math.sin(x2 - x1),
            math.cos(y1) * math.sin(y2) - math.sin(y1) * math.cos(y2) * math.cos(x2 - x1),
        )
        north = math.sin(y1) * math.sin(y2) + math.cos(y1) * math.cos(y2) * math.cos(x2 - x1)
        assert found == pytest.approx(6371010 * math.atan2(east, north), rel=1e-6, abs=1e-2)


def test_distances_between_other_geometries() -> None:
    assert run("ST_Distance(ST_GeomFromText('LINESTRING (0 0, 10 0)'), ST_Point(5, 3))") == 3.0
    san_francisco, new_york = "ST_Point(-122.4194, 37.7749, true)", "ST_Point(-73.9857, 40.7484, true)"
    assert run(f"ST_Distance({san_francisco}, {new_york})") == pytest.approx(4_130_000, rel=0.005)


def test_areas() -> None:
    assert run("ST_Area(ST_GeomFromText('POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))'))") == 15.0
    sphere = 4 * math.pi * 6371010**2
    octant = "POLYGON ((0 0, 90 0, 0 90, 0 0))"
    assert run(f"ST_Area(ST_GeogFromText('{octant}'))") == pytest.approx(sphere / 8)
    assert run(f"ST_Area(ST_GeogFromText('{octant.replace('90 0, 0 90', '0 90, 90 0')}'))") == pytest.approx(sphere / 8)
    cap = "POLYGON ((0 0, 90 0, 180 0, -90 0, 0 0))"
    assert run(f"ST_Area(ST_GeogFromText('{cap}'))") == pytest.approx(sphere / 2)
    degree = "POLYGON ((0 0, 1 0, 1 1, 0 1, 0 0))"
    expected = (math.radians(1) * math.sin(math.radians(1))) * 6371010**2
    assert run(f"ST_Area(ST_GeogFromText('{degree}'))") == pytest.approx(expected, rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(1, 4)), min_size=1, max_size=6))
def test_relations_agree_with_shapely(boxes: list[tuple[int, int, int]]) -> None:
    shapes = [shapely.box(x, y, x + size, y + size) for x, y, size in boxes]
    turned = shapes[::-1]
    columns: dict[str, Operand] = {
        "a": Vector(BYTES, pa.array([serialize(Geometry(s, False)) for s in shapes])),
        "b": Vector(BYTES, pa.array([serialize(Geometry(s, False)) for s in turned])),
    }
    for name in ("contains", "within", "equals"):
        expected = getattr(shapely, name)(shapes, turned).astype(int).tolist()
        assert run(f"ST_{name}(a, b)", columns, len(shapes)) == expected
    fixed = shapely.box(1, 1, 5, 5)
    expected = [int(shapely.contains(fixed, shape)) for shape in shapes]
    assert run(f"ST_Contains(ST_GeomFromText('{fixed.wkt}'), a)", columns, len(shapes)) == expected


def test_h3_cells() -> None:
    assert run("geoToH3(-122.4, 37.8, 9)") == h3.latlng_to_cell(37.8, -122.4, 9)
    assert run("geoToH3(ST_Point(-122.4, 37.8), 9)") == h3.latlng_to_cell(37.8, -122.4, 9)
    columns: dict[str, Operand] = {
        "x": Vector(DOUBLE, np.array([-122.4, 2.35, 0.0])),
        "y": Vector(DOUBLE, np.array([37.8, 48.85, 0.0])),
    }
    cells = run("geoToH3(x, y, 7)", columns, 3)
    assert cells == [h3.latlng_to_cell(y, x, 7) for x, y in ((-122.4, 37.8), (2.35, 48.85), (0.0, 0.0))]
    disk = sorted(h3.grid_disk(cells[1], 2))
    columns["c"] = Vector(LONG, np.array([cells[1]] * 3))
    assert run("gridDisk(c, 2)", columns, 3) == [disk] * 3
    assert run(f"gridDisk({cells[1]}, 2)") == [disk]
    assert run(f"gridDistance({cells[1]}, {disk[0]})") == h3.grid_distance(cells[1], disk[0])
    assert run(f"gridDistance({cells[0]}, {cells[2]})") == -1


def test_geohashes_of_known_places() -> None:
    assert run("encodeGeoHash(42.605, -5.603, 5)") == "ezs42"
    assert run("encodeGeoHash(57.64911, 10.40744, 11)") == "u4pruydqqvj"
    assert run("decodeGeoHash('ezs42')") == [pytest.approx([42.60498046875, -5.60302734375])]
    assert run("decodeGeoHashLatitude('EZS42')") == pytest.approx(42.60498046875)
    assert run("decodeGeoHashLon('ezs42')") == pytest.approx(-5.60302734375)
    assert run("encodeGeoHash(90, 180, 1)") == "z"
    assert run("encodeGeoHash(-90, -180, 12)") == "0" * 12


@given(_coordinate, st.integers(1, 12))
def test_a_geohash_decodes_to_its_cell(point: tuple[float, float], precision: int) -> None:
    columns: dict[str, Operand] = {
        "x": Vector(DOUBLE, np.array([point[0], 0.0])),
        "y": Vector(DOUBLE, np.array([point[1], 0.0])),
    }
    text, origin = run(f"encodeGeoHash(y, x, {precision})", columns, 2)
    assert origin == "s" + "0" * (precision - 1)
    latitude, longitude = run(f"decodeGeoHash('{text}')")[0]
    assert abs(latitude - point[1]) <= 90 / 2 ** (5 * precision // 2) * 1.0001
    assert abs(longitude - point[0]) <= 180 / 2 ** ((5 * precision + 1) // 2) * 1.0001
    assert run(f"encodeGeoHash({latitude!r}, {longitude!r}, {precision})") == text


@pytest.mark.parametrize(
    "text",
    [
        "ST_GeomFromText('POINT (1')",
        "ST_GeomFromGeoJSON('{}')",
        "ST_GeomFromWKB('00')",
        "ST_Polygon('POINT (1 2)')",
        "ST_AsText('07')",
        "ST_AsText('00ff')",
        "ST_AsText('')",
        "ST_GeometryType('')",
        "ST_AsText(hexToBytes('0200000001000000010000000000000000000000000000000000000000'))",
        "ST_Distance(ST_Point(1, 2), ST_Point(1, 2, true))",
        "ST_Distance(ST_GeogFromText('LINESTRING (0 0, 1 1)'), ST_Point(1, 2, true))",
        "ST_Distance(ST_Point(1, 91, true), ST_Point(1, 2, true))",
        "ST_Area(ST_GeogFromText('POINT (0 0)'))",
        "ST_Contains(ST_Point(1, 2), ST_Point(1, 2, true))",
        "ST_Contains(ST_Point(1, 2))",
        "geoToH3(1, 2)",
        "geoToH3(1, 2, 16)",
        "geoToH3(ST_Point(1, 2), 3, 4)",
        "geoToH3(1, 200, 3)",
        "gridDistance(1, 2)",
        "gridDisk(1, 2)",
        "encodeGeoHash(91, 0, 3)",
        "encodeGeoHash(1, 0, 13)",
        "decodeGeoHash('a')",
        "decodeGeoHash('')",
    ],
)
def test_what_has_no_result_is_a_clear_error(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        run(text)
    assert caught.value.code in (ErrorCode.QUERY_VALIDATION, ErrorCode.QUERY_EXECUTION)


@pytest.mark.parametrize("text", ["ST_AsText(ST_Point(1, 2))", "geoToH3(1, 2, 3)"])
def test_a_missing_package_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("shapely", "h3", "h3.api.basic_int"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(QueryError, match=r"pip install 'gamay\[geo\]'"):
        run(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gridDisk(1, 2)", "1 is not an H3 cell"),
        ("gridDisk(1, -1)", "-1 steps are too few"),
        ("gridDisk(1, 100000)", "100000 steps are too many; at most 180"),
    ],
)
def test_errors_of_disks_say_which_argument_is_wrong(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        run(text)
