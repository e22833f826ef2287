"""Shared code of the join benchmarks: compares the answers to each query, then times the systems side by side."""

import math
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import gamay
from benchmarks.report import Report, Shape
from gamay.embedded.database import Database

_ROUNDS = 5
_MEAN, _TOTAL, _CPU = "geometric mean", "total", "× in processor time"


def queries(name: str) -> dict[str, str]:
    """Return the queries of a file of this folder by their names."""
    parts = (Path(__file__).parent / name).read_text().split("-- Q")[1:]
    return {f"Q{part.partition(chr(10))[0]}": part.partition("\n")[2].strip() for part in parts}


def shape(file: str, *, in_cpu_time: bool = True) -> Shape:
    """Return the shape of the table of a file's queries. in_cpu_time: whether the page has that ratio, too."""
    headings = ("query", "gamay ms", "duckdb ms", "× duckdb")
    if not in_cpu_time:
        return Shape(headings, (*queries(file), _MEAN), (_CPU,))
    return Shape((*headings, _CPU), (*queries(file), _MEAN, _TOTAL))


def same(mine: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    """Whether two answers are equal, in order, except for the last digits of sums, and for dates as timestamps."""

    def equal(one: Any, other: Any) -> bool:
        if isinstance(one, float) and isinstance(other, float | int):
            return math.isclose(one, other, rel_tol=1e-9)
        if hasattr(one, "date") and hasattr(other, "isoformat"):
            return bool(one.date() == getattr(other, "date", lambda: other)())
        return bool(one == other)

    return len(mine) == len(theirs) and all(
        len(row) == len(other) and all(map(equal, row, other)) for row, other in zip(mine, theirs, strict=True)
    )


def median_ms(run: Callable[[], object]) -> float:
    times = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        run()
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def by_turns_ms(runs: Sequence[Callable[[], object]]) -> tuple[list[float], list[float]]:
    """Run each several times in turn; return the medians of the elapsed and of the processor times."""
    wall: list[list[float]] = [[] for _ in runs]
    cpu: list[list[float]] = [[] for _ in runs]
    for _ in range(_ROUNDS):
        for side, run in enumerate(runs):
            begun, begun_cpu = time.perf_counter(), time.process_time()
            run()
            wall[side].append((time.perf_counter() - begun) * 1000)
            cpu[side].append((time.process_time() - begun_cpu) * 1000)
    return [statistics.median(times) for times in wall], [statistics.median(times) for times in cpu]


def compare(name: str, shape: Shape, file: str, tables: Iterable[tuple[str, pa.Table]], threads: int) -> Report:
    """Load tables into Gamay and DuckDB, run the queries of a file on both by turns, and return a table of their times."""
    found = Report(name, shape)

    def add(case: str, own: float, other: float, own_cpu: float, other_cpu: float) -> None:
        found.add(case, f"{own:.1f}", f"{other:.1f}", f"{other / own:.2f}", f"{other_cpu / own_cpu:.2f}")

    with gamay.connect(":memory:", threads=threads) as db, duckdb.connect(":memory:") as duck:
        duck.execute(f"SET threads = {threads}")
        for table, rows in tables:
            db.create_table(table, rows)
            duck.register("rows", rows)
            duck.execute(f"CREATE TABLE {table} AS SELECT * FROM rows")
            duck.unregister("rows")
        times: list[tuple[float, ...]] = []
        for query, sql in queries(file).items():
            # a query of one table has ten rows unless it says otherwise
            mine = sql if "LIMIT" in sql else f"{sql}\nLIMIT 1000000"
            answer, expected = db.sql(mine).rows(), duck.execute(sql).fetchall()
            assert same(answer, expected), f"{query}: {answer[:3]} but {expected[:3]}"
            wall, cpu = by_turns_ms((partial(_rows_of, db, mine), partial(_rows_in_duck, duck, sql)))
            times.append((*wall, *cpu))
            add(query, *times[-1])
    columns = list(zip(*times, strict=True))
    add(_MEAN, *map(statistics.geometric_mean, columns))
    if _TOTAL in shape.cases:
        add(_TOTAL, *map(sum, columns))
    return found


def _rows_of(db: Database, sql: str) -> object:
    return db.sql(sql).rows()


def _rows_in_duck(duck: duckdb.DuckDBPyConnection, sql: str) -> object:
    return duck.execute(sql).fetchall()
