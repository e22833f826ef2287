"""SIGKILL at random moments of consumption with upserts; afterwards the table must be what a plain model says.

    python -m benchmarks.upsert_kill [--rounds 100] [--seed 7]

One data folder is kept through all rounds: each starts a cluster in a process of its own, sends rows to a topic, some of
them late, and kills the process. The table merges rows with INCREMENT, so a row that is lost or counts twice shows for
ever. Every tenth round the state of every key is compared with the model. Prints a line for each comparison, and exits
with status 1 when one differs.
"""

import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa

from gamay.base.clock import SYSTEM_CLOCK
from gamay.embedded.cluster import EmbeddedCluster
from gamay.embedded.layout import Layout
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic

KEYS = 200
CHECKED_EVERY = 10
SETTLE_S = 120
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
    """Return what the table says of each key: (sum, time)."""
    response = cluster.core.runner.run("SELECT k, n, ts FROM totals LIMIT 100000")
    rows = [] if response.table is None or response.exceptions else response.table.rows()
    return {row[0]: (int(row[1]), int(row[2])) for row in rows}


def run(folder: Path, rounds: int, seed: int) -> bool:
    """Run the rounds; return whether every comparison showed what the model says."""
    rng = random.Random(seed)
    model: dict[str, tuple[int, int]] = {}
    partitions = 2
    topic = create_topic(Layout(folder).streams, "totals", TopicConfig(partitions=partitions))
    producer = Producer(topic, SYSTEM_CLOCK)
    with start(folder) as cluster, httpx.Client(base_url=cluster.controller_url, trust_env=False) as api:
        api.post("/schemas", json=SCHEMA).raise_for_status()
        api.post("/tables", json=CONFIG).raise_for_status()
    now, good, sent = 1_700_000_000_000, True, 0

    def send() -> None:
        nonlocal now, sent
        lines: list[list[bytes]] = [[] for _ in range(partitions)]
        for _ in range(500):
            now += 1
            number, ts = rng.randrange(KEYS), now - (rng.choice([0, 0, 0, 300]))
            key, value = f"k{number}", rng.randrange(100)
            old = model.get(key)
            if old is None or ts >= old[1]:
                model[key] = (value + (old[0] if old else 0), ts)
            lines[number % partitions].append(orjson.dumps({"k": key, "n": value, "ts": ts}))
        for partition, part in enumerate(lines):
            producer.send(pa.array(part, pa.binary()), partition=partition)
        sent += 500

    for number in range(1, rounds + 1):
        worker = subprocess.Popen([sys.executable, "-m", "benchmarks.upsert_kill", "--work", folder], stdout=subprocess.PIPE)
        assert worker.stdout is not None
        assert worker.stdout.readline() == b"ready\n"
        until = time.monotonic() + rng.uniform(0.0, 1.5)
        while time.monotonic() < until:
            send()
            time.sleep(0.01)
        worker.send_signal(signal.SIGKILL)
        worker.wait()
        worker.stdout.close()
        if number % CHECKED_EVERY == 0 or number == rounds:
            with start(folder) as cluster:
                give_up = time.monotonic() + SETTLE_S
                while (found := found_in(cluster)) != model and time.monotonic() < give_up:
                    time.sleep(0.05)
            differing = sum(found.get(key) != value for key, value in model.items()) + len(found.keys() - model.keys())
            good &= not differing
            print(f"{number:4} kills  {sent:>9,} rows  {len(model)} keys  {differing} differ", flush=True)
    return good


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--work", type=Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.work is not None:
        start(chosen.work)
        print("ready", flush=True)
        time.sleep(3600)
        return
    folder = Path(tempfile.mkdtemp())
    try:
        good = run(folder / "data", chosen.rounds, chosen.seed)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    raise SystemExit(0 if good else 1)


if __name__ == "__main__":
    main()
