"""Compound inverted indexes of tables: same answers as scans and DuckDB, through changes and damage."""

import logging
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from tests.waiting import eventually

import gamay
from gamay.embedded.database import Database
from gamay.segment.describe import describe

ROWS, SEGMENTS = 1500, 3
SCHEMA: dict[str, Any] = {
    "schemaName": "t",
    "enableColumnBasedNullHandling": True,
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "a", "dataType": "STRING"},
        {"name": "b", "dataType": "INT"},
        {"name": "c", "dataType": "LONG"},
        {"name": "d", "dataType": "BOOLEAN"},
    ],
}
INDEXED = ("a", "b", "c", "d")
COMPOUNDS = {"compoundInvertedIndexConfigs": [{"columns": ["b", "a"]}, {"columns": ["a", "c", "d"]}]}
CONFIG = {"tableIndexConfig": {"noDictionaryColumns": ["id"], "invertedIndexColumns": ["c"], **COMPOUNDS}}
VALUES: dict[str, list[str]] = {
    "a": [f"'v{n}'" for n in range(7)],
    "b": [str(n) for n in range(-2, 7)],
    "c": [str(n * 10**10) for n in range(5)],
    "d": ["true", "false"],
}
OPERATOR = "FILTER_COMPOUND_INVERTED_INDEX(indexLookUp:compound_inverted_index,operator:AND,predicate:"


def data(seed: int, first: int = 0) -> pa.Table:
    rng = random.Random(seed)

    def column(values: list[Any], nulls: float) -> list[Any]:
        weights = [1 / (n + 1) for n in range(len(values))]
        return [None if rng.random() < nulls else one for one in rng.choices(values, weights, k=ROWS)]

    return pa.table(
        {
            "id": pa.array(range(first, first + ROWS), pa.int32()),
            "a": column([f"v{n}" for n in range(6)], 0.1),
            "b": pa.array(column(list(range(6)), 0.1), pa.int32()),
            "c": pa.array(column([n * 10**10 for n in range(4)], 0.05), pa.int64()),
            "d": column([True, False], 0.0),
        }
    )


def tables() -> list[pa.Table]:
    return [data(number, number * ROWS) for number in range(SEGMENTS)]


def leaf(rng: random.Random, column: str, *, nulls: bool) -> str:
    values, kind = VALUES[column], rng.randrange(10)
    if kind < 5:
        return f"{column} = {rng.choice(values)}"
    if kind < 7:
        return f"{column} IN ({', '.join(rng.sample(values, rng.randrange(1, len(values))))})"
    if kind == 7:
        return f"{column} <> {rng.choice(values)}"
    if kind == 8 and column != "d":
        low, high = sorted(rng.sample(range(len(values)), 2))
        return f"{column} BETWEEN {values[low]} AND {values[high]}"
    if kind == 9 and nulls:
        return f"{column} IS {rng.choice(['', 'NOT '])}NULL"
    return f"NOT ({column} = {rng.choice(values)})"


def condition(rng: random.Random, depth: int = 2, *, nulls: bool) -> str:
    """Most are conjunctions over columns that have an index together."""
    kind = rng.randrange(8) if depth else 0
    if kind < 5:
        columns = rng.choice([("a", "b"), ("a", "c", "d"), INDEXED, ("a", "b", "b"), ("b", "c")])
        parts = [leaf(rng, column, nulls=nulls) for column in rng.sample(columns, len(columns))]
        return " AND ".join([*parts, f"id < {rng.randrange(ROWS * SEGMENTS)}"] if rng.random() < 0.3 else parts)
    parts = [f"({condition(rng, depth - 1, nulls=nulls)})" for _ in range(2)]
    return f"NOT {parts[0]}" if kind == 7 else (" OR " if kind == 6 else " AND ").join(parts)


def plan(db: Database, where: str, **options: Any) -> str:
    shown = db.sql(f"EXPLAIN PLAN FOR SELECT id FROM t WHERE {where}", explainPlanVerbose=True, **options)
    return " ".join(row[0] for row in shown.rows())


