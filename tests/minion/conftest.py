"""An embedded cluster with an upsert table, and a plain model of its expected rows."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
import pytest
from tests import waiting
from tests.waiting import PATIENCE_S

from gamay.base.clock import SYSTEM_CLOCK
from gamay.embedded import EmbeddedCluster
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic

T0 = 1_700_000_000_000
SCHEMA = {
    "schemaName": "orders",
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "STRING"},
        {"name": "note", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
        {"name": "gone", "dataType": "BOOLEAN"},
    ],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "price", "dataType": "DOUBLE"}],
    "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
    "primaryKeyColumns": ["id"],
}
COLUMNS = ("id", "note", "tags", "n", "price", "ts")


class Orders:
    """The table orders over a topic of the same name; `latest` is the expected result of queries."""

    def __init__(self, folder: Path, partitions: int, segment_rows: int, seed: int, **upsert: Any) -> None:
        self.folder = folder
        self.rng = random.Random(seed)
        self.partitions = partitions
        self.latest: dict[str, dict[str, Any]] = {}
        self.sent = 0
        topic = create_topic(folder / "streams", "orders", TopicConfig(partitions))
        self._producer = Producer(topic, SYSTEM_CLOCK)
        self.cluster: EmbeddedCluster | None = None
        streams = {
            "streamType": "log",
            "stream.log.topic.name": "orders",
            "stream.log.decoder.class.name": "JSONMessageDecoder",
            "stream.log.consumer.prop.auto.offset.reset": "smallest",
            "realtime.segment.flush.threshold.segment.rows": str(segment_rows),
        }
        self.table: dict[str, Any] = {
            "tableName": "orders",
            "tableType": "REALTIME",
            "segmentsConfig": {"timeColumnName": "ts", "replication": "1"},
            "tenants": {},
            "tableIndexConfig": {"nullHandlingEnabled": True, "noDictionaryColumns": ["price"]},
            "routing": {"instanceSelectorType": "strictReplicaGroup"},
            "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [streams]}},
            "upsertConfig": {"mode": "FULL", "deleteRecordColumn": "gone", **upsert},
        }

    def start(self) -> "Orders":
        self.cluster = EmbeddedCluster(self.folder, 0, 0, 0, threads=1, warm_up=False).start()
        return self

    def stop(self) -> None:
        if self.cluster is not None:
            self.cluster.stop()
            self.cluster = None

    def create(self, **tasks: dict[str, str]) -> "Orders":
        self.table["task"] = {"taskTypeConfigsMap": tasks}
        self.rest("POST", "/schemas", json=SCHEMA)
        self.rest("POST", "/tables", json=self.table)
        return self

    def ask_controller(self, method: str, path: str, **more: Any) -> httpx.Response:
        assert self.cluster is not None
        return httpx.request(method, self.cluster.controller_url + path, timeout=PATIENCE_S, **more)

    def rest(self, method: str, path: str, **more: Any) -> Any:
        answer = self.ask_controller(method, path, **more)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def produce(self, rows: int, keys: int) -> None:
        """Send rows with the given number of keys, in small batches; some arrive late, some delete their key."""
        for start in range(0, rows, 50):
            self._produce(min(50, rows - start), keys)

    def _produce(self, rows: int, keys: int) -> None:
        parts: dict[int, list[bytes]] = {}
        for i in range(self.sent, self.sent + rows):
            key = self.rng.randrange(keys)
            row = {
                "id": f"k{key}",
                "note": None if i % 5 == 0 else f"note {i % 97}",
                "tags": [f"t{(i + j) % 11}" for j in range(i % 4)],
                "gone": self.rng.random() < 0.05,
                "n": i,
                "price": i / 8,
                "ts": T0 + i - (self.rng.randrange(50) if self.rng.random() < 0.1 else 0),
            }
            old = self.latest.get(row["id"])
            if old is None or row["ts"] >= old["ts"]:
                self.latest[row["id"]] = row
            parts.setdefault(key % self.partitions, []).append(orjson.dumps(row))
        for partition, lines in parts.items():
            self._producer.send(pa.array(lines, pa.binary()), partition=partition)
        self.sent += rows

    def send(self, rows: list[dict[str, Any]]) -> None:
        """Send rows as they are, to the first partition."""
        self._producer.send(pa.array([orjson.dumps(row) for row in rows], pa.binary()), partition=0)

    def expected(self) -> list[list[Any]]:
        rows = [row for row in self.latest.values() if not row["gone"]]
        return sorted([r["id"], r["note"] or "null", r["tags"] or ["null"], r["n"], r["price"], r["ts"]] for r in rows)

    def rows(self, options: str = "") -> list[list[Any]]:
        return sorted(self.query(f"{options}SELECT {', '.join(COLUMNS)} FROM orders LIMIT 100000"))

    def query(self, sql: str) -> list[list[Any]]:
        assert self.cluster is not None
        answer = httpx.post(self.cluster.broker_url + "/query/sql", json={"sql": sql}, timeout=PATIENCE_S).json()
        assert answer["exceptions"] == [], answer["exceptions"]
        found: list[list[Any]] = answer["resultTable"]["rows"]
        return found

    def is_right(self) -> bool:
        return self.rows() == self.expected()

    def all_rows(self) -> int:
        return int(self.query("SET skipUpsert = true; SELECT COUNT(*) FROM orders")[0][0])

    def segments(self) -> list[str]:
        ideal = self.rest("GET", "/tables/orders/idealstate")["REALTIME"]
        return sorted(name for name, states in ideal.items() if "CONSUMING" not in states.values())

    def schedule(self, task_type: str) -> list[str]:
        answer = self.rest("POST", "/tasks/schedule", params={"taskType": task_type, "tableName": "orders_REALTIME"})
        assert (answer["generationErrors"], answer["schedulingErrors"]) == ("", "")
        return [name for name in answer.get(task_type, "").split(",") if name]

    def schedule_one(self, task_type: str) -> str:
        """Return the one job scheduled after servers reported the valid rows of segments just committed."""
        found: list[str] = []

        def scheduled() -> bool:
            found[:] = self.schedule(task_type)
            return bool(found)

        waiting.eventually(scheduled)
        (job,) = found
        return job


@pytest.fixture
def eventually() -> Callable[..., None]:
    return waiting.eventually


@pytest.fixture
def make_orders(tmp_path: Path) -> Iterator[Callable[..., Orders]]:
    made: list[Orders] = []

    def make(partitions: int = 1, segment_rows: int = 100, seed: int = 1, **upsert: Any) -> Orders:
        made.append(Orders(tmp_path, partitions, segment_rows, seed, **upsert))
        return made[-1].start()

    yield make
    for orders in made:
        orders.stop()
