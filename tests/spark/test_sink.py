"""`df.write.format("gamay")`: rows are written exactly once, and all at once or not at all."""

import random
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from benchmarks.spark_chaos import kill
from pyspark.errors import PythonException
from pyspark.sql.functions import col, expr
from tests.spark.cluster import Cluster
from tests.waiting import eventually

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError
from gamay.client import ControllerClient
from gamay.spark import register
from gamay.spark.source import GamayDataSource
from gamay.spark.writing.hidden import upload_hidden
from gamay.spark.writing.segment_writer import TaskWriter
from gamay.spark.writing.sink import HiddenJob

pytestmark = pytest.mark.spark
T0, HOUR_MS = 1_700_000_000_000, 3_600_000


@pytest.fixture(scope="module")
def cluster(spark, tmp_path_factory):
    register(spark)
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


def frame(spark: Any, first: int, last: int, partitions: int = 2) -> Any:
    numbers = spark.range(first, last, 1, partitions)
    return numbers.select(
        col("id").alias("n"),
        expr("concat('c', id % 5)").alias("city"),
        expr("array(concat('t', id % 3), 'u')").alias("tags"),
        expr(f"timestamp_millis({T0} + id * {HOUR_MS})").alias("ts"),
        expr("cast(id / 4 as decimal(20, 2))").alias("price"),
    )


@pytest.fixture
def write(cluster):
    def save(rows: Any, table: str, mode: str = "append", **options: Any) -> None:
        writer = rows.write.format("gamay").mode(mode).options(controller=cluster.url, table=table)
        writer.options(**{name: str(value) for name, value in options.items()}).save()

    return save


def totals(cluster: Cluster, table: str) -> tuple[int, int]:
    ((count, total),) = cluster.rows(f"SELECT COUNT(*), SUM(n) FROM {table}")
    return count, int(total)


def settles(cluster: Cluster, table: str, expected: tuple[int, int]) -> None:
    eventually(lambda: totals(cluster, table) == expected)  # brokers follow the records


def sums(*ranges: range) -> tuple[int, int]:
    return sum(map(len, ranges)), sum(map(sum, ranges))


def test_append_creates_the_table_and_adds_rows_once(spark, cluster, write):
    config = '{"tableIndexConfig": {"sortedColumn": ["city"], "invertedIndexColumns": ["n"]}}'
    creating = {"createTable": "true", "timeColumn": "ts", "tableConfig": config, "rowsPerSegment": 30}
    write(frame(spark, 0, 100), "trips", jobId="first", **creating)
    settles(cluster, "trips", sums(range(100)))
    assert len(cluster.segments("trips")) == 4
    for name in cluster.segments("trips"):
        columns = cluster.client.json("GET", f"/segments/trips/{name}/metadata", params={"columns": "*"})["indexes"]
        assert columns["n"]["inverted-index"] == "YES"
    write(frame(spark, 0, 100), "trips", jobId="first")  # done already
    settles(cluster, "trips", sums(range(100)))
    write(frame(spark, 100, 150), "trips", jobId="second")
    settles(cluster, "trips", sums(range(150)))
    read = spark.read.format("gamay").options(controller=cluster.url, table="trips").load()
    expected = frame(spark, 0, 150).select(*read.columns).withColumn("price", expr("cast(price as decimal(38,18))"))
    assert read.exceptAll(expected).count() == 0
    assert expected.exceptAll(read).count() == 0


def test_overwrite_replaces_all_rows_or_those_of_a_condition(spark, cluster, write):
    write(frame(spark, 0, 100), "days", createTable="true", timeColumn="ts")
    write(frame(spark, 200, 260), "days", "overwrite", jobId="all")
    settles(cluster, "days", sums(range(200, 260)))
    low, high = T0 + 220 * HOUR_MS, T0 + 240 * HOUR_MS
    where = f"ts >= {low} AND ts < {high}"
    inside = frame(spark, 225, 230)
    write(inside, "days", "overwrite", replaceWhere=where)
    settles(cluster, "days", sums(range(200, 220), range(225, 230), range(240, 260)))
    write(inside.where("n < 0"), "days", "overwrite", replaceWhere=where)
    settles(cluster, "days", sums(range(200, 220), range(240, 260)))
    with pytest.raises(PythonException, match=r"1 rows to be written are not among those that replaceWhere"):
        write(frame(spark, 239, 241, 1), "days", "overwrite", replaceWhere=where)
    settles(cluster, "days", sums(range(200, 220), range(240, 260)))
    write(inside.where("n < 0"), "days", "overwrite")
    eventually(lambda: totals(cluster, "days")[0] == 0)


def test_readers_never_see_a_mix(spark, cluster, write):
    write(frame(spark, 0, 50), "atomic", createTable="true", timeColumn="ts")
    settles(cluster, "atomic", sums(range(50)))
    seen, stop = set(), threading.Event()

    def poll() -> None:
        while not stop.wait(0.01):
            seen.add(totals(cluster, "atomic"))

    reader = threading.Thread(target=poll)
    reader.start()
    try:
        write(frame(spark, 1000, 1090, 3), "atomic", "overwrite", rowsPerSegment=10)
    finally:
        stop.set()
        reader.join()
    assert seen <= {sums(range(50)), sums(range(1000, 1090))}
    settles(cluster, "atomic", sums(range(1000, 1090)))