SKIPPED = {"skipIndexes": "&".join(f"{column}=compound_inverted" for column in INDEXED)}


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("compound") / "db") as opened:
        first, *others = tables()
        opened.create_table("t", first, SCHEMA, CONFIG)
        for other in others:
            opened.append("t", other)
        yield opened


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:") as opened:
        opened.register("rows", pa.concat_tables(tables()))
        opened.execute("CREATE TABLE nullable AS SELECT * FROM rows")
        stored = f"coalesce(a, 'null') AS a, coalesce(b, {-(2**31)}) AS b, coalesce(c, {-(2**63)}) AS c"
        opened.execute(f"CREATE TABLE filled AS SELECT * REPLACE ({stored}) FROM rows")
        yield opened


@pytest.mark.parametrize("null_handling", [True, False])
def test_answers_are_those_of_scans_and_duckdb(db: Database, duck: Any, null_handling: bool) -> None:
    rng = random.Random(7)
    indexed = 0
    for _ in range(250):
        where = condition(rng, nulls=null_handling)
        text = f"SELECT id FROM t WHERE {where} ORDER BY id LIMIT 100000"
        found = db.sql(text, enableNullHandling=null_handling).rows()
        table = "nullable" if null_handling else "filled"
        assert found == duck.execute(f"SELECT id FROM {table} WHERE {where} ORDER BY id").fetchall(), where
        assert found == db.sql(text, enableNullHandling=null_handling, **SKIPPED).rows(), where
        count = f"SELECT COUNT(*), SUM(b) FROM t WHERE {where}"
        assert db.sql(count).rows() == db.sql(count, **SKIPPED).rows(), where
        indexed += OPERATOR in plan(db, where, enableNullHandling=null_handling)
        assert OPERATOR not in plan(db, where, enableNullHandling=null_handling, **SKIPPED)
    assert indexed > 60


@pytest.mark.parametrize("seed", range(6))
def test_so_they_are_for_tables_of_any_config(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    sets = {frozenset(rng.sample(INDEXED, rng.choice([2, 2, 3]))) for _ in range(rng.randrange(1, 5))}
    indexing = {
        "compoundInvertedIndexConfigs": [{"columns": sorted(columns, reverse=rng.random() < 0.5)} for columns in sets],
        "invertedIndexColumns": rng.sample(INDEXED, rng.randrange(4)),
        "rangeIndexColumns": rng.sample(INDEXED[1:3], rng.randrange(3)),
        "noDictionaryColumns": ["id"],
    }
    rows = data(seed).slice(0, rng.choice([40, 700, ROWS]))
    if rng.random() < 0.5:
        rows = rows.sort_by(rng.choice(INDEXED[:3]))  # which then has a sorted index
    with gamay.connect(tmp_path / "db") as db, duckdb.connect(":memory:") as duck:
        db.create_table("t", rows, SCHEMA, {"tableIndexConfig": indexing})
        duck.register("t", rows)
        for _ in range(40):
            text = f"SELECT id FROM t WHERE {condition(rng, nulls=True)} ORDER BY id LIMIT 100000"
            assert db.sql(text, enableNullHandling=True).rows() == duck.execute(text).fetchall(), (indexing, text)


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("a = 'v1' AND b = 2", "b = '2' AND a = 'v1')"),
        ("b IN (1, 2) AND id < 9 AND a = 'v1'", "b IN ('1','2') AND a = 'v1')"),
        ("b = 1 AND a = 'v1' AND c = 0 AND d = true", "a = 'v1' AND c = '0' AND d = 'true')"),  # three columns first
        ("b BETWEEN 1 AND 2 AND a = 'v1'", "b BETWEEN '1' AND '2' AND a = 'v1')"),
        ("(a = 'v1' AND b = 2) OR (a = 'v2' AND b = 3)", "b = '2' AND a = 'v1')"),
        ("NOT (a = 'v1' AND b = 2)", "b = '2' AND a = 'v1')"),
        ("a <> 'v1' OR b NOT IN (1, 2)", "b IN ('1','2') AND a = 'v1')"),
        ("a = 'v1' AND b <> 2", None),
        ("a <> 'v1' OR b = 2", None),
        ("a = 'v1' AND c = 0", None),
        ("a = 'v1' OR b = 2", None),
        ("a = 'no such value' AND b = 2", None),  # known from its dictionary
    ],
)
def test_a_conjunction_of_all_columns_is_answered_together(db: Database, where: str, shown: str | None) -> None:
    told = plan(db, where)
    assert ((OPERATOR + shown) in told) if shown else OPERATOR not in told
    assert told.count(OPERATOR) == bool(shown) * told.count("PLAN_START") * (1 + where.count(") OR ("))
    entries = db.sql(f"SELECT COUNT(*) FROM t WHERE {where}").stats.num_entries_scanned_in_filter
    without = db.sql(f"SELECT COUNT(*) FROM t WHERE {where}", **SKIPPED).stats.num_entries_scanned_in_filter
    assert entries <= without
    if (
        shown and where.count("AND") == shown.count("AND") and "NOT" not in where
    ):  # else nulls of one column are asked for the other
        assert (entries, without > 0) == (0, True)


