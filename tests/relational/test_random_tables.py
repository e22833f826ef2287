"""Joins of random tables against DuckDB, some large enough that keys of one become conditions on another."""

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from tests.relational.conftest import Twins
from tests.relational.tree_generator import TABLES, TreeGenerator, mixed_join
from tests.seeds import by_first, chunks, count_of

from gamay.embedded.database import connect

_ROWS_MAX = 20_000  # of an answer; what gives more is left out
_NUMBERS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "i": (pa.int32(), (0, 1, 2, 3, -1, 2**31 - 1, -(2**31) + 1)),
    "l": (pa.int64(), (0, 1, 2, 3, -1, 2**31, 2**53, 2**53 + 1, -(2**53) - 1, 2**62)),
    "x": (pa.float32(), (0.0, 1.0, 2.0, 0.5, 0.1, -1.0, 16777216.0)),
    "d": (pa.float64(), (0.0, 1.0, 2.0, 3.0, 0.5, 0.1, -1.0, 2.0**53)),
    "s": (pa.string(), ("", "a", "A", "b", "1", "2", "0", "ä", "a ")),
}


def _few(rng: random.Random, count: int) -> pa.Table:
    """Return rows of few values."""
    nulls = rng.choice((0, 0, 0.1, 0.3))

    def some(values: Sequence[Any]) -> list[Any]:
        return [None if rng.random() < nulls else rng.choice(values) for _ in range(count)]

    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "k": pa.array(some(range(rng.choice((5, 30, 200)))), pa.int32()),
            "g": pa.array(some("abcde"), pa.string()),
            "v": pa.array(some(range(20)), pa.int64()),
            "w": pa.array(some((0.5, 1.5, 2.25, 8.0)), pa.float64()),
            "f": pa.array(some((True, False)), pa.bool_()),
        }
    )


def _mixed(rng: random.Random, count: int) -> pa.Table:
    """Return rows whose numbers are the same in several types, or nearly so."""
    nulls = rng.choice((0, 0, 0.2))
    columns = {"id": pa.array(range(count), pa.int64())}
    for name, (kind, values) in _NUMBERS.items():
        pool = rng.sample(values, rng.randint(1, len(values)))
        columns[name] = pa.array([None if rng.random() < nulls else rng.choice(pool) for _ in range(count)], kind)
    return pa.table(columns)


def _compare(folder: Path, numbers: range, make: Callable[[random.Random, int], pa.Table], sizes: Sequence[int],
             query: Callable[[random.Random], str]) -> None:  # fmt: skip
    """Ask both systems the query of each number, over tables that are those of the first one."""
    rng = random.Random(numbers.start)
    with connect(folder) as db, duckdb.connect(":memory:") as duck:
        for name in TABLES:
            rows = make(rng, rng.choice(sizes))
            db.create_table(name, rows)
            duck.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
        twins = Twins(db, duck)
        for number in numbers:
            sql = query(random.Random(number))
            counted = duck.execute(f"SELECT COUNT(*) FROM ({sql})").fetchone()
            if counted is not None and counted[0] <= _ROWS_MAX:
                twins.check(f"{sql} LIMIT {_ROWS_MAX}")


@pytest.mark.parametrize("numbers", chunks(count_of("GAMAY_RELATIONAL_TREES", 160), 40), ids=by_first)
def test_trees_of_joins(tmp_path: Path, numbers: range) -> None:
    _compare(tmp_path, numbers, _few, (5, 40, 300, 1500), lambda rng: TreeGenerator(rng).query())


@pytest.mark.parametrize("numbers", chunks(count_of("GAMAY_RELATIONAL_TREES", 160), 40), ids=by_first)
def test_joins_of_columns_of_other_types(tmp_path: Path, numbers: range) -> None:
    _compare(tmp_path, numbers, _mixed, (5, 40, 400, 3000), mixed_join)
