"""Tasks build segments from their rows before these exhaust memory."""

import gc
import subprocess
import sys

import pyarrow as pa
import pytest
from tests.spark.test_write_layout import BY_N, FIELDS
from tests.waiting import PATIENCE_S

from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.spark.building import range_writer
from gamay.spark.building.execute import run_tasks
from gamay.spark.building.layout import Layout
from gamay.spark.building.progress import SilentProgress
from gamay.spark.building.range_writer import RangeWriter
from gamay.spark.building.target import SegmentTarget
from gamay.spark.source_options import WriteOptions
from gamay.spark.writing import segment_writer
from gamay.spark.writing.hidden import Announced
from gamay.spark.writing.segment_writer import TaskWriter

MB = 1 << 20


def batches(count, rows=1000):
    for number in range(count):
        first = number * rows
        columns = {"n": range(first, first + rows), "city": ["Oslo"] * rows, "tags": [["a"]] * rows, "ts": [1] * rows}
        yield pa.RecordBatch.from_pydict({name: pa.array(values) for name, values in columns.items()})


@pytest.fixture
def documents():
    document = TableConfig.offline("laid").to_json()
    document["tableIndexConfig"] = {"segmentPartitionConfig": BY_N}
    return Schema.from_json({"schemaName": "laid", **FIELDS}).value, TableConfig.from_json(document).value


def test_the_limit_is_a_share_of_what_spark_leaves():
    """`spark.executor.pyspark.memory` becomes a limit of the worker's address space."""
    told = "import resource; from gamay.spark.building.memory import rows_bytes_max; print(rows_bytes_max())"
    for limit, low, high in ((None, 1024, 1024), (2048, 256, 511), (64, 16, 16)):
        code = told
        if limit is not None:
            code = told.replace("print", f"resource.setrlimit(resource.RLIMIT_AS, ({limit * MB}, -1)); print")
        found = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE_S, check=True
        ).stdout
        assert low * MB <= int(found) <= high * MB


def test_a_write_uploads_the_largest_of_its_open_segments(documents, monkeypatch):
    monkeypatch.setattr(segment_writer, "rows_bytes_max", lambda: 100_000)
    held = []

    def put(folder, name, num_docs):
        held.append(sum(writer._bytes.values()))
        return Announced(name, "", num_docs, 1)

    given = {"controller": "http://nowhere", "table": "laid", "partitionBy": "n"}
    writer = TaskWriter(WriteOptions.of(given, lambda: "job"), *documents, put, "laid_job-1")
    made = list(writer.write(batches(10)))
    assert sum(one.num_docs for one in made) == 10_000
    assert max(held) < 100_000
    assert 3 < len(made) < 15


def test_a_range_that_memory_does_not_hold_becomes_several_segments(documents, monkeypatch, tmp_path):
    monkeypatch.setattr(range_writer, "rows_bytes_max", lambda: 100_000)
    target = SegmentTarget.of(*documents, str(tmp_path))
    reports = list(
        RangeWriter(target, Layout(1_000_000, "n", "n", None), 0, 1).write(map(Pipeline(*documents).apply, batches(10)))
    )
    assert sum(report.num_docs for report in reports) == 10_000, reports
    assert 1 < len(reports) < 11
    assert len({report.name for report in reports}) == len(reports)


def test_workers_do_not_look_at_what_was_loaded_before_them(spark):
    """They collect garbage after each task, and would go through all modules of the process that they are forked from."""
    (frozen,) = run_tasks(spark, [0], lambda _: str(gc.get_freeze_count()), "asking", SilentProgress())
    assert int(frozen) > 100_000
