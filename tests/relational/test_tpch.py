"""The queries of TPC-H give the answers that DuckDB gives."""

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest
from benchmarks.joins import queries, same
from benchmarks.tpch import tables
from tests.relational.conftest import Twins

from gamay.embedded.database import connect


@pytest.fixture(scope="module")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Twins]:
    folder: Path = tmp_path_factory.mktemp("tpch")
    with connect(folder) as db, duckdb.connect(":memory:") as duck:
        for name, table in tables(0.01):
            db.create_table(name, table)
            duck.register("rows", table)
            duck.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
            duck.unregister("rows")
        yield Twins(db, duck)


@pytest.mark.parametrize(("name", "sql"), queries("tpch.sql").items())
def test_answers(tpch: Twins, name: str, sql: str) -> None:
    # a query of one table returns ten rows by default
    mine = tpch.db.sql(sql if "LIMIT" in sql else f"{sql}\nLIMIT 1000000").rows()
    assert same(mine, tpch.duck.execute(sql).fetchall()), name
    assert mine, name
