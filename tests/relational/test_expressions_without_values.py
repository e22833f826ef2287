"""CASE without ELSE and NULLIF are null if they have no value, wherever computed, with and without null handling."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from gamay.embedded.database import Database, connect

ROWS = pa.table({"k": pa.array(range(12), pa.int32()), "s": list("abcdabcdabca"), "m": pa.array(range(12, 0, -1))})
HOLES = pa.table({"k": [1, None, 3, 5, None, 0, 4, 9, 3], "s": list("abcdabcda"), "m": range(9, 0, -1)})
SMALL = pa.table({"k": pa.array(range(4), pa.int32()), "n": ["x", "y", "x", "z"]})

EXPRESSIONS = (
    "CASE WHEN k > 2 THEN k END",
    "CASE WHEN k > 2 THEN NULL ELSE k END",
    "CASE WHEN k > 5 THEN k WHEN k > 3 THEN NULL WHEN k > 1 THEN 7 END",
    "CASE WHEN k > 200 THEN k END",
    "CASE WHEN k > 2 THEN 1 END",
    "CASE WHEN k > 2 THEN k ELSE 0 END",
    "NULLIF(k, 0)",
    "NULLIF(CASE WHEN k < 9 THEN k END, 3)",
    "COALESCE(CASE WHEN k > 5 THEN k END, NULLIF(k, 1))",
    "GREATEST(CASE WHEN k > 5 THEN k END, 3)",
    "ABS(CASE WHEN k > 2 THEN k END)",
)
QUERIES = (
    "SELECT COUNT({}), SUM({}), MIN({}), MAX({}), AVG({}), COUNT(DISTINCT {}) FROM r",
    "SELECT s, COUNT({}), SUM({}), MIN({}) FROM r GROUP BY s ORDER BY s",
    "SELECT COUNT({}) FILTER (WHERE m > 4), MAX({}) FILTER (WHERE m > 4) FROM r",
    "SELECT COUNT(x), MIN(x) FROM (SELECT {} AS x FROM r) q",
    "SELECT {} AS x, COUNT(*) FROM r GROUP BY {} ORDER BY x",
    "SELECT {} AS x, s, SUM(m), COUNT({}) FROM r GROUP BY {}, s ORDER BY x, s",
    "SELECT DISTINCT {} AS x FROM r ORDER BY x",
    "SELECT COUNT(DISTINCT x) FROM (SELECT {} AS x, s FROM r GROUP BY {}, s) q",
    "SELECT m FROM r ORDER BY {}, m LIMIT 6",
    "SELECT m FROM r ORDER BY {} DESC, m LIMIT 6",
    "SELECT m FROM r ORDER BY {} NULLS FIRST, m LIMIT 6",
    "SELECT m FROM r ORDER BY {} DESC NULLS LAST, m LIMIT 6",
    "SELECT n, COUNT({}), MIN({}) FROM (SELECT r.k AS k, n FROM r JOIN small ON r.k = small.k) q GROUP BY n ORDER BY n",
    "SELECT {} AS x, COUNT(*) FROM (SELECT r.k AS k, n FROM r JOIN small ON r.k = small.k) q GROUP BY {} ORDER BY x",
    "SELECT {} AS x, COUNT(*) FROM (SELECT r.k AS k, n FROM r LEFT JOIN small ON r.k = small.k) q GROUP BY {} ORDER BY x",
)


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    folder: Path = tmp_path_factory.mktemp("without_values")
    with connect(folder) as made:
        made.create_table("r", ROWS.slice(0, 5))
        made.append("r", ROWS.slice(5))
        made.create_table("holes", HOLES)
        made.create_table("small", SMALL)
        yield made


@pytest.mark.parametrize("query", QUERIES)
def test_what_has_no_value_is_null(db: Database, query: str) -> None:
    with duckdb.connect() as twin:
        twin.execute("SET default_null_order = 'nulls_last_on_asc_first_on_desc'")
        for name, rows in (("r", ROWS), ("holes", HOLES), ("small", SMALL)):
            twin.register(name, rows)
        for expression in EXPRESSIONS:
            sql = query.replace("{}", expression)
            with_nulls = re.sub(r"FROM r\b", "FROM holes r", sql)
            for asked, handles_nulls in ((sql, False), (sql, True), (with_nulls, True)):
                found = db.sql(asked, useMultistageEngine=True, enableNullHandling=handles_nulls).rows()
                assert found == twin.execute(asked).fetchall(), f"{asked}, null handling {handles_nulls}"


@pytest.mark.parametrize("handles_nulls", [False, True])
@pytest.mark.parametrize("counted", ["COUNT(NULL)", "DISTINCTCOUNT(NULL)", "COUNT(DISTINCT NULL)", "COUNT(NULLIF(NULL, k))"])
def test_nulls_are_not_counted(db: Database, counted: str, handles_nulls: bool) -> None:
    options = {"useMultistageEngine": True, "enableNullHandling": handles_nulls}
    assert db.sql(f"SELECT {counted} FROM r", **options).rows() == [(0,)]
    assert db.sql(f"SELECT {counted}, COUNT(*) FROM r GROUP BY s ORDER BY s LIMIT 1", **options).rows() == [(0, 4)]
