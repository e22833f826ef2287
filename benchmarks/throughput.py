"""How many queries a second one process answers over HTTP, with and without pruning at the broker.

    python -m benchmarks.throughput [--seconds 5] [--connections 16] [--segments 720]

A table of two years, a segment for each day, whose members are partitioned in such a way that each partition lies in two
segments; `wrk` (Debian's package of that name) sends queries with other literals every time. Processor time is that of the
cluster's process alone, so it tells the cost of a query whatever else the machine does.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

import gamay
from benchmarks import report

FOLDER = Path(__file__).resolve().parent.parent / "build" / "bench" / "throughput"
FIRST_DAY = 17_000
ROWS_PER_DAY = 2_000
MEMBERS = 72_000
COUNTRIES = np.array(["br", "cn", "de", "fr", "in", "jp", "uk", "us"])
SCHEMA: dict[str, Any] = {
    "schemaName": "visits",
    "dimensionFieldSpecs": [
        {"name": "memberId", "dataType": "LONG"},
        {"name": "country", "dataType": "STRING"},
        {"name": "page", "dataType": "INT"},
    ],
    "metricFieldSpecs": [{"name": "clicks", "dataType": "INT"}],
    "dateTimeFieldSpecs": [{"name": "day", "dataType": "INT", "format": "1:DAYS:EPOCH", "granularity": "1:DAYS"}],
}
NO_PRUNING = "SET brokerPruning=false; "

# one request each; random numbers come from wrk's Lua, so that no two queries are alike
QUERIES = {
    "`COUNT(*)` of one day": "SELECT COUNT(*) FROM visits WHERE day = {day}",
    "`COUNT(*)` of one member": "SELECT COUNT(*) FROM visits WHERE memberId = {member}",
    "`COUNT(*)`, `SUM` of one day and a range of another column": "SELECT COUNT(*), SUM(clicks) FROM visits "
    "WHERE day = {day} AND page < {page}",
    "`COUNT(*)`, `SUM` of one week": "SELECT COUNT(*), SUM(clicks) FROM visits WHERE day BETWEEN {day} AND {lastDay}",
    "`COUNT(*)`, `SUM` of one member": "SELECT COUNT(*), SUM(clicks) FROM visits WHERE memberId = {member}",
    "one member's rows by country": "SELECT country, COUNT(*) FROM visits WHERE memberId = {member} GROUP BY country",
}
SHAPES = {
    "throughput": report.Shape(
        ("query", "queries/s", "p99", "µs of processor", "× without pruning"),
        tuple(QUERIES),
        ("queries/s without", "p99 without", "µs without"),
    )
}
_SCRIPT = """
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
local texts = {pieces}
request = function()
  local day = {first_day} + math.random(0, {days} - 7)
  local values = {{day = day, lastDay = day + 6, page = math.random(1, 500), member = math.random(0, {members} - 1)}}
  local sql = string.gsub(texts, "{{([^}}]*)}}", function(name) return tostring(values[name]) end)
  return wrk.format("POST", "/query/sql", nil, '{{"sql":"' .. sql .. '"}}')
end
"""


@dataclass(frozen=True, slots=True)
class Measured:
    """Queries a second, the latencies that half and 99 of 100 stay under, and the cluster's processor time for one in µs."""

    per_second: float
    p50: str
    p99: str
    cpu_us: float

    def cells(self) -> tuple[str, str, str]:
        """Return them as they are shown."""
        return f"{self.per_second:,.0f}", self.p99, f"{self.cpu_us:.0f}"


