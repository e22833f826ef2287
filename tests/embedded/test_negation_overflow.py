"""-x and abs(x) of integers at the limits of their type: rows are independent of each other; values against DuckDB."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import gamay
from gamay.base.errors import ErrorCode, QueryError
from gamay.embedded import Database

INTS = [0, 5, -(2**31) + 1, -(2**31), 2**31 - 1, None]
LONGS = [1, -(2**63) + 1, 7, -(2**63), 2**63 - 1, None]
DATA = pa.table({"k": range(6), "i": pa.array(INTS, pa.int32()), "l": pa.array(LONGS, pa.int64())})


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with gamay.connect(tmp_path_factory.mktemp("negation") / "data") as database:
        database.create_table("t", DATA)
        yield database


@pytest.mark.parametrize("function", ["-{}", "abs({})"])
@pytest.mark.parametrize(("column", "values"), [("i", INTS), ("l", LONGS)])
def test_each_row_alone(db: Database, function: str, column: str, values: list[int | None]) -> None:
    written = function.format(column)
    least = -(2**31) if column == "i" else -(2**63)
    for k, value in enumerate(values):
        for sql in (f"SELECT {written} FROM t WHERE k = {k}", f"SELECT k FROM t WHERE k = {k} AND {written} <> 12"):
            if value == least:
                with pytest.raises(QueryError, match=f"{least}, the smallest .*cast the argument to") as raised:
                    db.sql(sql)
                assert raised.value.code is ErrorCode.QUERY_EXECUTION
            elif sql.startswith("SELECT k"):
                assert db.sql(sql).rows() == ([] if value is None else [(k,)])
            else:
                expected = None if value is None else abs(value) if "abs" in written else -value
                assert db.sql(sql).rows() == [(expected,)]


@pytest.mark.parametrize("written", ["-i", "abs(i)", "-l", "abs(l)", "-(-l)"])
def test_like_duckdb(db: Database, written: str) -> None:
    def of_duckdb(condition: str) -> Any:
        t = DATA  # noqa: F841 - read by name
        return duckdb.sql(f"SELECT {written} FROM t WHERE {condition} ORDER BY k").fetchall()

    for condition in ("k < 3", "k = 5", "k > 3"):
        assert db.sql(f"SELECT {written} FROM t WHERE {condition} ORDER BY k").rows() == of_duckdb(condition)
    with pytest.raises(duckdb.OutOfRangeException):
        of_duckdb("k <= 3")
    with pytest.raises(QueryError, match="the smallest"):
        db.sql(f"SELECT {written} FROM t WHERE k <= 3")


def test_after_aggregation_and_of_literals(db: Database) -> None:
    with pytest.raises(QueryError, match="the smallest LONG"):
        db.sql("SELECT -anyValue(l) FROM t WHERE k = 3")
    with pytest.raises(QueryError, match="does not fit 64 bits"):
        db.sql("SELECT -(-9223372036854775808)")
    assert db.sql("SELECT -9223372036854775808, -(-9223372036854775807)").rows() == [(-(2**63), 2**63 - 1)]
