"""`gamay.spark.repartition`: messages of one topic copied to another, each to the partition of its key."""

from typing import Any

import orjson
import pytest
from tests.spark.cluster import T0, Cluster, realtime_config, send

import gamay.spark
from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.offsets import IntegerOffset
from gamay.ingest.stream.plugins import open_stream
from gamay.ingest.stream.spi import StreamContext
from gamay.segment.encode.partition import partition_function
from gamay.spark.topics.__main__ import main

pytestmark = pytest.mark.spark
FIELDS = {
    "dimensionFieldSpecs": [{"name": "id", "dataType": "STRING"}, {"name": "n", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
PARTITIONS = 2
FUNCTION = {"functionName": "Murmur3", "numPartitions": PARTITIONS}
UPSERT = {
    "upsertConfig": {"mode": "FULL"}, "routing": {"instanceSelectorType": "strictReplicaGroup"},
    "tableIndexConfig": {"segmentPartitionConfig": {"columnPartitionMap": {"id": FUNCTION}}},
    "ingestionConfig": {},
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


def rows(numbers: range) -> list[dict[str, Any]]:
    return [{"id": f"k{n % 7}", "n": n, "ts": T0 + n} for n in numbers]


def keyed(cluster: Cluster, table: str, **stream: str) -> dict[str, Any]:
    """Create an upsert table on a topic of its name; return its stream config."""
    config = realtime_config(table, table, "ts", 10_000, **{**UPSERT, "ingestionConfig": {}})
    maps = realtime_config(table, table, "ts", 10_000)["ingestionConfig"]["streamIngestionConfig"]["streamConfigMaps"]
    keys = stream or maps[0]
    config["ingestionConfig"] = {
        "streamIngestionConfig": {"streamConfigMaps": [keys]},
        "filterConfig": {"filterFunction": "n < 0"},
    }
    cluster.create({"schemaName": table, "primaryKeyColumns": ["id"], **FIELDS}, config)
    return keys


def messages(keys: dict[str, str], folder: Any) -> dict[int, list[dict[str, Any]]]:
    """Return the messages of each partition of a topic."""
    stream = open_stream(StreamConfig.parse(keys), StreamContext(folder))
    found: dict[int, list[dict[str, Any]]] = {}
    for partition in stream.metadata().partition_ids():
        consumer = stream.partition_consumer(partition)
        end, at = stream.metadata().latest_offset(partition), IntegerOffset(0)
        while at < end:
            batch = consumer.fetch(at, 1000, 1 << 20, 1000)
            found.setdefault(partition, []).extend(map(orjson.loads, batch.payloads.to_pylist()))
            at = batch.next_offset
        consumer.close()
    return found


def check_places(found: dict[int, list[dict[str, Any]]], expected: list[dict[str, Any]]) -> None:
    """Check that all messages are there once, each where its key belongs, those of a key in their order."""
    function = partition_function("Murmur3", PARTITIONS, None)
    for partition, there in found.items():
        assert {function.partition_of(row["id"]) for row in there} == {partition}
    assert sorted((row for part in found.values() for row in part), key=lambda row: row["n"]) == expected
    for key in {row["id"] for row in expected}:
        numbers = [row["n"] for part in found.values() for row in part if row["id"] == key]
        assert numbers == sorted(numbers)


def test_messages_go_where_their_keys_belong(spark, cluster, tmp_path, capsys):
    folder = cluster.folder / "data" / "streams"
    source = cluster.topic("raw", 3)
    cluster.topic("placed", PARTITIONS)
    keys = keyed(cluster, "placed")
    for n, row in enumerate(rows(range(60))):
        send(source, [row], n % 7 % 3)
    given = {"spark": spark, "client": cluster.client, "table": "placed", "from_topic": "raw", "folder": str(folder)}
    gamay.spark.repartition(**given, checkpoint=str(tmp_path / "c"), messages_per_batch=45).awaitTermination(60)
    check_places(messages(keys, folder), rows(range(60)))
    arguments = ["--controller", cluster.url, "--table", "placed", "--from-topic", "raw", "--folder", str(folder)]
    send(source, [{"id": "k1", "n": "much", "ts": T0}, *rows(range(60, 61))])
    assert main([*arguments, "--checkpoint", str(tmp_path / "c")]) == 1
    assert "cannot be put in its place" in capsys.readouterr().err
    assert main([*arguments, "--checkpoint", str(tmp_path / "c"), "--bad-messages", "skip"]) == 0  # goes on where it was
    check_places(messages(keys, folder), rows(range(61)))


def test_what_is_wrong_is_told(spark, cluster, tmp_path):
    folder = str(cluster.folder / "data" / "streams")
    cluster.topic("other", 1)
    cluster.topic("wide", 3)
    keyed(cluster, "wide")

    def start(table: str, topic: str, **more: Any) -> None:
        gamay.spark.repartition(spark, cluster.client, table, topic, str(tmp_path / "c"), folder=folder, **more)

    with pytest.raises(InvalidConfigError, match="'wide' has 3 partitions, but segmentPartitionConfig has numPartitions 2"):
        start("wide", "other")
    with pytest.raises(InvalidConfigError, match="'wide' cannot be repartitioned into itself"):
        start("wide", "wide")
    with pytest.raises(InvalidConfigError, match="has no column 'n': it must say by which function"):
        start("wide", "other", partition_by="n")
    with pytest.raises(NotFoundError, match="narrow"):
        start("narrow", "other")


@pytest.mark.kafka
def test_messages_of_kafka_go_where_their_keys_belong(spark, cluster, kafka, tmp_path):
    kafka.create("raw", 3)
    kafka.create("placed", PARTITIONS)
    for partition in range(3):
        there = [row for n, row in enumerate(rows(range(60))) if n % 7 % 3 == partition]
        kafka.produce("raw", [orjson.dumps(row) for row in there], partition)
    keys = {
        "streamType": "kafka", "stream.kafka.topic.name": kafka.topic("placed"), "stream.kafka.broker.list": kafka.address,
        "stream.kafka.decoder.class.name": "json", "stream.kafka.consumer.prop.auto.offset.reset": "smallest",
    }  # fmt: skip
    keyed(cluster, "of_kafka", **keys)
    query = gamay.spark.repartition(spark, cluster.client, "of_kafka", kafka.topic("raw"), str(tmp_path / "c"))
    query.awaitTermination(60)
    check_places(messages(keys, None), rows(range(60)))
