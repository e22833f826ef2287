"""DataFrames, Arrow objects and files in FROM, joined with tables."""

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gamay
from gamay.base.errors import InvalidConfigError, NotFoundError, QueryError
from gamay.embedded.database import Database
from gamay.sql.parser import parse_query

TRIPS = pa.table({"zone": [1, 2, 2, 3], "fare": [1.5, 2.5, 3.5, 4.5]})
JOINED = "SELECT z.name, SUM(t.fare) FROM trips t JOIN zones z ON t.zone = z.id GROUP BY z.name ORDER BY z.name"


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with gamay.connect(":memory:") as made:
        made.create_table("trips", TRIPS)
        yield made


def _kinds() -> dict[str, Any]:
    columns = {"id": [1, 2, 4], "name": ["a", "b", None]}
    return {
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "lazy": pl.LazyFrame(columns),
        "arrow": pa.table(columns),
        "batch": pa.record_batch(columns),
        "reader": pa.table(columns).to_reader(),
    }


@pytest.mark.parametrize("kind", _kinds())
def test_each_kind_of_frame_joins_with_a_table(db: Database, kind: str) -> None:
    zones = _kinds()[kind]
    assert len(zones.columns) if kind == "pandas" else zones is not None  # the name is used in the query
    assert db.sql(JOINED).rows() == [("a", 1.5), ("b", 6.0)]


def test_names_are_those_of_the_caller_and_tables_come_first(db: Database) -> None:
    trips = pa.table({"zone": [7]})

    def inner() -> list[tuple[Any, ...]]:
        some = pa.table({"x": [1]})
        assert some.num_rows == 1
        return db.sql("SELECT * FROM some").rows()

    assert trips.num_rows == 1
    assert db.sql("SELECT COUNT(*) FROM trips").rows() == [(4,)]
    assert inner() == [(1,)]
    for text in ("SELECT * FROM some", "SELECT * FROM inner_text", "SELECT * FROM inner"):
        inner_text = "SELECT"
        assert inner_text
        with pytest.raises(QueryError, match=r"does not exist|expected"):
            db.sql(text)


def test_types_and_nulls(db: Database) -> None:
    day = dt.datetime(2026, 1, 2, 3, 4, 5)
    frame = pl.DataFrame(
        {
            "i": pl.Series([1, None], dtype=pl.Int32),
            "f": pl.Series([0.5, None], dtype=pl.Float32),
            "b": [True, None],
            "s": ["x", None],
            "t": [day, None],
            "c": [Decimal("1.50"), None],
            "y": [b"\x01", None],
            "l": [[1, 2], None],
        }
    )
    assert frame.height == 2
    result = db.sql("SELECT * FROM frame")
    assert result.columns == tuple(frame.columns)
    assert result.types == ("INT", "FLOAT", "BOOLEAN", "STRING", "TIMESTAMP", "BIG_DECIMAL", "BYTES", "LONG_ARRAY")
    assert result.rows()[0] == (1, 0.5, True, "x", day.replace(tzinfo=dt.UTC), Decimal("1.5"), b"\x01", [1, 2])
    assert result.rows()[1] == (None,) * 8
    assert db.sql("SELECT COUNT(i), SUM(i), MAX(t) IS NULL FROM frame WHERE s IS NULL").rows() == [(0, None, True)]
    assert db.sql("SELECT i FROM frame WHERE t > '2026-01-01 00:00:00'", enableNullHandling=False).rows() == [(1,)]


def test_files(db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"id": [1, 2], "v": ["x", "y"]}), tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("id,w\n1,q\n9,r\n")
    monkeypatch.chdir(tmp_path)
    text = "SELECT a.v, b.w FROM 'a.parquet' a LEFT JOIN 'b.csv' AS b ON a.id = b.id ORDER BY a.id"
    assert db.sql(text).rows() == [("x", "q"), ("y", None)]
    # a path is a part of the query, not one of its constants
    assert db.sql("SELECT COUNT(*) FROM 'a.parquet' WHERE id > 1").rows() == [(1,)]
    assert db.sql("SELECT COUNT(*) FROM 'b.csv' WHERE id > 1").rows() == [(1,)]
    assert db.sql(f"SELECT SUM(id) FROM '{tmp_path}/*.csv' WHERE id > ?", [1]).rows() == [(9,)]
    assert db.sql("SELECT fare FROM trips WHERE zone IN (SELECT id FROM 'a.parquet') ORDER BY 1 LIMIT 1").rows() == [(1.5,)]
    (tmp_path / "broken.parquet").write_bytes(b"PAR1")
    for wrong, kind, message in (
        ("nothing.parquet", NotFoundError, "nothing.parquet"),
        ("broken.parquet", Exception, "broken.parquet"),
        ("notes", QueryError, "Table 'notes' does not exist"),
    ):
        with pytest.raises(kind, match=message):
            db.sql(f"SELECT * FROM '{wrong}'")


def test_what_cannot_be_read_is_told(db: Database) -> None:
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    assert twice.num_columns == 2
    with pytest.raises(InvalidConfigError, match="a"):
        db.sql("SELECT * FROM twice")
    frame = pd.DataFrame({"a": [1]})
    assert len(frame) == 1
    with pytest.raises(QueryError, match="Unknown columnName 'b'"):
        db.sql("SELECT b FROM frame")


def test_rows_of_a_frame_agree_with_duckdb(db: Database) -> None:
    rng = np.random.default_rng(5)
    left = pd.DataFrame({"k": rng.integers(0, 50, 2000), "x": rng.normal(size=2000)})
    right = pd.DataFrame({"k": np.arange(0, 60, 2), "name": [f"n{each % 7}" for each in range(30)]})
    assert len(left) > len(right)
    text = "SELECT name, COUNT(*), SUM(x) FROM left_ l JOIN right_ r ON l.k = r.k WHERE x > 0 GROUP BY name ORDER BY name"
    left_, right_ = left, right
    assert left_ is left
    assert right_ is right
    mine, theirs = db.sql(text).rows(), duckdb.sql(text).fetchall()
    assert [row[:2] for row in mine] == [row[:2] for row in theirs]
    assert np.allclose([row[2] for row in mine], [row[2] for row in theirs])


def test_templates_of_queries_of_files_are_apart() -> None:
    assert parse_query("SELECT x FROM 'a.csv' WHERE y = 'a.csv'").tables == ("a.csv",)
    assert parse_query("SELECT x FROM 'b.csv' WHERE y = 'a.csv'").tables == ("b.csv",)
    assert parse_query("SELECT x FROM 'b.csv' WHERE y = 'b.csv'").tables == ("b.csv",)
