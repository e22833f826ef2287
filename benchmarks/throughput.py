"""How many queries per second one process answers over HTTP, with and without pruning at the broker.

    python -m benchmarks.throughput [--seconds 5] [--connections 16] [--segments 720]

A table of two years, a segment for each day, whose members are partitioned in such a way that each partition lies in two
segments, loaded by `benchmarks.wrk`.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import gamay
from benchmarks import report
from benchmarks.wrk import loaded_cluster, script

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
_VALUES = """
  local day = {first_day} + math.random(0, {days} - 7)
  local values = {{day = day, lastDay = day + 6, page = math.random(1, 500), member = math.random(0, {members} - 1)}}
"""


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--segments", type=int, default=720)
    arguments = report.arguments_of(parser)
    folder = FOLDER / str(arguments.segments)
    if not folder.exists():
        make_table(folder, arguments.segments)
    values = _VALUES.format(first_day=FIRST_DAY, days=arguments.segments, members=MEMBERS)
    found = report.Report("throughput", SHAPES["throughput"])
    with loaded_cluster(folder, arguments.seconds, arguments.connections) as cluster:
        for name, sql in QUERIES.items():
            pruned, unpruned = (cluster.measure(script(prefix + sql, values)) for prefix in ("", NO_PRUNING))
            ratio = f"{pruned.per_second / unpruned.per_second:.0f}"
            rate, _, *rest = pruned.cells()
            rate_without, _, *rest_without = unpruned.cells()
            found.add(name, rate, *rest, ratio, rate_without, *rest_without)
    found.finish(writes=arguments.write_docs)


def make_table(folder: Path, segments: int) -> None:
    """Create the table; a day's members belong to one partition, and each partition occurs twice."""
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


if __name__ == "__main__":
    main()
