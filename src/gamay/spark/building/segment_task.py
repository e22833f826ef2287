"""Building of one segment from input files; runs on executors, independently of Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import GamayError, InvalidConfigError
from gamay.ingest.read.parts import ByteRange
from gamay.ingest.read.readers import open_reader
from gamay.ingest.read.records import RecordReader
from gamay.ingest.run import conformed_batches
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.schema.datetime_format import sane_time
from gamay.model.schema.schema import Schema
from gamay.model.table.secondary_indexes import declared_indexes
from gamay.model.table.table_config import TableConfig
from gamay.query.startree.build import add_star_trees
from gamay.segment.encode.metadata import SegmentMetadata, read_metadata
from gamay.segment.secondary.registry import index_type
from gamay.segment.star_tree_file import read_star_trees
from gamay.segment.write.builder import SegmentBuilder
from gamay.segment.write.secondary_indexes import add_indexes
from gamay.spark.building.phases import Phases
from gamay.spark.building.report import Outcome, SegmentReport
from gamay.spark.building.target import PROVISIONAL_NAME, SegmentTarget, facts_of, publish, scratch_folder
from gamay.storage.files import size_of

ERRORS_SENT = 20


@dataclass(frozen=True, slots=True)
class FileTask:
    """An input file, or a part of one. sub_path: its folder below the input folder, kept below the output folder.

    copy: a local file to read instead; None: read the original.
    """

    uri: str
    sequence_id: int
    sub_path: str
    data_format: str
    reader_config: Mapping[str, Any]
    part: ByteRange | None = None
    copy: str | None = None


def build_segment(files: Sequence[FileTask], target: SegmentTarget) -> SegmentReport:
    """Build, name, pack and publish the segment of some files; user-caused failures are reported, not raised.

    The first file determines the segment's name and location.
    """
    read: list[FileTask] = []
    try:
        return _build(files, target, read)
    except GamayError as error:
        uri = (read or files)[-1].uri
        return SegmentReport(Outcome.FAILED.value, input_uri=uri, message=_with_file(str(error), uri))
    except OSError as error:  # an unwritable folder, a full disk
        return SegmentReport(Outcome.FAILED.value, input_uri=files[0].uri, message=f"cannot build a segment: {error}")


def _build(files: Sequence[FileTask], target: SegmentTarget, read: list[FileTask]) -> SegmentReport:
    """Build a segment; adds the opened files to `read`."""
    schema, table_config = target.schema(), target.table_config()
    generator = target.name_generator()
    first, readers = files[0], []
    pipeline, phases = Pipeline(schema, table_config), Phases(SYSTEM_CLOCK)
    with scratch_folder() as scratch:
        builder = SegmentBuilder(schema, table_config, PROVISIONAL_NAME, scratch)
        for file in files:
            read.append(file)
            readers.append(open_task_reader(file, table_config))
            for batch in phases.over("read", conformed_batches(readers[-1], pipeline)):
                with phases.within("build"):
                    builder.append(batch)
        counts = {"bytes_read": sum(map(bytes_of, files)), **counts_of(readers, pipeline)}
        if builder.num_docs == 0:
            return SegmentReport(Outcome.EMPTY.value, input_uri=first.uri, **counts)
        with phases.within("build"):
            folder, metadata, trees = finish(builder, schema, table_config)
        with phases.within("publish"):
            facts = facts_of(metadata, first.sequence_id, first.uri)
            published = publish(folder, target, generator, facts, first.sub_path)
    outcome = Outcome.KEPT if published.is_kept else Outcome.BUILT
    return SegmentReport(
        outcome.value,
        published.name,
        published.uri,
        first.uri,
        metadata.num_docs,
        published.size_bytes,
        **trees,
        **counts,
        **phases.told(),
    )


def finish(
    builder: SegmentBuilder, schema: Schema, table_config: TableConfig
) -> tuple[Path, SegmentMetadata, dict[str, Any]]:
    """Return the folder of a finished segment, with the star-trees and secondary indexes that servers accept.

    The third result are the report's entries on star-trees.
    Raises InvalidConfigError like `check_times`.
    """
    folder = builder.build()
    metadata = read_metadata(folder)
    check_times(metadata, table_config)
    add_star_trees(folder, schema, table_config, SYSTEM_CLOCK)
    portable = [index for index in declared_indexes(table_config, schema) if index_type(index.kind).is_portable]
    add_indexes(folder, portable, SYSTEM_CLOCK)
    trees = read_star_trees(folder, metadata.crc, verify=False)
    told = {
        "star_trees": len(trees),
        "star_tree_bytes": sum(tree.size_bytes for tree in trees),
        "star_tree_ms": sum(tree.build_ms for tree in trees),
    }
    return folder, metadata, told


def open_task_reader(task: FileTask, table_config: TableConfig) -> RecordReader:
    """Open the task's file; bad records are skipped if the table's config allows it."""
    return open_reader(
        task.copy or task.uri,
        task.data_format,
        task.reader_config,
        continue_on_error=table_config.ingestion.continue_on_error,
        part=task.part,
    )


def bytes_of(task: FileTask) -> int:
    """Return the size of a task's file, or of its part, in bytes."""
    if task.part is not None:
        return task.part.end - task.part.start
    return size_of(task.copy or task.uri) or 0


def counts_of(readers: Sequence[RecordReader], pipeline: Pipeline) -> dict[str, Any]:
    """Return the counts of a report."""
    unread = sum(reader.num_errors for reader in readers)
    errors = [error for reader in readers for error in reader.errors]
    return {
        "rows_read": pipeline.stats.rows_read + unread,
        "rows_filtered": pipeline.stats.rows_filtered,
        "num_errors": unread + pipeline.stats.values_failed,
        "values_trimmed": pipeline.stats.values_trimmed,
        "errors": tuple(str(error) for error in [*errors, *pipeline.errors][:ERRORS_SENT]),
    }


def check_times(metadata: SegmentMetadata, table_config: TableConfig) -> None:
    """Raise InvalidConfigError if the segment's times are outside 1971 to 2071: usually the time format is wrong."""
    if not table_config.ingestion.segment_time_value_check or metadata.time_column is None:
        return
    for millis, raw in (
        (metadata.start_time_ms, metadata.start_time_raw),
        (metadata.end_time_ms, metadata.end_time_raw),
    ):
        if millis is not None and not sane_time(millis):
            raise InvalidConfigError(
                f"the time column '{metadata.time_column}' has the value {raw!r}, not in 1971 to 2071 by its format; "
                f"correct the format in the schema, or set ingestionConfig.segmentTimeValueCheck to false"
            )


def _with_file(message: str, uri: str) -> str:
    return message if uri in message else f"{uri}: {message}"
