"""Random queries about random tables, against DuckDB: finds what is slow in workloads without tuning.

    python -m benchmarks.random_queries [--seed 2] [--queries 200] [--tables 4] [--rows 2000000] [--only KIND] [--write-docs]

Tables and queries are functions of the seed (`benchmarks.random_tables`, `benchmarks.random_grammar`); no table has an
index, and half of the numbers of some have no dictionary. Both systems take turns at each query, so that both see the same
quiet and loud moments of the machine. Answers are compared first, and one that differs ends the run with its query.
"""

import argparse
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import duckdb

import gamay
from benchmarks import report
from benchmarks.random_grammar import KINDS, Grammar, RandomQuery
from benchmarks.random_tables import draw_rows, draw_shape

SHAPES = {
    "random_queries": report.Shape(
        ("queries", "number", "gamay ms", "duckdb ms", "× duckdb", "least", "× in processor time"), (*KINDS, "all")
    )
}
_ROUNDS = 5
_WORST = 10

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True)
class Measured:
    """One query with the medians of both systems, elapsed and in processor time of all threads, in milliseconds."""

    query: RandomQuery
    own_ms: float
    duck_ms: float
    own_cpu_ms: float
    duck_cpu_ms: float

    @property
    def ratio(self) -> float:
        return self.duck_ms / self.own_ms

    @property
    def cpu_ratio(self) -> float:
        return self.duck_cpu_ms / self.own_cpu_ms


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return float(value) if isinstance(value, int | float) else value


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-6) or (one != one and other != other)
    return bool(one == other)


def agree(own: Rows, theirs: Rows, *, is_ordered: bool) -> bool:
    """Whether two answers have the same rows, except for the last digits of numbers."""
    sides = [[tuple(map(_plain, row)) for row in rows] for rows in (own, theirs)]
    if not is_ordered:  # columns of keys come first, and no two rows have the same ones
        sides = [sorted(rows, key=lambda row: [(value is None, str(value)) for value in row]) for rows in sides]
    return len(own) == len(theirs) and all(
        all(map(_same, row, other)) for row, other in zip(sides[0], sides[1], strict=True)
    )


def measure(query: RandomQuery, own: Callable[[str], Rows], duck: Callable[[str], Rows]) -> Measured:
    """Run a query on both by turns. Raises SystemExit if they disagree."""
    mine, theirs = own(query.gamay), duck(query.duck)
    if not agree(mine, theirs, is_ordered=query.is_ordered):
        raise SystemExit(f"{query.gamay}\ngamay {len(mine)} rows {mine[:3]}\nduckdb {len(theirs)} rows {theirs[:3]}")
    times: tuple[list[float], ...] = ([], [], [], [])
    for _ in range(_ROUNDS):
        for side, (run, text) in enumerate(((own, query.gamay), (duck, query.duck))):
            wall, cpu = time.perf_counter(), time.process_time()
            run(text)
            times[side].append((time.perf_counter() - wall) * 1000)
            times[2 + side].append((time.process_time() - cpu) * 1000)
    return Measured(query, *(statistics.median(column) for column in times))


def run(seed: int, num_queries: int, num_tables: int, num_rows: int, threads: int, only: str) -> list[Measured]:
    """Draw tables, and measure queries of all kinds in turn on each."""
    measured: list[Measured] = []
    kinds = [kind for kind in KINDS if only in kind]
    for number in range(num_tables):
        draw = random.Random(f"{seed} {number}")
        shape = draw_shape(draw, num_rows)
        rows = draw_rows(shape, num_rows, draw.randrange(1 << 30))
        with gamay.connect(":memory:", threads=threads) as db, duckdb.connect(":memory:") as duck:
            duck.execute(f"SET threads = {threads}")
            duck.execute("CREATE TABLE t AS SELECT * FROM rows")
            config = {"tableName": "t", "tableType": "OFFLINE", "tableIndexConfig": {"noDictionaryColumns": list(shape.raw)}}
            db.create_table("t", rows, config=config)
            grammar = Grammar("t", shape, draw)
            for place in range(number * num_queries // num_tables, (number + 1) * num_queries // num_tables):
                query = grammar.query(kinds[place % len(kinds)])
                measured.append(measure(query, lambda sql: db.sql(sql).rows(), lambda sql: duck.execute(sql).fetchall()))
    return measured


def show(measured: Sequence[Measured]) -> report.Report:
    """Print the worst queries; return the table of ratios by kind."""
    for one in sorted(measured, key=lambda one: one.ratio)[:_WORST]:
        print(
            f"{one.ratio:5.2f} (processor {one.cpu_ratio:.2f}) {one.own_ms:7.1f} ms {one.duck_ms:7.1f} ms  {one.query.gamay}"
        )
    table = report.Report("random_queries", SHAPES["random_queries"])
    mean = statistics.geometric_mean
    for kind in (*KINDS, "all"):
        if found := [one for one in measured if kind in ("all", one.query.kind)]:
            table.add(
                kind,
                str(len(found)),
                f"{mean(one.own_ms for one in found):.1f}",
                f"{mean(one.duck_ms for one in found):.1f}",
                f"{mean(one.ratio for one in found):.2f}",
                f"{min(one.ratio for one in found):.2f}",
                f"{mean(one.cpu_ratio for one in found):.2f}",
            )
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=2)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--tables", type=int, default=4)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="only kinds of queries whose name contains this text")
    arguments = report.arguments_of(parser)
    measured = run(arguments.seed, arguments.queries, arguments.tables, arguments.rows, arguments.threads, arguments.only)
    show(measured).finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
