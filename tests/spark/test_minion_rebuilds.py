"""Segments rebuilt by a minion in Spark executors: the same archives as in its own process, and no leftovers."""

import asyncio
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyroaring import BitMap
from tests.waiting import PATIENCE_S, eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import NotFoundError
from gamay.cluster.records.records import SegmentRecord
from gamay.ingest.transform.pipeline import Pipeline
from gamay.minion import on_spark, staged
from gamay.minion.file_build import FileBuild
from gamay.minion.on_spark import SparkBuilder
from gamay.minion.pieces import Piece, build_piece, pieces_of
from gamay.minion.progress import AttemptProgress, TaskCancelledError
from gamay.minion.purge import Purge
from gamay.minion.purgers import NO_FACTORIES
from gamay.minion.rebuild import Input, OtherCopyError, Rebuild, rebuild
from gamay.minion.rewrite import StoredSegment
from gamay.minion.spark_settings import SparkSettings
from gamay.minion.staged import ExecutorError
from gamay.model.merge_task_settings import MergeRollupSettings
from gamay.segment.process.spec import ProcessSpec
from gamay.segment.read.reader import open_segment
from gamay.segment.write.builder import SegmentBuilder
from gamay.spark.building.segment_task import FileTask
from gamay.spark.building.target import SegmentTarget
from gamay.storage.archive import pack, unpack
from gamay.storage.files import Access, fetch, put
from gamay.storage.filesystems import open_filesystem
from gamay.storage.settings import StorageSettings

pytestmark = pytest.mark.spark
TABLE = "trips_OFFLINE"


class Minion:
    """A builder on the tests' session, and segments s0, s1 and s2 of 50 rows each at a controller."""

    def __init__(self, spark: Any, schema: Any, config: Any, controller: Any, folder: Path) -> None:
        self.controller, self.folder, self.staging = controller, folder, folder / "staging"
        self.crcs = {}
        for number in range(3):
            builder = SegmentBuilder(schema, config, f"s{number}", folder)
            days = pa.array([19_000 + number] * 50, pa.int32())
            rows = {"city": [f"c{i % 7}" for i in range(50)], "fare": [i / 4 for i in range(50)], "day": days}
            rows["tags"] = [[f"t{i % 3}", "u"] for i in range(50)]
            for batch in pa.table(rows).to_batches():
                builder.append(Pipeline(schema, config).apply(batch))
            built = builder.build()
            self.crcs[f"s{number}"] = open_segment(built).info.crc
            controller.files[f"/segments/{TABLE}/s{number}"] = pack(built, folder / f"s{number}.tar.gz")
        self._documents = [json.dumps(document.to_json()) for document in (schema, config)]
        settings = SparkSettings("local[2]", str(self.staging))
        self.builder = SparkBuilder(settings, "Minion_test_1", session=lambda: spark)

    def work(self, names: list[str], output: str, created_ms: int | None = None) -> Rebuild:
        kept = BitMap(range(0, 50, 3)).serialize()
        inputs = tuple(Input(name, kept, self.crcs[name]) for name in names)
        return Rebuild(TABLE, inputs, output, created_ms, *self._documents, self.controller.url)

    def rebuild(self, work: Rebuild, progress: AttemptProgress | None = None) -> Any:
        folder = self.folder / "attempt"
        folder.mkdir(exist_ok=True)
        return self.builder.rebuild(work, folder, progress or AttemptProgress("Task_X_1_0", SYSTEM_CLOCK, PATIENCE_S))

    def left(self) -> list[Path]:
        return [path for path in self.staging.rglob("*") if path.is_file()]


@pytest.fixture
def minion(spark, schema, table_config, controller, tmp_path):
    return Minion(spark, schema, table_config(), controller, tmp_path)


@pytest.mark.parametrize(
    ("names", "output", "created_ms", "rows"),
    [(["s1"], "s1", None, 17), (["s0", "s1", "s2"], "compacted__1", 1_700_000_000_000, 51)],
    ids=["UpsertCompactionTask", "UpsertCompactMergeTask"],
)
def test_the_same_segment_as_in_the_minions_process(minion, tmp_path, names, output, created_ms, rows):
    work = minion.work(names, output, created_ms)
    (tmp_path / "here").mkdir()
    here, there = rebuild(work, tmp_path / "here"), minion.rebuild(work)
    assert (there.crc, there.rows, there.rows_before) == (here.crc, rows, 50 * len(names))
    assert there == replace(here, archive=there.archive)
    one, other = (open_segment(unpack(built.archive, tmp_path / name)) for built, name in ((here, "a"), (there, "b")))
    assert (other.name, other.info.crc) == (output, there.crc)
    assert other.info == one.info
    for file in one.path.iterdir():
        assert file.read_bytes() == (other.path / file.name).read_bytes()
    assert Path(there.archive).read_bytes() == Path(here.archive).read_bytes()
    assert minion.left() == []


