"""`spark.read.format("gamay")`: the rows that the broker answers with, of tables of every kind."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.cluster import DAY_MS, T0, Cluster, offline_config, realtime_config, send

from gamay.spark import register

pytestmark = pytest.mark.spark

SCHEMA = {
    "schemaName": "events",
    "dimensionFieldSpecs": [
        {"name": "city", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
        {"name": "levels", "dataType": "INT", "singleValueField": False},
        {"name": "doc", "dataType": "JSON"},
        {"name": "raw", "dataType": "BYTES"},
        {"name": "ok", "dataType": "BOOLEAN"},
        {"name": "small", "dataType": "FLOAT"},
    ],
    "metricFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "price", "dataType": "BIG_DECIMAL"}],
    "complexFieldSpecs": [
        {
            "name": "attributes",
            "dataType": "MAP",
            "childFieldSpecs": {"key": {"name": "key", "dataType": "STRING"}, "value": {"name": "value", "dataType": "LONG"}},
        }
    ],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
OFFLINE = offline_config("events", "ts", invertedIndexColumns=["city"], nullHandlingEnabled=True)


def event_rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "city": [None if i % 11 == 0 else f"city{i % 7}" for i in numbers],
            "tags": [[f"t{i % 3}", "u"] for i in numbers],
            "levels": pa.array([[i, i + 1] if i % 2 else [i] for i in numbers], pa.list_(pa.int32())),
            "doc": [f'{{"a":{i}}}' for i in numbers],
            "raw": pa.array([i.to_bytes(2, "big") for i in numbers], pa.binary()),
            "ok": [i % 3 == 0 for i in numbers],
            "small": pa.array([float("nan") if i % 50 == 0 else i / 2 for i in numbers], pa.float32()),
            "n": pa.array(list(numbers), pa.int64()),
            "price": pa.array([f"{i}.{i % 100:02}" for i in numbers]),
            "attributes": [f'{{"x":{i},"y":2}}' for i in numbers],
            "ts": pa.array([T0 + i * DAY_MS // 50 for i in numbers], pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def read(spark, cluster):
    register(spark)

    def table(name: str, **options: Any) -> Any:
        return spark.read.format("gamay").options(controller=cluster.url, table=name, **options).load()

    return table


@pytest.fixture(scope="module")
def events(cluster, read):
    """An OFFLINE table of four segments of 100 rows, two days each."""
    cluster.create(SCHEMA, OFFLINE)
    for number in range(4):
        cluster.push(SCHEMA, OFFLINE, f"events_{number}", event_rows(100 * number, 100))
    return read


def test_every_type_arrives_whole(events):
    frame = events("events")
    assert {f.name: f.dataType.simpleString() for f in frame.schema} == {
        "city": "string", "tags": "array<string>", "levels": "array<int>", "doc": "string", "raw": "binary",
        "ok": "boolean", "small": "float", "n": "bigint", "price": "decimal(38,18)", "attributes": "map<string,bigint>",
        "ts": "timestamp",
    }  # fmt: skip
    row = frame.where("n = 123").collect()[0]
    assert (row.city, row.tags, row.levels, row.doc) == ("city4", ["t0", "u"], [123, 124], '{"a":123}')
    assert (bytes(row.raw), row.ok, row.small, row.price) == (b"\x00\x7b", True, 61.5, Decimal("123.23"))
    assert row.attributes == {"x": 123, "y": 2}
    assert row.ts.timestamp() * 1000 == T0 + 123 * DAY_MS // 50
    assert events("events", bigDecimal="string").where("n = 123").collect()[0].price == "123.23"
