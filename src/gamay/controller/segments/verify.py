"""Verification of a segment before it becomes part of a table, and its description for the cluster."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from gamay.base.errors import CorruptSegmentError, GamayError, InvalidConfigError
from gamay.cluster.records.column_stats import ColumnSummary, Partitioning, encode_columns
from gamay.cluster.records.invariants import name_problem
from gamay.cluster.records.records import UPLOADED, SegmentRecord
from gamay.model.schema.schema import Schema
from gamay.segment.encode.metadata import SegmentMetadata, read_metadata
from gamay.segment.read.reader import open_segment
from gamay.storage.archive import unpack

_TIME_MIN_MS = 31_536_000_000  # 1971-01-01
_TIME_MAX_MS = 3_187_296_000_000  # 2071-01-01
_METADATA_FILE = "metadata.json"


class SegmentTimeError(GamayError):
    """A segment with a time range that retention and the time boundary could not use."""

    http_status = 403


@dataclass(frozen=True, slots=True)
class VerifiedSegment:
    """A verified segment: every checksum was compared."""

    info: SegmentMetadata
    folder: Path


def verify_archive(archive: Path, folder: Path) -> VerifiedSegment:
    """Unpack an archive as `folder`, which must not exist, and check the segment in it.

    Raises CorruptSegmentError, InvalidConfigError.
    """
    unpacked = unpack(archive, folder)
    try:
        return verify_folder(unpacked)
    except CorruptSegmentError as error:  # the client does not know the folder
        raise CorruptSegmentError(str(error).replace(f"{unpacked}/", "")) from error


def verify_folder(folder: Path) -> VerifiedSegment:
    """Check every checksum of a segment folder. Raises CorruptSegmentError, InvalidConfigError for an impossible name."""
    segment = open_segment(folder, verify=True)
    info = segment.info
    segment.close()
    if problem := name_problem(info.name):
        raise InvalidConfigError(f"segment name: {problem}")
    return VerifiedSegment(info, folder)


def read_metadata_archive(archive: Path, folder: Path) -> SegmentMetadata:
    """Return the metadata of a segment from an archive that holds only its `metadata.json`, in any folder."""
    unpack(archive, folder)
    found = sorted(folder.rglob(_METADATA_FILE))
    if len(found) != 1:
        raise CorruptSegmentError(f"the archive has {len(found)} files '{_METADATA_FILE}', it must have one")
    return read_metadata(found[0].parent)


def check_matches(info: SegmentMetadata, schema: Schema) -> None:
    """Raise InvalidConfigError unless the segment's columns have the types that the schema gives them."""
    problems = []
    for column in info.columns.values():
        if column.name not in schema:
            continue
        field = schema.field(column.name)
        if (field.data_type, field.single_value) != (column.data_type, column.single_value):
            problems.append(
                f"column '{column.name}' is {_shape(column.data_type.value, column.single_value)} in the segment, "
                f"{_shape(field.data_type.value, field.single_value)} in the schema"
            )
    if problems:
        raise InvalidConfigError(f"segment '{info.name}' does not match schema '{schema.name}': {'; '.join(problems)}")


def check_times(info: SegmentMetadata) -> None:
    """Raise SegmentTimeError if the time range is missing or outside 1971 to 2071."""
    if info.num_docs == 0:
        return
    for what, value in (("start", info.start_time_ms), ("end", info.end_time_ms)):
        if value is None or not _TIME_MIN_MS <= value <= _TIME_MAX_MS:
            raise SegmentTimeError(
                f"Invalid segment {what} time of segment: {info.name}: {value} ms is not between 1971 and 2071; "
                f"check column '{info.time_column}' and its format, or set ingestionConfig.segmentTimeValueCheck to false"
            )


def record_of(info: SegmentMetadata, url: str, size_bytes: int) -> SegmentRecord:
    """Return the cluster's record of a segment, without push and refresh time."""
    return SegmentRecord(
        name=info.name,
        crc=info.crc,
        total_docs=info.num_docs,
        start_time_ms=-1 if info.start_time_ms is None else info.start_time_ms,
        end_time_ms=-1 if info.end_time_ms is None else info.end_time_ms,
        start_time_raw="" if info.start_time_raw is None else str(info.start_time_raw),
        end_time_raw="" if info.end_time_raw is None else str(info.end_time_raw),
        time_unit="MILLISECONDS" if info.time_column else "",
        creation_time_ms=info.creation_time_ms,
        size_bytes=size_bytes,
        download_url=url,
        status=UPLOADED,
        partition_metadata=_partition_metadata(info),
        column_stats=encode_columns(
            {name: _summary(column) for name, column in info.columns.items() if name not in info.timestamp_columns}
        ),
    )


def _summary(column: Any) -> ColumnSummary:
    stats = column.stats
    partition = stats.partition
    return ColumnSummary(
        data_type=column.data_type,
        cardinality=stats.cardinality,
        minimum=stats.minimum,
        maximum=stats.maximum,
        is_sorted=stats.is_sorted,
        num_values=stats.num_values,
        num_nulls=stats.num_nulls,
        partition=partition
        and Partitioning(
            partition.function_name, partition.num_partitions, partition.partitions, dict(partition.function_config)
        ),
    )


def _partition_metadata(info: SegmentMetadata) -> str:
    columns = {
        column.name: {
            "functionName": partition.function_name,
            "numPartitions": partition.num_partitions,
            "partitions": list(partition.partitions),
            "functionConfig": dict(partition.function_config) or None,
        }
        for column in info.columns.values()
        if (partition := column.stats.partition) is not None
    }
    return orjson.dumps({"columnPartitionMap": columns}).decode() if columns else ""


def _shape(type_name: str, single_value: bool) -> str:
    return type_name if single_value else f"{type_name}[]"
