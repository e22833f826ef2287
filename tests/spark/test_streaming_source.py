"""`spark.readStream.format("gamay")`: the rows of segments, each once, as they are committed."""

import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.cluster import T0, Cluster, forget_last_commit, offline_config, realtime_config, send
from tests.waiting import eventually

from gamay.base.errors import InvalidConfigError
from gamay.spark import register
from gamay.spark.source import GamayDataSource

pytestmark = pytest.mark.spark
FIELDS = {
    "dimensionFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "city", "dataType": "STRING"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}
FEED = {"schemaName": "feed", **FIELDS}


def rows(numbers: range) -> pa.Table:
    times = pa.array([T0 + n for n in numbers], pa.int64())
    return pa.table({"n": pa.array(list(numbers), pa.int64()), "city": [f"c{n % 2}" for n in numbers], "ts": times})


@pytest.fixture(scope="module")
def cluster(spark, tmp_path_factory):
    register(spark)
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


class Reading:
    """A query that reads the available rows in batches, and continues where it stopped."""

    def __init__(self, spark: Any, cluster: Cluster, folder: Path, table: str) -> None:
        self._spark, self._given, self._folder = spark, {"controller": cluster.url, "table": table}, folder
        self.batches: dict[int, list[int]] = {}

    def run(self, **options: str) -> list[int]:
        """Return the numbers that came in this run."""
        before = set(self.batches)
        stream = self._spark.readStream.format("gamay").options(**self._given, **options).load()

        def keep(frame: Any, batch_id: int) -> None:
            self.batches[batch_id] = sorted(row.n for row in frame.select("n").collect())

        writer = stream.writeStream.foreachBatch(keep).option("checkpointLocation", str(self._folder / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()
        return sorted(n for batch, numbers in self.batches.items() if batch not in before for n in numbers)

    def repeat_last_batch(self) -> None:
        del self.batches[forget_last_commit(self._folder / "checkpoint")]


@pytest.fixture
def reading(spark, cluster, tmp_path):
    return lambda table: Reading(spark, cluster, tmp_path, table)


def test_rows_of_new_segments_come_once(cluster, reading):
    config = offline_config("feed", "ts")
    cluster.create(FEED, config)
    for number in range(2):
        cluster.push(FEED, config, f"feed_{number}", rows(range(number * 10, number * 10 + 10)))
    feed = reading("feed")
    assert feed.run(maxSegmentsPerTrigger="1") == list(range(20))
    assert list(feed.batches.values()) == [list(range(10)), list(range(10, 20))]
    cluster.push(FEED, config, "feed_2", rows(range(20, 30)))
    odd = {"where": "city = 'c1'", "columns": "n"}
    assert feed.run(**odd) == list(range(21, 30, 2))
    feed.repeat_last_batch()
    cluster.push(FEED, config, "feed_3", rows(range(30, 40)))
    assert feed.run(**odd) == list(range(21, 40, 2)), "the last batch again, and then the new segment"
    assert list(feed.batches.values())[-2:] == [list(range(21, 30, 2)), list(range(31, 40, 2))]
    shutil.rmtree(cluster.folder / "built-feed_3")
    cluster.push(FEED, config, "feed_3", rows(range(30, 45)))
    with pytest.raises(StreamingQueryException, match="has taken the place of 'feed_3', which this stream has read"):
        feed.run(**odd)
    assert feed.run(onReplace="skip") == []
    cluster.push(FEED, config, "feed_4", rows(range(50, 52)))
    assert feed.run() == [50, 51]
    feed.repeat_last_batch()
    cluster.client.delete_segment("feed", "feed_4")
    eventually(lambda: "feed_4" not in cluster.segments("feed"))
    with pytest.raises(StreamingQueryException, match="segment 'feed_4' of table 'feed_OFFLINE' is gone"):
        feed.run()
    assert feed.run(failOnDataLoss="false") == []


def test_segments_of_streams_come_when_they_are_committed(cluster, reading):
    schema = {"schemaName": "live", "primaryKeyColumns": ["city"], **FIELDS}
    producer = cluster.topic("live")
    keyed = {"upsertConfig": {"mode": "FULL"}, "routing": {"instanceSelectorType": "strictReplicaGroup"}}
    cluster.create(schema, realtime_config("live", "live", "ts", 10, **keyed))
    live = reading("live")
    send(producer, rows(range(25)).to_pylist())
    eventually(lambda: sum(state == "ONLINE" for state in cluster.segments("live").values()) == 2)
    assert live.run() == list(range(20)), "all changes of the keys, but no consuming rows"
    send(producer, rows(range(25, 32)).to_pylist())
    eventually(lambda: sum(state == "ONLINE" for state in cluster.segments("live").values()) == 3)
    assert live.run() == list(range(20, 30))


def test_only_rows_that_count(cluster, reading):
    """Of each key the latest one at most, though it deletes its key; none that came too late."""
    schema = {"schemaName": "keyed", "primaryKeyColumns": ["city"], **FIELDS}
    schema["dimensionFieldSpecs"] = [*FIELDS["dimensionFieldSpecs"], {"name": "gone", "dataType": "BOOLEAN"}]
    upsert = {"upsertConfig": {"mode": "FULL", "deleteRecordColumn": "gone"}}
    keyed = {**upsert, "routing": {"instanceSelectorType": "strictReplicaGroup"}}
    producer = cluster.topic("keyed")
    cluster.create(schema, realtime_config("keyed", "keyed", "ts", 10, **keyed))
    feed, sent = reading("keyed"), []

    def send_segment(*more: tuple[int, bool]) -> set[int]:
        """Fill a segment; return the numbers of its rows that count. more: how far behind its last rows are, and `gone`."""
        first = len(sent)
        told = [*((0, False) for _ in range(10 - len(more))), *more]
        fresh = [
            {"n": first + i, "city": f"c{(first + i) % 4}", "ts": T0 + first + i - late, "gone": gone}
            for i, (late, gone) in enumerate(told)
        ]
        sent.extend(fresh)
        send(producer, fresh)
        eventually(lambda: sum(s == "ONLINE" for s in cluster.segments("keyed").values()) == len(sent) // 10)
        latest = {row["city"]: row["n"] for row in sorted(sent, key=lambda row: row["ts"])}
        return set(latest.values()) & set(range(first, first + 10))

    assert send_segment() == {6, 7, 8, 9}
    assert feed.run(changes="latest") == [6, 7, 8, 9]
    counting = send_segment((100, False), (0, True), (100, False))
    assert {18} < counting < set(range(10, 17)) | {18}
    assert set(feed.run(changes="latest")) == counting
    send_segment((0, True))
    assert feed.run() == list(range(20, 30))


def test_a_stream_can_begin_with_what_comes(cluster, reading):
    schema, config = {**FEED, "schemaName": "later"}, offline_config("later", "ts")
    cluster.create(schema, config)
    cluster.push(schema, config, "later_0", rows(range(10)))
    later = reading("later")
    assert later.run(startingSegments="latest") == []
    cluster.push(schema, config, "later_1", rows(range(10, 12)))
    assert later.run() == [10, 11]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"startingSegment": "x"}, "has no option 'startingsegment' for reading a stream. Did you mean 'startingSegments'?"),
        ({"pushDown": "true"}, "has no option 'pushdown' for reading a stream."),
        ({"onReplace": "stop"}, "the option 'onReplace' must be one of fail, skip, read, not 'stop'"),
        ({"changes": "latst"}, "the option 'changes' must be one of all, latest, not 'latst'"),
        ({"maxSegmentsPerTrigger": "0"}, "the option 'maxSegmentsPerTrigger' must be a whole number of at least 1"),
    ],
)
def test_what_is_wrong_is_told(cluster, options, text):
    source = GamayDataSource({"controller": cluster.url, "table": "feed", **options})
    with pytest.raises(InvalidConfigError, match=re.escape(text)):
        source.streamReader(None)
