"""The cost of running the server in a separate process, per query.

    python -m benchmarks.rpc [--queries 2000] [--busy-poll-us N]

The same small queries, asked in turn of a server in this process and of one in another that has the same segments, over its
query port on this machine. Both answer on an event loop, as a broker does. For each query: the median of the times from
text to the JSON of the response, the fastest tenth (the nearest to what an idle machine takes), the processor time that both
processes took together, and how much more of each the other process costs.
"""

import argparse
import asyncio
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import uvloop

import gamay
from benchmarks import report
from gamay.base.clock import SYSTEM_CLOCK
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.scatter.remote import QueryConnections
from gamay.embedded.core import LocalCluster
from gamay.query.answer.response import encode_short
from gamay.rpc.peer import BUSY_POLL_US
from gamay.server.answering.executor import QueryExecutor
from gamay.server.answering.listener import QueryListener

ROWS = 20_000
_ROUND = 100
_WARM_UP = 200
QUERIES = {
    "`COUNT(*)` of a table": "SELECT COUNT(*) FROM t",
    "`COUNT(*)` of one day": "SELECT COUNT(*) FROM t WHERE day = {n}",
    "totals of one day": "SELECT COUNT(*), SUM(x), MAX(x) FROM t WHERE day = {n} AND x < 500",
    "20 groups of one day": "SELECT s, COUNT(*), SUM(x) FROM t WHERE day = {n} GROUP BY s LIMIT 30",
    "10 rows of one day": "SELECT day, x, s FROM t WHERE day = {n} LIMIT 10",
}
SHAPES = {
    "rpc": report.Shape(
        ("query", "same process", "other process", "more"),
        tuple(QUERIES),
        tuple(f"{where}, {what}" for what in ("fastest tenth", "processor") for where in ("same", "other", "more")),
    )
}


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--busy-poll-us", type=int, default=BUSY_POLL_US, help="how long event loops stay awake; 0 is never")
    parser.add_argument("--serve", metavar="FOLDER", help="be the other process, for a data folder")
    arguments = report.arguments_of(parser)
    if arguments.serve:
        serve(Path(arguments.serve), arguments.busy_poll_us)
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        here, there = Path(scratch) / "here", Path(scratch) / "there"
        make_table(here)
        shutil.copytree(here, there)
        polls = arguments.busy_poll_us
        command = [sys.executable, "-m", "benchmarks.rpc", "--serve", str(there), "--busy-poll-us", str(polls)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            uvloop.run(measure(here, port, psutil.Process(process.pid), arguments.queries, polls)).finish(
                writes=arguments.write_docs
            )
        finally:
            process.terminate()
            process.wait(30)
    return 0


def make_table(folder: Path) -> None:
    """Create a table of one segment."""
    numbers = np.arange(ROWS)
    with gamay.connect(folder) as db:
        db.create_table(
            "t", pa.table({"day": numbers % 100, "x": numbers * 1.5, "s": [f"s{i // 100 % 20}" for i in numbers]})
        )


def serve(folder: Path, busy_poll_us: int) -> None:
    """Answer queries until this process is ended; prints the port."""
    cluster = LocalCluster(folder)
    cluster.prepare()
    cluster.start()
    listener = QueryListener(cluster.server.id, QueryExecutor(cluster.server, 1), SYSTEM_CLOCK, busy_poll_us=busy_poll_us)
    listener.start()
    print(listener.port, flush=True)
    sys.stdin.read()


async def measure(folder: Path, port: int, other: psutil.Process, queries: int, busy_poll_us: int) -> report.Report:
    """Query both servers in turn, and return the times."""
    cluster = LocalCluster(folder, threads=1)
    cluster.prepare()
    cluster.start()
    servers = QueryConnections("Broker_bench_1", lambda _: ("127.0.0.1", port), SYSTEM_CLOCK, busy_poll_us=busy_poll_us)
    routing = RoutingTables(cluster.registry)  # of its own, as another broker's: it holds what is known of queries
    routing.start()
    remote = QueryRunner("Broker_bench_1", routing, servers, SYSTEM_CLOCK)
    found = report.Report("rpc", SHAPES["rpc"])
    for name, sql in QUERIES.items():
        near, far = [], []
        for first in range(-_WARM_UP, queries, _ROUND):
            near.append(await asked(cluster.runner, sql, first, other))
            far.append(await asked(remote, sql, first, other))
        here, there = summary(near[_WARM_UP // _ROUND :]), summary(far[_WARM_UP // _ROUND :])
        measured = np.array([here, there, there - here])  # what, by kind
        found.add(name, *(f"{us:.0f}" for us in measured.T.ravel()))
    remote.close()
    await asyncio.sleep(0)
    routing.stop()
    cluster.stop()
    return found


async def asked(runner: QueryRunner, sql: str, first: int, other: psutil.Process) -> tuple[list[int], float]:
    """Send a round of queries; return the nanoseconds of each, and the processor seconds of both processes."""
    times = []
    begun_s = processor_s(other)
    for number in range(first, first + _ROUND):
        text = sql.format(n=number % 100)
        begun_ns = time.perf_counter_ns()
        await ask(runner, text)
        times.append(time.perf_counter_ns() - begun_ns)
    return times, processor_s(other) - begun_s


def processor_s(other: psutil.Process) -> float:
    """Return the processor time that both processes have taken so far."""
    times = other.cpu_times()
    return time.process_time() + float(times.user + times.system)


def summary(rounds: "list[tuple[list[int], float]]") -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return the median, the tenth, and the processor time of a query, in µs."""
    times = np.concatenate([part for part, _ in rounds]) / 1000
    processor = sum(seconds for _, seconds in rounds) / len(times) * 1e6
    return np.array([np.median(times), np.quantile(times, 0.1), processor])


async def ask(runner: QueryRunner, text: str) -> None:
    """Answer a query like a broker's HTTP interface."""
    response = runner.fast_answer(text)
    if response is None:
        pending = runner.begin(text, {})
        if runner.is_remote:
            await runner.fetch(pending)
        response = runner.finish(pending)
    assert not response.exceptions, response.exceptions
    encode_short(response)


if __name__ == "__main__":
    sys.exit(main())
