"""H3 indexes of tables: answers, combination with other conditions and nulls, and changes of the table config."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gamay
from gamay.embedded.database import Database
from gamay.functions.geometry import points_array
from gamay.segment.describe import describe
from gamay.segment.secondary.h3.index import H3IndexType
from gamay.segment.secondary.registry import missing_extra

pytest.importorskip("shapely")
pytest.importorskip("h3")

COUNT = 3000
SCHEMA = {
    "enableColumnBasedNullHandling": True,
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "place", "dataType": "BYTES", "defaultNullValue": "80" + "0" * 32},
        {"name": "wkt", "dataType": "STRING", "defaultNullValue": "POINT (0 0)"},
        {"name": "lon", "dataType": "DOUBLE", "defaultNullValue": 0.0},
        {"name": "lat", "dataType": "DOUBLE", "defaultNullValue": 0.0},
    ],
}
H3 = {"h3": {"resolution": [4, 7]}}
FIELDS: list[dict[str, Any]] = [
    {"name": "place", "encodingType": "RAW", "indexes": H3},
    {"name": "wkt", "indexType": "H3", "properties": {"resolutions": "3, 6"}},
    {"name": "lon", "encodingType": "RAW", "indexes": {"h3": {"latitudeColumn": "lat"}}},
]
CENTRE = "ST_Point(0, 0, 1)"
AREA = "ST_GeogFromText('POLYGON ((-1 -1, 2 -1, 2 2, -1 2, -1 -1), (0.5 0.5, 1 0.5, 1 1, 0.5 1, 0.5 0.5))')"
POINTS = {"place": "place", "wkt": "ST_GeogFromText(wkt)", "lon": "ST_Point(lon, lat, 1)"}
CONDITIONS = [
    f"{{}} < 50000 AND id > {COUNT // 2}",
    "{} <= 50000 OR id < 10",
    "NOT {} BETWEEN 50000 AND 200000",
    "id < 2000 AND NOT ({} > 90000 OR id % 3 = 0)",
]


def rows(with_nulls: bool = True) -> pa.Table:
    rng = np.random.default_rng(5)
    x, y = rng.normal(0, 2, COUNT), rng.normal(0, 2, COUNT)
    known = [None if with_nulls and n % 5 == 0 else True for n in range(COUNT)]
    kept = pa.array([one is not None for one in known])
    texts = pa.array([f"POINT ({a!r} {b!r})" for a, b in zip(x.tolist(), y.tolist(), strict=True)])
    columns = {"place": points_array(x, y, True), "wkt": texts, "lon": pa.array(x), "lat": pa.array(y)}
    nulls = {name: pa.compute.if_else(kept, values, None) for name, values in columns.items()}
    return pa.table({"id": pa.array(range(COUNT), pa.int32())} | nulls)


def plan(db: Database, text: str) -> str:
    return " ".join(row[0] for row in db.sql(f"EXPLAIN PLAN FOR {text}").rows())


def found(db: Database, condition: str, **options: Any) -> list[int]:
    return [row[0] for row in db.sql(f"SELECT id FROM t WHERE {condition} ORDER BY id LIMIT {COUNT}", **options).rows()]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with gamay.connect(tmp_path_factory.mktemp("h3") / "db") as db:
        db.create_table("t", None, SCHEMA, {"fieldConfigList": FIELDS})
        db.append("t", rows())
        yield db


@pytest.mark.parametrize("handles_nulls", [False, True])
@pytest.mark.parametrize("column", POINTS)
def test_conditions_find_the_rows_of_a_scan(table: Database, column: str, handles_nulls: bool) -> None:
    point = POINTS[column]
    distance = f"ST_Distance({point}, {CENTRE})"
    conditions = [form.format(distance) for form in CONDITIONS]
    conditions += [f"ST_Within({point}, {AREA}) = 1 AND id > 5", f"ST_Contains({AREA}, {point}) = 0"]
    for condition in conditions:
        options = {"enableNullHandling": handles_nulls}
        with_index = found(table, condition, **options)
        assert with_index == found(table, condition, skipIndexes=f"{column}=h3", **options), condition
        assert 0 < len(with_index) < COUNT, condition


def test_plans_name_the_index(table: Database) -> None:
    for column, point in POINTS.items():
        text = f"SELECT COUNT(*) FROM t WHERE ST_Distance({point}, {CENTRE}) < 1000"
        assert "FILTER_H3_INDEX(indexLookUp:h3_index" in plan(table, text)
        skipped = table.sql(f"SET skipIndexes = '{column}=h3'; EXPLAIN PLAN FOR {text}").rows()
        assert "FILTER_H3_INDEX" not in str(skipped)


def test_few_values_are_read(table: Database) -> None:
    text = f"SELECT COUNT(*) FROM t WHERE ST_Distance(place, {CENTRE}) < 100000"
    assert table.sql(text).stats.num_entries_scanned_in_filter == 0
    scanned = table.sql(text, skipIndexes="place=h3").stats
    assert scanned.num_entries_scanned_in_filter > 1000


def test_a_point_of_the_other_kind_is_refused_as_by_a_scan(table: Database) -> None:
    for options in ({}, {"skipIndexes": "place=h3"}):
        with pytest.raises(gamay.QueryError, match="a geometry and a geography cannot be combined"):
            found(table, "ST_Distance(place, ST_Point(0, 0)) < 5", **options)


def test_damaged_indexes_are_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    condition = f"ST_Distance(place, {CENTRE}) < 50000"
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", None, SCHEMA, {"fieldConfigList": FIELDS})
        db.append("t", rows(with_nulls=False))
        expected = found(db, condition)
    for damaged in sorted((tmp_path / "db").rglob("index.bin")):
        shown = describe(damaged.parents[2])
        assert '{"resolutions": [4, 7]}' in shown
        assert "lon, lat" in shown
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 0x55
        damaged.write_bytes(content)
    caplog.set_level(logging.WARNING)
    with gamay.connect(tmp_path / "db") as db:
        assert found(db, condition) == expected
        assert "FILTER_H3_INDEX" in plan(db, f"SELECT COUNT(*) FROM t WHERE {condition}")
    assert "is damaged" in caplog.text


def test_without_the_library_rows_are_scanned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    condition = f"ST_Distance(place, {CENTRE}) < 50000"
    monkeypatch.setattr(H3IndexType, "needs", "no_such_module")
    missing_extra.cache_clear()
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", None, SCHEMA, {"fieldConfigList": FIELDS})
        db.append("t", rows(with_nulls=False))
        assert len(found(db, condition)) > 10
        assert "FILTER_H3_INDEX" not in plan(db, f"SELECT COUNT(*) FROM t WHERE {condition}")
    monkeypatch.undo()
    missing_extra.cache_clear()
