"""Runs every query on Gamay, DuckDB and chDB, checks that the answers agree, and prints the ratios.

    python -m benchmarks.compare [--rows 20000000] [--records 2000000] [--repeat 7] [--threads 2] [--only TEXT]
                                 [--systems gamay,duckdb] [--processor] [--write-docs]

A ratio is the peer's median time divided by Gamay's: above 1, Gamay is faster. Results go to build/bench.json. With
--processor, it is the processor time of all threads that is measured, for machines that have other work to do.
"""

import argparse
import json
import math
import statistics
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import data, report
from benchmarks.systems import SYSTEMS, Rows, System

QUERIES = Path(__file__).parent / "queries"
RESULTS = data.FOLDER.parent / "bench.json"
RELATIVE_TOLERANCE = 1e-6
SEED = 7


@dataclass(frozen=True)
class Query:
    """One benchmark query; `texts` by system, '' for all others. tolerance: how far numbers may be apart, relatively."""

    benchmark: str
    name: str
    texts: dict[str, str]
    tolerance: float

    def runs_on(self, system: str) -> bool:
        """Whether the system can answer the query; '' in the file says that it cannot."""
        return self.text(system) != ""

    def text(self, system: str) -> str:
        return self.texts.get(system, self.texts[""])


def read_queries(benchmark: str) -> Iterator[Query]:
    """Yield the queries of one TOML file."""
    for entry in tomllib.loads((QUERIES / f"{benchmark}.toml").read_text())["query"]:
        texts = {"": entry["sql"]} | {system: entry[system] for system in SYSTEMS if system in entry}
        yield Query(benchmark, entry["name"], texts, entry.get("tolerance", RELATIVE_TOLERANCE))


_FIRST_FUNCTION = "percentile by 200 keys"
"""The first query about the events that belongs to the second table."""


def _shapes() -> dict[str, report.Shape]:
    events, flights, records = ([q.name for q in read_queries(name)] for name in ("events", "flights", "records"))
    first = events.index(_FIRST_FUNCTION)
    peers = [name for name in SYSTEMS if name != "gamay"]
    headings = ("query", *(f"{name} ms" for name in SYSTEMS), *(f"× {name}" for name in peers))
    return {
        "compare: scans and groups": report.Shape(headings, (*events[:first], *flights)),
        "compare: functions": report.Shape(headings, (*events[first:], *records)),
    }


SHAPES = _shapes()


def parameters(repeat: int) -> list[dict[str, Any]]:
    """Return other literals for each repetition, the same for every system."""
    rng = np.random.default_rng(SEED)
    day_ms = 86_400_000
    tails = ["N14228", "N24211", "N619AA", "N804JB", "N668DN", "N39463", "N516JB", "N829AS", "N593JB", "N3ALAA", "N793JB"]
    made = []
    for number in range(repeat):
        from_ms = data.START_MS + int(rng.integers(1, 20)) * day_ms
        made.append(
            {
                "status": int(rng.integers(0, 8)),
                "clicks": int(rng.integers(0, 100)),
                "low": int(rng.integers(200, 400)),
                "user": int(rng.integers(0, 100_000)) * 7919,
                "from_ms": from_ms,
                "to_ms": from_ms + 5 * day_ms,
                "hour": int(rng.integers(18, 22)),
                "id": int(rng.integers(0, 97)),
                "tail": tails[number % len(tails)],
            }
        )
    return made


def plain(value: Any) -> Any:
    """Return a value in a form that compares equal for all systems."""
    if isinstance(value, Decimal):
        return float(value)
    if hasattr(value, "timestamp"):
        return f"{value:%Y-%m-%d %H:%M:%S.%f}"[:23]
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return value
    return value


def same(left: Rows, right: Rows, tolerance: float) -> bool:
    """Whether two answers agree, numbers within the tolerance."""
    if len(left) != len(right):
        return False
    for a, b in zip(left, right, strict=True):
        for x, y in zip(map(plain, a), map(plain, b), strict=True):
            if isinstance(x, int | float) and isinstance(y, int | float):
                if not math.isclose(x, y, rel_tol=tolerance):
                    return False
            elif x != y:
                return False
    return True


