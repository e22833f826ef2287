"""`spark.read.format("gamay")`: the rows of the broker's answers, for tables of every kind."""

import itertools
import re
import threading
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from tests.spark.cluster import DAY_MS, T0, Cluster, offline_config, realtime_config, send
from tests.waiting import eventually

from gamay.spark import read_table, register

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
            "childFieldSpecs": {
                "key": {"name": "key", "dataType": "STRING"},
                "value": {"name": "value", "dataType": "LONG"},
            },
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


@pytest.fixture
def pushing(spark):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    yield
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_filters_are_pushed_down_on_request(events, pushing):
    frame = events("events", pushDown="true").where("n >= 120 AND n < 133 AND city LIKE 'city%' AND n % 2 = 0")
    filters = frame._jdf.queryExecution().executedPlan().toString().split("Filter ")[1].split("\n")[0]
    assert "% 2" in filters, "what is left to Spark"
    assert "120" not in filters, "what is not"
    assert sorted(row.n for row in frame.collect()) == [120, 122, 124, 126, 128, 130]


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


STREAM_SCHEMA = {
    "schemaName": "orders",
    "dimensionFieldSpecs": [{"name": "id", "dataType": "STRING"}, {"name": "gone", "dataType": "BOOLEAN"}],
    "metricFieldSpecs": [{"name": "total", "dataType": "LONG"}],
    "dateTimeFieldSpecs": [{"name": "at", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
}


def order(i: int, key: int, **more: Any) -> dict[str, Any]:
    return {"id": f"k{key}", "total": i, "at": T0 + i, "gone": False, **more}


def test_consuming_rows_are_read_from_servers(cluster, read):
    producer = cluster.topic("plain")
    cluster.create({**STREAM_SCHEMA, "schemaName": "plain"}, realtime_config("plain", "plain", "at", 40))
    send(producer, [order(i, i) for i in range(100)])
    cluster.wait_for("plain", 100)
    eventually(lambda: sorted(cluster.segments("plain").values()) == ["CONSUMING", "ONLINE", "ONLINE"])
    everything = cluster.rows("SELECT id, total, at FROM plain LIMIT 1000")
    frame = read("plain", columns="id,total,at")
    assert sorted(map(tuple, frame.collect())) == sorted(everything)
    assert sorted(row.total for row in read("plain", where="total >= 70 AND total < 90").collect()) == list(range(70, 90))
    send(producer, [order(i, i) for i in range(100, 130)])
    cluster.wait_for("plain", 130)
    assert [frame.count(), read("plain").count()] == [100, 130], "a DataFrame is one moment of the table"


def test_of_upsert_tables_the_rows_that_count(cluster, read):
    producer = cluster.topic("orders")
    schema = {**STREAM_SCHEMA, "primaryKeyColumns": ["id"]}
    upsert = {"mode": "FULL", "deleteRecordColumn": "gone", "comparisonColumns": ["at"]}
    routing = {"instanceSelectorType": "strictReplicaGroup"}
    cluster.create(schema, realtime_config("orders", "orders", "at", 40, upsertConfig=upsert, routing=routing))
    send(producer, [order(i, i % 23) for i in range(100)] + [order(100 + i, i, gone=True) for i in range(3)])
    cluster.wait_for("orders", 20)
    eventually(lambda: sorted(cluster.segments("orders").values()) == ["CONSUMING", "ONLINE", "ONLINE"])
    for where in ("1 = 1", "total > 85", "id IN ('k0', 'k9')"):
        expected = cluster.rows(f"SELECT id, total FROM orders WHERE {where} LIMIT 1000")
        assert sorted(map(tuple, read("orders", columns="id,total", where=where).collect())) == sorted(expected), where
    assert read("orders").count() == 20


def test_upsert_reads_while_rows_come_and_segments_are_committed(cluster, read):
    """Each key is in every read exactly once, during replacements and commits."""
    producer = cluster.topic("busy")
    schema = {**STREAM_SCHEMA, "schemaName": "busy", "primaryKeyColumns": ["id"]}
    config = realtime_config("busy", "busy", "at", 500, upsertConfig={"mode": "FULL", "comparisonColumns": ["at"]})
    cluster.create(schema, {**config, "routing": {"instanceSelectorType": "strictReplicaGroup"}})
    send(producer, [order(i, i) for i in range(50)])
    cluster.wait_for("busy", 50)
    stop = threading.Event()

    def produce() -> None:
        for first in itertools.count(50, 100):
            if stop.wait(0.02):
                return
            send(producer, [order(i, i % 50) for i in range(first, first + 100)])

    writer = threading.Thread(target=produce)
    writer.start()
    try:
        for _ in range(3):
            keys = [row.id for row in read("busy", columns="id").collect()]
            assert sorted(keys) == sorted(f"k{i}" for i in range(50))
    finally:
        stop.set()
        writer.join()


def test_of_hybrid_tables_each_row_once(cluster, read):
    schema, producer = {**STREAM_SCHEMA, "schemaName": "hybrid"}, cluster.topic("hybrid")
    offline = offline_config("hybrid", "at")
    cluster.create(schema, offline, realtime_config("hybrid", "hybrid", "at", 1000))
    days = [order(i, i, at=T0 + i * DAY_MS // 10) for i in range(60)]
    cluster.push(schema, offline, "hybrid_0", pa.Table.from_pylist(days[:40]))
    send(producer, days[20:])
    cluster.wait_for("hybrid", 60)
    expected = cluster.rows("SELECT total FROM hybrid LIMIT 1000")
    assert sorted(tuple(row) for row in read("hybrid", columns="total").collect()) == sorted(expected)
    assert read("hybrid", tableType="OFFLINE").count() == 40
    assert read("hybrid_REALTIME").count() == 40


def test_little_is_read_of_a_short_time_and_few_columns(events, cluster, tmp_path, monkeypatch):
    """Of segments and columns that are not needed no byte is read; the others are mapped where they lie, or fetched once."""
    from gamay.segment.read.reader import ImmutableSegment
    from gamay.spark.source import GamayDataSource

    first, last = T0 + 250 * DAY_MS // 50, T0 + 254 * DAY_MS // 50
    options = {"controller": cluster.url, "table": "events", "columns": "n,ts", "cacheDir": str(tmp_path)}
    options["where"] = f"ts >= {first} AND ts < {last}"
    source = GamayDataSource(options)
    reader = source.reader(source.schema())
    (partition,) = reader.partitions()
    assert [one.name for one in partition.value.segments] == ["events_2"]
    touched, sizes, column = {}, set(), ImmutableSegment.column

    def recorded(self, name):
        touched[name] = sum(buffer.size for buffer in self.info.columns[name].buffers.values())
        sizes.add(self.size_bytes)
        return column(self, name)

    monkeypatch.setattr(ImmutableSegment, "column", recorded)
    rows = [row for batch in reader.read(partition) for row in batch["n"].to_pylist()]
    assert rows == [250, 251, 252, 253]
    assert set(touched) == {"n", "ts"}
    assert sum(touched.values()) < 0.05 * 4 * max(sizes), "1 % of the time, in one of four segments, and 2 of 11 columns"
    (kept,) = tmp_path.glob("events_OFFLINE/*")
    written = kept.stat().st_mtime_ns
    fetched = []
    monkeypatch.setattr("gamay.storage.fetchers.Fetchers.fetch", lambda *_: fetched.append(1))
    assert sum(batch.num_rows for batch in reader.read(partition)) == 4
    assert fetched == []
    assert kept.stat().st_mtime_ns >= written


def test_segments_may_come_by_the_controller_and_make_room(events, tmp_path):
    frame = events("events", fetch="controller", cacheDir=str(tmp_path), cacheBytes="1", bytesPerPartition="1")
    assert frame.coalesce(1).count() == 400
    assert len(list(tmp_path.glob("events_OFFLINE/*"))) == 1


def test_segments_are_grouped_by_their_bytes(events):
    assert events("events").rdd.getNumPartitions() == 1
    assert events("events", bytesPerPartition="1").rdd.getNumPartitions() == 4


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tabel": "x"}, "has no option 'tabel' for reading. Did you mean 'table'?"),
        ({"columns": "cty"}, "table 'events' has no column 'cty'. Did you mean 'city'?"),
        ({"fetch": "never"}, "the option 'fetch' must be one of auto, controller, not 'never'"),
        ({"nullHandling": "maybe"}, "the option 'nullHandling' must be true or false, not 'maybe'"),
        ({"bigDecimal": "decimal(40,2)"}, "must be string or decimal(p,s), p at most 38, not 'decimal(40,2)'"),
        ({"bytesPerPartition": "0"}, "'bytesPerPartition' must be a whole number of at least 1, not '0'"),
        ({"where": "cty = 1"}, "the option 'where' is no condition of SQL: "),
        ({"where": "n > 1 LIMIT 3"}, "must be a condition as after WHERE and no more"),
        ({"where": "n > 1) OR (n = 0"}, "the option 'where' is no condition of SQL: "),
        ({"table": "evnts"}, "evnts"),
        ({"bigDecimal": "decimal(4,2)"}, "column 'price' has a value that is no decimal128(4, 2)"),
    ],
)
def test_what_is_wrong_is_told(events, cluster, options, text):
    from gamay.base.errors import GamayError
    from gamay.spark.source import GamayDataSource

    source = GamayDataSource({"controller": cluster.url, "table": "events", **options})

    def read() -> None:
        reader = source.reader(source.schema())
        for partition in reader.partitions():
            list(reader.read(partition))

    with pytest.raises(GamayError, match=re.escape(text)):
        read()


def test_read_table(spark, events, cluster):
    frame = read_table(spark, cluster.url, "events", columns=["n", "city"], where="n < 7")
    assert (frame.columns, frame.count()) == (["n", "city"], 7)


def test_missing_options_are_named(cluster):
    from gamay.base.errors import InvalidConfigError
    from gamay.spark.source import GamayDataSource

    with pytest.raises(InvalidConfigError, match="the option 'controller' is missing, such as"):
        GamayDataSource({"table": "events"}).schema()


def test_spark_shows_what_is_wrong(events):
    with pytest.raises(AnalysisException, match=r"has no option 'tokn' for reading\. Did you mean 'token'\?"):
        events("events", tokn="x")