def test_a_failed_write_leaves_nothing(spark, cluster, write):
    write(frame(spark, 0, 50), "failing", createTable="true", timeColumn="ts")
    before = cluster.segments("failing")
    broken = frame(spark, 50, 100).withColumn("n", expr("if(n = 99, raise_error('broken'), n)"))
    with pytest.raises(Exception, match="broken"):
        write(broken.withColumn("n", expr("cast(n as bigint)")), "failing", rowsPerSegment=10, jobId="again")
    assert cluster.client.list_segments("failing", queried_only=True) == list(before)
    settles(cluster, "failing", sums(range(50)))
    # a task that was cancelled may have been uploading still: what it left is hidden, and removed by the next attempt
    write(frame(spark, 50, 100), "failing", jobId="again")
    settles(cluster, "failing", sums(range(100)))
    assert sorted(cluster.segments("failing")) == sorted(cluster.client.list_segments("failing", queried_only=True))


def test_segments_that_a_cancelled_task_removes_meanwhile_do_not_fail_the_next_attempt():
    class Client:
        def __init__(self):
            self.hidden = ["t_job-again_00000_0", "t_job-again_00001_0", "t_job-other_00000_0"]
            self.deleted = []

        def lineage(self, *_):
            return {}

        def list_segments(self, *_, queried_only=False):
            return [] if queried_only else list(self.hidden)

        def delete_segments(self, table, names):
            self.deleted.append(names)
            if len(self.deleted) == 1:  # the task of the first one removes it at this moment
                self.hidden.remove(names[0])
                raise NotFoundError(names[0])
            self.hidden[:] = [name for name in self.hidden if name not in names]

    client = Client()
    HiddenJob("t", "OFFLINE", "again").remove_left(client, ())
    assert client.deleted == [["t_job-again_00000_0", "t_job-again_00001_0"], ["t_job-again_00001_0"]]
    assert client.hidden == ["t_job-other_00000_0"]


def test_what_a_killed_driver_left_is_removed_by_the_same_job(spark, cluster, write):
    write(frame(spark, 0, 50), "killed", createTable="true", timeColumn="ts")
    options = {"controller": cluster.url, "table": "killed", "jobId": "again"}
    rows = frame(spark, 50, 60, 1)
    writer = GamayDataSource(options).writer(rows.schema, False)
    put = partial(upload_hidden, cluster.client, writer._options)
    parts = (writer._options, *writer._read_documents(), put, "killed_job-again_00000_0")
    (one,) = TaskWriter(*parts).write(iter(rows.toArrow().to_batches()))  # the driver dies before it commits
    assert one.num_docs == 10
    assert len(cluster.segments("killed")) == 3
    settles(cluster, "killed", sums(range(50)))
    write(rows, "killed", jobId="again")
    settles(cluster, "killed", sums(range(60)))
    assert len(cluster.segments("killed")) == 3


def test_killed_workers_leave_no_part_of_a_write(spark, cluster, write):
    """The short form of `benchmarks.spark_chaos`: here a task is not tried again, so that the write fails, or is done."""
    write(frame(spark, 0, 50), "struck", createTable="true", timeColumn="ts")
    kept = [range(50)]
    settles(cluster, "struck", sums(*kept))
    rng = random.Random(5)
    for number in (1, 2):
        new = range(number * 1000, number * 1000 + 40)
        save = partial(write, frame(spark, new.start, new.stop, 4), "struck", jobId=f"round-{number}", rowsPerSegment=5)
        with ThreadPoolExecutor(1) as pool:
            saved = pool.submit(save)
            time.sleep(rng.uniform(0.1, 0.8))
            assert kill("Python worker", 0)
            while not saved.done():
                assert totals(cluster, "struck") in (sums(*kept), sums(*kept, new))
        kept.append(new)
        save()
        settles(cluster, "struck", sums(*kept))
        shown = cluster.client.list_segments("struck", queried_only=True)
        assert sorted(shown) == sorted(cluster.segments("struck"))


def test_what_another_driver_has_shown_is_not_undone(spark, cluster, write, monkeypatch):
    write(frame(spark, 0, 50), "raced", createTable="true", timeColumn="ts", jobId="twice")
    settles(cluster, "raced", sums(range(50)))
    ((entry, shown),) = cluster.client.lineage("raced").items()
    with pytest.raises(ConflictError, match="has ended: its segments are visible"):
        cluster.client.revert_replace("raced", entry)
    monkeypatch.setattr(ControllerClient, "lineage", lambda *_: {entry: {**shown, "state": "IN_PROGRESS"}})  # as it was
    HiddenJob("raced", "OFFLINE", "twice").remove_left(cluster.client, ())
    assert len(cluster.client.list_segments("raced", queried_only=True)) == 2


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"tabel": "x"}, InvalidConfigError, "has no option 'tabel' for writing. Did you mean 'table'?"),
        ({"replaceWhere": "n = 1"}, InvalidConfigError, "the option 'replaceWhere' is for mode('overwrite') only"),
        ({"timeColumn": "ts"}, InvalidConfigError, "are for createTable=true only"),
        ({"jobId": "a b"}, InvalidConfigError, "the option 'jobId' must consist of letters"),
        ({"tableType": "REALTIME", "createTable": "true"}, InvalidConfigError, "REALTIME ones are appended to"),
        ({"createTable": "true", "timeColumn": "when"}, InvalidConfigError, "names no column of the DataFrame: 'when'"),
        ({"createTable": "true", "timeColumn": "n"}, InvalidConfigError, "timeColumn 'n' are no timestamps"),
        ({}, NotFoundError, "nowhere"),
    ],
)
def test_what_is_wrong_is_told(spark, cluster, options, error, text):
    source = GamayDataSource({"controller": cluster.url, "table": "nowhere", **options})
    with pytest.raises(error, match=re.escape(text)):
        source.writer(frame(spark, 0, 1).schema, False)
