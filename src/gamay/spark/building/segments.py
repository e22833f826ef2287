"""Segments from files and DataFrames, on Spark executors."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError, InvalidConfigError, RecordError
from gamay.ingest.read.readers import data_formats, format_of
from gamay.ingest.read.sources import absolute_uri, list_files
from gamay.ingest.run import conformed_batches
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.spark.building import shuffle
from gamay.spark.building.execute import collect, run_tasks
from gamay.spark.building.input_tasks import Task, input_tasks, numbered
from gamay.spark.building.phases import Phases
from gamay.spark.building.progress import JobProgress, SilentProgress
from gamay.spark.building.ranges import Ranges, Sample, samples_of_task
from gamay.spark.building.report import BuildReport, Outcome, SegmentReport
from gamay.spark.building.segment_task import FileTask, build_segment, bytes_of, counts_of, open_task_reader
from gamay.spark.building.target import SegmentTarget, refuse_repeated_names

ROWS_PER_SEGMENT = 5_000_000
# How many tasks a DataFrame has is not asked: Spark would work out its plan, and with adaptive execution compute its stages.
_FRAME_TASKS = 200
# from the sequence id of a task's segment to that of its next one
_FRAME_IDS = 100_000
Batches: TypeAlias = Iterator[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The files of a job.

    uri: a folder or a file. include, exclude: `glob:…` or `regex:…` over whole paths.
    data_format: None goes by each file's name.
    """

    uri: str
    data_format: str | None = None
    reader_config: Mapping[str, Any] = field(default_factory=dict)
    recursive: bool = True
    include: str | None = None
    exclude: str | None = None
    global_sequence: bool = False

    def tasks(self) -> list[FileTask]:
        """List the files; raises NotFoundError or InvalidConfigError when there are none, or their format is not known."""
        files = list_files(self.uri, recursive=self.recursive, include=self.include, exclude=self.exclude)
        if not files:
            patterns = {"includeFileNamePattern": self.include, "excludeFileNamePattern": self.exclude}
            given = ", ".join(f"{name} {pattern}" for name, pattern in patterns.items() if pattern)
            raise InvalidConfigError(f"no file in {self.uri} is an input" + (f" ({given})" if given else ""))
        formats = [self.data_format or format_of(file) for file in files]
        unknown = next((f for f in formats if f.lower() not in data_formats()), None)
        if unknown is not None:
            raise InvalidConfigError(f"unknown data format '{unknown}'; known are {', '.join(data_formats())}")
        sub_paths = _sub_paths(self.uri, files)
        seen: dict[str, int] = {}
        tasks = []
        for file, sub_path, data_format in zip(files, sub_paths, formats, strict=True):
            group = "" if self.global_sequence else sub_path
            sequence_id = seen[group] = seen.get(group, -1) + 1
            tasks.append(FileTask(file, sequence_id, sub_path, data_format, dict(self.reader_config)))
        return tasks


def _sub_paths(input_uri: str, files: Sequence[str]) -> list[str]:
    """Return each file's folder below the input folder."""
    root = absolute_uri(input_uri).rstrip("/")
    return ["" if file == root else file[len(root) + 1 :].rpartition("/")[0] for file in files]


def build_segments(
    spark: Any,
    schema: Schema,
    table_config: TableConfig,
    inputs: InputFiles | str,
    output_dir: str,
    *,
    target: SegmentTarget | None = None,
    partition_and_sort: bool = False,
    rows_per_segment: int = ROWS_PER_SEGMENT,
    sort_column: str | None = None,
    bytes_per_task: int | None = None,
    parallelism: int = 0,
    fail_on_empty: bool = False,
    progress: JobProgress | None = None,
) -> BuildReport:
    """Build the segments of a table from files; their archives land in `output_dir`.

    Each file becomes a segment, unless `partition_and_sort`: then all rows are first brought into ranges of the table's
    partition, time and sorted columns, of about `rows_per_segment` rows each.
    spark: a session, or a `LocalEngine`, which builds in threads of this process and cannot `partition_and_sort`.
    bytes_per_task: of the input: files that are larger are split over several tasks, and segments, where their format lets
    them be; smaller ones of one folder become one. None: a segment of each file, and with `partition_and_sort`, where the
    outcome does not show tasks, so many as keep cores at work.
    target: names and further options of the output; None takes the rules. parallelism: tasks at once, 0 for all cores.
    progress: told of every step.

    Raises RecordError for the first files that could not be read or converted (all others are built), InvalidConfigError,
    NotFoundError, ConflictError when two segments have one name.
    """
    progress = progress or SilentProgress()
    target = target or SegmentTarget.of(schema, table_config, output_dir)
    target.name_generator()  # a name that cannot be made is told before any file is read
    Pipeline(schema, table_config)
    given = InputFiles(inputs) if isinstance(inputs, str) else inputs
    files = given.tasks()
    if bytes_per_task is not None and not partition_and_sort and (target.name_type or "").lower() == "inputfile":
        raise InvalidConfigError(
            "the segment name generator 'inputFile' names each segment after its file; with bytesPerTask choose another one"
        )
    started = time.monotonic()
    if partition_and_sort:
        layout = shuffle.Layout.of(schema, table_config, rows_per_segment, sort_column)
        tasks = input_tasks(spark, files, bytes_per_task, progress)
        frame = _converted_files(spark, tasks, target, layout, parallelism)
        reading, reports = _build_ranges(spark, frame, target, layout, progress)
    else:
        shipped = target
        reading = []
        tasks = [(file,) for file in files]
        if bytes_per_task is not None:
            group_of = (lambda _: "") if given.global_sequence else (lambda file: file.sub_path)
            tasks = numbered(input_tasks(spark, files, bytes_per_task, progress), group_of)
        reports = _reports(
            run_tasks(
                spark, tasks, lambda task: build_segment(task, shipped).to_json(), "building segments", progress, parallelism
            )
        )
    report = BuildReport(tuple(reports), time.monotonic() - started, len(files), tuple(reading))
    return _checked(report, fail_on_empty)