def test_failures_are_told_with_the_segment_and_leave_nothing(minion):
    work = minion.work(["s0", "s1"], "merged")
    minion.crcs["s1"] = 7
    with pytest.raises(OtherCopyError, match=r"s1 has CRC \d+") as other:
        minion.rebuild(minion.work(["s0", "s1"], "merged"))
    assert other.value.segment == "s1"
    archive = minion.controller.files.pop(f"/segments/{TABLE}/s1")
    with pytest.raises(ExecutorError, match=r"segment merged could not be built in a Spark executor: .*s1"):
        minion.rebuild(work)
    minion.controller.files[f"/segments/{TABLE}/s1"] = archive
    beyond = replace(work, inputs=(replace(work.inputs[0], rows=BitMap([50]).serialize()),))
    with pytest.raises(ExecutorError, match="row 50 of segment 's0' is to be kept, which has 50 rows"):
        minion.rebuild(beyond)
    assert minion.left() == []
    assert minion.rebuild(work).rows == 34


def test_a_staging_folder_that_cannot_be_written(minion):
    minion.staging.write_text("in the way")
    with pytest.raises(ExecutorError, match=r"segment s0 could not be built in a Spark executor: .*staging"):
        minion.rebuild(minion.work(["s0"], "s0"))


def test_what_earlier_processes_and_dead_minions_left_is_removed(minion, spark):
    old = minion.staging / "Minion_test_1" / "old.tar.zst"
    another = minion.staging / "Minion_test_2" / "new.tar.zst"
    dead = minion.staging / "Minion_test_3" / "old.tar.zst"
    settings = SparkSettings("local[2]", str(minion.staging))
    minion.builder = SparkBuilder(settings, "Minion_test_1", session=lambda: spark, dead=lambda: ["Minion_test_3"])
    for file in (old, another, dead):
        file.parent.mkdir(parents=True)
        file.touch()
    minion.rebuild(minion.work(["s0"], "s0"))
    assert minion.left() == [another]


def test_archives_may_go_by_an_object_store(minion, spark, s3):
    settings = SparkSettings("local[2]", f"s3://{s3.bucket}/staging")
    storage = StorageSettings({"s3": s3.options})
    minion.builder = SparkBuilder(settings, "Minion_test_1", storage, session=lambda: spark)
    left = f"s3://{s3.bucket}/staging/Minion_test_1/left.tar.zst"
    put(Path(__file__), left, Access(options=s3.options))
    assert minion.rebuild(minion.work(["s0", "s2"], "merged")).rows == 34
    with pytest.raises(NotFoundError):
        fetch(left, minion.folder / "left", Access(options=s3.options))
    fs, path = open_filesystem(settings.staging_uri, s3.options)
    fs.invalidate_cache()
    assert fs.find(path) == []


def test_a_cancelled_subtask_ends_its_job_at_spark(minion, spark):
    progress, asked, end = AttemptProgress("Task_X_1_0", SYSTEM_CLOCK, PATIENCE_S), threading.Event(), threading.Event()

    async def hold():
        asked.set()
        while not end.is_set():
            await asyncio.sleep(0.05)

    minion.controller.before = hold
    canceller = threading.Thread(target=lambda: (asked.wait(PATIENCE_S), progress.cancel()))
    canceller.start()
    try:
        with pytest.raises(TaskCancelledError):
            minion.rebuild(minion.work(["s0"], "s0"), progress)
        tracker = spark.sparkContext.statusTracker()
        eventually(lambda: not tracker.getActiveStageIds())
        minion.controller.before = None  # the executor that is held up does not hold up others
        assert minion.rebuild(minion.work(["s0"], "s0")).rows == 17
        assert minion.left() == []
    finally:
        end.set()
        canceller.join()


def test_spark_that_fails_is_said_so(minion):
    def no_session():
        raise RuntimeError("no master\nand a long story")

    builder = SparkBuilder(SparkSettings("spark://nowhere:1", str(minion.staging)), "Minion_test_1", session=no_session)
    with pytest.raises(ExecutorError, match=r"segment s0 could not be built because Spark failed: no master$"):
        builder.rebuild(
            minion.work(["s0"], "s0"), minion.folder / "attempt", AttemptProgress("Task_X_1_0", SYSTEM_CLOCK, PATIENCE_S)
        )


def test_another_session_follows_one_that_has_ended(minion, spark, monkeypatch):
    made, ended = [], []
    monkeypatch.setattr(on_spark, "has_ended", lambda session: len(made) == 1)
    monkeypatch.setattr(on_spark, "end_session", ended.append)
    settings = SparkSettings("local[2]", str(minion.staging))
    minion.builder = SparkBuilder(settings, "Minion_test_1", session=lambda: made.append(spark) or spark)
    for _ in range(3):
        assert minion.rebuild(minion.work(["s0"], "s0")).rows == 17
    assert (len(made), ended) == (2, [spark])
    minion.builder.close()
    assert ended == [spark, spark]
    assert list(minion.staging.iterdir()) == []


