"""Segments from files and DataFrames, on Spark executors."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError, InvalidConfigError, RecordError
from gamay.ingest.read.readers import data_formats, format_of
from gamay.ingest.read.sources import absolute_uri, list_files
from gamay.ingest.run import conformed_batches
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.spark.building import shuffle, travel
from gamay.spark.building.execute import collect, run_tasks
from gamay.spark.building.input_tasks import Task, input_tasks, numbered
from gamay.spark.building.layout import Layout
from gamay.spark.building.phases import Phases
from gamay.spark.building.progress import JobProgress, SilentProgress
from gamay.spark.building.range_writer import RESULT, RangeWriter, range_writer, result
from gamay.spark.building.ranges import Ranges, Sample, samples_of_task
from gamay.spark.building.report import BuildReport, Outcome, SegmentReport
from gamay.spark.building.segment_task import FileTask, build_segment, bytes_of, counts_of, open_task_reader
from gamay.spark.building.target import SegmentTarget, refuse_repeated_names
from gamay.spark.building.travel import Batches

ROWS_PER_SEGMENT = 5_000_000
# The number of a DataFrame's tasks is not queried: Spark would plan it, and with adaptive execution compute its stages.
_FRAME_TASKS = 200
# increment of the sequence ids of a task's segments
_FRAME_IDS = 100_000

TABLE_PACKAGES = {
    "delta": "io.delta:delta-spark_2.13",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-<Spark's version>_2.13",
    "hudi": "org.apache.hudi:hudi-spark<Spark's version>-bundle_2.13",
}
"""The packages by which Spark reads tables of other systems."""


@dataclass(frozen=True, slots=True)
class InputFiles:
    """The files of a job.

    uri: a folder or a file. include, exclude: `glob:…` or `regex:…` over whole paths.
    data_format: None uses each file's suffix.
    """

    uri: str
    data_format: str | None = None
    reader_config: Mapping[str, Any] = field(default_factory=dict)
    recursive: bool = True
    include: str | None = None
    exclude: str | None = None
    global_sequence: bool = False

    def tasks(self) -> list[FileTask]:
        """List the files; raises NotFoundError or InvalidConfigError if there are none, or their format is unknown."""
        self._check_no_table()
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

    def _check_no_table(self) -> None:
        """Raise InvalidConfigError for a table format, whose files contain rows that the table no longer has."""
        kind = (self.data_format or "").lower()
        if kind in TABLE_PACKAGES:
            raise InvalidConfigError(
                f"job specs read files, and '{kind}' is a format of tables: with the package {TABLE_PACKAGES[kind]} write "
                f'them by spark.read.format("{kind}").load("{self.uri}").write.format("gamay")'
            )


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
    """Build the segments of a table from files; their archives are written to `output_dir`.

    Each file becomes a segment, unless `partition_and_sort`: then all rows are first shuffled to ranges of the table's
    partition, time and sorted columns, of about `rows_per_segment` rows each.
    spark: a session, or a `LocalEngine`, which builds in threads of this process and cannot `partition_and_sort`.
    bytes_per_task: of the input: larger files are split over several tasks and segments, if their format is
    splittable; smaller ones of one folder are combined. None: a segment for each file and, with `partition_and_sort`, whose
    result does not depend on tasks, enough tasks to use all cores.
    target: names and further options of the output; None uses the defaults. parallelism: concurrent tasks, 0 for all cores.
    progress: receives every step.

    Raises RecordError for the first files that could not be read or converted (all others are built), InvalidConfigError,
    NotFoundError, ConflictError if two segments have the same name.
    """
    progress = progress or SilentProgress()
    target = target or SegmentTarget.of(schema, table_config, output_dir)
    target.name_generator()  # report an invalid name before any file is read
    Pipeline(schema, table_config)
    given = InputFiles(inputs) if isinstance(inputs, str) else inputs
    files = given.tasks()
    if bytes_per_task is not None and not partition_and_sort and (target.name_type or "").lower() == "inputfile":
        raise InvalidConfigError(
            "the segment name generator 'inputFile' names each segment after its file; with bytesPerTask choose another one"
        )
    started = time.monotonic()
    if partition_and_sort:
        layout = Layout.of(schema, table_config, rows_per_segment, sort_column)
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
    layout = Layout.of(schema, table_config, rows_per_segment, sort_column)
    spark = frame.sparkSession
    if partition_and_sort:
        converted = frame.mapInArrow(_frame_converter(target, layout), travel.CONVERTED)
        reading, reports = _build_ranges(spark, converted, target, layout, progress)
    else:
        layout = replace(layout, range_column=None, sort_column=None, partition_column=None)
        collected = collect(spark, frame.mapInArrow(_frame_builder(target, layout), RESULT), "building segments", progress)
        there = (Outcome.BUILT.value, Outcome.KEPT.value)
        reports = _reports([row.result for row in collected])
        reading = [report for report in reports if report.outcome not in there]
        reports = [report for report in reports if report.outcome in there]
    return _checked(BuildReport(tuple(reports), time.monotonic() - started, 0, tuple(reading)), False)


# -- on executors


def _converted_files(spark: Any, tasks: Sequence[Task], target: SegmentTarget, layout: Layout, parallelism: int) -> Any:
    """Return the converted rows of all files, in serialised form."""
    shipped = list(tasks)
    groups = min(len(tasks), parallelism) if parallelism else len(tasks)
    samples = samples_of_task(groups)

    def convert(batches: Batches) -> Batches:
        schema, table_config = target.schema(), target.table_config()
        sampler = shuffle.KeySampler(schema, table_config, layout, samples)
        for batch in batches:
            for index in batch.column(0).to_pylist():
                for file in shipped[index]:
                    yield from _converted_file(file, schema, table_config, sampler)
        yield sampler.sample()

    return spark.range(0, len(tasks), 1, groups).mapInArrow(convert, travel.CONVERTED)


def _converted_file(task: FileTask, schema: Schema, table_config: TableConfig, sampler: shuffle.KeySampler) -> Batches:
    pipeline, phases = Pipeline(schema, table_config), Phases(SYSTEM_CLOCK)
    try:
        reader = open_task_reader(task, table_config)
        for batch in phases.over("read", conformed_batches(reader, pipeline)):
            yield from sampler.passed(batch)
        counts = counts_of([reader], pipeline)
        made = {"num_docs": pipeline.stats.rows_written, "bytes_read": bytes_of(task), **counts, **phases.told()}
        report = SegmentReport(Outcome.EMPTY.value, input_uri=task.uri, **made)
    except GamayError as error:
        report = SegmentReport(Outcome.FAILED.value, input_uri=task.uri, message=str(error))
    yield travel.told(travel.REPORT, report.to_json())


class _FrameRows:
    """The converted rows of a partition of a DataFrame. report: of reading them, after all were consumed."""

    def __init__(self, schema: Schema, table_config: TableConfig) -> None:
        self._pipeline = Pipeline(schema, table_config)
        self.report = SegmentReport(Outcome.EMPTY.value)

    def over(self, batches: Batches) -> Batches:
        """Yield the rows; a user-caused failure ends them, and becomes the report."""
        phases = Phases(SYSTEM_CLOCK)
        try:
            for batch in phases.over("read", batches):
                with phases.within("read"):
                    conformed = self._pipeline.apply(batch, "the DataFrame")
                if conformed.num_rows:
                    yield conformed
        except GamayError as error:
            self.report = SegmentReport(Outcome.FAILED.value, message=str(error))
            return
        made = {"num_docs": self._pipeline.stats.rows_written, **counts_of([], self._pipeline), **phases.told()}
        self.report = SegmentReport(Outcome.EMPTY.value, **made)


def _frame_converter(target: SegmentTarget, layout: Layout) -> Callable[[Batches], Batches]:
    def convert(batches: Batches) -> Batches:
        schema, table_config = target.schema(), target.table_config()
        sampler = shuffle.KeySampler(schema, table_config, layout, samples_of_task(_FRAME_TASKS))
        rows = _FrameRows(schema, table_config)
        for batch in rows.over(batches):
            yield from sampler.passed(batch)
        yield travel.told(travel.REPORT, rows.report.to_json())
        yield sampler.sample()

    return convert


def _frame_builder(target: SegmentTarget, layout: Layout) -> Callable[[Batches], Batches]:
    """Return the function that builds segments from a partition's rows in the same task."""

    def build(batches: Batches) -> Batches:
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        rows = _FrameRows(target.schema(), target.table_config())
        for report in RangeWriter(target, layout, context.partitionId(), _FRAME_IDS).write(rows.over(batches)):
            yield result(report)
        yield result(rows.report)

    return build


# -- on the driver


def _build_ranges(
    spark: Any, converted: Any, target: SegmentTarget, layout: Layout, progress: JobProgress
) -> tuple[list[SegmentReport], list[SegmentReport]]:
    """Return the reports of reading and of building."""
    from pyspark import StorageLevel
    from pyspark.sql.functions import col

    stored = converted.persist(StorageLevel.MEMORY_AND_DISK_DESER)
    try:
        texts = collect(spark, stored.where(col("kind") != travel.ROWS).select("kind", "text"), "reading", progress)
        reading = _reports([text for kind, text in texts if kind == travel.REPORT])
        samples = [Sample.from_json(text) for kind, text in texts if kind == travel.SAMPLE]
        if not any(s.counts for s in samples) or any(report.outcome == Outcome.FAILED.value for report in reading):
            return reading, []
        ranges = Ranges.of(samples, layout.rows_per_segment)
        blobs = stored.where(col("kind") == travel.ROWS).select("rows")
        placed = shuffle.in_ranges(blobs, target, layout, ranges)
        written = placed.mapInArrow(range_writer(target, layout, len(ranges)), RESULT)
        rows = collect(spark, written, "building segments", progress)
        return reading, _reports([row.result for row in rows])
    finally:
        stored.unpersist()


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