def write_dataframe(
    frame: Any,
    schema: Schema,
    table_config: TableConfig,
    output_dir: str,
    *,
    target: SegmentTarget | None = None,
    partition_and_sort: bool = True,
    rows_per_segment: int = ROWS_PER_SEGMENT,
    sort_column: str | None = None,
    progress: JobProgress | None = None,
) -> BuildReport:
    """Build the segments of a table from a Spark DataFrame, through the table's ingestion config.

    Without `partition_and_sort` each partition of the DataFrame becomes a segment (or several, of at most half as
    many rows again as `rows_per_segment`). The rest is as for `build_segments`.
    """
    progress = progress or SilentProgress()
    target = target or SegmentTarget.of(schema, table_config, output_dir)
    target.name_generator()
    Pipeline(schema, table_config)
    started = time.monotonic()
    layout = shuffle.Layout.of(schema, table_config, rows_per_segment, sort_column)
    samples = samples_of_task(_FRAME_TASKS) if partition_and_sort else 0
    if not partition_and_sort:
        layout = replace(layout, range_column=None, sort_column=None, partition_column=None)
    wire = _spark_schema(shuffle.wire_schema(target.schema()))
    converted = frame.mapInArrow(_frame_converter(target, layout, samples), wire)
    spark = frame.sparkSession
    if partition_and_sort:
        reading, reports = _build_ranges(spark, converted, target, layout, progress)
    else:
        reading, reports = _build_partitions(spark, converted, target, layout, progress)
    return _checked(BuildReport(tuple(reports), time.monotonic() - started, 0, tuple(reading)), False)


# -- what runs on executors


def _converted_files(
    spark: Any, tasks: Sequence[Task], target: SegmentTarget, layout: shuffle.Layout, parallelism: int
) -> Any:
    """Return the rows of all files, converted, in the form in which they travel."""
    shipped = list(tasks)
    groups = min(len(tasks), parallelism) if parallelism else len(tasks)
    samples = samples_of_task(groups)

    def convert(batches: Batches) -> Batches:
        schema, table_config = target.schema(), target.table_config()
        partitions = shuffle.partitioner(schema, table_config, layout.partition_column)

        def rows() -> Batches:
            for batch in batches:
                for index in batch.column(0).to_pylist():
                    for file in shipped[index]:
                        yield from _converted_file(file, schema, table_config, partitions)

        yield from shuffle.sampled(rows(), schema, layout, samples)

    wire = _spark_schema(shuffle.wire_schema(target.schema()))
    return spark.range(0, len(tasks), 1, groups).mapInArrow(convert, wire)


def _converted_file(
    task: FileTask, schema: Schema, table_config: TableConfig, partitions: Callable[[pa.RecordBatch], pa.Array]
) -> Batches:
    pipeline, phases = Pipeline(schema, table_config), Phases(SYSTEM_CLOCK)
    try:
        reader = open_task_reader(task, table_config)
        for batch in phases.over("read", conformed_batches(reader, pipeline)):
            yield shuffle.to_wire(batch, schema, partitions)
        counts = counts_of([reader], pipeline)
        made = {"num_docs": pipeline.stats.rows_written, "bytes_read": bytes_of(task), **counts, **phases.told()}
        report = SegmentReport(Outcome.EMPTY.value, input_uri=task.uri, **made)
    except GamayError as error:
        report = SegmentReport(Outcome.FAILED.value, input_uri=task.uri, message=str(error))
    yield shuffle.text_row(shuffle.REPORT_PARTITION, report.to_json(), schema)


