"""ORDER BY several keys with many ties in the first: the first rows against DuckDB."""

from collections.abc import Iterator
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gamay

ROWS = 60_000  # walked in several blocks
KEYS = ("few", "flag", "real", "raw", "word", "rawword", "many", "UPPER(many)", "few + 1")


@pytest.fixture(scope="module")
def tables() -> Iterator[Any]:
    """The same rows in both systems: -0.0, infinities and nulls among them; `id` is unique and lies in no order."""
    rng = np.random.default_rng(3)
    reals = rng.choice(np.array([-np.inf, -1.5, -0.0, 0.0, 2.5, np.inf]), ROWS)
    words = np.array(["", "a", "ab", "é", "\U0001f600"])

    def mask(share: float) -> Any:
        return rng.random(ROWS) < share

    rows = pa.table(
        {
            "id": pa.array(rng.permutation(ROWS)),
            "few": pa.array(rng.integers(0, 3, ROWS), mask=mask(0.2)),
            "flag": pa.array(rng.random(ROWS) < 0.999),
            "real": pa.array(reals, mask=mask(0.01)),
            "raw": pa.array(rng.integers(0, 4, ROWS) / 2, mask=mask(0.3)),
            "word": pa.array(words[rng.integers(0, 5, ROWS)], mask=mask(0.1)),
            "rawword": pa.array(words[rng.integers(0, 5, ROWS)]),
            "wide": pa.array(rng.integers(0, 30_000, ROWS), mask=mask(0.3)),
            "many": pa.array([f"k{number % 5000}" for number in rng.permutation(ROWS)]),
        }
    )
    config = {"tableName": "t", "tableType": "OFFLINE", "tableIndexConfig": {"noDictionaryColumns": ["raw", "rawword"]}}
    with gamay.connect(":memory:", threads=2) as db, duckdb.connect() as duck:
        db.create_table("t", rows, config=config)
        duck.execute("CREATE TABLE t AS SELECT * FROM rows")
        yield db, duck


DIRECTIONS = st.sampled_from(["ASC NULLS LAST", "ASC NULLS FIRST", "DESC NULLS LAST", "DESC NULLS FIRST"])
ORDERS = st.lists(st.tuples(st.sampled_from(KEYS), DIRECTIONS), min_size=1, max_size=3, unique_by=lambda key: key[0])
WHERES = st.sampled_from(["", "WHERE id % 7 = 3", "WHERE id < 40000", "WHERE few = 1", "WHERE id < 50", "WHERE id < 0"])


@settings(max_examples=40)
@given(ORDERS, WHERES, st.sampled_from([1, 10, 100, 3000]))
def test_the_first_rows_are_those_of_duckdb(tables: Any, order: list[tuple[str, str]], where: str, limit: int) -> None:
    db, duck = tables
    by = ", ".join(f"{key} {direction}" for key, direction in order)
    query = f"SELECT id FROM t {where} ORDER BY {by}, id LIMIT {limit}"
    assert db.sql(query).rows() == duck.execute(query).fetchall(), query


def test_a_text_that_is_computed_is_a_first_key(tables: Any) -> None:
    db, duck = tables
    for key in ("UPPER(many) DESC", "UPPER(word) NULLS LAST", "few NULLS LAST, UPPER(many)", "CONCAT(rawword, many) DESC"):
        query = f"SELECT id FROM t ORDER BY {key}, id LIMIT 20"
        assert db.sql(query).rows() == duck.execute(query).fetchall(), query


COLUMNS = st.sampled_from(("few", "real", "raw", "word", "rawword", "many", "wide", "id"))
LISTS = st.lists(COLUMNS, min_size=1, max_size=2, unique=True)


@settings(max_examples=40)
@given(LISTS, st.lists(DIRECTIONS, min_size=2, max_size=2), WHERES, st.sampled_from([1, 10, 1000, 20_000]))
def test_the_first_distinct_rows_are_those_of_duckdb(
    tables: Any, keys: list[str], directions: list[str], where: str, limit: int
) -> None:
    db, duck = tables
    order = ", ".join(f"{place} {direction}" for place, direction in enumerate(directions[: len(keys)], 1))
    query = f"SELECT DISTINCT {', '.join(keys)} FROM t {where} ORDER BY {order} LIMIT {limit}"
    assert db.sql(query).rows() == duck.execute(query).fetchall(), query
    if len(keys) == 2:  # the second one decides, and the first settles ties
        query = (
            f"SELECT DISTINCT {', '.join(keys)} FROM t {where} ORDER BY 2 {directions[0]}, 1 {directions[1]} LIMIT {limit}"
        )
        assert db.sql(query).rows() == duck.execute(query).fetchall(), query