@pytest.mark.parametrize("null_handling", [True, False])
def test_what_is_denied_together_is_the_complement_but_for_nulls(db: Database, duck: Any, null_handling: bool) -> None:
    rng = random.Random(3)
    indexed = 0
    for _ in range(120):
        columns = rng.choice([("a", "b"), ("b", "a"), ("d", "c", "a"), ("a", "b", "c"), INDEXED])
        parts = []
        for column in columns:
            values = rng.sample(VALUES[column], rng.randrange(1, len(VALUES[column])))
            parts.append(f"{column} IN ({', '.join(values)})" if rng.random() < 0.7 else f"{column} >= {values[0]}")
        if rng.random() < 0.3:
            parts.append(f"id < {rng.randrange(ROWS * SEGMENTS)}")
        where = f"NOT ({' AND '.join(parts)})" if rng.random() < 0.5 else " OR ".join(f"NOT ({part})" for part in parts)
        if rng.random() < 0.4:
            where = f"({where}) AND {leaf(rng, 'c', nulls=null_handling)}"
        text = f"SELECT id FROM t WHERE {where} ORDER BY id LIMIT 100000"
        found = db.sql(text, enableNullHandling=null_handling).rows()
        table = "nullable" if null_handling else "filled"
        assert found == duck.execute(f"SELECT id FROM {table} WHERE {where} ORDER BY id").fetchall(), where
        assert found == db.sql(text, enableNullHandling=null_handling, **SKIPPED).rows(), where
        indexed += OPERATOR in plan(db, where, enableNullHandling=null_handling)
    assert indexed > 60


def test_clauses_and_negations_use_it(db: Database) -> None:
    counted = "SUM(b), COUNT(*) FILTER (WHERE a = 'v1' AND b = 2)"
    text = f"SELECT d, {counted} FROM t WHERE a = 'v1' AND b IN (1, 2) GROUP BY d ORDER BY d"
    assert db.sql(text).rows() == db.sql(text, **SKIPPED).rows()
    for where in ("NOT (a = 'v1' AND b = 2)", "a <> 'v1' OR b <> 2"):
        assert f"FILTER_NOT {OPERATOR}" in plan(db, where, enableNullHandling=False)
        assert f"FILTER_NOT FILTER_OR {OPERATOR}" in plan(db, where)  # or one is null, and the other holds or is null, too
    for column in ("a", "b"):  # one of the columns is enough
        assert OPERATOR not in plan(db, "a = 'v1' AND b = 2", skipIndexes=f"{column}=compound_inverted")


def test_many_combinations_are_left_to_each_column(tmp_path: Path) -> None:
    numbers = np.arange(200_000)
    x, y = numbers % 49, numbers // 5 % 120
    with gamay.connect(tmp_path / "db") as db:
        compound = {"compoundInvertedIndexConfigs": [{"columns": ["x", "y"]}]}
        db.create_table("t", pa.table({"x": x, "y": y}), config={"tableIndexConfig": compound})
        for of_x, of_y, is_used in (
            (8, 8, True),  # few
            (4, 40, True),  # no more than four times as many as values
            (5, 40, False),
            (1, 100, True),
            (2, 101, False),  # more than one for each 1,000 rows
        ):
            where = f"x IN ({', '.join(map(str, range(of_x)))}) AND y BETWEEN 3 AND {2 + of_y}"
            shown = db.sql(f"EXPLAIN PLAN FOR SELECT x FROM t WHERE {where}").rows()
            assert ("FILTER_COMPOUND_INVERTED_INDEX" in str(shown)) == is_used, where
            expected = int(((x < of_x) & (y >= 3) & (y < 3 + of_y)).sum())
            assert db.sql(f"SELECT COUNT(*) FROM t WHERE {where}").rows() == [(expected,)]