def measure(
    system: System, query: Query, fillings: Sequence[dict[str, Any]], clock: Callable[[], float]
) -> tuple[float, list[Rows]]:
    """Return the median time of a run in milliseconds, and the answers, after one unmeasured run."""
    system.run(query.text(system.name).format(**fillings[0]))
    times, answers = [], []
    for filling in fillings:
        sql = query.text(system.name).format(**filling)
        start = clock()
        answers.append(system.run(sql))
        times.append((clock() - start) * 1000)
    return statistics.median(times), answers


def run(
    rows: int,
    num_records: int,
    repeat: int,
    threads: int,
    only: str,
    systems: Sequence[str] = tuple(SYSTEMS),
    clock: Callable[[], float] = time.perf_counter,
) -> list[dict[str, Any]]:
    """Run everything, one system after the other so that none shares memory with another; return the records."""
    fillings = parameters(repeat)
    queries = [q for name in ("events", "flights", "records") for q in read_queries(name) if only in q.name]
    medians: dict[tuple[str, str], float] = {}
    answers: dict[tuple[str, str], list[Rows]] = {}
    for chosen in systems:
        system: System = SYSTEMS[chosen](threads)
        tables: dict[str, Callable[[], Sequence[Path]]] = {
            "events": lambda: data.events(rows),
            "flights": data.flights,
            "records": lambda: data.records(num_records),
        }
        for table, files in tables.items():
            if any(q.benchmark == table for q in queries):
                started = time.perf_counter()
                system.load(table, files())
                print(f"{system.name}: {table} ready after {time.perf_counter() - started:.1f} s")
        for query in (query for query in queries if query.runs_on(system.name)):
            medians[query.name, system.name], answers[query.name, system.name] = measure(system, query, fillings, clock)
        system.close()
    records = []
    for query in queries:
        for name in (name for name in systems if query.runs_on(name)):
            if name != "gamay" and not all(
                same(ours, theirs, query.tolerance)
                for ours, theirs in zip(answers[query.name, "gamay"], answers[query.name, name], strict=True)
            ):
                ours, theirs = answers[query.name, "gamay"][0][:3], answers[query.name, name][0][:3]
                raise SystemExit(f"{query.name}: gamay and {name} disagree:\n{ours}\n{theirs}")
            median = medians[query.name, name]
            records.append(
                {
                    "benchmark": query.benchmark,
                    "query": query.name,
                    "system": name,
                    "median_ms": round(median, 3),
                    "ratio": round(median / medians[query.name, "gamay"], 2),
                }
            )
    return records


def show(records: list[dict[str, Any]], *, writes: bool) -> None:
    """Print a line for each query, and the geometric means of each table; write them into the page if so told."""
    by_query: dict[str, dict[str, dict[str, Any]]] = {}
    for record in records:
        by_query.setdefault(record["query"], {})[record["system"]] = record
    peers = [name for name in SYSTEMS if name != "gamay"]
    for title, shape in SHAPES.items():
        table = report.Report(title, shape)
        measured = [by_query[query] for query in shape.cases if query in by_query]
        for found in measured:
            times = [f"{found[name]['median_ms']:.2f}" if name in found else "" for name in SYSTEMS]
            ratios = [f"{found[name]['ratio']:.1f}" if name in found else "" for name in peers]
            table.add(found["gamay"]["query"], *times, *ratios)
        table.finish(writes=writes)
        for name in peers:
            if ratios_of := [found[name]["ratio"] for found in measured if name in found]:
                print(f"geometric mean × {name}: {statistics.geometric_mean(ratios_of):.1f}, least {min(ratios_of):.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Compare Gamay with DuckDB and chDB")
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="", help="only queries whose name contains this text")
    parser.add_argument("--systems", default=",".join(SYSTEMS), help="gamay first, and whom to compare it with")
    parser.add_argument("--processor", action="store_true", help="measure processor time of all threads")
    arguments = report.arguments_of(parser)
    records = run(
        arguments.rows,
        arguments.records,
        arguments.repeat,
        arguments.threads,
        arguments.only,
        arguments.systems.split(","),
        time.process_time if arguments.processor else time.perf_counter,
    )
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(records, indent=1) + "\n")
    show(records, writes=arguments.write_docs)


if __name__ == "__main__":
    main()
