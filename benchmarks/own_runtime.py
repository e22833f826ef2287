"""The gain of each part that replaces one of the runtime (allocator, importer, garbage collector, Numba's cache).

    python -m benchmarks.own_runtime [--rounds 5]

Each part is measured in processes that have it and in others that have not, by turns; medians. A part that gains users
less than a tenth is one to give up (`docs/decisions/0020-own-runtime.md`).
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil

from benchmarks import report

_ROWS = 4_000_000
_REPEATS = 15
_SEGMENTS = 50_000


@dataclass(frozen=True)
class Case:
    """A part. measure: returns a number, the less the better, in a new process.

    name: of the function or class that is the part, as the module that uses it knows it. instead: returns what takes its
    place in processes without the part. put: what processes with the part do first, where embedded ones do not have it.
    """

    measure: Callable[[Path], float]
    name: str | None = None
    instead: Callable[[], object] = lambda: lambda: None
    put: Callable[[], None] = lambda: None


def _sum_of_case_ms(folder: Path) -> float:
    db = _filled(folder)
    sql = "SELECT SUM(CASE WHEN x > 300 THEN y ELSE 0 END), MAX(x * y), SUM(y - x) FROM t WHERE x <> {}"
    times = []
    for number in range(_REPEATS):
        begun_s = time.process_time()
        db.sql(sql.format(number)).rows()
        times.append(time.process_time() - begun_s)
    return statistics.median(times) * 1000


def _resident_mb(folder: Path) -> float:
    """Ask on several threads at once, as a server of all segments does, and return what is left when they are gone."""
    from concurrent.futures import ThreadPoolExecutor

    db = _filled(folder)
    sql = "SELECT SUM(CASE WHEN x > {} THEN y ELSE 0 END), MAX(x * y) FROM t GROUP BY z LIMIT 10"
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda number: db.sql(sql.format(number)).rows(), range(4 * _REPEATS)))
    resident: int = psutil.Process().memory_info().rss
    return resident / (1 << 20)


def _first_answer_ms(folder: Path) -> float:
    """Return the age of this process at its first answer; the first process of all compiles."""
    import gamay

    with gamay.connect(folder / "first", threads=1) as db:
        if not db.tables():
            db.create_table("t", {"x": list(range(1000)), "s": [f"s{i % 7}" for i in range(1000)]})
        db.sql("SELECT UPPER(s), COUNT(*), SUM(x) FROM t WHERE x > 10 GROUP BY UPPER(s) ORDER BY 2 DESC").rows()
        begun_s: float = psutil.Process().create_time()
        return (time.time() - begun_s) * 1000


def _routes_s(folder: Path) -> float:
    from benchmarks.cold_start import built_segment, route_s, write_table
    from gamay.base.clock import SYSTEM_CLOCK
    from gamay.cluster.store.embedded_store import EmbeddedStore

    path = folder / "routes.db"
    is_new = not path.exists()

    def open_store() -> EmbeddedStore:
        return EmbeddedStore.open(path, SYSTEM_CLOCK)

    if is_new:
        write_table(open_store, built_segment(folder / "built", 0), _SEGMENTS)
    taken_s, _ = route_s(open_store, _SEGMENTS)
    return taken_s


def _filled(folder: Path) -> Any:
    import numpy as np

    import gamay

    db = gamay.connect(folder / "filled", threads=2)
    if not db.tables():
        rng = np.random.default_rng(1)
        db.create_table("t", {"x": rng.integers(0, 1000, _ROWS), "y": rng.random(_ROWS), "z": rng.integers(0, 50, _ROWS)})
    return db


def _numba_cache() -> type:
    from numba.core.caching import FunctionCache

    return FunctionCache


def _put_one_heap() -> None:
    from gamay.base.allocator import share_one_arena

    share_one_arena()


CASES = {
    "freed memory stays in the heap: arithmetic over 4 million rows, processor ms": Case(
        _sum_of_case_ms, "gamay.query.pool.keep_freed_memory"
    ),
    "one heap for all threads, its end given back: MB after queries of 6 clients": Case(_resident_mb, put=_put_one_heap),
    "Arrow does not import pandas: a process to its first answer, ms": Case(
        _first_answer_ms, "gamay.embedded.core.keep_arrow_from_importing_pandas"
    ),
    "kernels are loaded without the compiler: a process to its first answer, ms": Case(
        _first_answer_ms, "gamay.kernels.cache.KernelCache", _numba_cache
    ),
    "no collection while routes are built: 50,000 segments, s": Case(
        _routes_s, "gamay.base.collector.paused", lambda: nullcontext
    ),
}
SHAPES = {"own_runtime": report.Shape(("part and what is measured", "with", "without", "without / with"), tuple(CASES))}


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--measure", metavar="CASE", help="measure in this process, and print the number")
    parser.add_argument("--without", action="store_true", help="take the part away before")
    parser.add_argument("--folder", type=Path, help="for what is measured on")
    arguments = report.arguments_of(parser)
    if arguments.measure:
        case = CASES[arguments.measure]
        if arguments.without and case.name is not None:
            patch(case.name, new=case.instead()).start()
        elif not arguments.without:
            case.put()
        print(case.measure(arguments.folder))
        return 0
    shown = report.Report("own_runtime", SHAPES["own_runtime"])
    with tempfile.TemporaryDirectory() as folder:
        for name in CASES:
            _measured(name, folder, without=False), _measured(name, folder, without=True)  # which compile, or fill tables
            pairs = [
                [_measured(name, folder, without=without) for without in (False, True)] for _ in range(arguments.rounds)
            ]
            given, taken = map(statistics.median, zip(*pairs, strict=True))
            shown.add(name, f"{given:.4g}", f"{taken:.4g}", f"{taken / given:.2f}")
    shown.finish(writes=arguments.write_docs)
    return 0


def _measured(name: str, folder: str, *, without: bool) -> float:
    command = [sys.executable, "-m", "benchmarks.own_runtime", "--measure", name, "--folder", folder]
    environment = {**os.environ, "NUMBA_CACHE_DIR": f"{folder}/numba"}
    ended = subprocess.run(
        [*command, *["--without"] * without], stdout=subprocess.PIPE, text=True, check=True, env=environment
    )
    return float(ended.stdout.splitlines()[-1])


if __name__ == "__main__":
    sys.exit(main())
