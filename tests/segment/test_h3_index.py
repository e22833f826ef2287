"""The H3 index against the functions computed for every row."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap

from gamay.base.errors import CorruptSegmentError
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.geometry import Geometry, point_bytes, points_array, serialize
from gamay.functions.scalar.geo.geometries import EARTH_RADIUS_M, sphere_distance_m
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.segment.secondary.growing import BlockedIndex
from gamay.segment.secondary.h3.index import H3
from gamay.segment.secondary.h3.regions import Bounds, SphereRing
from gamay.segment.spi import SecondaryIndex

shapely = pytest.importorskip("shapely")
pytest.importorskip("h3")

POINT, X, Y = Column("point"), Column("x"), Column("y")
HALF_M = math.pi * EARTH_RADIUS_M


@dataclass
class Rows:
    """The rows of a column; implements `IndexSource`."""

    name: str
    data_type: DataType
    column: Any
    null_docs: BitMap | None = None
    single_value = True
    dictionary = None

    @property
    def num_docs(self) -> int:
        return len(self.column)

    def values(self, start: int, stop: int) -> Vector:
        return Vector(self.data_type, self.column[start:stop])


def built(columns: Sequence[Rows], resolutions: list[int], folder: Path) -> SecondaryIndex:
    content = H3.build(columns, {"resolutions": resolutions}, folder)
    H3.check(folder, content, columns)
    return H3.open(folder, content, columns, {})


def scanned(condition: Expression, columns: Sequence[Rows]) -> list[int]:
    of = {column.name: column.values(0, column.num_docs) for column in columns}
    found = evaluate(condition, of.__getitem__, columns[0].num_docs)
    return np.flatnonzero(found.values).tolist()  # type: ignore[union-attr]


def call(name: str, *args: Any) -> Call:
    return Call(name, tuple(arg if isinstance(arg, Call | Column | Literal) else literal(arg) for arg in args))


def literal(value: Any) -> Literal:
    types = {bytes: DataType.BYTES, bool: DataType.BOOLEAN, int: DataType.LONG, float: DataType.DOUBLE}
    return Literal(value, types[type(value)])


def places(seed: int, count: int) -> tuple[Any, Any]:
    """Return longitudes and latitudes: everywhere, in clusters of all sizes, at poles, at 180 degrees, on whole degrees."""
    rng = np.random.default_rng(seed)
    x, y = rng.uniform(-180, 180, count), np.degrees(np.arcsin(rng.uniform(-1, 1, count)))
    centre, part = rng.integers(0, count, count), count // 8
    spread = 10.0 ** rng.uniform(-9, 1, count)
    x, y = x[centre // 9] + rng.normal(0, spread), y[centre // 9] + rng.normal(0, spread)
    y[:part] = rng.choice([-90, 90], part) + rng.normal(0, 10.0 ** rng.uniform(-12, 0, part))
    x[part : 2 * part] = rng.choice([-180, 180], part) + rng.normal(0, 10.0 ** rng.uniform(-12, 0, part))
    x[2 * part : 3 * part], y[2 * part : 3 * part] = np.round(x[2 * part : 3 * part]), np.round(y[2 * part : 3 * part])
    y[3 * part : 3 * part + 3], x[3 * part : 3 * part + 5] = [-90, 90, 0], [-180, 180, 0, -0.0, 180]
    order = rng.permutation(count)
    return np.clip(x, -180, 180)[order], np.clip(y, -90, 90)[order]


def target(x: Any, y: Any, rng: np.random.Generator) -> tuple[float, float]:
    """Return a point: one of those, its antipode, one beside it, or a special one."""
    i = int(rng.integers(len(x)))
    own = float(x[i]), float(y[i])
    far = own[0] - math.copysign(180, own[0]), -own[1]
    near = np.clip(own[0] + rng.normal(0, 1e-3), -180, 180), np.clip(own[1] + rng.normal(0, 1e-3), -90, 90)
    special = [(0.0, 90.0), (33.0, -90.0), (180.0, 0.0), (-180.0, 12.0), (0.0, 0.0)]
    return [own, far, (float(near[0]), float(near[1])), special[int(rng.integers(5))]][int(rng.integers(4))]


def compared(distance: Call, limits: tuple[float, float], rng: np.random.Generator) -> Call:
    low, high = sorted(limits)
    forms = [
        call("lessthan", distance, high), call("lessthanorequal", distance, low), call("greaterthan", distance, high),
        call("greaterthanorequal", distance, low), call("between", distance, low, high), call("lessthan", low, distance),
        call("greaterthanorequal", high, distance), call("not", call("lessthan", distance, high)),
        call("not", call("between", distance, low, high)),
    ]  # fmt: skip
    return forms[int(rng.integers(len(forms)))]


def agree(index: SecondaryIndex, condition: Call, columns: Sequence[Rows]) -> None:
    found = index.find(condition)
    assert found is not None
    assert found.is_exact
    assert list(found.docs) == scanned(condition, columns), condition


@settings(max_examples=24, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    resolutions=st.sampled_from([[0], [5], [3, 9], [15], [0, 4, 8, 12]]),
    is_geography=st.booleans(),
)
def test_distances_are_those_of_the_function(seed: int, resolutions: list[int], is_geography: bool) -> None:
    rng = np.random.default_rng(seed)
    x, y = places(seed, 200)
    columns = [Rows("point", DataType.BYTES, points_array(x, y, is_geography))]
    unit = 1.0 if is_geography else 1e-5
    with TemporaryDirectory() as folder:
        index = built(columns, resolutions, Path(folder))
        for _ in range(12):
            place = target(x, y, rng)
            if is_geography or rng.random() < 0.5:
                constant = point_bytes(*place, is_geography)
            else:
                line = shapely.LineString([place, target(x, y, rng), target(x, y, rng)])
                constant = serialize(Geometry(line if rng.random() < 0.5 else line.envelope, False))
            arguments = (POINT, literal(constant)) if rng.random() < 0.5 else (literal(constant), POINT)
            distance = call("stdistance", *arguments)
            # distances that rows have to the last bit, and others from nothing to beyond the globe
            exact = evaluate(distance, lambda _: columns[0].values(0, 200), 200).values  # type: ignore[union-attr]
            limits = [float(exact[rng.integers(200)]), float(unit * 10 ** rng.uniform(-7, 7.5)), 0.0, -1.0, HALF_M, math.inf]
            chosen = (limits[int(rng.integers(6))], limits[int(rng.integers(2))])
            agree(index, compared(distance, chosen, rng), columns)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1 << 30))
@example(seed=0)
def test_what_is_said_of_a_box_holds_for_its_points(seed: int) -> None:
    """The limits are actual distances of points, so that bounds that are slightly too narrow are noticed."""
    rng = np.random.default_rng(seed)
    for _ in range(30):
        (width, height), (longitude, latitude) = 10 ** rng.uniform(-6, 2.5, 2), target(*places(seed, 16), rng)
        x = np.clip(rng.uniform(-180, 180) + rng.uniform(-width, width, 60), -180, 180)
        y = np.clip(rng.choice([0, 90, rng.uniform(-90, 90)]) + rng.uniform(-height, height, 60), -90, 90)
        x0, x1, y0, y1 = x.min(), x.max(), y.min(), y.max()
        # corners, and where distances are least and greatest along an edge
        x[:8], y[:8] = [x0, x1] * 4, [y0, y0, y1, y1] * 2
        x[8:24], y[8:24] = np.repeat(np.clip([longitude, longitude + 180, longitude - 180, x0], x0, x1), 4), y[4:20]
        y[24:36], x[24:36] = np.clip([0, latitude, -latitude], y0, y1).repeat(4), x[6:18]
        distances = [sphere_distance_m(longitude, latitude, a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
        box = [np.array([end]) for end in (x0, x1, y0, y1)]
        least, greatest = min(distances), max(distances)
        margin = 1e-5 + 1e-9 * greatest
        if greatest < 0.999 * HALF_M:  # beyond, distances are known to some metres only
            for bounds in (Bounds(-1, greatest - margin), Bounds(least + margin, math.inf)):
                inside, _ = SphereRing(longitude, latitude, bounds).classify(*box)
                assert not inside[0], (box, bounds)
            for bounds in (Bounds(-1, least + margin), Bounds(greatest - margin, math.inf)):
                inside, unknown = SphereRing(longitude, latitude, bounds).classify(*box)
                assert inside[0] or unknown[0], (box, bounds)


def polygon(x: Any, y: Any, rng: np.random.Generator) -> Any:
    """Return a valid shape with corners at points, or of whole degrees, perhaps with holes and several parts."""
    kind = int(rng.integers(4))
    if kind == 0:
        west, south = int(rng.integers(-180, 170)), int(rng.integers(-90, 80))
        shape = shapely.box(west, south, west + rng.integers(1, 300), south + rng.integers(1, 120))
        return shape.difference(shapely.box(west + 0.25, south + 0.25, west + 0.5, south + 0.5))
    some = rng.integers(0, len(x), 6)
    hull = shapely.MultiPoint(list(zip(x[some], y[some], strict=True))).convex_hull
    if kind == 1:
        return hull
    reach = 10 ** rng.uniform(-7, 1)
    discs = shapely.union_all([shapely.Point(x[i], y[i]).buffer(reach, quad_segs=3) for i in some])
    return discs if kind == 2 else discs.difference(discs.buffer(-reach / 2))


@settings(max_examples=16, deadline=None)
@given(seed=st.integers(0, 1 << 30), resolutions=st.sampled_from([[5], [3, 9], [15]]), is_geography=st.booleans())
@example(seed=3, resolutions=[4], is_geography=True)
def test_relations_are_those_of_the_functions(seed: int, resolutions: list[int], is_geography: bool) -> None:
    rng = np.random.default_rng(seed)
    x, y = places(seed, 300)
    columns = [Rows("point", DataType.BYTES, points_array(x, y, is_geography))]
    with TemporaryDirectory() as folder:
        index = built(columns, resolutions, Path(folder))
        for _ in range(10):
            shape = polygon(x, y, rng)
            if shape.is_empty or not shape.is_valid:
                continue
            constant = literal(serialize(Geometry(shape, is_geography)))
            own = literal(point_bytes(*target(x, y, rng), is_geography))
            relation = [
                call("stwithin", POINT, constant), call("stcontains", constant, POINT), call("stequals", POINT, own),
                call("stcontains", POINT, own), call("stwithin", constant, POINT), call("stwithin", POINT, own),
            ][int(rng.choice(6, p=[0.4, 0.3, 0.1, 0.1, 0.05, 0.05]))]  # fmt: skip
            forms = [
                call("equals", relation, 1), call("equals", relation, 0), call("notequals", relation, 1),
                call("greaterthan", relation, 0), call("equals", 1, relation), call("not", call("equals", relation, 1)),
            ]  # fmt: skip
            agree(index, forms[int(rng.integers(6))], columns)


@pytest.mark.parametrize("is_geography", [False, True])
def test_texts_and_pairs_of_numbers_are_points_too(tmp_path: Path, is_geography: bool) -> None:
    x, y = places(7, 500)
    texts = pa.array([f"POINT ({a!r} {b!r})" for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    of_text = [Rows("wkt", DataType.STRING, texts)]
    kind, numbers = (DataType.DOUBLE, np.float64) if is_geography else (DataType.FLOAT, np.float32)
    of_numbers = [Rows("x", kind, x.astype(numbers)), Rows("y", kind, y.astype(numbers))]
    makers = {True: ("stgeogfromtext", (X, Y, literal(True))), False: ("stgeomfromtext", (X, Y))}
    name, arguments = makers[is_geography]
    radius = 2_000_000.0 if is_geography else 20.0
    constant = literal(point_bytes(10.0, 80.0, is_geography))
    for columns, point in ((of_text, call(name, Column("wkt"))), (of_numbers, call("stpoint", *arguments))):
        folder = tmp_path / columns[0].name
        folder.mkdir()
        index = built(columns, [6], folder)
        condition = call("lessthan", call("stdistance", point, constant), radius)
        agree(index, condition, columns)
        assert 0 < len(scanned(condition, columns)) < 500
    swapped = call("lessthan", call("stdistance", call("stpoint", Y, X), constant), radius)
    assert index.find(swapped) is None


def test_rows_without_a_point_are_left_to_be_tested(tmp_path: Path) -> None:
    line = serialize(Geometry(shapely.LineString([(0, 0), (1, 1)]), True))
    near, far, plane = point_bytes(1, 1, True), point_bytes(50, 1, True), point_bytes(1, 1, False)
    beyond, empty = point_bytes(181, 0, True), point_bytes(math.nan, math.nan, True)
    values = [near, line, far, plane, b"", near, beyond, empty, b"\x80short", b"\x84" + near[1:]]
    index = built([Rows("point", DataType.BYTES, pa.array(values))], [5], tmp_path)
    found = index.find(call("lessthan", call("stdistance", POINT, near), 1000.0))
    assert found is not None
    assert not found.is_exact
    assert (list(found.docs), list(found.unsure or ())) == ([0, 1, 3, 4, 5, 6, 7, 8, 9], [1, 3, 4, 6, 7, 8, 9])


def test_blocks_of_rows_tell_together_what_is_to_be_tested(tmp_path: Path) -> None:
    near, far = point_bytes(1, 1, True), point_bytes(50, 1, True)
    condition = call("lessthan", call("stdistance", POINT, near), 1000.0)
    blocks = []
    for number, values in enumerate(([near, far, far, near], [b"", near, far, far])):
        folder = tmp_path / str(number)
        folder.mkdir()
        blocks.append(built([Rows("point", DataType.BYTES, pa.array(values))], [5], folder))
    found = BlockedIndex("h3", blocks, 4).find(condition)
    assert found is not None
    assert (list(found.docs), found.is_exact, found.covered, list(found.unsure or ())) == ([0, 3, 4, 5], False, 8, [4])
    found = BlockedIndex("h3", blocks[:1], 4).find(condition)
    assert found is not None
    assert (list(found.docs), found.is_exact, found.covered, found.unsure) == ([0, 3], True, 4, None)


BOWTIE = "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))"


@pytest.mark.parametrize(
    "condition",
    [
        call("lessthan", call("stdistance", POINT, point_bytes(1, 1, False)), 5.0),
        call("lessthan", call("stdistance", POINT, b""), 5.0),
        call("lessthan", call("stdistance", POINT, b"\x80\x00"), 5.0),
        call("lessthan", call("stdistance", POINT, point_bytes(200, 1, True)), 5.0),
        call("lessthan", call("stdistance", POINT, point_bytes(1, 1, True)), math.nan),
        call("lessthan", call("stdistance", POINT, POINT), 5.0),
        call("lessthan", call("stdistance", Column("other"), point_bytes(1, 1, True)), 5.0),
        call("equals", call("stdistance", POINT, point_bytes(1, 1, True)), 5.0),
        call("equals", call("stwithin", POINT, serialize(Geometry(shapely.from_wkt(BOWTIE), True))), 1),
        call("greaterthan", call("stwithin", POINT, point_bytes(1, 1, True)), 1),
        call("equals", POINT, b""),
    ],
    ids=lambda condition: condition.name,
)
def test_other_conditions_are_left_to_the_scan(tmp_path: Path, condition: Call) -> None:
    x, y = places(1, 100)
    assert built([Rows("point", DataType.BYTES, points_array(x, y, True))], [5], tmp_path).find(condition) is None


def test_an_index_of_no_points_answers_nothing(tmp_path: Path) -> None:
    for count in (0, 3):
        folder = tmp_path / str(count)
        folder.mkdir()
        index = built([Rows("point", DataType.BYTES, pa.array([b""] * count, pa.binary()))], [5], folder)
        assert index.find(call("lessthan", call("stdistance", POINT, point_bytes(1, 1, True)), 5.0)) is None


@pytest.mark.parametrize("kind", ["points.docs", "points.x", "others", "levels[0].starts", "levels[0].boxes"])
def test_files_of_others_that_are_damaged_are_noticed(tmp_path: Path, kind: str) -> None:
    x, y = places(1, 2000)
    values = [*points_array(x, y, True).to_pylist(), *[b""] * 5]
    columns = [Rows("point", DataType.BYTES, pa.array(values))]
    content = H3.build(columns, {"resolutions": [5, 9]}, tmp_path)
    H3.check(tmp_path, content, columns)
    at, size = next((offset, size) for name, offset, size, _ in content["buffers"] if name == kind)
    raw = bytearray((tmp_path / "index.bin").read_bytes())
    for place in (at, at + size // 2, at + size - 1):
        damaged = raw.copy()
        damaged[place] ^= 0x44
        (tmp_path / "index.bin").write_bytes(damaged)
        with pytest.raises(CorruptSegmentError):
            H3.check(tmp_path, content, columns)
    (tmp_path / "index.bin").write_bytes(raw)
    with pytest.raises(CorruptSegmentError):
        H3.check(tmp_path, content | {"levels": [1] * 9}, columns)
