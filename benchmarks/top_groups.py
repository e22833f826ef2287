"""The first of many groups, exact by default: 12 million order lines of 200,000 customers and 400,000 parts.

    python -m benchmarks.top_groups [--rows 12000000] [--repeat 5] [--threads 2] [--only TEXT] [--processor] [--write-docs]

First all queries with default settings, answers compared; then those of the most groups under a budget of 100 MB that they
do not fit, Gamay with `maxQueryMemoryBytes` and DuckDB with `memory_limit`, both with room on the disk.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import report
from benchmarks.compare import RELATIVE_TOLERANCE, same
from benchmarks.data import FOLDER, ROWS_PER_FILE, SEED
from benchmarks.systems import SYSTEMS, Rows, System

CUSTOMERS, PARTS, CLERKS = 200_000, 400_000, 1_000_000

# name, what is shown, the keys; all are the ten first in descending order of the last column, ties by the keys
QUERIES = [
    ("COUNT by part", "partkey, COUNT(*)", "partkey"),
    ("SUM by part", "partkey, SUM(quantity)", "partkey"),
    ("SUM of prices by customer", "custkey, SUM(price)", "custkey"),
    ("AVG and MAX by customer", "custkey, MAX(price), AVG(quantity)", "custkey"),
    ("distinct parts by customer", "custkey, COUNT(DISTINCT partkey)", "custkey"),
    ("COUNT by clerk, raw text", "clerk, COUNT(*)", "clerk"),
    ("COUNT by price, raw number", "price, COUNT(*)", "price"),
    ("COUNT by customer and mode", "custkey, shipmode, COUNT(*)", "custkey, shipmode"),
    ("SUM by customer and part", "custkey, partkey, SUM(quantity)", "custkey, partkey"),
]
SPILLED = ("SUM of prices by customer", "COUNT by clerk, raw text", "SUM by customer and part")
BUDGET_MB = 100
DEFAULT, SPILLS = "top_groups", "top_groups: spilled"
SHAPES = {
    DEFAULT: report.Shape(
        ("query", "gamay ms", "duckdb ms", "chdb ms", "× duckdb", "× chdb"), tuple(name for name, _, _ in QUERIES)
    ),
    SPILLS: report.Shape(("query", "gamay ms", "duckdb ms", "× duckdb"), SPILLED),
}


def orders(num_rows: int) -> list[Path]:
    """Return the Parquet files of the order lines, made on first use; the same rows for the same `num_rows`."""
    folder = FOLDER / f"orders_{num_rows}"
    done = folder / "_SUCCESS"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(SEED)
        modes = pa.array(["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"])
        clerks = pa.array([f"Clerk#{i:09d}" for i in range(CLERKS)])
        for number, start in enumerate(range(0, num_rows, ROWS_PER_FILE)):
            rows = min(ROWS_PER_FILE, num_rows - start)
            table = pa.table(
                {
                    "custkey": pa.array(rng.integers(1, CUSTOMERS + 1, rows)),
                    "partkey": pa.array(rng.integers(1, PARTS + 1, rows)),
                    "clerk": clerks.take(pa.array(rng.integers(0, CLERKS, rows))),
                    "shipmode": modes.take(pa.array(rng.integers(0, len(modes), rows))),
                    "quantity": pa.array(rng.integers(1, 51, rows).astype(np.int32)),
                    "price": pa.array(rng.integers(90_000, 10_500_000, rows) / 100.0),
                }
            )
            pq.write_table(table, folder / f"part-{number:03d}.parquet", compression="zstd")
        done.touch()
    return sorted(folder.glob("*.parquet"))


def text_of(shown: str, keys: str) -> str:
    """Return the query for the ten groups with the greatest values of the last output."""
    last = len(shown.replace("COUNT(DISTINCT partkey)", "n").split(", "))
    return f"SELECT {shown} FROM orders GROUP BY {keys} ORDER BY {last} DESC, {keys} LIMIT 10"


def measure(system: System, sql: str, repeat: int, clock: Callable[[], float]) -> tuple[float, Rows]:
    """Return the median time of a run in milliseconds, and the answer, after one unmeasured run."""
    answer = system.run(sql)
    times = []
    for _ in range(repeat):
        start = clock()
        system.run(sql)
        times.append((clock() - start) * 1000)
    return statistics.median(times), answer


def compare(table: str, systems: Sequence[System], names: Sequence[str], prefixes: dict[str, str], repeat: int,
            clock: Callable[[], float]) -> report.Report:  # fmt: skip
    """Run the named queries on all systems, the first being Gamay; return the measurements. Exits if answers differ."""
    measured = report.Report(table, SHAPES[table])
    for name, shown, keys in QUERIES:
        if name not in names:
            continue
        found = [measure(s, prefixes.get(s.name, "") + text_of(shown, keys), repeat, clock) for s in systems]
        for system, (_, answer) in zip(systems[1:], found[1:], strict=True):
            if not same(found[0][1], answer, RELATIVE_TOLERANCE):
                raise SystemExit(f"{name}: gamay and {system.name} disagree:\n{found[0][1]}\n{answer}")
        times = [time_ms for time_ms, _ in found]
        measured.add(name, *(f"{t:.0f}" for t in times), *(f"{t / times[0]:.1f}" for t in times[1:]))
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare the first of many groups with DuckDB and chDB")
    parser.add_argument("--rows", type=int, default=12_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="only queries whose name contains this text")
    parser.add_argument("--processor", action="store_true", help="measure processor time of all threads")
    arguments = report.arguments_of(parser)
    clock = time.process_time if arguments.processor else time.perf_counter
    systems: list[System] = [made(arguments.threads) for made in SYSTEMS.values()]
    for system in systems:
        system.load("orders", orders(arguments.rows))
    names = [name for name, _, _ in QUERIES if arguments.only in name]
    patience = "SET timeoutMs = 600000; "
    found = compare(DEFAULT, systems, names, {"gamay": patience}, arguments.repeat, clock)
    found.finish(writes=arguments.write_docs)
    limited = [system for system in systems if system.name in ("gamay", "duckdb")]
    for system in limited:
        if system.name == "duckdb":
            system.run(f"SET memory_limit = '{BUDGET_MB}MB'")
    prefixes = {"gamay": f"{patience}SET maxQueryMemoryBytes = {BUDGET_MB * 1_000_000}; "}
    spilled = compare(SPILLS, limited, [name for name in names if name in SPILLED], prefixes, arguments.repeat, clock)
    spilled.finish(writes=arguments.write_docs)
    for system in systems:
        system.close()


if __name__ == "__main__":
    main()
