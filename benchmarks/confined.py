"""Roles as in containers, and queries that need more memory than available: no client request may end a process.

    python -m benchmarks.confined [--seconds 60] [--clients 8] [--memory-mb 600] [--rows 4000000]

A controller, a broker and a server with a root that is read-only and without capabilities, the latter two in control groups
of so much memory. Clients ask queries that hold as much as they get: distinct texts, groups by millions of keys, long
selections. A bystander asks a small one all the while. Prints what was answered and refused, the most memory that was taken,
and how long the roles took to end after SIGTERM; exits with status 1 when a process was ended, or an answer was wrong.
"""

import argparse
import collections
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa

from benchmarks.cluster.confinement import ConfinedRole, what_is_missing
from benchmarks.cluster.ports import free_port
from benchmarks.cluster.processes import until
from benchmarks.cluster.zookeeper import ZooKeeperProcess
from benchmarks.cluster.zookeeper import what_is_missing as zookeeper_is_missing
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.builder import SegmentBuilder
from gamay.storage.archive import pack

_SCHEMA = {
    "schemaName": "big",
    "dimensionFieldSpecs": [{"name": "k", "dataType": "STRING"}, {"name": "c", "dataType": "INT"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
}
_TABLE: dict[str, Any] = {
    "tableName": "big",
    "tableType": "OFFLINE",
    "segmentsConfig": {"replication": "1", "segmentPushType": "APPEND"},
    "tenants": {},
    "tableIndexConfig": {"noDictionaryColumns": ["k"]},
    "metadata": {},
}
_HEAVY = (
    "SELECT DISTINCTCOUNT(k) FROM big",
    "SELECT k, SUM(n) FROM big GROUP BY k ORDER BY 2 DESC LIMIT 5",
    "SELECT k, n FROM big ORDER BY n DESC LIMIT 1000000",
    "SELECT c, ARRAYAGG(k, 'STRING') FROM big GROUP BY c LIMIT 1",
    "SELECT DISTINCT k, c FROM big LIMIT 10000000",
    "SELECT a.k, b.n FROM big a JOIN big b ON a.k = b.k ORDER BY b.n LIMIT 3",
)
_SMALL = "SELECT COUNT(*), SUM(n) FROM big"
_SEGMENT_ROWS = 250_000
# too much memory, and too late: at a server, in its queue, and at the broker
_REFUSALS = {245, 240, 250, 427}


class Roles:
    """The processes, and the table."""

    def __init__(self, folder: Path, zk: str, memory: int | None, *more: str) -> None:
        """more: options of the broker and the server."""
        controller = ConfinedRole("controller", folder, zk, None, "--data-dir", str(folder / "controller" / "data"))
        server_options = ("--data-dir", str(folder / "server" / "data"), "--query-port", str(free_port()))
        server = ConfinedRole("server", folder, zk, memory, *server_options, *more)
        broker = ConfinedRole("broker", folder, zk, memory, *more)
        self.controller, self.broker, self.server = controller, broker, server
        self.all = (broker, server, controller)

    def wait_ready(self) -> None:
        """Wait until each is. Raises WaitedInVainError."""
        for role in self.all:
            role.wait_ready()

    def load(self, folder: Path, rows: int) -> list[Any]:
        """Push the given number of rows, and return the answer to the small query."""
        schema, config = Schema.from_json(_SCHEMA).value, TableConfig.from_json(_TABLE).value
        for path, document in (("/schemas", _SCHEMA), ("/tables", _TABLE)):
            self.controller.http.post(path, json=document).raise_for_status()
        for number, first in enumerate(range(0, rows, _SEGMENT_ROWS)):
            keys = np.arange(first, min(rows, first + _SEGMENT_ROWS))
            data = pa.table({"k": np.char.add("key of a group ", keys.astype(str)), "c": keys % 1000, "n": keys})
            builder = SegmentBuilder(schema, config, f"big_{number}", folder)
            for batch in data.to_batches():
                builder.append(Pipeline(schema, config).apply(batch))
            archive = pack(builder.build(), folder / f"big_{number}.tar.gz")
            with archive.open("rb") as file:
                sent = self.controller.http.post("/v2/segments", params={"tableName": "big"}, files={"file": file})
            sent.raise_for_status()
        wanted = [[rows, float(rows * (rows - 1) // 2)]]
        until(lambda: self.ask(self.broker.http, _SMALL)[0] == wanted, 60, "all rows are there")
        return wanted

    @staticmethod
    def ask(http: httpx.Client, sql: str) -> tuple[Any, set[int]]:
        """Return the rows (None without a complete answer) and the codes of the errors."""
        answer = http.post("/query/sql", json={"sql": sql}).json()
        codes = {exception["errorCode"] for exception in answer["exceptions"]}
        return (None if codes else answer["resultTable"]["rows"]), codes


class Crowd:
    """Clients that send heavy queries, and one that sends a small one."""

    def __init__(self, roles: Roles, wanted: list[Any]) -> None:
        self._url = roles.broker.http.base_url
        self._wanted = wanted
        self._stop = threading.Event()
        self.codes: collections.Counter[int] = collections.Counter()
        self.answered = 0
        self.small_s: list[float] = []
        self.problems: list[str] = []

    def ask_for(self, seconds: float, clients: int) -> None:
        """Query continuously for the given time, and wait for the last answers."""
        threads = [threading.Thread(target=self._heavy, args=(number,)) for number in range(clients)]
        threads.append(threading.Thread(target=self._small))
        for thread in threads:
            thread.start()
        self._stop.wait(seconds)
        self._stop.set()
        for thread in threads:
            thread.join()

    def _heavy(self, number: int) -> None:
        with httpx.Client(base_url=self._url, timeout=60, trust_env=False) as http:
            while not self._stop.is_set():
                try:
                    _, codes = Roles.ask(http, _HEAVY[number % len(_HEAVY)])
                except httpx.TransportError as error:
                    self.problems.append(f"the broker did not answer: {error}")
                    return
                self.codes.update(codes)
                self.answered += not codes
                number += 1

    def _small(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60, trust_env=False) as http:
            while not self._stop.is_set():
                begun_s = time.monotonic()
                rows, codes = Roles.ask(http, _SMALL)
                self.small_s.append(time.monotonic() - begun_s)
                if rows not in (None, self._wanted) or not codes <= _REFUSALS:
                    self.problems.append(f"{_SMALL}: {rows}, errors {codes}")
                self._stop.wait(0.02)


def run(folder: Path, zk: str, memory: int | None, rows: int, seconds: float, clients: int) -> list[str]:
    """Run everything, print the observations, and return the problems."""
    roles = Roles(folder, zk, memory)
    try:
        roles.wait_ready()
        crowd = Crowd(roles, roles.load(folder, rows))
        crowd.ask_for(seconds, clients)
    finally:
        most = {role.role: role.most_bytes >> 20 for role in (roles.broker, roles.server)} if memory is not None else {}
        ends = {role.role: role.stop() for role in roles.all}
    seen = sorted(crowd.small_s)
    print(f"{crowd.answered} heavy queries answered, refused by code: {dict(crowd.codes)}")
    print(f"small query: {len(seen)} times, p50 {seen[len(seen) // 2]:.3f} s, p99 {seen[len(seen) * 99 // 100]:.3f} s")
    print(f"most memory, MB: {most}; seconds to end: { {role: round(took, 1) for role, (_, took) in ends.items()} }")
    unexpected = {code for code in crowd.codes if code not in _REFUSALS}
    return [
        *crowd.problems,
        *(f"the {role} ended with status {status}" for role, (status, _) in ends.items() if status != 0),
        *([f"heavy queries failed with {unexpected}"] if unexpected else []),
    ]


def main() -> int:
    """Run it, and return 1 if there were problems."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--memory-mb", type=int, default=600)
    parser.add_argument("--rows", type=int, default=4_000_000)
    arguments = parser.parse_args()
    if missing := zookeeper_is_missing() or what_is_missing():
        parser.error(missing)
    with tempfile.TemporaryDirectory(prefix="gamay-confined-") as folder:
        zookeeper = ZooKeeperProcess(Path(folder))
        zookeeper.start()
        try:
            memory = arguments.memory_mb << 20
            problems = run(Path(folder), zookeeper.hosts, memory, arguments.rows, arguments.seconds, arguments.clients)
        finally:
            zookeeper.stop()
    print(*problems[:20], sep="\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
