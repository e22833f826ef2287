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


FILTERS = [
    "n >= 120 AND n < 133", "city = 'city3'", "city IN ('city1', 'city5') AND n > 200", "NOT (city = 'city3')",
    "city LIKE 'city3%'", "city LIKE '%y3'", "city LIKE '%ity3%'", "city LIKE 'City3%'", "city LIKE 'c%3'", "city > 'city4'", "city <> 'city2'",
    "city IS NULL", "city IS NOT NULL", "ok", "NOT ok", "ts < timestamp'2023-11-17 00:00:00'", "ts = timestamp_millis(1700001728000)",
    "ts > timestamp_micros(1700001728000001)", "raw = X'007B'", "price = 7.07", "price > 390.5BD", "small = cast(0.5 as float)", "small > cast(195 as float)",
    "small < cast(3 as float)", "small <> cast(3 as float)", "isnan(small)", "array_contains(tags, 't1') AND n < 9",
    "doc = '{\"a\":7}'", "attributes['x'] = 9", "n IN (1, 5, 399, 1000)", "NOT (n IN (1, 5))", "city <=> 'city3'", "n > 5000000000", "n < -1", "size(levels) = 2 AND n < 4",
    "city = 'city3' OR n < 3", "city NOT IN ('city1', 'city2')", "n % 100 = 7", "city = \"it's\"", "NOT (city LIKE 'city3%')", "small >= cast('NaN' as float)",
]  # fmt: skip


@pytest.fixture
def pushing(spark):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


@pytest.mark.parametrize("null_handling", ["false", "true"])
def test_filters_let_the_rows_through_that_spark_would(events, pushing, null_handling):
    frame = events("events", nullHandling=null_handling)
    local = frame.sparkSession.createDataFrame(frame.collect(), frame.schema).coalesce(1).cache()
    for text in FILTERS:
        expected = [row.n for row in local.where(text).select("n").orderBy("n").collect()]
        pushed = events("events", nullHandling=null_handling, pushDown="true")
        assert sorted(row.n for row in pushed.where(text).select("n").collect()) == expected, text
    local.unpersist()


def test_a_frame_serves_many_queries(events):
    """Spark keeps one plan for a frame: filters that were pushed down would hold for the other queries of it, too."""
    frame = events("events")
    assert [frame.where("n < 10").count(), frame.count(), frame.where("n >= 390").count()] == [10, 400, 10]
    both = frame.where("n < 10").union(frame.where("n >= 390"))
    assert both.count() == 20
    assert frame.alias("a").join(frame.where("n < 5").alias("b"), "n").count() == 5


def test_where_chooses_rows_and_columns_what_is_read_of_them(events, cluster):
    frame = events("events", where="city = 'city3' AND n BETWEEN 100 AND 250", columns="n, tags")
    rows = cluster.rows("SELECT n, tags FROM events WHERE city = 'city3' AND n BETWEEN 100 AND 250 LIMIT 1000")
    assert frame.columns == ["n", "tags"]
    assert sorted(map(tuple, frame.collect())) == sorted(rows)
