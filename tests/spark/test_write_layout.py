"""The layout of written rows in segments: by partition, sorted; also into REALTIME tables; and the result of a dry run."""

import re
from typing import Any

import pytest
from pyspark.sql.functions import col, expr
from tests.spark.cluster import DAY_MS, T0, Cluster, offline_config, realtime_config, send
from tests.waiting import eventually

import gamay.spark
from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.segment.encode.partition import partition_function
from gamay.spark.source import GamayDataSource

pytestmark = pytest.mark.spark
FIELDS = {
    "dimensionFieldSpecs": [
        {"name": "n", "dataType": "LONG"},
        {"name": "city", "dataType": "STRING"},
        {"name": "tags", "dataType": "STRING", "singleValueField": False},
    ],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
BY_N = {"columnPartitionMap": {"n": {"functionName": "Murmur", "numPartitions": 2}}}
TABLES = {
    "laid": offline_config("laid", "ts", segmentPartitionConfig=BY_N),
    "ordered": offline_config("ordered", "ts", sortedColumn=["city"]),
}


@pytest.fixture(scope="module")
def cluster(spark, tmp_path_factory):
    gamay.spark.register(spark)
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    for name, config in TABLES.items():
        running.create({"schemaName": name, **FIELDS}, config)
    yield running
    running.stop()


def frame(spark: Any, numbers: range, city: str = "Oslo", days: int = 0) -> Any:
    rows = spark.range(numbers.start, numbers.stop, 1, 1)
    ts = expr(f"timestamp_millis({T0 + days * DAY_MS})").alias("ts")
    return rows.select(col("id").alias("n"), expr(f"'{city}'").alias("city"), expr("array('a', 'b')").alias("tags"), ts)


def write(cluster: Cluster, rows: Any, table: str, mode: str = "append", **options: str) -> None:
    rows.write.format("gamay").mode(mode).options(controller=cluster.url, table=table, **options).save()


def test_segments_hold_a_partition_in_an_order(spark, cluster):
    rows = frame(spark, range(50)).withColumn("city", expr("concat('c', n % 7)"))
    write(cluster, rows, "laid", partitionBy="n", sortBy="city, n", rowsPerSegment="20")
    eventually(lambda: cluster.count("laid") == 50)
    read = gamay.spark.read_table(spark, cluster.url, "laid").select("city", "n").collect()
    function = partition_function("Murmur", 2, None)
    expected = {number: [n for n in range(50) if function.partition_of(str(n)) == number] for number in range(2)}
    for name in cluster.segments("laid"):
        found = [tuple(row) for row in cluster.rows(f"SELECT city, n FROM laid WHERE $segmentName = '{name}' LIMIT 100")]
        assert len(found) <= 20
        assert found == sorted(found)
        assert {n for _, n in found} <= set(expected[0]) or {n for _, n in found} <= set(expected[1])
    assert sorted(row.n for row in read) == list(range(50))


def test_rows_without_a_value_are_in_order_by_its_default_and_decimals_as_numbers(spark, cluster):
    fields = {**FIELDS, "metricFieldSpecs": [{"name": "price", "dataType": "BIG_DECIMAL"}]}
    cluster.create({"schemaName": "gaps", **fields}, offline_config("gaps", "ts", sortedColumn=["city"]))
    rows = frame(spark, range(30)).withColumn("price", expr("cast(n * 3 as decimal(10, 2))"))
    write(
        cluster, rows.withColumn("city", expr("if(n % 5 = 0, null, if(n % 2 = 0, 'z', 'a'))")), "gaps", sortBy="city, price"
    )
    eventually(lambda: cluster.count("gaps") == 30)
    found = [tuple(row) for row in cluster.rows("SELECT city, price FROM gaps LIMIT 100")]
    assert {city for city, _ in found} == {"a", "null", "z"}
    assert found == sorted(found)


def test_a_dry_run_tells_the_segments_and_writes_nothing(spark, cluster):
    rows = frame(spark, range(50))
    found = gamay.spark.dry_run(rows, cluster.url, "planned", createTable="true", timeColumn="ts", rowsPerSegment="20")
    segments = found.collect()
    assert [row.rows for row in segments] == [20, 20, 10]
    assert all(row.bytes > row.archiveBytes > 0 for row in segments)
    assert "planned" not in cluster.client.list_tables()
    before = list(cluster.segments("ordered"))
    assert gamay.spark.dry_run(rows, cluster.url, "ordered").count() == 1
    assert list(cluster.segments("ordered")) == before
    with pytest.raises(NotFoundError, match="there is no OFFLINE table 'nowhere'; say"):
        gamay.spark.dry_run(rows, cluster.url, "nowhere")
    with pytest.raises(InvalidConfigError, match="the option 'replaceWhere' is no condition"):
        gamay.spark.dry_run(rows, cluster.url, "ordered", replaceWhere="tz < 5")


def test_rows_go_where_the_stream_has_their_keys(spark, cluster):
    schema = {"schemaName": "keyed", "primaryKeyColumns": ["n"], **FIELDS}
    producer = cluster.topic("keyed", 2)
    upsert = {"upsertConfig": {"mode": "FULL"}, "routing": {"instanceSelectorType": "strictReplicaGroup"}}
    upsert["tableIndexConfig"] = {"segmentPartitionConfig": BY_N}
    cluster.create(schema, realtime_config("keyed", "keyed", "ts", 1000, **upsert))
    function = partition_function("Murmur", 2, None)
    for n in range(10):
        row = {"n": n, "city": "stream", "tags": ["a"], "ts": T0 + DAY_MS}
        send(producer, [row], function.partition_of(str(n)))
    cluster.wait_for("keyed", 10)
    write(cluster, frame(spark, range(20), "older"), "keyed", tableType="REALTIME", jobId="older")
    write(cluster, frame(spark, range(20), "older"), "keyed", tableType="REALTIME", jobId="older")
    counts = "SELECT city, COUNT(*) FROM keyed GROUP BY city LIMIT 10"
    eventually(lambda: dict(cluster.rows(counts)) == {"stream": 10, "older": 10})
    write(cluster, frame(spark, range(5, 12), "newer", 2), "keyed", tableType="REALTIME")
    eventually(lambda: dict(cluster.rows(counts)) == {"stream": 5, "older": 8, "newer": 7})
    uploaded = [name for name in cluster.segments("keyed") if "_job-older_" in name]
    assert sorted(name.split("__")[2] for name in uploaded) == ["0", "1"]


@pytest.mark.parametrize(
    ("table", "options", "text"),
    [
        ("laid", {"partitionBy": "citi"}, "partitionBy: table 'laid_OFFLINE' has no column 'citi'. Did you mean 'city'?"),
        ("laid", {"partitionBy": "city"}, "does not say how 'city' is partitioned; its segmentPartitionConfig must have"),
        ("laid", {"sortBy": "n, tags"}, "sortBy: column 'tags' has several values in a row"),
        ("ordered", {"sortBy": "n"}, "are in the order of 'city' (sortedColumn); name it first"),
        ("ordered", {"sortby": "n", "sortBys": "x"}, "has no option 'sortbys' for writing. Did you mean 'sortBy'?"),
        ("laid", {"tableType": "REALTIME", "createTable": "true"}, "are for OFFLINE tables; REALTIME ones are appended to"),
    ],
)
def test_what_is_wrong_is_told(spark, cluster, table, options, text):
    source = GamayDataSource({"controller": cluster.url, "table": table, **options})
    with pytest.raises(InvalidConfigError, match=re.escape(text)):
        source.writer(frame(spark, range(1)).schema, False)


def test_realtime_tables_that_rows_cannot_go_to_are_told(spark, cluster):
    def by(partitions: int, *columns: str) -> dict[str, Any]:
        function = {"functionName": "Murmur", "numPartitions": partitions}
        return {"segmentPartitionConfig": {"columnPartitionMap": dict.fromkeys(columns, function)}}

    unparted = keyed_table(cluster, "unparted", 1)
    by_another = keyed_table(cluster, "by_another", 1, **by(1, "city"))
    by_both = keyed_table(cluster, "by_both", 1, **by(1, "n", "city"))
    uneven = keyed_table(cluster, "uneven", 2, **by(4, "n"))
    rows = frame(spark, range(1)).schema
    for source in (unparted, by_another):
        with pytest.raises(InvalidConfigError, match="say in its segmentPartitionConfig how a column of the primary key"):
            source.writer(rows, False)
    assert by_both.writer(rows, False)
    with pytest.raises(InvalidConfigError, match="has 2 partitions, but segmentPartitionConfig has numPartitions 4 for 'n'"):
        uneven.writer(rows, False)
    with pytest.raises(InvalidConfigError, match="has what its stream has: only append to it"):
        unparted.writer(rows, True)
    with pytest.raises(NotFoundError, match="no OFFLINE table 'uneven', but a REALTIME one: say"):
        GamayDataSource({"controller": cluster.url, "table": "uneven"}).writer(rows, False)


def keyed_table(cluster: Cluster, name: str, partitions: int, **indexing: Any) -> GamayDataSource:
    """Return a REALTIME table with the key `n` and a stream of so many partitions, to be written to."""
    cluster.topic(name, partitions)
    upsert = {"upsertConfig": {"mode": "FULL"}, "routing": {"instanceSelectorType": "strictReplicaGroup"}}
    config = realtime_config(name, name, "ts", 1000, **upsert, tableIndexConfig=indexing)
    cluster.create({"schemaName": name, "primaryKeyColumns": ["n"], **FIELDS}, config)
    return GamayDataSource({"controller": cluster.url, "table": name, "tableType": "REALTIME"})