def _frame_converter(target: SegmentTarget, layout: shuffle.Layout, samples: int) -> Callable[[Batches], Batches]:
    def convert(batches: Batches) -> Batches:
        schema = target.schema()
        rows = converted(batches, schema)
        yield from shuffle.sampled(rows, schema, layout, samples) if samples else rows

    def converted(batches: Batches, schema: Schema) -> Batches:
        table_config = target.table_config()
        partitions = shuffle.partitioner(schema, table_config, layout.partition_column)
        pipeline = Pipeline(schema, table_config)
        try:
            for batch in batches:
                conformed = pipeline.apply(batch, "the DataFrame")
                if conformed.num_rows:
                    yield shuffle.to_wire(conformed, schema, partitions)
            counts = counts_of([], pipeline)
            report = SegmentReport(Outcome.EMPTY.value, num_docs=pipeline.stats.rows_written, **counts)
        except GamayError as error:
            report = SegmentReport(Outcome.FAILED.value, message=str(error))
        yield shuffle.text_row(shuffle.REPORT_PARTITION, report.to_json(), schema)

    return convert


# -- what runs on the driver


def _build_ranges(
    spark: Any, converted: Any, target: SegmentTarget, layout: shuffle.Layout, progress: JobProgress
) -> tuple[list[SegmentReport], list[SegmentReport]]:
    """Return the reports of reading and of building."""
    from pyspark import StorageLevel
    from pyspark.sql.functions import col

    stored = converted.persist(StorageLevel.DISK_ONLY)
    try:
        is_row = col(shuffle.PARTITION) >= 0
        texts = collect(spark, stored.where(~is_row).select(shuffle.PARTITION, shuffle.REPORT), "reading", progress)
        reading = _reports([text for partition, text in texts if partition == shuffle.REPORT_PARTITION])
        samples = [Sample.from_json(text) for partition, text in texts if partition == shuffle.SAMPLE_PARTITION]
        if not any(s.counts for s in samples) or any(report.outcome == Outcome.FAILED.value for report in reading):
            return reading, []
        ranges = Ranges.of(samples, layout.rows_per_segment)
        ordered = shuffle.in_order(stored.where(is_row).drop(shuffle.REPORT), target.schema(), layout, ranges)
        written = ordered.mapInArrow(shuffle.segment_writer(target, layout, len(ranges)), "result string")
        rows = collect(spark, written, "building segments", progress)
        return reading, _reports([row.result for row in rows])
    finally:
        stored.unpersist()


def _build_partitions(
    spark: Any, converted: Any, target: SegmentTarget, layout: shuffle.Layout, progress: JobProgress
) -> tuple[list[SegmentReport], list[SegmentReport]]:
    """Build in the same task as the conversion; reports of reading are passed on among the rows."""
    write = shuffle.segment_writer(target, layout, _FRAME_IDS)

    def build(batches: Batches) -> Batches:
        passed: list[str] = []

        def rows() -> Batches:
            for batch in batches:
                # Spark cuts batches anew, so that a report may stand among rows
                is_report = pc.equal(batch.column(shuffle.PARTITION), shuffle.REPORT_PARTITION)
                passed.extend(batch.column(shuffle.REPORT).filter(is_report).to_pylist())
                yield batch.filter(pc.invert(is_report))

        # the reports of reading come after the last row, so they are all there once the segments are written
        yield from write(rows())
        yield pa.RecordBatch.from_pydict({"result": pa.array(passed, pa.string())})

    rows = collect(spark, converted.mapInArrow(build, "result string"), "building segments", progress)
    collected = _reports([row.result for row in rows])
    there = (Outcome.BUILT.value, Outcome.KEPT.value)
    return [r for r in collected if r.outcome not in there], [r for r in collected if r.outcome in there]


def _reports(texts: Sequence[str]) -> list[SegmentReport]:
    return [SegmentReport.from_json(text) for text in texts]


def _checked(report: BuildReport, fail_on_empty: bool) -> BuildReport:
    failures = report.failures
    if failures:
        more = f" ({len(failures)} inputs failed in all)" if len(failures) > 1 else ""
        raise RecordError("\n".join(failure.message for failure in failures[:10]) + more)
    refuse_repeated_names([r.name for r in report.segments])
    filled = {r.input_uri for r in report.segments}  # a part of a file may be empty
    empty = [r.input_uri for r in report.reports if r.outcome == Outcome.EMPTY.value and r.input_uri not in filled]
    if fail_on_empty and (empty or not report.segments):
        raise InvalidConfigError(f"no row of {empty[0] if empty else 'the input'} is left, and failOnEmptySegment is set")
    return report


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
