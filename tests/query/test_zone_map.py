"""Conditions on, and orders by, columns with a zone map, against DuckDB and against a scan of all rows."""

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gamay

ROWS = 100_000
COLUMNS = ("ts", "device", "name", "level", "place", "most", "gaps")


@pytest.fixture(scope="module")
def tables() -> Iterator[Any]:
    """The same rows in both systems, about in the order of each column; `id` is unique and lies in no order."""
    rng = np.random.default_rng(5)
    number = np.arange(ROWS)
    devices = (number // 2_000 + 25) % 50
    columns: dict[str, Any] = {
        "id": rng.permutation(ROWS),
        "ts": 1_700_000_000_000 + number * 1_000 + rng.integers(0, 90_000, ROWS),  # raw
        "device": devices,  # with a dictionary, one run of rows each
        "name": np.char.add("n", np.char.zfill(devices.astype(str), 2)),
        "level": (number // 7_000 % 5) * 10 + rng.integers(0, 8, ROWS) / 4,  # raw, decimals
        "place": np.cumsum(rng.normal(size=ROWS)),  # raw, doubles
        "most": np.where(number < 70_000, number // 100, rng.integers(0, 700, ROWS)),  # the last zones exclude nothing
        "gaps": pa.array(number // 50, mask=rng.random(ROWS) < 0.3),  # null here and there
        "any": rng.integers(0, 10, ROWS),
    }
    rows = pa.table(columns)
    raw = ["ts", "level", "place"]
    config = {"tableName": "t", "tableType": "OFFLINE", "tableIndexConfig": {"noDictionaryColumns": raw}}
    with gamay.connect(":memory:", threads=2) as db, duckdb.connect() as duck:
        db.create_table("t", rows, config=config)
        duck.execute("CREATE TABLE t AS SELECT * FROM rows")
        yield db, duck


def constants(column: str) -> st.SearchStrategy[str]:
    numbers = {
        "ts": st.integers(1_700_000_000_000 - 10_000, 1_700_000_200_000),
        "device": st.integers(-1, 51),
        "level": st.integers(-4, 180).map(lambda n: n / 4),
        "place": st.floats(-400, 400).map(lambda x: round(x, 2)),
        "most": st.integers(-5, 720),
        "gaps": st.integers(-5, 2_100),
    }
    return st.integers(-1, 51).map(lambda n: f"'n{n:02}'") if column == "name" else numbers[column].map(str)


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    column = draw(st.sampled_from(COLUMNS))
    some = [draw(constants(column)) for _ in range(3)]
    forms = ["{0} = {1}", "{0} <> {1}", "{0} < {1}", "{0} >= {1}", "{0} BETWEEN {1} AND {2}", "{0} IN ({1}, {2}, {3})",
             "{0} NOT IN ({1}, {2}, {3})", "NOT {0} > {1}"]  # fmt: skip
    return draw(st.sampled_from(forms)).format(column, *some)


CONDITIONS = st.recursive(
    st.one_of(comparisons(), st.just('"any" = 3'), st.just("id < 5000")),
    lambda part: st.tuples(part, st.sampled_from(["AND", "OR"]), part).map(lambda three: "({} {} {})".format(*three)),
    max_leaves=4,
)
UNZONED = "SET skipIndexes='" + "&".join(f"{column}=zone_map" for column in COLUMNS) + "'; "


@settings(max_examples=150)
@given(CONDITIONS)
def test_rows_are_those_of_duckdb(tables: Any, condition: str) -> None:
    db, duck = tables
    query = f"SELECT COUNT(*), SUM(id), MIN(ts), MAX(most) FROM t WHERE {condition}"
    expected = duck.execute(query).fetchone()
    found = db.sql("SET enableNullHandling=true; " + query).rows()[0]
    assert found == expected, condition


@settings(max_examples=60)
@given(CONDITIONS, CONDITIONS)
def test_conditions_of_aggregates_share_zones(tables: Any, where: str, condition: str) -> None:
    db, _ = tables
    query = f"SELECT COUNT(*) FILTER (WHERE {condition}), SUM(id) FILTER (WHERE {where}), COUNT(*) FROM t WHERE {where}"
    assert db.sql(query).rows() == db.sql(UNZONED + query).rows()


@settings(max_examples=100)
@given(
    st.lists(st.tuples(st.sampled_from(COLUMNS), st.sampled_from(["ASC", "DESC"])), min_size=1, max_size=2),
    st.one_of(st.just("1 = 1"), CONDITIONS),
    st.sampled_from([1, 10, 300, 9_000]),
)
def test_first_rows_are_those_of_duckdb(tables: Any, order: list[tuple[str, str]], where: str, limit: int) -> None:
    db, duck = tables
    by = ", ".join(f"{key} {direction} NULLS LAST" for key, direction in order)
    query = f"SELECT id FROM t WHERE {where} ORDER BY {by}, id LIMIT {limit}"
    expected = duck.execute(query).fetchall()
    assert db.sql("SET enableNullHandling=true; " + query).rows() == expected, query


@pytest.mark.parametrize(
    ("query", "share"),
    [
        ("SELECT COUNT(*) FROM t WHERE ts BETWEEN 1700000040000 AND 1700000042000", 0.15),
        ("SELECT COUNT(*) FROM t WHERE device = 7", 0.25),
        ("SELECT COUNT(*) FROM t WHERE name LIKE 'n07%'", 0.25),
        ("SELECT COUNT(*) FROM t WHERE most = 20", 0.4),
    ],
)
def test_rows_of_other_zones_are_not_read(tables: Any, query: str, share: float) -> None:
    db, _ = tables
    read = db.sql(query).stats.num_entries_scanned_in_filter
    assert 0 < read < share * ROWS
    assert db.sql(UNZONED + query).stats.num_entries_scanned_in_filter == ROWS


@pytest.mark.parametrize(
    ("condition", "share"),
    [
        ("hour(ts) = 4", 0.2),
        ("hour(ts) BETWEEN 8 AND 10 AND minute(ts) <> 6", 0.7),
        ("dateTrunc('HOUR', ts) = 1700006400000", 0.3),
        ("dateTrunc('DAY', ts) > 1700006400000", 0.7),
        ("month(ts) = 12", 0),
    ],
)
def test_fields_of_times_are_looked_for_where_they_are(tables: Any, condition: str, share: float) -> None:
    db, _ = tables
    query = f"SELECT COUNT(*), SUM(id) FROM t WHERE {condition}"
    found, expected = db.sql(query), db.sql(UNZONED + query)
    assert found.rows() == expected.rows()
    assert found.stats.num_entries_scanned_in_filter <= share * ROWS
    assert expected.stats.num_entries_scanned_in_filter >= ROWS


def test_the_latest_rows_are_looked_for_in_the_last_zones(tables: Any) -> None:
    db, _ = tables
    query = "SELECT id FROM t ORDER BY ts DESC LIMIT 10"
    assert db.sql(query).stats.num_docs_scanned < ROWS // 3
    assert db.sql(UNZONED + query).stats.num_docs_scanned == ROWS


def test_explain_names_the_zone_map(tables: Any) -> None:
    db, _ = tables
    query = "EXPLAIN PLAN FOR SELECT COUNT(*) FROM t WHERE device = 7"
    assert "FILTER_ZONE_MAP(indexLookUp:zone_map,operator:EQ,predicate:device = '7')" in [r[0] for r in db.sql(query).rows()]
    (plan,) = [r[0] for r in db.sql(UNZONED + query).rows() if "device = " in r[0]]
    assert plan.startswith("FILTER_FULL_SCAN")