def answers(db: Database) -> list[Any]:
    rng = random.Random(11)
    return [
        db.sql(f"SELECT COUNT(*), SUM(id) FROM t WHERE {condition(rng, nulls=False)}", **options).rows()
        for options in ({}, SKIPPED)
        for _ in range(20)
    ]


def test_a_restart_keeps_it_and_damage_is_built_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", data(1), SCHEMA, CONFIG)
        expected = answers(db)
    files = sorted((tmp_path / "db").rglob("index.bin"))
    assert len(files) == 2
    inodes = [file.stat().st_ino for file in files]
    with gamay.connect(tmp_path / "db") as db:
        assert answers(db) == expected
        assert [file.stat().st_ino for file in sorted((tmp_path / "db").rglob("index.bin"))] == inodes
    for name in ("index.bin", "indexes.json"):
        damaged = sorted((tmp_path / "db").rglob(name))[0]
        content = bytearray(damaged.read_bytes())
        content[len(content) // 2] ^= 0x55
        damaged.write_bytes(content)
        caplog.clear()
        with gamay.connect(tmp_path / "db") as db:
            assert answers(db) == expected
            assert OPERATOR in plan(db, "a = 'v1' AND b = 2")
            assert "is not used" in caplog.text or "are not used" in caplog.text


def test_it_follows_the_config(trips: Any, make_segment: Callable[..., Path], caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a", "b"):
        trips.push(make_segment(name, [value % 12 for value in range(100)]))
    table = trips.controller.get("/tables/trips").json()["OFFLINE"]
    where, stale = "city = 'city1' AND n IN (4, 7)", "/segments/trips_OFFLINE/needReload"
    expected = trips.rows(f"SELECT COUNT(*), SUM(n) FROM trips WHERE {where}")
    for compounds in ([["city", "n"]], [["n", "city"], ["city", "ts"]], []):  # every ts is different
        table["tableIndexConfig"] = {"compoundInvertedIndexConfigs": [{"columns": columns} for columns in compounds]}
        assert "warnings" not in trips.controller.put("/tables/trips", json=table).json()
        eventually(lambda: trips.controller.get(stale).json()["needReload"])
        trips.controller.post("/segments/trips/reload")
        eventually(lambda: not trips.controller.get(stale).json()["needReload"])
        assert trips.rows(f"SELECT COUNT(*), SUM(n) FROM trips WHERE {where}") == expected
        shown = str(trips.rows(f"EXPLAIN PLAN FOR SELECT ts FROM trips WHERE {where}"))
        assert ("FILTER_COMPOUND_INVERTED_INDEX" in shown) == bool(compounds), shown
        told = trips.server.get("/tables/trips_OFFLINE/segments/a/metadata", params={"columns": "city"}).json()
        assert bool(told["columns"][0]["indexSizeMap"].get("compound_inverted")) == bool(compounds)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_wrong_config_is_refused_with_what_is_wrong(trips: Any) -> None:
    table = trips.controller.get("/tables/trips").json()["OFFLINE"]
    table["tableIndexConfig"] = {"compoundInvertedIndexConfigs": [{"columns": ["city", "m"]}]}
    refused = trips.controller.put("/tables/trips", json=table)
    assert refused.status_code == 400
    assert "tableIndexConfig.compoundInvertedIndexConfigs[0]" in refused.json()["error"]


def test_what_hardly_repeats_is_told_and_scanned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = {"x": list(range(500)), "y": [n % 3 for n in range(500)]}
    with gamay.connect(tmp_path / "db") as db:
        compound = {"compoundInvertedIndexConfigs": [{"columns": ["x", "y"]}]}
        db.create_table("t", rows, config={"tableIndexConfig": compound})
        assert db.sql("SELECT COUNT(*) FROM t WHERE x = 7 AND y = 1").rows() == [(1,)]
        assert "COMPOUND" not in str(db.sql("EXPLAIN PLAN FOR SELECT x FROM t WHERE x = 7 AND y = 1").rows())
    assert "no compound_inverted index of x, y: 500 combinations in 500 rows hardly repeat" in caplog.text
    folder = next((tmp_path / "db").rglob("indexes.json")).parent
    assert "left out: 500 combinations in 500 rows hardly repeat" in describe(folder)
    caplog.clear()
    with gamay.connect(tmp_path / "db") as db:  # it is not tried again
        assert db.sql("SELECT COUNT(*) FROM t WHERE x = 7 AND y = 1").rows() == [(1,)]
    assert "hardly repeat" not in caplog.text


def test_small_queries_of_a_known_shape_are_answered_by_it_at_once(tmp_path: Path) -> None:
    """No other index finds these rows, and scans are not for the fast path."""
    rows = {"x": [n % 20 for n in range(4000)], "y": [n * 7 // 11 % 20 for n in range(4000)], "v": list(range(4000))}
    with gamay.connect(tmp_path / "db", threads=1) as db:
        compound = {"compoundInvertedIndexConfigs": [{"columns": ["x", "y"]}]}
        db.create_table("t", rows, config={"tableIndexConfig": compound})
        runner = db._cluster.runner
        for what in ("COUNT(*)", "SUM(v), MAX(v)"):
            db.sql(f"SELECT {what} FROM t WHERE x = 0 AND y IN (1, 2)")
            text = f"SELECT {what} FROM t WHERE x = 3 AND y IN (5, 6)"
            found = runner.fast_answer(text, null_handling=True)
            assert found is not None
            assert found.table is not None
            expected = [v for v, x, y in zip(rows["v"], rows["x"], rows["y"], strict=True) if x == 3 and y in (5, 6)]
            assert expected
            wanted = [len(expected)] if "COUNT" in what else [sum(expected), max(expected)]
            assert [column.values[0] for column in found.table.columns] == wanted
            assert found.stats.num_entries_scanned_in_filter == 0


TYPES: dict[str, tuple[list[Any], list[str]]] = {
    "INT": ([1, -2, 3], ["1", "-2", "4"]),
    "LONG": ([2**60, -2, 3], [str(2**60), "-2", "4"]),
    "FLOAT": ([0.5, -2.25, 3.0], ["0.5", "-2.25", "4"]),
    "DOUBLE": ([0.1, -2.25, float("inf")], ["0.1", "-2.25", "4"]),
    "BIG_DECIMAL": (["0.10", "-2.25", "7"], ["0.1", "-2.25", "4"]),
    "BOOLEAN": ([True, False], ["true", "false"]),
    "TIMESTAMP": ([0, 1_700_000_000_000, 5], ["1700000000000", "5", "6"]),
    "STRING": (["", "it's", "ü"], ["''", "'it''s'", "'x'"]),
    "JSON": (["{}", "[1]", "2"], ["'{}'", "'[1]'", "'x'"]),
    "BYTES": ([b"", b"\x01\xff", b"a"], ["'01ff'", "'61'", "'62'"]),
}


def test_columns_are_of_any_type(tmp_path: Path) -> None:
    names = [name.lower() for name in TYPES]
    schema = {
        "schemaName": "t",
        "dimensionFieldSpecs": [
            {"name": "k", "dataType": "INT"},
            *({"name": name.lower(), "dataType": name} for name in TYPES),
        ],
    }
    rng = random.Random(5)
    rows = {name.lower(): rng.choices(values, k=300) for name, (values, _) in TYPES.items()} | {
        "k": rng.choices(range(4), k=300)
    }
    config = {
        "tableIndexConfig": {"compoundInvertedIndexConfigs": [{"columns": ["k", name]} for name in names]},
        # rows that are read back from the inverted index
        "fieldConfigList": [{"name": "string", "indexes": {"forward": {"disabled": True}, "inverted": {}}}],
    }
    with gamay.connect(tmp_path / "db") as db:
        db.create_table("t", rows, schema, config)
        for name, (_, literals) in TYPES.items():
            column, skipped = name.lower(), f"{name.lower()}=compound_inverted"
            counts = []
            for literal in literals:
                where = f"k IN (1, 3) AND {column} = {literal}"
                text = f"SELECT COUNT(*), SUM(k) FROM t WHERE {where}"
                found = db.sql(text).rows()
                assert found == db.sql(text, skipIndexes=skipped).rows(), where
                counts.append(found[0][0])
                shown = str(db.sql(f"EXPLAIN PLAN FOR SELECT k FROM t WHERE {where}").rows())
                assert ("FILTER_COMPOUND_INVERTED_INDEX" in shown) == (found[0][0] > 0), where
            assert any(counts), name
