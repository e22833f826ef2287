"""Three small tables, in several segments each, in Gamay and in DuckDB."""

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from gamay.embedded.database import Database, connect


@dataclass
class Twins:
    """The same rows twice."""

    db: Database
    duck: duckdb.DuckDBPyConnection

    def check(self, sql: str, duck_sql: str | None = None) -> list[tuple[Any, ...]]:
        """Assert that both give the same rows, in order where the query has one at its end; return them."""
        mine = [tuple(_plain(cell) for cell in row) for row in self.db.sql(sql).rows()]
        theirs = [tuple(_plain(cell) for cell in row) for row in self.duck.execute(duck_sql or sql).fetchall()]
        if "ORDER BY" not in sql.rsplit(")", 1)[-1].upper():
            mine, theirs = sorted(mine, key=_key), sorted(theirs, key=_key)
        assert _same(mine, theirs), f"{sql}\ngamay:  {mine[:20]}\nduckdb: {theirs[:20]}"
        return mine

    def plan(self, sql: str) -> str:
        """Return the output of EXPLAIN for a query."""
        return str(self.db.sql(f"EXPLAIN PLAN FOR {sql}").rows()[0][1])


def _plain(cell: Any) -> Any:
    if isinstance(cell, Decimal):
        return float(cell)
    return tuple(_plain(each) for each in cell) if isinstance(cell, list) else cell


def _key(row: tuple[Any, ...]) -> list[tuple[bool, str, Any]]:
    return [(cell is None, type(cell).__name__ if isinstance(cell, str | tuple) else "", cell or 0) for cell in row]


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, list | tuple):
        return len(mine) == len(theirs) and all(_same(one, other) for one, other in zip(mine, theirs, strict=True))
    if isinstance(mine, float) or isinstance(theirs, float):
        return mine is not None and theirs is not None and math.isclose(mine, theirs, rel_tol=1e-9, abs_tol=1e-9)
    return bool(mine == theirs)


def rows_of_sales(count: int, seed: int) -> pa.Table:
    rng = random.Random(seed)

    def some(choices: list[Any], nulls: float = 0.1) -> list[Any]:
        return [None if rng.random() < nulls else rng.choice(choices) for _ in range(count)]

    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "shop": pa.array(some(["s1", "s2", "s3", "s4", "s9"]), pa.string()),
            "item": pa.array(some([1, 2, 3, 4, 5, 6, 77]), pa.int32()),
            "qty": pa.array(some(list(range(10))), pa.int32()),
            "price": pa.array(some([0.5, 1.25, 3.0, 10.0, 2.5]), pa.float64()),
            "ts": pa.array([1_700_000_000_000 + rng.randrange(0, 40) * 3_600_000 for _ in range(count)], pa.int64()),
            "big": pa.array(some([2**60 + 1, 2**60, -(2**55) - 1, 3]), pa.int64()),
            "paid": pa.array(some([True, False]), pa.bool_()),
        }
    )


SHOPS = pa.table(
    {
        "shop": ["s1", "s2", "s3", "s5", None],
        "city": ["Lyon", "Nice", "Lyon", "Brest", "Nowhere"],
        "area": pa.array([120, 80, None, 300, 5], pa.int32()),
    }
)
ITEMS = pa.table(
    {
        "item": pa.array([1, 2, 3, 4, 5, 6, 8], pa.int32()),
        "name": ["ale", "bread", "cider", "dates", "eggs", "figs", "hops"],
        "kind": ["drink", "food", "drink", "food", "food", None, "drink"],
        "tags": [["a", "b"], ["b"], ["a", "c"], [], ["c"], ["a"], ["b", "c"]],
    }
)


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    folder: Path = tmp_path_factory.mktemp("relational")
    sales = rows_of_sales(200, seed=7)
    with connect(folder) as db, duckdb.connect(":memory:") as duck:
        for start in range(0, 200, 70):
            part = sales.slice(start, 70)
            db.create_table("sales", part, if_exists="append" if start else "fail")
        db.create_table("shops", SHOPS)
        db.create_table("items", ITEMS)
        for name, table in (("sales", sales), ("shops", SHOPS), ("items", ITEMS)):
            duck.register(f"{name}_rows", table)
            duck.execute(f"CREATE TABLE {name} AS SELECT * FROM {name}_rows")
        duck.execute("SET default_null_order = 'nulls_last'")
        yield Twins(db, duck)