def test_outcomes_of_executors(minion, monkeypatch):
    one = staged.StagedRebuild(minion.work(["s0"], "s0"), str(minion.staging / "a.tar.zst"))
    monkeypatch.setattr(Rebuild, "build", lambda *_: 1 / 0)
    with pytest.raises(ExecutorError, match="segment s0 could not be built in a Spark executor: ZeroDivisionError"):
        staged.read_outcome(staged.rebuild_staged(one), "s0")


def build_both(minion, work, tmp_path):
    """Have a work done here and by Spark, compare the outcomes, and return the one of here with its segment's folder."""
    (tmp_path / "here").mkdir(exist_ok=True)
    here, there = work.build(tmp_path / "here", lambda _: None, None), minion.rebuild(work)
    assert there == replace(here, archive=there.archive)
    one, other = (open_segment(unpack(built.archive, tmp_path / name)) for built, name in ((here, "a"), (there, "b")))
    assert (other.name, other.info.crc) == (one.name, one.info.crc)
    return here, one


def test_segments_are_purged_by_spark(minion, tmp_path):
    stored = StoredSegment(TABLE, "s1", minion.crcs["s1"], "", *minion._documents, minion.controller.url)
    told = {"purgeColumn": "tags", "purgeValues": "t1"}
    built, segment = build_both(minion, Purge(stored, told, NO_FACTORIES, StorageSettings()), tmp_path)
    assert (built.rows, built.rows_before, built.is_changed, segment.num_docs) == (33, 50, True, 33)
    assert "t1" not in {tag for row in range(33) for tag in segment.column("tags").values(row, row + 1).values.tolist()}
    assert minion.left() == []


def test_segments_of_files_are_built_by_spark(minion, files, tmp_path):
    schema_json, config_json = minion._documents
    target = SegmentTarget(schema_json, config_json, "", "simple", {"append.uuid.to.segment.name": "true"}, uuid="u1")
    file = FileTask(str(files / "more" / "c.csv"), 7, "", "csv", {"multiValueDelimiter": ";"})
    built, segment = build_both(minion, FileBuild(file, file.uri, target, StorageSettings()), tmp_path)
    assert (built.rows, segment.num_docs) == (200, 200)
    assert segment.name.startswith("trips_OFFLINE_")
    assert segment.name.endswith("_7_u1")
    (files / "more" / "c.csv").write_text("day,city\nx,y\n")
    with pytest.raises(ExecutorError, match=r"more/c.csv, record 1: column 'day': 'x' is not a valid INT"):
        minion.rebuild(FileBuild(file, file.uri, target, StorageSettings()))
    assert minion.left() == []


DAY = 86_400_000


@pytest.mark.parametrize("merge_type", ["CONCAT", "ROLLUP"])
def test_pieces_of_one_task_are_built_side_by_side(minion, spark, tmp_path, merge_type):
    given = {"bucketTimePeriod": "2d", "bufferTimePeriod": "0d", "mergeType": merge_type, "maxNumRecordsPerSegment": "30"}
    form = MergeRollupSettings.form_of("x", given)
    records = [
        SegmentRecord(name, crc, 50, (19_000 + number) * DAY, (19_000 + number) * DAY)
        for number, (name, crc) in enumerate(minion.crcs.items())
    ]
    window = 19_000 * DAY, 19_004 * DAY
    whole = Piece(TABLE, (), "merged", ProcessSpec(), 1, *minion._documents, minion.controller.url)
    pieces = list(pieces_of(whole, records, form, window, apart=True))
    assert [len(piece.inputs) for piece in pieces] == [1] * 6
    folder = tmp_path / "attempt"
    folder.mkdir()
    there = minion.builder.build_pieces(pieces, folder, AttemptProgress("Task_X_1_0", SYSTEM_CLOCK, PATIENCE_S))
    (tmp_path / "here").mkdir()
    here = [packed for piece in pieces for packed in build_piece(piece, tmp_path / "here")]
    assert [(one.name, one.crc, one.rows) for one in there] == [(one.name, one.crc, one.rows) for one in here]
    assert all(Path(one.archive).is_file() and one.rows <= 30 for one in there)
    assert minion.left() == []
    undivided = pieces_of(whole, records, form, window, apart=False)
    alone = [
        packed for piece in undivided for packed in build_piece(replace(piece, name=f"o{piece.name}"), tmp_path / "here")
    ]
    assert sum(one.rows for one in alone) == sum(one.rows for one in there)
