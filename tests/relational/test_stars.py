"""Groups of a large table joined with small ones: pushed to the large table if keys are unique, and always correct."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.relational.conftest import Twins
from tests.seeds import by_first, chunks, count_of

from gamay.embedded.database import connect
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Column
from gamay.functions.scalar.table.joined import encoded, encoded_keys, found_in, value_of
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType

_FACTS = 4000


def _tables() -> dict[str, pa.Table]:
    rng = random.Random(11)

    def some(choices: list[Any], count: int = _FACTS, nulls: float = 0.05) -> list[Any]:
        return [None if rng.random() < nulls else rng.choice(choices) for _ in range(count)]

    return {
        "fact": pa.table(
            {
                "i": pa.array(some(list(range(60))), pa.int32()),
                "l": pa.array(some([2**40 + each for each in range(2000)]), pa.int64()),
                "s": pa.array(some([f"k{each}" for each in range(40)]), pa.string()),
                "d": pa.array(some(list(range(300))), pa.int32()),
                "n": pa.array(some(list(range(-50, 50))), pa.int64()),
                "x": pa.array(some([0.5, 1.25, -3.0, 10.0]), pa.float64()),
                "kind": pa.array(some(["a", "b", "c"]), pa.string()),
            }
        ),
        # a key of each type, some of which the big table has not
        "ints": pa.table(
            {
                "ik": pa.array([*range(10, 80), None], pa.int32()),
                "iname": pa.array(some(["red", "green", "blue", "gray"], 71), pa.string()),
                "inum": pa.array(some([1, 2, 3], 71), pa.int64()),
                "ref": pa.array(some(list(range(8)), 71), pa.int32()),
            }
        ),
        "longs": pa.table(
            {
                "lk": pa.array([2**40 + each for each in range(0, 3000, 2)], pa.int64()),
                "lname": pa.array(some([f"n{each}" for each in range(9)], 1500), pa.string()),
                "flag": pa.array(some([True, False], 1500), pa.bool_()),
            }
        ),
        "texts": pa.table(
            {
                "sk": [f"k{each}" for each in range(0, 60, 2)],
                "part": pa.array(some([0.5, 1.5], 30), pa.float64()),
            }
        ),
        "refs": pa.table({"rk": pa.array(range(6), pa.int32()), "rname": ["r0", "r1", "r0", "r2", "r1", "r0"]}),
        # several rows of a key
        "twice": pa.table({"tk": pa.array([5, 5, 6, 7], pa.int32()), "tname": ["p", "q", "p", "q"]}),
    }


@pytest.fixture(scope="module")
def stars(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    folder: Path = tmp_path_factory.mktemp("stars")
    with connect(folder) as db, duckdb.connect(":memory:") as duck:
        for name, table in _tables().items():
            half = table.num_rows // 2
            db.create_table(name, table.slice(0, half))
            db.create_table(name, table.slice(half), if_exists="append")
            duck.register("rows", table)
            duck.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
            duck.unregister("rows")
        duck.execute("SET default_null_order = 'nulls_last'")
        yield Twins(db, duck)


JOINS = (
    ("JOIN ints ON i = ik", ("iname", "inum", "ik")),
    ("JOIN longs ON lk = l", ("lname", "flag")),
    ("JOIN texts ON s = sk", ("part", "sk")),
    ("JOIN (SELECT ik AS jk, rname FROM ints JOIN refs ON ref = rk WHERE inum > 1) j ON d = jk", ("rname",)),
    ("JOIN (SELECT lname AS best, MIN(lk) AS lowest FROM longs GROUP BY lname) b ON l = lowest", ("best",)),
    ("JOIN twice ON d = tk", ("tname",)),
    ("SEMI JOIN (SELECT tk FROM twice) t ON t.tk = d", ()),
    ("LEFT JOIN (SELECT ik AS ok, iname AS oname FROM ints WHERE inum < 3) o ON ok = i", ("oname", "ok")),
    ("LEFT JOIN (SELECT sk AS vk, part AS vpart FROM texts) v ON s = vk AND vpart > 1", ("vpart", "vk")),
)
CONDITIONS = (
    *("kind = 'a'", "n > 0", "x IS NOT NULL", "i IN (SELECT ik FROM ints WHERE inum = 2)"),
    *("s IN (SELECT sk FROM texts)", "d BETWEEN 3 AND 200", "l % 3 = 1"),
)
OF_DIMENSIONS = {"ints": "inum < 3", "longs": "flag", "texts": "part > 1", "b": "best <> 'n3'"}


def query(rng: random.Random) -> str:
    """Return a random aggregation over the big table and small ones."""
    chosen = rng.sample(JOINS, rng.randrange(1, 4))
    columns = [name for _, names in chosen for name in names]
    keys = rng.sample([*columns, "kind", "i"], rng.randrange(0, min(3, len(columns) + 2) + 1))
    calls = ["COUNT(*)", "SUM(n)", "SUM(x * 2)", "AVG(n)", "MIN(s)", "COUNT(DISTINCT d)", "SUM(n + i)"]
    calls += ["MAX(x) FILTER (WHERE n > 0)", *(f"MAX({name})" for name in columns if name in ("iname", "lname", "part"))]
    calls += ["SUM(n * inum)"] if "inum" in columns else []
    items = [*keys, *rng.sample(calls, rng.randrange(1, 4))]
    joined = " ".join(join for join, _ in chosen)
    own = [text for table, text in OF_DIMENSIONS.items() if f"JOIN {table} " in joined or f") {table} " in joined]
    where = rng.sample([*CONDITIONS, *own], rng.randrange(0, 3))
    text = f"SELECT {', '.join(f'{item} AS o{place}' for place, item in enumerate(items))} FROM fact"
    text += "".join(f" {join}" for join, _ in chosen)
    text += f" WHERE {' AND '.join(where)}" if where else ""
    text += f" GROUP BY {', '.join(keys)}" if keys else ""
    if keys and rng.random() < 0.5:
        order = ", ".join(f"o{place}" + rng.choice(("", " DESC NULLS LAST")) for place in range(len(keys)))
        text += f" ORDER BY {order}" + rng.choice(("", " LIMIT 7", " LIMIT 5 OFFSET 3"))
    return text


@pytest.mark.parametrize("numbers", chunks(count_of("GAMAY_STAR_QUERIES", 200), 50), ids=by_first)
def test_generated_queries(stars: Twins, numbers: range) -> None:
    num_stars = 0
    for number in numbers:
        sql = query(random.Random(number))
        stars.check(sql)
        num_stars += "StarGroups" in stars.plan(sql)
    assert num_stars > len(numbers) // 2


@pytest.mark.parametrize(
    ("sql", "is_star"),
    [
        ("SELECT iname, SUM(n) FROM fact JOIN ints ON i = ik GROUP BY iname", True),
        ("SELECT COUNT(*) FROM fact, ints, longs WHERE i = ik AND l = lk", True),
        ("SELECT iname, SUM(n) FROM ints, longs, fact WHERE i = ik AND l = lk GROUP BY iname", True),
        ("SELECT COUNT(*) FROM fact JOIN ints ON i + 1 = ik", False),
        ("SELECT COUNT(*) FROM fact JOIN ints ON i < ik", False),
        ("SELECT COUNT(*) FROM fact JOIN ints ON i = ik AND n = inum", False),
        ("SELECT COUNT(*), COUNT(iname) FROM fact LEFT JOIN ints ON i = ik", True),
        ("SELECT iname, COUNT(*) FROM fact LEFT JOIN ints ON i = ik GROUP BY iname", True),
        ("SELECT COUNT(*) FROM fact LEFT JOIN ints ON i = ik WHERE iname IS NULL", False),
        ("SELECT COUNT(*) FROM fact LEFT JOIN ints ON i = ik WHERE iname = 'red'", True),
        ("SELECT COUNT(*) FROM fact LEFT JOIN ints ON i = ik AND n > 0", False),
        ("SELECT COUNT(*) FROM fact RIGHT JOIN ints ON i = ik", False),
        ("SELECT tname, COUNT(*) FROM fact LEFT JOIN twice ON d = tk GROUP BY tname", True),
        ("SELECT COUNT(*) FROM fact a JOIN fact b ON a.l = b.l", False),
        ("SELECT SUM(n % 7) FROM fact JOIN ints ON i = ik", False),
        ("SELECT COUNT(*) FROM fact CROSS JOIN texts", False),
        ("SELECT (SELECT COUNT(*) FROM fact JOIN ints ON i = ik AND inum = rk) FROM refs", False),
        ("WITH q AS (SELECT ik, iname FROM ints) SELECT iname, COUNT(*) FROM fact JOIN q ON i = ik GROUP BY iname", True),
        ("SELECT COUNT(*) FROM fact WHERE d IN (SELECT tk FROM twice)", True),
        ("SELECT COUNT(*) FROM fact WHERE d NOT IN (SELECT tk FROM twice)", False),
        ("SELECT c FROM (SELECT iname, COUNT(*) c FROM fact JOIN ints ON i = ik GROUP BY iname) WHERE c > 3", True),
    ],
)
def test_which_queries_are_stars(stars: Twins, sql: str, is_star: bool) -> None:
    stars.check(sql)
    assert ("StarGroups" in stars.plan(sql)) is is_star


def test_no_rows_of_the_big_table_travel(stars: Twins) -> None:
    result = stars.db.sql("SELECT iname, SUM(n) FROM fact JOIN ints ON i = ik WHERE inum = 2 GROUP BY iname")
    assert len(result.rows()) > 1
    plan = stars.plan("SELECT iname, SUM(n) FROM fact JOIN ints ON i = ik WHERE inum = 2 GROUP BY iname")
    assert "LeafQuery(table=[fact], select=[ints.iname, sumlong(n)], where=[in(i,keys of ints.ik)]" in plan
    assert "Lookup(type=[inner], condition=[fact.i = ints.ik], columns=[ints.iname])" in plan


def test_without_null_handling_what_is_null_is_a_default(stars: Twins) -> None:
    text = "SELECT iname, COUNT(*), SUM(inum) FROM fact JOIN ints ON i = ik GROUP BY iname ORDER BY iname"
    found = stars.db.sql(text, enableNullHandling=False).rows()
    apart = "SELECT iname, COUNT(*), SUM(inum) FROM fact JOIN ints ON i = ik AND i >= ik GROUP BY iname ORDER BY iname"
    assert "StarGroups" not in stars.plan(apart)
    assert found == stars.db.sql(apart, enableNullHandling=False).rows()


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300), st.integers(-9, 9) | st.none(), max_size=40),
    st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 300), max_size=40),
)
def test_values_of_whole_keys(rows: dict[int, int | None], asked: list[int]) -> None:
    _check(rows, [*asked, *rows], pa.int64(), DataType.LONG)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.text(max_size=3), st.integers(-9, 9) | st.none(), max_size=40),
    st.lists(st.text(max_size=3), max_size=40),
)
def test_values_of_texts(rows: dict[str, int | None], asked: list[str]) -> None:
    _check(rows, [*asked, *rows], pa.string(), DataType.STRING)


def _check(rows: dict[Any, int | None], asked: list[Any], key_type: pa.DataType, data_type: DataType) -> None:
    table = encoded(pa.array(list(rows), key_type), pa.array(list(rows.values()), pa.int64()))
    values = np.array(asked, np.int64) if data_type is DataType.LONG else pa.array(asked, key_type)
    keys = Vector(data_type, values)
    of_keys = encoded_keys(pa.array(list(rows), key_type))
    found: Any = evaluate(found_in(of_keys, Column("k")), lambda _: keys, len(asked))
    value: Any = evaluate(value_of(table, DataType.LONG, Column("k")), lambda _: keys, len(asked))
    if not asked:
        return
    decoded = value.decode() if isinstance(value, EncodedVector) else value
    assert [bool(each) for each in found.values] == [each in rows for each in asked]
    nulls = np.zeros(len(asked), np.bool_) if decoded.nulls is None else decoded.nulls
    for each, known, null in zip(asked, decoded.values, nulls, strict=True):
        if each in rows:
            assert (None if null else int(known)) == rows[each]
