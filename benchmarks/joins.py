"""What the benchmarks of joins share: each query's answers are compared, then the times of each system side by side."""

import math
import statistics
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import gamay
from benchmarks.report import Report, Shape

_ROUNDS = 5
_MEAN = "geometric mean"


def queries(name: str) -> dict[str, str]:
    """Return the queries of a file of this folder by their names."""
    parts = (Path(__file__).parent / name).read_text().split("-- Q")[1:]
    return {f"Q{part.partition(chr(10))[0]}": part.partition("\n")[2].strip() for part in parts}


def shape(file: str) -> Shape:
    """Return the shape of the table of a file's queries."""
    return Shape(("query", "gamay ms", "duckdb ms", "× duckdb"), (*queries(file), _MEAN))


def same(mine: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    """Whether two answers are the same, in order, but for the last digits of sums, and dates being moments."""

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


def compare(name: str, file: str, tables: Iterable[tuple[str, pa.Table]], threads: int) -> Report:
    """Load tables into Gamay and DuckDB, run the queries of a file on both, and return a table of their times."""
    found = Report(name, shape(file))
    with gamay.connect(":memory:", threads=threads) as db, duckdb.connect(":memory:") as duck:
        duck.execute(f"SET threads = {threads}")
        for table, rows in tables:
            db.create_table(table, rows)
            duck.register("rows", rows)
            duck.execute(f"CREATE TABLE {table} AS SELECT * FROM rows")
            duck.unregister("rows")
        times: list[tuple[float, float]] = []
        for query, sql in queries(file).items():
            # a query of one table has ten rows unless it says otherwise
            mine = sql if "LIMIT" in sql else f"{sql}\nLIMIT 1000000"
            answer, expected = db.sql(mine).rows(), duck.execute(sql).fetchall()
            assert same(answer, expected), f"{query}: {answer[:3]} but {expected[:3]}"
            own = median_ms(lambda text=mine: db.sql(text).rows())  # type: ignore[misc]
            other = median_ms(lambda text=sql: duck.execute(text).fetchall())  # type: ignore[misc]
            times.append((own, other))
            found.add(query, f"{own:.1f}", f"{other:.1f}", f"{other / own:.2f}")
    own, other = (statistics.geometric_mean(column) for column in zip(*times, strict=True))
    found.add(_MEAN, f"{own:.1f}", f"{other:.1f}", f"{other / own:.2f}")
    return found
