"""Upsert tables with a compound inverted index: conjunctions find the valid rows, consuming, committed and restarted."""

import random
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import orjson
import pyarrow as pa
from tests.waiting import PATIENCE_S, eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.embedded import EmbeddedCluster
from gamay.ingest.stream.log.producer import Producer
from gamay.ingest.stream.log.topic import TopicConfig, create_topic

SCHEMA: dict[str, Any] = {
    "schemaName": "t",
    "dimensionFieldSpecs": [
        {"name": "id", "dataType": "INT"},
        {"name": "a", "dataType": "STRING"},
        {"name": "b", "dataType": "INT"},
    ],
    "dateTimeFieldSpecs": [{"name": "at", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
    "primaryKeyColumns": ["id"],
}
STREAM = {
    "streamType": "log", "stream.log.topic.name": "t", "stream.log.decoder.class.name": "JSONMessageDecoder",
    "stream.log.consumer.prop.auto.offset.reset": "smallest", "realtime.segment.flush.threshold.segment.rows": "400",
}  # fmt: skip
TABLE: dict[str, Any] = {
    "tableName": "t", "tableType": "REALTIME", "segmentsConfig": {"timeColumnName": "at", "replication": "1"}, "tenants": {},
    "tableIndexConfig": {"nullHandlingEnabled": True, "compoundInvertedIndexConfigs": [{"columns": ["a", "b"]}]},
    "routing": {"instanceSelectorType": "strictReplicaGroup"},
    "ingestionConfig": {"streamIngestionConfig": {"streamConfigMaps": [STREAM]}},
    "upsertConfig": {"mode": "FULL"},
}  # fmt: skip
CONDITION = "a = 'v1' AND b IN (0, 2)"


def test_valid_rows_are_found_in_every_form(tmp_path: Path) -> None:
    rng, times = random.Random(3), count(1_700_000_000_000)
    valid: dict[int, dict[str, Any]] = {}
    producer = Producer(create_topic(tmp_path / "streams", "t", TopicConfig(1)), SYSTEM_CLOCK)
    cluster = EmbeddedCluster(tmp_path, 0, 0, 0, threads=1, warm_up=False).start()

    def produce(number: int) -> None:
        rows = []
        for _ in range(number):
            row = {
                "id": rng.randrange(300),
                "a": f"v{rng.randrange(3)}",
                "b": rng.choice([0, 1, 2, None]),
                "at": next(times),
            }
            rows.append(row)
            valid[row["id"]] = row
        producer.send(pa.array([orjson.dumps(row) for row in rows], pa.binary()), partition=0)

    def ask(text: str, options: str = "") -> Any:
        found = httpx.post(cluster.broker_url + "/query/sql", json={"sql": f"{options}{text}"}, timeout=PATIENCE_S).json()
        return None if found["exceptions"] else found["resultTable"]["rows"]

    def is_right() -> bool:
        wanted = sorted(row["id"] for row in valid.values() if row["a"] == "v1" and row["b"] in (0, 2))
        text = f"SELECT id FROM t WHERE {CONDITION} ORDER BY id LIMIT 1000"
        every = ["", "SET skipIndexes = 'a=compound_inverted'; ", "SET enableNullHandling = true; "]
        return ask("SELECT COUNT(*) FROM t") == [[len(valid)]] and all(
            ask(text, options) == [[one] for one in wanted] for options in every
        )

    def plans() -> str:
        return str(ask(f"EXPLAIN PLAN FOR SELECT id FROM t WHERE {CONDITION}", "SET explainPlanVerbose = true; "))

    def post(path: str, document: Any) -> None:
        assert httpx.post(cluster.controller_url + path, json=document, timeout=PATIENCE_S).status_code == 200

    post("/schemas", SCHEMA)
    post("/tables", TABLE)
    try:
        produce(200)
        eventually(is_right)
        assert "COMPOUND" not in plans()
        produce(700)  # two segments are committed
        eventually(is_right)
        eventually(lambda: "FILTER_COMPOUND_INVERTED_INDEX" in plans())
        assert is_right()
        cluster.stop()
        cluster = EmbeddedCluster(tmp_path, 0, 0, 0, threads=1, warm_up=False).start()
        eventually(is_right)
        assert "FILTER_COMPOUND_INVERTED_INDEX" in plans()
        produce(50)
        eventually(is_right)
    finally:
        cluster.stop()
