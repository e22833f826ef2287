"""Rows per second from one Kafka partition to queries, with two commits during the run.

    python -m benchmarks.kafka [--rows 2000000] [--write-docs]

The broker is a process of its own on the same processors (`tools/kafka.py fetch` brings its jars). All messages, of 10
columns in JSON as in `benchmarks.realtime`, lie in the topic when the table is created. Beside it, what reading the same
messages with confluent-kafka takes, and what reading and parsing each by orjson, which makes no columns yet; it too asks for
more 10 ms after its queue was full, not a second.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import confluent_kafka
import numpy as np
import orjson
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tools import kafka

from benchmarks import realtime, report
from gamay.cluster.access.principals import ANYONE
from gamay.embedded.core import LocalCluster
from gamay.roles.switching import switch_threads_often

_BLOCK = 50_000
_CASES = ("Gamay, until queries see them", "confluent-kafka, read", "confluent-kafka and orjson, read and parsed")
SHAPES = {
    "kafka": report.Shape(("from one partition", "rows/s", "rows/s of a core", "× read and parsed"), _CASES),
}


def fill(address: str, topic: str, rows: int) -> None:
    """Create a topic of one partition with the given number of messages."""
    admin = AdminClient({"bootstrap.servers": address})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result()
    settings = {"linger.ms": 20, "queue.buffering.max.messages": 2 * _BLOCK, "batch.num.messages": 10_000}
    producer = confluent_kafka.Producer({"bootstrap.servers": address, **settings})
    rng = np.random.default_rng(5)
    blocks = [realtime.messages(rng, _BLOCK, 1_700_000_000_000 + n).to_pylist() for n in range(4)]
    for start in range(0, rows, _BLOCK):
        for payload in blocks[start // _BLOCK % len(blocks)][: rows - start]:
            producer.produce(topic, payload, partition=0)
        producer.flush()


def consumed(address: str, topic: str, rows: int, commits: int) -> tuple[float, float]:
    """Return the elapsed and the processor seconds until queries see all rows; the first block compiles the kernels."""
    folder = Path(tempfile.mkdtemp(prefix="gamay-bench-"))
    cluster = LocalCluster(folder)
    cluster.prepare()
    cluster.start()
    try:
        for name, many, segment_rows in (("warm", 3 * _BLOCK, _BLOCK), (realtime.TABLE, rows, rows // commits - _BLOCK)):
            cluster.schemas.add({**realtime.SCHEMA, "schemaName": name})
            config = realtime.table_config(segment_rows)
            (stream,) = config["ingestionConfig"]["streamIngestionConfig"]["streamConfigMaps"]
            stream |= {"streamType": "kafka", "stream.kafka.topic.name": topic, "stream.kafka.broker.list": address}
            for key in [key for key in stream if key.startswith("stream.log.")]:
                stream.setdefault(key.replace(".log.", ".kafka."), stream.pop(key))
            clock_s, cpu_s = time.monotonic(), time.process_time()
            cluster.tables.add({**config, "tableName": name}, by=ANYONE)
            while _count(cluster, name) < many:
                time.sleep(0.01)
            clock_s, cpu_s = time.monotonic() - clock_s, time.process_time() - cpu_s
            if name == "warm":
                cluster.tables.delete(f"{name}_REALTIME")
        return clock_s, cpu_s
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _count(cluster: LocalCluster, table: str) -> int:
    response = cluster.runner.run(f"SELECT COUNT(*) FROM {table}")
    return 0 if response.exceptions or response.table is None else int(response.table.rows()[0][0])


def read(address: str, topic: str, rows: int, *, parses: bool) -> tuple[float, float]:
    """Return the elapsed and the processor seconds until all messages are read."""
    settings: dict[str, Any] = {"bootstrap.servers": address, "group.id": "bench", "fetch.queue.backoff.ms": 10}
    consumer = confluent_kafka.Consumer(settings)
    clock_s, cpu_s, found = time.monotonic(), time.process_time(), 0
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    while found < rows:
        messages = consumer.consume(10_000, 1)
        found += len([orjson.loads(message.value() or b"") for message in messages] if parses else messages)
    consumer.close()
    return time.monotonic() - clock_s, time.process_time() - cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--commits", type=int, default=2)
    arguments = report.arguments_of(parser)
    if reason := kafka.missing():
        sys.exit(reason)
    switch_threads_often()
    found = report.Report("kafka", SHAPES["kafka"])
    with tempfile.TemporaryDirectory() as folder:
        broker = kafka.Broker(Path(folder))
        broker.start()
        try:
            fill(broker.address, "events", arguments.rows)
            took = [
                consumed(broker.address, "events", arguments.rows, arguments.commits),
                read(broker.address, "events", arguments.rows, parses=False),
                read(broker.address, "events", arguments.rows, parses=True),
            ]
        finally:
            broker.kill()
    for case, (clock_s, cpu_s) in zip(_CASES, took, strict=True):
        rates = (round(arguments.rows / seconds, -3) for seconds in (clock_s, cpu_s))
        found.add(case, *(f"{rate:,.0f}" for rate in rates), f"{took[-1][0] / clock_s:.2f}")
    found.finish(writes=arguments.write_docs)


if __name__ == "__main__":
    main()
