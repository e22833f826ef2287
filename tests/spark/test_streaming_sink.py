"""`df.writeStream.format("gamay")`: every row once, even if a driver dies between a commit and its checkpoint."""

import re
import signal
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyspark.errors import StreamingQueryException
from tests.spark.cluster import DAY_MS, T0, Cluster, forget_last_commit, offline_config
from tests.waiting import PATIENCE_S, eventually

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.spark import register
from gamay.spark.source import GamayDataSource
from gamay.spark.streaming.sink import StreamWritten
from gamay.spark.writing.hidden import upload_hidden
from gamay.spark.writing.segment_writer import TaskWriter
from gamay.spark.writing.sink import read_documents

pytestmark = pytest.mark.spark
COLUMNS = "n BIGINT, city STRING, ts TIMESTAMP"
KEYED = {
    "schemaName": "keyed",
    "primaryKeyColumns": ["n"],
    "dimensionFieldSpecs": [{"name": "n", "dataType": "LONG"}, {"name": "city", "dataType": "STRING"}],
    "dateTimeFieldSpecs": [
        {"name": "ts", "dataType": "TIMESTAMP", "format": "1:MILLISECONDS:TIMESTAMP", "granularity": "1:MILLISECONDS"}
    ],
}


@pytest.fixture(scope="module")
def cluster(spark, tmp_path_factory):
    register(spark)
    running = Cluster(tmp_path_factory.mktemp("cluster"))
    yield running
    running.stop()


class Stream:
    """A stream of files of rows into a table, with a checkpoint."""

    def __init__(self, spark: Any, cluster: Cluster, folder: Path, table: str) -> None:
        self._spark, self._cluster, self._table = spark, cluster, table
        self.files, self.checkpoint = folder / "files", folder / "checkpoint"
        self.files.mkdir()
        self.options = {"controller": cluster.url, "table": table}

    def add(self, numbers: range, city: str = "Oslo", days: int = 0) -> None:
        times = {n: T0 + n * 1000 + days * DAY_MS for n in numbers}
        rows = [{"n": n, "city": city, "ts": times[n]} for n in numbers]
        place = self.files / f"{len(list(self.files.glob('*.json'))):04d}.json"
        place.with_suffix(".part").write_bytes(b"\n".join(map(orjson.dumps, rows)))
        place.with_suffix(".part").rename(place)

    def read(self) -> Any:
        rows = self._spark.readStream.schema("n BIGINT, city STRING, ts BIGINT").option("maxFilesPerTrigger", 1)
        return rows.json(str(self.files) + "/*.json").selectExpr("n", "city", "timestamp_millis(ts) AS ts")

    def run(self, rows: Any = None, mode: str = "append", **options: str) -> None:
        """Write the existing files, in micro-batches of one file."""
        writer = (self.read() if rows is None else rows).writeStream.format("gamay").outputMode(mode)
        writer = writer.options(**self.options, **options, checkpointLocation=str(self.checkpoint))
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        finally:
            query.stop()

    def totals(self) -> tuple[int, int]:
        ((count, total),) = self._cluster.rows(f"SELECT COUNT(*), SUM(n) FROM {self._table}")
        return count, int(total)

    def settles(self, *ranges: range) -> None:
        expected = sum(map(len, ranges)), sum(map(sum, ranges))
        eventually(lambda: self.totals() == expected)


@pytest.fixture
def stream(spark, cluster, tmp_path):
    return lambda table: Stream(spark, cluster, tmp_path, table)


CREATE = {"createTable": "true", "timeColumn": "ts"}


def test_batches_are_shown_once(stream, cluster):
    rides = stream("rides")
    rides.add(range(10))
    rides.add(range(10, 30))
    rides.run(**CREATE)
    rides.settles(range(30))
    forget_last_commit(rides.checkpoint)
    cluster.client.delete_segments("rides_OFFLINE", [n for n in cluster.segments("rides") if "-1_" in n])
    rides.add(range(30, 35))
    rides.run(**CREATE)  # the second batch again, which was shown, although its segments are gone meanwhile
    rides.settles(range(10), range(30, 35))
    assert len(cluster.client.shown_batches("rides")) == 1


KILLED = """
import os, signal, sys
from gamay.spark.session.local import local_session
from gamay.spark.source import GamayDataSource
from gamay.spark.streaming.sink import GamayStreamWriter

os.environ["KILLED_GROUP"] = str(os.getpgid(0))

class DyingWriter(GamayStreamWriter):
    def commit(self, messages, batchId):
        super().commit(messages, batchId)
        if batchId == 1:
            os.killpg(int(os.environ["KILLED_GROUP"]), signal.SIGKILL)

class Dying(GamayDataSource):
    @classmethod
    def name(cls):
        return "dying"

    def streamWriter(self, schema, overwrite):
        writer = super().streamWriter(schema, overwrite)
        writer.__class__ = DyingWriter
        return writer

url, files, checkpoint, work = sys.argv[1:]
spark = local_session("dying", cores=1, work_dir=work)
spark.dataSource.register(Dying)
rows = spark.readStream.schema("n BIGINT, city STRING, ts BIGINT").option("maxFilesPerTrigger", 1).json(files + "/*.json")
rows = rows.selectExpr("n", "city", "timestamp_millis(ts) AS ts")
writer = rows.writeStream.format("dying").option("controller", url).option("table", "killed")
writer = writer.option("createTable", "true").option("timeColumn", "ts").option("checkpointLocation", checkpoint)
writer.trigger(availableNow=True).start().awaitTermination()
"""


