"""How far a process grows while queries run that need more memory than they may use: each in a separate process.

    python -m benchmarks.query_memory [--budget-mb 100] [NAME ...]

Anonymous memory (RssAnon of Linux) every 2 ms, against that after the same query over few rows, which loads what it needs.
The tables are those of `python -m benchmarks.compare`, which has to run first.
"""

import argparse
import json
import select
import subprocess
import sys

from benchmarks import data, report

_INTERVAL_S = 0.002
_CHILD = """
import json, sys
import gamay
from gamay.base.errors import QueryError
folder, few, many = json.loads(sys.stdin.readline())
db = gamay.connect(folder, threads=2)
for sql in (few, many):
    try:
        db.sql(sql)
        outcome = "answered"
    except QueryError as error:
        outcome = str(error)
    print(outcome, flush=True)
    sys.stdin.readline()
"""
_FEW = {"events": "WHERE clicks = 7 AND status = 3", "records": "WHERE units = 7 AND amount < 100"}
_NO_LIMIT = "SET numGroupsLimit = 100000000; "
_QUERIES = {
    "two keys": ("events", _NO_LIMIT + "SELECT user_id, url, COUNT(*) FROM events {few} GROUP BY user_id, url LIMIT 10"),
    "one key of millions": ("events", _NO_LIMIT + "SELECT ts, SUM(price) FROM events {few} GROUP BY ts LIMIT 10"),
    "seven keys": (
        "events",
        _NO_LIMIT + "SELECT country, device, user_id, url, clicks, latency_ms, ts, COUNT(*) FROM events {few} "
        "GROUP BY country, device, user_id, url, clicks, latency_ms, ts LIMIT 10",
    ),
    "DISTINCTCOUNT of millions": ("events", "SELECT DISTINCTCOUNT(ts) FROM events {few}"),
    "HLL of 100,000 groups": ("events", "SELECT user_id, DISTINCTCOUNTHLL(url) FROM events {few} GROUP BY user_id LIMIT 10"),
    "exact percentiles of 100,000 groups": (
        "events",
        "SELECT user_id, PERCENTILE(ts, 50) FROM events {few} GROUP BY user_id LIMIT 10",
    ),
    "ARRAYAGG of all rows": ("events", "SELECT ARRAYAGG(url, 'STRING') FROM events {few}"),
    "ORDER BY of 5 million rows": (
        "events",
        "SELECT user_id, url, ts FROM events {few} ORDER BY latency_ms, ts LIMIT 5000000",
    ),
    "selection of 10 million rows": ("events", "SELECT user_id, url, ts, country FROM events {few} LIMIT 10000000"),
    "DISTINCT of lists": ("events", "SELECT DISTINCT user_id, tags FROM events {few} LIMIT 10000000"),
    "documents of 190 bytes": ("records", "SELECT doc, message FROM records {few} LIMIT 2000000"),
    "DISTINCT documents of 190 bytes": ("records", "SELECT DISTINCT doc FROM records {few} LIMIT 2000000"),
    "texts of 50 bytes as key": (
        "records",
        _NO_LIMIT + "SELECT message, COUNT(*) FROM records {few} GROUP BY message LIMIT 10",
    ),
    "a name of JSON documents as key": (
        "records",
        _NO_LIMIT + "SELECT jsonExtractScalar(doc, '$.user.name', 'STRING') AS name, COUNT(*) FROM records {few} "
        "GROUP BY name LIMIT 10",
    ),
    "values of lists and texts as keys": (
        "records",
        _NO_LIMIT + "SELECT scores, path, COUNT(*) FROM records {few} GROUP BY scores, path LIMIT 10",
    ),
}


def _anonymous_bytes(process: int) -> int:
    with open(f"/proc/{process}/status", encoding="ascii") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def growth(name: str, budget_bytes: int) -> tuple[int, str]:
    """Return the growth in bytes of a process while it runs a query, and the query's outcome."""
    table, sql = _QUERIES[name]
    options = f"SET maxQueryMemoryBytes = {budget_bytes}; SET timeoutMs = 300000; "
    queries = [options + sql.format(few=few) for few in (_FEW[table], "")]
    with subprocess.Popen([sys.executable, "-c", _CHILD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps([str(data.FOLDER / "gamay"), *queries]) + "\n")
        child.stdin.flush()
        child.stdout.readline()
        before = most = _anonymous_bytes(child.pid)
        child.stdin.write("\n")
        child.stdin.flush()
        while not select.select([child.stdout], [], [], _INTERVAL_S)[0]:
            most = max(most, _anonymous_bytes(child.pid))
        outcome = child.stdout.readline().strip()
    return most - before, outcome


SHAPES = {"query_memory": report.Shape(("query", "growth MB"), tuple(_QUERIES), ("outcome",))}


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how far queries grow beyond their budgets")
    parser.add_argument("--budget-mb", type=int, default=100)
    parser.add_argument("names", nargs="*", help=", ".join(_QUERIES))
    arguments = report.arguments_of(parser)
    shown = report.Report("query_memory", SHAPES["query_memory"])
    for name in arguments.names or _QUERIES:
        grown, outcome = growth(name, arguments.budget_mb * 1_000_000)
        shown.add(name, f"{grown / 1e6:.0f}", outcome[:70])
    shown.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
