"""Conjunctions on two columns: a compound inverted index, two single-column ones, and DuckDB on the same rows.

    python -m benchmarks.index_compound

Each column has 200 values, of which few are frequent. The rows lie in two tables of one segment each, which differ in their
indexes; these are asked by turns, and all answers compared. The times of the table are those of the processor.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import gamay
from benchmarks import report
from benchmarks.joins import by_turns_ms
from benchmarks.report import Report, Shape
from gamay.embedded.database import Database

VALUES = 200
REPEATS = 20
CONDITIONS = {
    "frequent and frequent": "a = 'a000' AND b = 'b000'",
    "frequent and less so": "a = 'a000' AND b = 'b020'",
    "less so and less so": "a = 'a003' AND b = 'b005'",
    "rare and rare": "a = 'a080' AND b = 'b090'",
    "IN 3 and IN 3": "a IN ('a001', 'a002', 'a004') AND b IN ('b003', 'b005', 'b009')",
    "= and a range of 40": "a = 'a003' AND b BETWEEN 'b010' AND 'b049'",
}
ASKED = ("COUNT(*)", "SUM(v)")
SHAPES = {
    "index_compound": Shape(
        ("query", "rows", "compound ms", "two indexes ms", "duckdb ms", "× two indexes", "× duckdb"),
        tuple(f"{asked}, {name}" for name in CONDITIONS for asked in ASKED),
        ("wall ms", "two wall ms", "duckdb wall ms"),
    )
}
CONFIGS: dict[str, dict[str, Any]] = {
    "together": {"compoundInvertedIndexConfigs": [{"columns": ["a", "b"]}]},
    "apart": {"invertedIndexColumns": ["a", "b"]},
}


def rows_of(count: int, seed: int) -> pa.Table:
    """Return rows whose columns a and b have value k about (k + 1)^-0.7 times as often as the first one."""
    rng = np.random.default_rng(seed)
    weights = np.arange(1, VALUES + 1) ** -0.7
    numbers = rng.choice(VALUES, (2, count), p=weights / weights.sum())
    values = {column: np.array([f"{column}{k:03}" for k in range(VALUES)]) for column in ("a", "b")}
    texts = {column: values[column][drawn] for column, drawn in zip(values, numbers, strict=True)}
    return pa.table({**texts, "v": rng.integers(0, 1000, count)})


def times_of(
    db: Database, text: str, same: str, duck: duckdb.DuckDBPyConnection, twin: str
) -> tuple[list[float], list[float]]:
    """Return the milliseconds of three queries of the same rows, and of the processor, having compared their answers."""
    assert db.sql(text).rows() == db.sql(same).rows() == duck.execute(twin).fetchall(), text

    def ask(sql: str) -> Callable[[], object]:
        return lambda: [db.sql(sql).rows() for _ in range(REPEATS)]

    # by turns, but not with DuckDB, after which the caches of the processor hold nothing of Gamay
    wall, cpu = by_turns_ms([ask(text), ask(same)])
    others = by_turns_ms([lambda: duck.execute(twin).fetchall()])
    return [*(ms / REPEATS for ms in wall), *others[0]], [*(ms / REPEATS for ms in cpu), *others[1]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    arguments = report.arguments_of(parser)
    rows = rows_of(arguments.rows, arguments.seed)
    found = Report("index_compound", SHAPES["index_compound"])
    with gamay.connect(":memory:", threads=arguments.threads) as db, duckdb.connect(":memory:") as duck:
        duck.execute(f"SET threads = {arguments.threads}")
        for name, indexing in CONFIGS.items():
            begun = time.process_time()
            db.create_table(name, rows, config={"tableIndexConfig": indexing})
            print(f"{name}: built in {time.process_time() - begun:.2f} s of processor time")
        duck.register("rows", rows)
        duck.execute("CREATE TABLE t AS SELECT * FROM rows")
        for name, condition in CONDITIONS.items():
            ((count,),) = duck.execute(f"SELECT COUNT(*) FROM t WHERE {condition}").fetchall()
            for asked in ASKED:
                text = f"SELECT {asked} FROM {{}} WHERE {condition}"
                wall, cpu = times_of(db, text.format("together"), text.format("apart"), duck, text.format("t"))
                ratios = f"{cpu[1] / cpu[0]:.1f}", f"{cpu[2] / cpu[0]:.0f}"
                found.add(f"{asked}, {name}", f"{count:,}", *map("{:.2f}".format, cpu), *ratios, *map("{:.2f}".format, wall))
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
