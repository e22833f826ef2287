"""SIGKILL at random moments of consumption with upserts; afterwards the table must match a plain model.

    python -m benchmarks.upsert_kill [--rounds 100] [--seed 7] [--replicas 2 | --pauseless]

One data folder is kept through all rounds: each starts a cluster in a process of its own, sends rows to a topic, some of
them late, and kills the process. The table merges rows with INCREMENT, so a row that is lost or counts twice shows for
ever. Every tenth round the state of every key is compared with the model. Prints a line for each comparison, and exits
with status 1 when one differs.

With `--replicas 2` a controller, a broker, two servers and ZooKeeper are processes of their own; either server is killed at
random moments and started again, and each is compared while the other one is dead.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa

from benchmarks.cluster.processes import Processes, RoleProcess
from benchmarks.cluster.zookeeper import ZooKeeperProcess, what_is_missing
from gamay.base.clock import SYSTEM_CLOCK
from gamay.embedded.cluster import EmbeddedCluster
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic
from gamay.roles.layout import Layout

KEYS = 200
PARTITIONS = 2
CHECKED_EVERY = 10
SETTLE_S = 300  # a committer that died holds its segment for 120 s
SCHEMA: dict[str, Any] = {
    "schemaName": "totals",
    "dimensionFieldSpecs": [{"name": "k", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "LONG", "format": "1:MILLISECONDS:EPOCH", "granularity": "1:MILLISECONDS"}
    ],
    "primaryKeyColumns": ["k"],
}
CONFIG: dict[str, Any] = {
    "tableName": "totals",
    "tableType": "REALTIME",
    "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
    "tenants": {},
    "tableIndexConfig": {"nullHandlingEnabled": True},
    "routing": {"instanceSelectorType": "strictReplicaGroup"},
    "upsertConfig": {"mode": "PARTIAL", "partialUpsertStrategies": {"n": "INCREMENT"}, "hashFunction": "MURMUR3"},
    "ingestionConfig": {
        "streamIngestionConfig": {
            "streamConfigMaps": [
                {
                    "streamType": "log",
                    "stream.log.topic.name": "totals",
                    "stream.log.decoder.class.name": "JSONMessageDecoder",
                    "realtime.segment.flush.threshold.segment.rows": "3000",
                }
            ]
        }
    },
}


def start(folder: Path) -> EmbeddedCluster:
    """Open the cluster."""
    return EmbeddedCluster(folder, 0, 0, 0, threads=1, warm_up=False).start()


def found_in(cluster: EmbeddedCluster) -> dict[str, tuple[int, int]]:
    """Return the table's values of each key: (sum, time)."""
    response = cluster.core.runner.run("SELECT k, n, ts FROM totals LIMIT 100000")
    rows = [] if response.table is None or response.exceptions else response.table.rows()
    return {row[0]: (int(row[1]), int(row[2])) for row in rows}


