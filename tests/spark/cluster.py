"""A cluster in this process with tables of every kind, to be read and written from Spark."""

from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
from tests.waiting import eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.client import ControllerClient, connect
from gamay.embedded import EmbeddedCluster
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.segment.write.builder import SegmentBuilder
from gamay.storage.archive import pack

T0 = 1_700_000_000_000
DAY_MS = 86_400_000


class Cluster:
    """An `EmbeddedCluster` with clients, and functions to create tables and segments."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.folder = folder
        self.cluster = EmbeddedCluster(folder / "data", 0, 0, 0, threads=1, warm_up=False, **settings).start()
        self.url = self.cluster.controller_url
        self.client = ControllerClient(self.url)
        self.connection = connect(self.cluster.broker_url, None)

    def stop(self) -> None:
        self.connection.close()
        self.client.close()
        self.cluster.stop()

    def create(self, schema: dict[str, Any], *configs: dict[str, Any]) -> None:
        self.client.add_schema(schema)
        for config in configs:
            self.client.add_table(config)
            self.cluster.core.wait_until_routed(f"{config['tableName']}_{config['tableType']}")

    def push(
        self, schema: dict[str, Any], config: dict[str, Any], name: str, rows: pa.Table, suffix: str = ".tar.zst"
    ) -> None:
        """Build a segment of rows, upload it, and wait until it is queried."""
        parsed, table = Schema.from_json(schema).value, TableConfig.from_json(config).value
        out = self.folder / f"built-{name}"
        builder = SegmentBuilder(parsed, table, name, out)
        for batch in rows.to_batches():
            builder.append(Pipeline(parsed, table).apply(batch))
        archive = pack(builder.build(), self.folder / f"{name}{suffix}")
        self.client.upload_tar(config["tableName"], archive, table_type=config["tableType"])
        self.cluster.core.wait_until_visible(f"{config['tableName']}_{config['tableType']}", [name], 60)

    def topic(self, name: str, partitions: int = 1) -> Producer:
        return Producer(create_topic(self.folder / "data" / "streams", name, TopicConfig(partitions)), SYSTEM_CLOCK)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of the broker's answer."""
        return list(self.connection.execute(sql).rows())

    def count(self, table: str) -> int:
        return int(self.rows(f"SELECT COUNT(*) FROM {table}")[0][0])

    def wait_for(self, table: str, rows: int) -> None:
        eventually(lambda: self.count(table) == rows)

    def segments(self, table: str) -> dict[str, str]:
        ideal = httpx.get(f"{self.url}/tables/{table}/idealstate").json()
        return {name: next(iter(s.values())) for half in ideal.values() if half for name, s in half.items()}


def send(producer: Producer, rows: list[dict[str, Any]], partition: int = 0) -> None:
    producer.send(pa.array([orjson.dumps(row) for row in rows], pa.binary()), partition=partition)


def realtime_config(table: str, topic: str, time_column: str, segment_rows: int, **more: Any) -> dict[str, Any]:
    stream = {
        "streamType": "log", "stream.log.topic.name": topic, "stream.log.decoder.class.name": "JSONMessageDecoder",
        "stream.log.consumer.prop.auto.offset.reset": "smallest",
        "realtime.segment.flush.threshold.segment.rows": str(segment_rows),
    }  # fmt: skip
    return {
        "tableName": table, "tableType": "REALTIME", "tenants": {}, "tableIndexConfig": {},
        "segmentsConfig": {"timeColumnName": time_column, "replication": "1"},
        "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [stream]}}, **more,
    }  # fmt: skip


def offline_config(table: str, time_column: str, **indexing: Any) -> dict[str, Any]:
    return {
        "tableName": table, "tableType": "OFFLINE", "tenants": {}, "tableIndexConfig": indexing,
        "segmentsConfig": {"timeColumnName": time_column, "replication": "1"},
    }  # fmt: skip


def forget_last_commit(checkpoint: Path) -> int:
    """Leave a checkpoint as a driver does that dies before Spark has noted its last batch as done; return the batch."""
    commits = checkpoint / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    (commits / str(last)).unlink()
    (commits / f".{last}.crc").unlink(missing_ok=True)
    return last