def main() -> int:
    """Measure, and print a table; 1 when something needed is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--segments", type=int, default=720)
    arguments = report.arguments_of(parser)
    if shutil.which("wrk") is None:
        print("The load comes from wrk, which is not installed (on Debian: apt-get install wrk)", file=sys.stderr)
        return 1
    folder = FOLDER / str(arguments.segments)
    if not folder.exists():
        make_table(folder, arguments.segments)
    found = report.Report("throughput", SHAPES["throughput"])
    with tempfile.TemporaryDirectory() as scratch:
        process, url = start(folder)
        try:
            for name, sql in QUERIES.items():
                script = write_script(Path(scratch), sql, arguments.segments)
                pruned = measure(process, url, script(""), arguments.seconds, arguments.connections)
                unpruned = measure(process, url, script(NO_PRUNING), arguments.seconds, arguments.connections)
                ratio = f"{pruned.per_second / unpruned.per_second:.0f}"
                cells = [cell for measured in (pruned, unpruned) for cell in measured.cells()]
                found.add(name, *cells[:3], ratio, *cells[3:])
        finally:
            process.terminate()
            process.wait(30)
    found.finish(writes=arguments.write_docs)
    return 0


def make_table(folder: Path, segments: int) -> None:
    """Create the table; a day's members are those of one partition, and each partition comes twice."""
    partitions = segments // 2
    config: dict[str, Any] = {
        "tableName": "visits",
        "tableType": "OFFLINE",
        "segmentsConfig": {"timeColumnName": "day", "replication": "1"},
        "tableIndexConfig": {
            "invertedIndexColumns": ["memberId"],
            "segmentPartitionConfig": {
                "columnPartitionMap": {"memberId": {"functionName": "Modulo", "numPartitions": partitions}}
            },
        },
        "tenants": {},
        "metadata": {},
    }
    rng = np.random.default_rng(20)
    members = np.arange(MEMBERS)
    with gamay.connect(folder) as db:
        for number in range(segments):
            own = members[members % partitions == number % partitions]
            day = pa.table(
                {
                    "memberId": rng.choice(own, ROWS_PER_DAY),
                    "country": COUNTRIES[rng.integers(0, len(COUNTRIES), ROWS_PER_DAY)],
                    "page": rng.integers(0, 500, ROWS_PER_DAY).astype(np.int32),
                    "clicks": rng.integers(0, 100, ROWS_PER_DAY).astype(np.int32),
                    "day": np.full(ROWS_PER_DAY, FIRST_DAY + number, np.int32),
                }
            )
            if number == 0:
                db.create_table("visits", day, schema=SCHEMA, config=config)
            else:
                db.append("visits", day)


def start(folder: Path) -> tuple["subprocess.Popen[bytes]", str]:
    """Start a cluster over the folder in a process of its own; return it and its broker's address once it is ready."""
    command = [sys.executable, "-m", "gamay.cli", "start", "all", "--data-dir", str(folder)]
    process = subprocess.Popen(
        [*command, "--controller-port", "19000", "--broker-port", "18099", "--server-port", "18098"],
        stdout=subprocess.DEVNULL,
    )
    url = "http://127.0.0.1:18099"
    for _ in range(600):
        time.sleep(0.1)
        try:
            with urllib.request.urlopen(f"{url}/health") as answer:
                if answer.status == 200:
                    return process, url
        except OSError:
            if process.poll() is not None:
                raise RuntimeError("the cluster did not start; its output says why") from None
    process.kill()
    raise RuntimeError("the cluster was not ready after a minute")


def write_script(folder: Path, sql: str, segments: int) -> Any:
    """Return a function from a prefix of the query to the file of a wrk script that sends it."""

    def script(prefix: str) -> Path:
        path = folder / "load.lua"
        text = _SCRIPT.format(pieces=json.dumps(prefix + sql), first_day=FIRST_DAY, days=segments, members=MEMBERS)
        path.write_text(text)
        return path

    return script


def measure(process: "subprocess.Popen[bytes]", url: str, script: Path, seconds: int, connections: int) -> Measured:
    """Load the broker for some seconds; raises RuntimeError when it answers with errors."""
    command = ["wrk", "-t1", f"-c{connections}", "--latency", "-s", str(script), f"{url}/query/sql"]
    subprocess.run([*command, "-d1"], check=True, capture_output=True)
    watched = psutil.Process(process.pid)
    before = watched.cpu_times()
    said = subprocess.run([*command, f"-d{seconds}"], check=True, capture_output=True, text=True).stdout
    after = watched.cpu_times()
    if "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(f"the broker did not answer every query:\n{said}")
    lines = {line.split()[0]: line.split() for line in said.splitlines() if line.split()}
    requests = next(int(line.split()[0]) for line in said.splitlines() if "requests in" in line)
    used_s = after.user + after.system - before.user - before.system
    return Measured(float(lines["Requests/sec:"][1]), lines["50%"][1], lines["99%"][1], used_s / requests * 1e6)


if __name__ == "__main__":
    sys.exit(main())
