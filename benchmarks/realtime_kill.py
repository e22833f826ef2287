"""Consume a stream by two replicas while servers, controllers and the stream's broker are killed: each row counts once.

    python -m benchmarks.realtime_kill [--rows 20000000] [--stream kafka] [--seed 7] [--partitions 4] [--segment-rows 500000]
                                       [--every 10] [--pauseless] [--folder F] [--write-docs]

2 controllers, a broker, 2 servers, ZooKeeper and, unless `--stream log`, Kafka (`python tools/kafka.py fetch`): processes.
Row n of a partition holds n, so an answer shows whether what it counts is a prefix of the partition: every answer during
the run must be that for each partition, or say that it is partial. In the end the count, the sums and the distinct keys
must be exactly those of what was sent. Prints a table, and exits with status 1 when something was not so; the folder then
stays. `--write-docs` does the runs of the page, one after the other.
"""

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
from tools import kafka

from benchmarks import report
from benchmarks.cluster.processes import Processes, WaitedInVainError, until
from benchmarks.cluster.zookeeper import ZooKeeperProcess, what_is_missing
from gamay.base.clock import SYSTEM_CLOCK
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic, open_topic

TABLE = "rows"
KEYS = 100_000  # of each partition
_MODULUS = 1_000_003
_BLOCK = 20_000
_KILLS = "SIGKILLs of servers, controllers, the stream"
_NOT_WHOLE = "none, or said to be partial"
_WHOLE_ANSWERS = "whole answers"
_OTHERS = "answers that did not come, or said that they were partial"
CASES = (_KILLS, _WHOLE_ANSWERS, _OTHERS, "commits", "problems", "seconds")
PAGE_RUNS = {
    "20 million rows, seed 7, every 7 s": ["--every", "7"],
    "8 million rows, seed 23, every 5 s, `--pauseless`": [
        "--rows", "8000000", "--segment-rows", "200000", "--seed", "23", "--every", "5", "--pauseless",
    ],
}  # fmt: skip
SHAPES = {"realtime_kill": report.Shape(("of a run", *PAGE_RUNS), CASES)}
_IN_A_ROW = 20
_SETTLE_S = 1_800
_RECOVERY_S = 600  # on a busy machine a broker reads for minutes what it was writing when it was killed
SCHEMA: dict[str, Any] = {
    "schemaName": TABLE,
    "dimensionFieldSpecs": [{"name": "p", "dataType": "INT"}, {"name": "k", "dataType": "STRING"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "v", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}
_PREFIXES = f"SELECT p, COUNT(*), MIN(n), MAX(n), SUM(n) FROM {TABLE} GROUP BY p LIMIT 1000"
_WHOLE = f"SELECT COUNT(*), SUM(n), SUM(v), DISTINCTCOUNT(k), MAX(n) FROM {TABLE}"


def block(partition: int, first: int, last: int) -> list[bytes]:
    """Return the messages of the rows from `first` up to, not including, `last`, of a partition."""
    return [
        b'{"p":%d,"n":%d,"v":%d,"k":"%d-%d","ts":%d}'
        % (partition, n, n * 7919 % _MODULUS, partition, n % KEYS, 1_700_000_000_000 + n)
        for n in range(first, last)
    ]


def expected(rows: int, partitions: int) -> list[float]:
    """Return the answer to the last query if each partition has `rows` rows."""
    values = sum(n * 7919 % _MODULUS for n in range(rows))
    return [
        rows * partitions, float(partitions * (rows * (rows - 1) // 2)), float(partitions * values),
        partitions * min(rows, KEYS), float(rows - 1),
    ]  # fmt: skip


class LogStream:
    """The topic in an embedded log, whose folder all processes share; no process of it can be killed."""

    kind = "log"

    def __init__(self, folder: Path, partitions: int) -> None:
        self.folder = folder / "streams"
        create_topic(self.folder, TABLE, TopicConfig(partitions))

    @property
    def where(self) -> str:
        return str(self.folder)

    def keys(self) -> dict[str, str]:
        return {"stream.log.folder": str(self.folder)}

    def restart(self, rest_s: float) -> None:
        raise AssertionError("a log has no process")

    def close(self) -> None:
        pass


class KafkaStream:
    """The topic on a separate broker."""

    kind = "kafka"

    def __init__(self, folder: Path, partitions: int) -> None:
        from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

        self._broker = kafka.Broker(folder / "kafka")
        self._broker.start()
        admin = AdminClient({"bootstrap.servers": self.where})
        admin.create_topics([NewTopic(TABLE, partitions, 1)])[TABLE].result(60)

    @property
    def where(self) -> str:
        return self._broker.address

    def keys(self) -> dict[str, str]:
        return {"stream.kafka.broker.list": self.where}

    def restart(self, rest_s: float) -> None:
        """Kill the broker and restart it."""
        self._broker.kill()
        time.sleep(rest_s)
        self._broker.start(_RECOVERY_S)

    def close(self) -> None:
        self._broker.kill()


def produce(kind: str, where: str, rows: int, partitions: int, rate: float) -> None:
    """Send `rows` rows to each partition, at most `rate` a second in all; runs in a separate process."""
    began = time.monotonic()
    send = _kafka_sender(where) if kind == "kafka" else _log_sender(where)
    for first in range(0, rows, _BLOCK):
        for partition in range(partitions):
            send(partition, block(partition, first, min(rows, first + _BLOCK)))
        time.sleep(max(0.0, began + first * partitions / rate - time.monotonic()))
    send(-1, [])


def _log_sender(where: str) -> Any:
    producer = Producer(open_topic(Path(where), TABLE), SYSTEM_CLOCK)

    def send(partition: int, messages: list[bytes]) -> None:
        if messages:
            producer.send(pa.array(messages, pa.binary()), partition=partition)
        else:
            producer.close()

    return send


def _kafka_sender(where: str) -> Any:
    from confluent_kafka import Producer as KafkaProducer

    # Exactly once into the partition, however often the broker dies: each message has a number there.
    producer = KafkaProducer(
        {
            "bootstrap.servers": where, "enable.idempotence": True, "message.timeout.ms": 3_600_000, "linger.ms": 20,
            "log_level": 2, "queue.buffering.max.messages": 1_000_000,
            "queue.buffering.max.kbytes": 200_000, "compression.type": "lz4",
        }
    )  # fmt: skip

    def send(partition: int, messages: list[bytes]) -> None:
        for message in messages:
            while True:
                try:
                    producer.produce(TABLE, message, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        producer.poll(0)
        if not messages and producer.flush(3_600):
            sys.exit("the broker did not take all messages")

    return send


@dataclass
class Outcome:
    """The results of a run."""

    kills: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    commits: int = 0
    seconds: float = 0.0


class Run:
    """One run in a folder. rows: of each partition."""

    def __init__(
        self, folder: Path, zookeeper_hosts: str, kind: str, rows: int, partitions: int, segment_rows: int, seed: int
    ) -> None:
        self.folder, self.rows, self.partitions, self.segment_rows = folder, rows, partitions, segment_rows
        self.outcome = Outcome()
        self._rng = random.Random(seed)
        self._processes = Processes(folder, f"{zookeeper_hosts}/realtime_kill", brokers=1, servers=2)
        self.stream: LogStream | KafkaStream = (KafkaStream if kind == "kafka" else LogStream)(folder, partitions)
        self._ended = threading.Event()

    def run(self, every_s: float, rate: float, *, pauseless: bool = False) -> Outcome:
        """Do it. every_s: mean time between two kills; rate: rows a second that are sent, at most."""
        began_s = time.monotonic()
        sender: subprocess.Popen[bytes] | None = None
        asking = threading.Thread(target=self._ask_on, daemon=True)
        try:
            self._processes.start()
            self._create_table(pauseless=pauseless)
            arguments = ["--produce", self.stream.where, "--stream", self.stream.kind, "--rate", str(rate)]
            arguments += ["--rows", str(self.rows * self.partitions), "--partitions", str(self.partitions)]
            sender = subprocess.Popen([sys.executable, "-m", "benchmarks.realtime_kill", *arguments])
            asking.start()
            while sender.poll() is None:
                time.sleep(self._rng.expovariate(1 / every_s))
                self._kill_one()
            if sender.returncode:
                self.outcome.problems.append(f"sending ended with status {sender.returncode}")
            for _ in range(4):  # with everything in the stream, too
                self._kill_one()
                time.sleep(self._rng.random() * every_s)
            for process in self._processes.all:
                process.wait_ready()
            self._conclude()
        except WaitedInVainError as error:
            self.outcome.problems.append(str(error))
        finally:
            self._ended.set()
            if asking.is_alive():
                asking.join()
            if sender is not None:
                sender.kill()
            self._processes.stop()
            self.stream.close()
        self.outcome.seconds = time.monotonic() - began_s
        return self.outcome

    def _create_table(self, *, pauseless: bool) -> None:
        kind = self.stream.kind
        stream = {
            "streamType": kind, f"stream.{kind}.topic.name": TABLE,
            f"stream.{kind}.decoder.class.name": "JSONMessageDecoder",
            f"stream.{kind}.consumer.prop.auto.offset.reset": "smallest",
            "realtime.segment.flush.threshold.segment.rows": str(self.segment_rows), **self.stream.keys(),
        }  # fmt: skip
        peers = {"peerSegmentDownloadScheme": "http"} if pauseless else {}
        table = {
            "tableName": TABLE, "tableType": "REALTIME", "tenants": {}, "tableIndexConfig": {}, "metadata": {},
            "segmentsConfig": {"timeColumnName": "ts", "replication": "2", **peers},
            "ingestionConfig": {
                "streamIngestionConfig": {"streamConfigMaps": [stream], "pauselessConsumptionEnabled": pauseless}
            },
        }  # fmt: skip
        for path, document in (("/schemas", SCHEMA), ("/tables", table)):
            self._processes.call("POST", path, json=document).raise_for_status()

    def _kill_one(self) -> None:
        kinds = ["server", "server", "controller"] + (["stream"] if self.stream.kind == "kafka" else [])
        kind, rest_s = self._rng.choice(kinds), self._rng.random() * 4
        self.outcome.kills[kind] += 1
        if kind == "stream":
            self.stream.restart(rest_s)
            return
        process = self._rng.choice(self._processes.servers if kind == "server" else self._processes.controllers)
        process.kill()
        time.sleep(rest_s)
        process.start()
        if self._rng.random() < 0.7:  # else the next kill may hit the other one before this one is back
            process.wait_ready()

    # asking

    def _ask(self, sql: str) -> dict[str, Any] | None:
        try:
            answer = self._processes.brokers[0].http.post("/query/sql", json={"sql": sql})
        except httpx.TransportError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def _ask_on(self) -> None:
        while not self._ended.wait(0.05):
            answer = self._ask(_PREFIXES)
            if answer is None or answer.get("exceptions"):
                self.outcome.answers[_NOT_WHOLE] += 1
                continue
            self.outcome.answers["whole"] += 1
            for partition, count, least, most, total in answer["resultTable"]["rows"]:
                is_prefix = least == 0 and most == count - 1 and total == count * (count - 1) // 2
                if not is_prefix and len(self.outcome.problems) < 20:
                    shown = f"{count} rows of partition {partition}, from {least} to {most}, sum {total}"
                    self.outcome.problems.append(f"an answer is no prefix: {shown}")

    def _conclude(self) -> None:
        wanted = expected(self.rows, self.partitions)
        last: list[Any] = []

        def is_whole() -> bool:
            answer = self._ask(_WHOLE)
            rows = (answer or {}).get("resultTable", {}).get("rows")
            last[:] = rows[0] if rows and not (answer or {}).get("exceptions") else []
            if last and last[0] > wanted[0]:
                raise WaitedInVainError(f"{last[0]} rows are counted, {wanted[0]} were sent")
            return last == wanted

        try:
            until(is_whole, _SETTLE_S, "all rows are counted")
        except WaitedInVainError as error:
            self.outcome.problems.append(f"{error}; the last answer is {last}, it should be {wanted}")
        in_a_row = 0

        def is_whole_again() -> bool:
            nonlocal in_a_row
            in_a_row = in_a_row + 1 if is_whole() else 0
            return in_a_row == _IN_A_ROW

        try:  # of either replica: the other one may still have to catch up
            until(is_whole_again, _SETTLE_S, f"{_IN_A_ROW} answers in a row count all rows")
        except WaitedInVainError as error:
            self.outcome.problems.append(f"{error}; the last answer is {last}, it should be {wanted}")
        records = self._processes.call("GET", f"/segments/{TABLE}").json()[0]["REALTIME"]
        self.outcome.commits = len(records) - self.partitions


def cells_of(outcome: Outcome) -> tuple[str, ...]:
    """Return the results of a run, in the order of the cases."""
    kills = (outcome.kills[kind] for kind in ("server", "controller", "stream"))
    answers = (outcome.answers[kind] for kind in ("whole", _NOT_WHOLE))
    return (
        ", ".join(map(str, kills)), *(f"{count:,}" for count in answers), str(outcome.commits),
        str(len(outcome.problems)), f"{outcome.seconds:.0f}",
    )  # fmt: skip


def main() -> None:
    """Run what the arguments select."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000, help="of all partitions")
    parser.add_argument("--stream", choices=("kafka", "log"), default="kafka")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--segment-rows", type=int, default=500_000)
    parser.add_argument("--every", type=float, default=10, help="mean seconds between two kills")
    parser.add_argument("--rate", type=float, default=100_000, help="rows a second that are sent")
    parser.add_argument("--pauseless", action="store_true", help="segments begin while others are built")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--produce", help=argparse.SUPPRESS)
    arguments = report.arguments_of(parser)
    if arguments.produce is not None:
        rows = arguments.rows // arguments.partitions
        produce(arguments.stream, arguments.produce, rows, arguments.partitions, arguments.rate)
        return
    if reason := what_is_missing() or (kafka.missing() if arguments.stream == "kafka" else None):
        sys.exit(reason)
    runs = {"this one": arguments}
    if arguments.write_docs:
        runs = {name: parser.parse_args(options) for name, options in PAGE_RUNS.items()}
    outcomes = {name: run(chosen) for name, chosen in runs.items()}
    table = report.Report("realtime_kill", report.Shape(("of a run", *runs), CASES))
    for case, *cells in zip(CASES, *map(cells_of, outcomes.values()), strict=True):
        table.add(case, *cells)
    failed = any(outcome.problems for outcome in outcomes.values())
    table.finish(writes=arguments.write_docs and not failed)
    sys.exit(failed)


def run(chosen: argparse.Namespace) -> Outcome:
    """Do one run, with a ZooKeeper of its own, and print its problems."""
    folder: Path = chosen.folder or Path(tempfile.mkdtemp(prefix="gamay-realtime-kill-"))
    (folder / "zookeeper").mkdir(parents=True)
    zookeeper = ZooKeeperProcess(folder / "zookeeper")
    zookeeper.start()
    try:
        rows = chosen.rows // chosen.partitions
        one = Run(folder, zookeeper.hosts, chosen.stream, rows, chosen.partitions, chosen.segment_rows, chosen.seed)
        outcome = one.run(chosen.every, chosen.rate, pauseless=chosen.pauseless)
    finally:
        zookeeper.stop()
    for problem in outcome.problems:
        print(problem)
    if outcome.problems:
        print(f"the logs are in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return outcome


if __name__ == "__main__":
    main()
