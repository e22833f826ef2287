"""The 22 queries of TPC-H on eight joined tables, against DuckDB: answers compared, then the times of each side by side.

    python -m benchmarks.tpch --scale 1

Decimals are doubles on both sides.
"""

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import gamay

TABLES = ("region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem")
_ROUNDS = 5


def queries() -> dict[str, str]:
    """Return the queries by name, `Q1` to `Q22`."""
    parts = (Path(__file__).parent / "tpch.sql").read_text().split("-- Q")[1:]
    return {f"Q{part.partition(chr(10))[0]}": part.partition("\n")[2].strip() for part in parts}


def tables(scale: float) -> Iterator[tuple[str, pa.Table]]:
    """Generate the tables, with doubles for decimals and plain texts."""
    with tempfile.TemporaryDirectory() as folder:
        generator = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([generator, "parquet", "-s", str(scale), "--output-dir", folder], check=True, capture_output=True)
        for name in TABLES:
            yield name, _plain(pq.read_table(f"{folder}/{name}.parquet"))


def _plain(table: pa.Table) -> pa.Table:
    fields = []
    for field in table.schema:
        kind = pa.float64() if pa.types.is_decimal(field.type) else field.type
        fields.append(pa.field(field.name, pa.string() if pa.types.is_string_view(kind) else kind))
    return table.cast(pa.schema(fields))


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


def _median_ms(run: Callable[[], object]) -> float:
    times = []
    for _ in range(_ROUNDS):
        begun = time.perf_counter()
        run()
        times.append((time.perf_counter() - begun) * 1000)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    with gamay.connect(":memory:", threads=arguments.threads) as db, duckdb.connect(":memory:") as duck:
        duck.execute(f"SET threads = {arguments.threads}")
        for name, table in tables(arguments.scale):
            db.create_table(name, table)
            duck.register("rows", table)
            duck.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
            duck.unregister("rows")
        print("| query | gamay ms | duckdb ms | × duckdb |\n| --- | ---: | ---: | ---: |")
        ratios, totals = [], [0.0, 0.0]
        for name, sql in queries().items():
            # a query of one table has ten rows unless it says otherwise
            mine = sql if "LIMIT" in sql else f"{sql}\nLIMIT 1000000"
            found, expected = db.sql(mine).rows(), duck.execute(sql).fetchall()
            assert same(found, expected), f"{name}: {found[:3]} but {expected[:3]}"
            own = _median_ms(lambda text=mine: db.sql(text).rows())  # type: ignore[misc]
            other = _median_ms(lambda text=sql: duck.execute(text).fetchall())  # type: ignore[misc]
            ratios.append(other / own)
            totals = [totals[0] + own, totals[1] + other]
            print(f"| {name} | {own:.1f} | {other:.1f} | {other / own:.2f} |")
        print(f"\ngeometric mean {statistics.geometric_mean(ratios):.2f} × DuckDB")
        print(f"in all {totals[0]:.0f} ms, DuckDB {totals[1]:.0f} ms")


if __name__ == "__main__":
    main()
