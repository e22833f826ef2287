"""Counts of an upsert table while its segments are committed, moved and lost: each is exact, or reported as partial.

    python -m benchmarks.upsert_consistency [--minutes 10] [--seed 7] [--mode SYNC] [--quiet] [--folder F]

A controller, a broker, 3 servers and a ZooKeeper, each a process; a table with two replicas, two partitions at first and a
segment for every 2,000 rows. 1,500 keys of each partition are produced over and over. `SELECT COUNT(*), DISTINCTCOUNT(id)`
has the number of keys twice, at every moment, if all rows of a partition come from one server. Meanwhile servers are killed
and stand still, the broker is killed, the topic gets new partitions, and the table is moved off a server and back
(`--quiet`: none of that). Prints how many answers were right, partial and said so, and wrong; exits with 1 if any was wrong.
"""

import argparse
import random
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa

from benchmarks.cluster.processes import Processes, RoleProcess, WaitedInVainError, until
from benchmarks.cluster.zookeeper import ZooKeeperProcess, what_is_missing
from gamay.base.clock import SYSTEM_CLOCK
from gamay.cluster.records.llc_name import LlcName
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic

TABLE = "latest"
KEYS = 1500
PARTITIONS_MAX = 6
SEGMENT_ROWS = 2000
SQL = f"SELECT COUNT(*), DISTINCTCOUNT(id) FROM {TABLE}"
_TAGS = "DefaultTenant_OFFLINE,DefaultTenant_REALTIME"
_BATCH_ROWS, _BATCH_S = 125, 0.25
_PATIENCE_S = 300
_SCHEMA: dict[str, Any] = {
    "schemaName": TABLE,
    "dimensionFieldSpecs": [{"name": "id", "dataType": "INT"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    ],
    "primaryKeyColumns": ["id"],
}


def table_config(streams: Path, mode: str) -> dict[str, Any]:
    """Return the table's config. mode: `consistencyMode`."""
    stream = {
        "streamType": "log",
        "stream.log.topic.name": TABLE,
        "stream.log.folder": str(streams),
        "stream.log.decoder.class.name": "JSONMessageDecoder",
        "realtime.segment.flush.threshold.segment.rows": str(SEGMENT_ROWS),
    }
    return {
        "tableName": TABLE,
        "tableType": "REALTIME",
        "segmentsConfig": {"timeColumnName": "ts", "replication": "2"},
        "tenants": {},
        "tableIndexConfig": {},
        "routing": {"instanceSelectorType": "strictReplicaGroup"},
        "upsertConfig": {"mode": "FULL", "consistencyMode": mode},
        "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [stream]}},
    }


class Load(threading.Thread):
    """A producer of every key of every partition in turn, until stopped."""

    def __init__(self, streams: Path) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.partitions = 2
        self._topic = create_topic(streams, TABLE, TopicConfig(self.partitions))
        self._producer = Producer(self._topic, SYSTEM_CLOCK)
        self._sent: Counter[int] = Counter()

    def run(self) -> None:
        """Send a batch to each partition, again and again."""
        while not self.stopping.wait(_BATCH_S):
            for partition in range(self.partitions):
                begin = self._sent[partition]
                self._sent[partition] += _BATCH_ROWS
                rows = [
                    orjson.dumps({"id": partition * KEYS + number % KEYS, "ts": number})
                    for number in range(begin, begin + _BATCH_ROWS)
                ]
                self._producer.send(pa.array(rows, pa.binary()), partition=partition)

    def grow(self) -> None:
        """Add a partition to the topic; nothing is sent to it before the topic has it."""
        self._topic.alter(TopicConfig(self.partitions + 1))
        self._producer = Producer(self._topic, SYSTEM_CLOCK)
        self.partitions += 1


class Asking(threading.Thread):
    """A client that queries continuously, and compares the answers.

    answers: how many were right, partial and said so, wrong, or did not come. wrong: those, with what was going on.
    settled: of how many partitions every key is in a committed segment; the keys of the others may be missing.
    """

    def __init__(self, broker: RoleProcess, load: Load) -> None:
        super().__init__(daemon=True)
        self.stopping = threading.Event()
        self.answers: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.settled = 2
        self.during = "nothing"
        self._broker, self._load = broker, load

    def run(self) -> None:
        """Ask one query after the other."""
        while not self.stopping.wait(0.02):
            least = self.settled * KEYS
            try:
                answer = self._broker.http.post("/query/sql", json={"sql": SQL})
            except httpx.TransportError:
                self.answers["none"] += 1
                time.sleep(0.5)  # the broker is away
                continue
            kind, found = self._judged(answer, least)
            self.answers[kind] += 1
            if kind == "wrong":
                self.wrong.append(f"{found}, of at least {least} keys, while {self.during}")

    def _judged(self, answer: httpx.Response, least: int) -> tuple[str, object]:
        """Return the kind of an answer, and its numbers."""
        if not answer.is_success:
            return "none", None
        told: dict[str, Any] = answer.json()
        if told["exceptions"] or told.get("partialResult"):
            return "partial", None
        rows, keys = told["resultTable"]["rows"][0]
        is_right = rows == keys and least <= keys <= self._load.partitions * KEYS
        return ("right" if is_right else "wrong"), (rows, keys)


class Changes:
    """The changes to the cluster during the run; counts: of each kind."""

    def __init__(self, processes: Processes, load: Load, asking: Asking, seed: int) -> None:
        self.counts: Counter[str] = Counter()
        self._processes, self._load, self._asking = processes, load, asking
        self._rng = random.Random(seed)
        self._away: RoleProcess | None = None

    def run(self, until_s: float) -> None:
        """Let one thing follow the other until a moment: first each once, then by chance."""
        every: list[Callable[[], None]] = [
            self.server_killed, self.rebalanced, self.server_stopped, self.new_partition, self.broker_killed,
        ]  # fmt: skip
        first = self._rng.sample(every, len(every))
        while time.monotonic() < until_s:
            change = first.pop() if first else self._rng.choice(every)
            self._asking.during = change.__name__.replace("_", " ")
            self.counts[self._asking.during] += 1
            change()
            time.sleep(self._rng.uniform(1, 6))

    def server_killed(self) -> None:
        """Kill a server and restart it."""
        self._killed(self._rng.choice(self._processes.servers))

    def broker_killed(self) -> None:
        """Kill the broker and restart it."""
        self._killed(self._processes.brokers[0])

    def server_stopped(self) -> None:
        """Pause a server: for less or more than its session."""
        server = self._rng.choice(self._processes.servers)
        server.send(signal.SIGSTOP)
        time.sleep(self._rng.uniform(0.5, 15))
        server.send(signal.SIGCONT)

    def new_partition(self) -> None:
        """Grow the topic, and wait until every key of the new partition is in a committed segment."""
        if self._load.partitions == PARTITIONS_MAX:
            return
        self._load.grow()
        self.settle()

    def settle(self) -> None:
        """Wait until every partition has a committed segment."""

        def is_settled() -> bool:
            self._call("GET", "/periodictask/run", taskname="RealtimeSegmentValidationManager")
            states = self._call("GET", f"/tables/{TABLE}/idealstate").get("REALTIME") or {}
            names = [LlcName.must_parse(name) for name in states]
            return len({name.partition for name in names if name.sequence > 0}) == self._load.partitions

        until(is_settled, _PATIENCE_S, "every partition has a committed segment")
        self._asking.settled = self._load.partitions

    def rebalanced(self) -> None:
        """Move the table off a server, or back to all of them."""
        server = self._away or self._rng.choice(self._processes.servers)
        tags = "Elsewhere_REALTIME" if self._away is None else _TAGS
        self._away = server if self._away is None else None
        self._call("PUT", f"/instances/{server.instance}/updateTags", tags=tags)
        options = {"type": "REALTIME", "includeConsuming": "true", "reassignInstances": "true", "bootstrap": "true"}
        begun = self._call("POST", f"/tables/{TABLE}/rebalance", **options, minAvailableReplicas="1")

        def is_done() -> bool:
            if begun["status"] != "IN_PROGRESS":
                return True
            found = self._call("GET", f"/rebalanceStatus/{begun['jobId']}")
            return bool(found["tableRebalanceProgressStats"]["status"] != "IN_PROGRESS")

        until(is_done, _PATIENCE_S, "the table is moved")

    def _killed(self, process: RoleProcess) -> None:
        process.kill()
        time.sleep(self._rng.uniform(0, 6))
        process.start()
        process.wait_ready()

    def _call(self, method: str, path: str, **params: str) -> dict[str, Any]:
        answer = self._processes.call(method, path, params=params)
        answer.raise_for_status()
        found: dict[str, Any] = answer.json()
        return found


def run(folder: Path, zookeeper: ZooKeeperProcess, seconds: float, seed: int, mode: str, *, quiet: bool) -> Asking:
    """Ask for so long; return what the answers were."""
    processes = Processes(folder, f"{zookeeper.hosts}/consistency", controllers=1, brokers=1, servers=3)
    load = Load(folder / "streams")
    asking = Asking(processes.brokers[0], load)
    changes = Changes(processes, load, asking, seed)
    try:
        processes.start()
        for path, document in (("/schemas", _SCHEMA), ("/tables", table_config(folder / "streams", mode))):
            processes.call("POST", path, json=document).raise_for_status()
        load.start()
        changes.settle()
        asking.start()
        until_s = time.monotonic() + seconds
        if quiet:
            time.sleep(seconds)
        else:
            changes.run(until_s)
        asking.stopping.set()
        asking.join()
        print(", ".join(f"{count} {what}" for what, count in changes.counts.items()))
    finally:
        load.stopping.set()
        processes.stop()
    return asking


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--mode", choices=("NONE", "SYNC", "SNAPSHOT"), default="SYNC")
    parser.add_argument("--quiet", action="store_true", help="commits only: nothing is killed or moved")
    parser.add_argument("--folder", type=Path, help="where everything lies; kept (default: a new one)")
    chosen = parser.parse_args()
    if reason := what_is_missing():
        sys.exit(reason)
    folder = chosen.folder or Path(tempfile.mkdtemp())
    (folder / "zookeeper").mkdir(parents=True)
    zookeeper = ZooKeeperProcess(folder / "zookeeper")
    zookeeper.start()
    try:
        asking = run(folder, zookeeper, chosen.minutes * 60, chosen.seed, chosen.mode, quiet=chosen.quiet)
    except WaitedInVainError as error:
        sys.exit(f"{error}; see {folder}")
    finally:
        zookeeper.stop()
    print(f"{asking.answers['right']:,} right, {asking.answers['partial']} partial and said so, ", end="")
    print(f"{asking.answers['none']} without an answer, {asking.answers['wrong']} wrong")
    for line in asking.wrong[:20]:
        print(f"wrong: {line}")
    raise SystemExit(1 if asking.wrong else 0)


if __name__ == "__main__":
    main()