class Load:
    """The messages sent to the topic in a folder, and the model of the expected table: by key, (sum, time)."""

    def __init__(self, streams: Path, rng: random.Random) -> None:
        self.model: dict[str, tuple[int, int]] = {}
        self.sent = 0
        self._rng = rng
        self._now = 1_700_000_000_000
        self._producer = Producer(create_topic(streams, "totals", TopicConfig(PARTITIONS)), SYSTEM_CLOCK)

    def send_for(self, seconds: float) -> None:
        """Send for the given time."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._send()
            time.sleep(0.01)

    def _send(self) -> None:
        lines: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        for _ in range(500):
            self._now += 1
            number, ts = self._rng.randrange(KEYS), self._now - (self._rng.choice([0, 0, 0, 300]))
            key, value = f"k{number}", self._rng.randrange(100)
            old = self.model.get(key)
            if old is None or ts >= old[1]:
                self.model[key] = (value + (old[0] if old else 0), ts)
            lines[number % PARTITIONS].append(orjson.dumps({"k": key, "n": value, "ts": ts}))
        for partition, part in enumerate(lines):
            self._producer.send(pa.array(part, pa.binary()), partition=partition)
        self.sent += 500

    def compare(self, found: Callable[[], dict[str, tuple[int, int]]], what: str) -> bool:
        """Wait until the table equals the model, print how much of it does, and return whether all does."""
        give_up = time.monotonic() + SETTLE_S
        while (now := found()) != self.model and time.monotonic() < give_up:
            time.sleep(0.05)
        differing = sum(now.get(key) != value for key, value in self.model.items()) + len(now.keys() - self.model.keys())
        print(f"{what}  {self.sent:>9,} rows  {len(self.model)} keys  {differing} differ", flush=True)
        return not differing


def run_replicas(folder: Path, rounds: int, seed: int) -> bool:
    """Run the rounds with two servers; return whether every comparison agreed with the model for each of them."""
    rng = random.Random(seed)
    (folder / "zookeeper").mkdir(parents=True)
    zookeeper = ZooKeeperProcess(folder / "zookeeper")
    zookeeper.start()
    processes = Processes(folder, f"{zookeeper.hosts}/upsert_kill", controllers=1, brokers=1, servers=2)
    load = Load(folder / "streams", rng)
    table = orjson.loads(orjson.dumps(CONFIG))
    table["segmentsConfig"]["replication"] = "2"
    streams = table["ingestionConfig"]["streamIngestionConfig"]["streamConfigMaps"][0]
    streams["stream.log.folder"] = str(folder / "streams")

    def asked() -> dict[str, tuple[int, int]]:
        try:
            answer = processes.brokers[0].http.post("/query/sql", json={"sql": "SELECT k, n, ts FROM totals LIMIT 100000"})
        except httpx.TransportError:
            return {}
        whole: dict[str, Any] = answer.json() if answer.status_code == 200 else {"exceptions": [answer.text]}
        rows = [] if whole.get("exceptions") else whole["resultTable"]["rows"]
        return {row[0]: (int(row[1]), int(row[2])) for row in rows}

    def back(server: RoleProcess) -> None:
        server.start()
        server.wait_ready()

    good = True
    try:
        processes.start()
        for path, document in (("/schemas", SCHEMA), ("/tables", table)):
            processes.call("POST", path, json=document).raise_for_status()
        for number in range(1, rounds + 1):
            server = rng.choice(processes.servers)
            load.send_for(rng.uniform(0.0, 1.5))
            server.kill()
            load.send_for(rng.uniform(0.0, 1.5))
            server.start()
            if rng.random() < 0.7:  # else the other one may be killed before this one is back
                server.wait_ready()
            if number % CHECKED_EVERY == 0 or number == rounds:
                for one, other in (processes.servers, processes.servers[::-1]):
                    one.wait_ready()
                    other.kill()
                    good &= load.compare(asked, f"{number:4} kills  {one.name}")
                    back(other)
    finally:
        processes.stop()
        zookeeper.stop()
    return good


def _config(*, pauseless: bool) -> dict[str, Any]:
    stream = {**CONFIG["ingestionConfig"]["streamIngestionConfig"], "pauselessConsumptionEnabled": pauseless}
    return {**CONFIG, "ingestionConfig": {"streamIngestionConfig": stream}}


def run(folder: Path, rounds: int, seed: int, *, pauseless: bool = False) -> bool:
    """Run the rounds; return whether every comparison agreed with the model."""
    rng = random.Random(seed)
    load = Load(Layout(folder).streams, rng)
    with start(folder) as cluster, httpx.Client(base_url=cluster.controller_url, trust_env=False) as api:
        api.post("/schemas", json=SCHEMA).raise_for_status()
        api.post("/tables", json=_config(pauseless=pauseless)).raise_for_status()
    good = True
    for number in range(1, rounds + 1):
        worker = subprocess.Popen([sys.executable, "-m", "benchmarks.upsert_kill", "--work", folder], stdout=subprocess.PIPE)
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        load.send_for(rng.uniform(0.0, 1.5))
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        if number % CHECKED_EVERY == 0 or number == rounds:
            with start(folder) as cluster:
                good &= load.compare(partial(found_in, cluster), f"{number:4} kills")
    return good


def main() -> None:
    """Run what the arguments select."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--replicas", type=int, choices=(1, 2), default=1)
    parser.add_argument("--pauseless", action="store_true", help="one replica only: segments begin while others are built")
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work is not None:
        start(chosen.work)
        print("ready", flush=True)
        time.sleep(3600)
        return
    if chosen.replicas == 2 and (reason := what_is_missing()):
        sys.exit(reason)
    folder = Path(tempfile.mkdtemp())
    try:
        if chosen.replicas == 2:
            good = run_replicas(folder / "data", chosen.rounds, chosen.seed)
        else:
            good = run(folder / "data", chosen.rounds, chosen.seed, pauseless=chosen.pauseless)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