def test_a_driver_killed_between_commit_and_checkpoint_writes_no_row_twice(stream, cluster, tmp_path):
    killed = stream("killed")
    for number in range(3):
        killed.add(range(number * 10, number * 10 + 10))
    arguments = [cluster.url, str(killed.files), str(killed.checkpoint), str(tmp_path / "work")]
    child = subprocess.Popen([sys.executable, "-c", textwrap.dedent(KILLED), *arguments], start_new_session=True)
    assert child.wait(PATIENCE_S) == -signal.SIGKILL
    assert [path.name for path in (killed.checkpoint / "commits").iterdir() if path.name.isdigit()] == ["0"]
    killed.settles(range(20))
    killed.run(**CREATE)
    killed.settles(range(30))
    assert cluster.rows("SELECT n, COUNT(*) FROM killed GROUP BY n HAVING COUNT(*) > 1 LIMIT 100") == []
    assert sorted(cluster.segments("killed")) == sorted(cluster.client.list_segments("killed", queried_only=True))


def test_complete_results_take_the_place_of_all_rows(stream, cluster):
    counts = stream("counts")
    counts.add(range(10), "Oslo")
    counts.add(range(10, 15), "Rome")
    counted = counts.read().groupBy("city").count()
    counts.run(counted, "complete", createTable="true")
    eventually(lambda: sorted(cluster.rows('SELECT city, "count" FROM counts')) == [("Oslo", 10), ("Rome", 5)])


def test_rows_replace_those_of_their_keys(stream, cluster):
    partitioning = {"columnPartitionMap": {"n": {"functionName": "Murmur", "numPartitions": 2}}}
    config = offline_config("keyed", "ts", segmentPartitionConfig=partitioning)
    config["upsertConfig"] = {"mode": "FULL"}
    config["routing"] = {"instanceSelectorType": "strictReplicaGroup"}
    cluster.create(KEYED, config)
    keyed = stream("keyed")
    keyed.add(range(20))
    keyed.add(range(10, 30), "Rome", days=1)
    keyed.run()
    keyed.settles(range(30))
    assert dict(cluster.rows("SELECT city, COUNT(*) FROM keyed GROUP BY city")) == {"Oslo": 10, "Rome": 20}
    forget_last_commit(keyed.checkpoint)
    keyed.run()
    keyed.settles(range(30))
    keyed.checkpoint = keyed.checkpoint.with_name("other")
    grouped = keyed.read().groupBy("n", "city", "ts").count().drop("count")
    with pytest.raises(StreamingQueryException, match="has primary keys"):
        keyed.run(grouped, "complete")


def test_a_driver_that_was_believed_dead_shows_nothing(spark, cluster):
    """Both have uploaded batch 3: the last to commit fences the other, or finds the batch committed."""
    source = GamayDataSource({"controller": cluster.url, "table": "fenced", **CREATE})
    rows = spark.range(0, 4, 1, 1).selectExpr("id AS n", "timestamp_millis(1700000000000 + id) AS ts")
    batches = rows.toArrow().to_batches()

    def uploaded(batch_id: int, attempt: str) -> Any:
        writer = source.streamWriter(rows.schema, False)
        prefix = f"{writer._job('query', batch_id).prefix}00000_{attempt}"
        put = partial(upload_hidden, cluster.client, writer._options)
        parts = (writer._options, *read_documents(cluster.client, writer._options), put, prefix)
        return writer, [None, StreamWritten("query", tuple(TaskWriter(*parts).write(iter(batches))))]

    (old, told), (new, told_too) = uploaded(3, "a"), uploaded(3, "b")
    new.commit(told_too, 3)
    with pytest.raises(NotFoundError, match="fenced"):  # its segments are gone
        cluster.client.segment_metadata("fenced", told[1].segments[0].name)
    old.commit(told, 3)
    late, told_late = uploaded(3, "c")
    late.commit(told_late, 3)
    failed, told_failed = uploaded(4, "d")
    failed.abort(told_failed, 4)
    eventually(lambda: cluster.count("fenced") == 4)
    assert list(cluster.segments("fenced")) == [told_too[1].segments[0].name]
    assert cluster.client.shown_batches("fenced") == {"query": 3}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"tabel": "x"}, "has no option 'tabel' for writing a stream. Did you mean 'table'?"),
        ({"jobId": "x"}, "has no option 'jobid' for writing a stream."),
        ({"replaceWhere": "n = 1"}, "has no option 'replacewhere' for writing a stream."),
        ({"tableType": "REALTIME", "createTable": "true"}, "REALTIME ones are appended to"),
        ({"createTable": "perhaps"}, "the option 'createTable' must be true or false, not 'perhaps'"),
    ],
)
def test_what_is_wrong_is_told(spark, cluster, options, text):
    source = GamayDataSource({"controller": cluster.url, "table": "nowhere", **options})
    with pytest.raises(InvalidConfigError, match=re.escape(text)):
        source.streamWriter(spark.range(1).schema, False)
