"""An embedded cluster, a topic, and rows whose sums show whether each was counted exactly once."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest
from tests import waiting
from tests.kafka_harness import KafkaHarness
from tests.waiting import PATIENCE_S

from gamay.base.clock import SYSTEM_CLOCK
from gamay.embedded import EmbeddedCluster
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic

SCHEMA = {
    "schemaName": "t",
    "dimensionFieldSpecs": [{"name": "s", "dataType": "STRING"}, {"name": "p", "dataType": "INT"}],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}


class Realtime:
    """Table t over the partitions of topic t, of Kafka if one is given. The rows of partition p are n = 0, 1, 2, … in this
    order."""

    def __init__(
        self, folder: Path, partitions: int, segment_rows: int, stream: dict[str, Any], topic: TopicConfig,
        kafka: KafkaHarness | None = None,
    ) -> None:  # fmt: skip
        self.folder = folder
        self.sent = [0] * partitions
        self.cluster: EmbeddedCluster | None = None
        self.kind = "log" if kafka is None else "kafka"
        self._kafka = kafka
        streams = {
            "streamType": self.kind,
            f"stream.{self.kind}.decoder.class.name": "JSONMessageDecoder",
            f"stream.{self.kind}.consumer.prop.auto.offset.reset": "smallest",
            "realtime.segment.flush.threshold.segment.rows": str(segment_rows),
        }
        if kafka is None:
            self.topic = create_topic(folder / "streams", "t", topic)
            self.producer = Producer(self.topic, SYSTEM_CLOCK)
            streams["stream.log.topic.name"] = "t"
        else:
            kafka.create("t", partitions)
            streams |= {"stream.kafka.topic.name": kafka.topic("t"), "stream.kafka.broker.list": kafka.address}
        ingestion = {name: stream.pop(name) for name in list(stream) if "." not in name}
        self.table = {
            "tableName": "t",
            "tableType": "REALTIME",
            "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
            "tenants": {},
            "tableIndexConfig": {},
            "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [streams | stream]} | ingestion},
        }

    def start(self) -> None:
        self.cluster = EmbeddedCluster(self.folder, 0, 0, 0, threads=1, warm_up=False).start()

    def stop(self) -> None:
        if self.cluster is not None:
            self.cluster.stop()
            self.cluster = None

    def create(self) -> None:
        self.rest("POST", "/schemas", json=SCHEMA)
        self.rest("POST", "/tables", json=self.table)

    def rest(self, method: str, path: str, **more: Any) -> Any:
        assert self.cluster is not None
        answer = httpx.request(method, self.cluster.controller_url + path, timeout=PATIENCE_S, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def produce(self, rows: int, partition: int = 0) -> None:
        first = self.sent[partition]
        lines = [
            orjson.dumps({"s": f"v{n % 7}", "p": partition, "n": n, "ts": 1_700_000_000_000 + n})
            for n in range(first, first + rows)
        ]
        if self._kafka is None:
            self.producer.send(pa.array(lines, pa.binary()), partition=partition)
        else:
            self._kafka.produce("t", lines, partition)
        self.sent[partition] += rows

    def ask(self, sql: str) -> dict[str, Any]:
        assert self.cluster is not None
        answer = httpx.post(self.cluster.broker_url + "/query/sql", json={"sql": sql}, timeout=PATIENCE_S)
        return dict(answer.json())

    def counts(self) -> dict[int, int]:
        """Return partition -> rows, having checked that they are the first ones of the partition, each once."""
        answer = self.ask("SELECT p, COUNT(*), SUM(n), MAX(n) FROM t GROUP BY p")
        if "resultTable" not in answer:
            return {}
        counts = {}
        for partition, rows, total, last in answer["resultTable"]["rows"]:
            assert (total, last) == (rows * (rows - 1) // 2, rows - 1), f"partition {partition}: {rows}, {total}, {last}"
            counts[partition] = rows
        return counts

    def all_there(self) -> bool:
        return self.counts() == {p: rows for p, rows in enumerate(self.sent) if rows}

    def segments(self) -> dict[str, str]:
        ideal = self.rest("GET", "/tables/t/idealstate")["REALTIME"]
        return {name: next(iter(states.values())) for name, states in sorted(ideal.items())}


@pytest.fixture
def eventually() -> Callable[..., None]:
    return waiting.eventually


@pytest.fixture
def make_realtime(tmp_path: Path) -> Iterator[Callable[..., Realtime]]:
    """Return a function that starts a cluster, by default with the table."""
    made: list[Realtime] = []

    def make(
        partitions: int = 1, segment_rows: int = 1000, *, start: bool = True, topic: TopicConfig | None = None,
        kafka: KafkaHarness | None = None, **stream: Any,
    ) -> Realtime:  # fmt: skip
        made.append(Realtime(tmp_path, partitions, segment_rows, stream, topic or TopicConfig(partitions), kafka))
        if start:
            made[-1].start()
            made[-1].create()
        return made[-1]

    yield make
    for realtime in made:
        realtime.stop()
