"""The metadata of a segment: `metadata.json` as Python objects."""

import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Any

from gamay.base.errors import CorruptSegmentError
from gamay.functions.expression import LiteralValue
from gamay.model.exact_json import value_from_json, value_to_json
from gamay.model.index.timestamp_index import TimestampColumn
from gamay.model.types import DataType
from gamay.segment.encode.format import (
    FORMAT_VERSION,
    BufferMeta,
    aligned,
    canonical_json,
    read_metadata_file,
    write_metadata_file,
)
from gamay.segment.encode.frames import FrameMeta
from gamay.segment.encode.shape import check_shape
from gamay.segment.spi import ColumnStats, PartitionInfo

TIMESTAMP_COLUMNS = "timestampColumns"
"""The key of `SegmentMetadata.timestamp_columns`: base column and granularity by column name; absent if there are none."""

_WHOLE = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)


class Encoding(Enum):
    """How a column's rows are stored."""

    DICTIONARY = "DICTIONARY"
    RAW = "RAW"


@dataclass(frozen=True, slots=True)
class ColumnMeta:
    """One stored column.

    id_bits: width of an id in bits: 8, 16 or 32 unless `packed`; None for raw columns.
    codec: compression of the chunks of a raw column, or FRAME; None for dictionary columns. frame: the frame of its codes.
    reason: why the column has this encoding, for people; empty in older segments.
    buffers: by kind, in the order of the file.
    """

    name: str
    data_type: DataType
    single_value: bool
    encoding: Encoding
    id_bits: int | None
    packed: bool
    codec: str | None
    stats: ColumnStats
    buffers: Mapping[str, BufferMeta]
    frame: FrameMeta | None = None
    reason: str = ""

    @property
    def has_forward(self) -> bool:
        """Whether the values of rows are stored, raw or as ids."""
        return any(kind.startswith("forward.") for kind in self.buffers)

    def index_sizes(self) -> dict[str, int]:
        """Return bytes for each part of the column (`dictionary`, `forward`, `inverted`, …), padding included."""
        sizes: dict[str, int] = {}
        for kind, buffer in self.buffers.items():
            part = kind.partition(".")[0]
            sizes[part] = sizes.get(part, 0) + aligned(buffer.size)
        return sizes


@dataclass(frozen=True, slots=True)
class SegmentMetadata:
    """One segment.

    table: name with type, such as `flights_OFFLINE`. crc: CRC-32 of the content: rows and indexes, not names or times.
    start_time_ms, end_time_ms: bounds of the time column in milliseconds since the epoch; start_time_raw, end_time_raw:
    these bounds in the column's format; None without a time column or rows. timestamp_columns: the columns that a
    timestamp index derived from others, by name.
    """

    name: str
    table: str
    crc: int
    creation_time_ms: int
    num_docs: int
    time_column: str | None
    start_time_ms: int | None
    end_time_ms: int | None
    start_time_raw: LiteralValue
    end_time_raw: LiteralValue
    columns: Mapping[str, ColumnMeta]
    timestamp_columns: Mapping[str, TimestampColumn] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, as in `metadata.json` without the checksum."""
        time_type = _time_type(self.time_column, self.columns)
        derived = timestamps_to_json(self.timestamp_columns.values())
        return {
            "formatVersion": FORMAT_VERSION,
            "name": self.name,
            "table": self.table,
            "crc": self.crc,
            "creationTimeMs": self.creation_time_ms,
            "numDocs": self.num_docs,
            "timeColumn": self.time_column,
            "startTimeMs": self.start_time_ms,
            "endTimeMs": self.end_time_ms,
            "startTimeRaw": value_to_json(self.start_time_raw, time_type),
            "endTimeRaw": value_to_json(self.end_time_raw, time_type),
            "columns": [_column_to_json(column) for column in self.columns.values()],
            **({TIMESTAMP_COLUMNS: derived} if derived else {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> "SegmentMetadata":
        """Inverse of `to_json`; raises KeyError, TypeError or ValueError for a document of another shape."""
        columns = {entry["name"]: _column_from_json(entry) for entry in document["columns"]}
        time_column = document["timeColumn"]
        time_type = _time_type(time_column, columns)
        return cls(
            name=document["name"],
            table=document["table"],
            crc=document["crc"],
            creation_time_ms=document["creationTimeMs"],
            num_docs=document["numDocs"],
            time_column=time_column,
            start_time_ms=document["startTimeMs"],
            end_time_ms=document["endTimeMs"],
            start_time_raw=value_from_json(document["startTimeRaw"], time_type),
            end_time_raw=value_from_json(document["endTimeRaw"], time_type),
            columns=columns,
            timestamp_columns={
                name: TimestampColumn(*column) for name, column in document.get(TIMESTAMP_COLUMNS, {}).items()
            },
        )


def timestamps_to_json(columns: Iterable[TimestampColumn]) -> dict[str, list[str]]:
    """Return columns of timestamp indexes in the form of the metadata, see TIMESTAMP_COLUMNS."""
    return {column.name: [column.base, column.granularity] for column in columns}


def _time_type(time_column: str | None, columns: Mapping[str, ColumnMeta]) -> DataType:
    return columns[time_column].data_type if time_column is not None and time_column in columns else DataType.UNKNOWN


def content_crc(num_docs: int, columns: Mapping[str, ColumnMeta]) -> int:
    """Return the segment's CRC: it covers every buffer (through its own CRC) and the descriptions of columns except
    reasons."""
    described = [_column_to_json(replace(column, reason="")) for column in columns.values()]
    return zlib.crc32(canonical_json([num_docs, described]))


def write_metadata(folder: Path, metadata: SegmentMetadata) -> None:
    """Write `metadata.json`; the caller syncs it."""
    write_metadata_file(folder, metadata.to_json())


def rename_segment(folder: Path, name: str) -> Path:
    """Rename a built segment that is not open, and its folder; return the folder."""
    named = folder.with_name(name)
    if named != folder:
        write_metadata(folder, replace(read_metadata(folder), name=name))
        os.rename(folder, named)
    return named


def read_metadata(path: str | Path) -> SegmentMetadata:
    """Read and check the metadata of a segment folder, without opening its columns; raises CorruptSegmentError."""
    folder = Path(path)
    document = read_metadata_file(folder)
    try:
        check_shape(document)
        metadata = SegmentMetadata.from_json(document)
    except (KeyError, TypeError, ValueError, ArithmeticError) as reason:
        raise CorruptSegmentError(f"{folder / 'metadata.json'} is not the metadata of a segment: {reason!r}") from None
    actual = content_crc(metadata.num_docs, metadata.columns)
    if actual != metadata.crc:
        raise CorruptSegmentError(
            f"{folder / 'metadata.json'}: the columns it lists have CRC {actual}; expected {metadata.crc}"
        )
    return metadata


def _column_to_json(column: ColumnMeta) -> dict[str, Any]:
    stats = column.stats
    partition = stats.partition
    return {
        "name": column.name,
        "dataType": column.data_type.value,
        "singleValue": column.single_value,
        "encoding": column.encoding.value,
        "idBits": column.id_bits,
        "packed": column.packed,
        "codec": column.codec,
        "cardinality": stats.cardinality,
        "min": value_to_json(stats.minimum, column.data_type),
        "max": value_to_json(stats.maximum, column.data_type),
        "total": value_to_json(stats.total, column.data_type),
        "sorted": stats.is_sorted,
        "numValues": stats.num_values,
        "maxValuesPerRow": stats.max_values_per_row,
        "numNulls": stats.num_nulls,
        "partition": None
        if partition is None
        else {
            "functionName": partition.function_name,
            "numPartitions": partition.num_partitions,
            "partitions": list(partition.partitions),
            "functionConfig": dict(partition.function_config),
        },
        "buffers": [[buffer.kind, buffer.offset, buffer.size, buffer.crc] for buffer in column.buffers.values()],
        # omitted if empty, so that the CRC of older segments, which covers these entries, still matches
        **({} if column.frame is None else {"frame": asdict(column.frame)}),
        **({"reason": column.reason} if column.reason else {}),
    }


def _bound(value: Any, data_type: DataType) -> LiteralValue:
    """Return a bound of a column; raises TypeError or ValueError for an invalid value."""
    plain = value_from_json(value, data_type)
    kind = bool if data_type is DataType.BOOLEAN else int if data_type in _WHOLE else str if data_type.is_text else None
    if plain is not None and kind is not None and type(plain) is not kind:
        raise TypeError(f"{value!r} is no value of type {data_type.value}")
    if isinstance(plain, Decimal) and not plain.is_finite():
        raise ValueError(f"{value!r} is no number")
    return plain


def _column_from_json(entry: Mapping[str, Any]) -> ColumnMeta:
    data_type = DataType(entry["dataType"])
    total = entry["total"]
    partition = entry["partition"]
    stats = ColumnStats(
        cardinality=entry["cardinality"],
        minimum=_bound(entry["min"], data_type),
        maximum=_bound(entry["max"], data_type),
        total=float(total) if isinstance(total, str) else total,
        is_sorted=entry["sorted"],
        num_values=entry["numValues"],
        max_values_per_row=entry["maxValuesPerRow"],
        num_nulls=entry["numNulls"],
        partition=None
        if partition is None
        else PartitionInfo(
            partition["functionName"],
            partition["numPartitions"],
            tuple(partition["partitions"]),
            partition["functionConfig"],
        ),
    )
    buffers = {kind: BufferMeta(kind, offset, size, crc) for kind, offset, size, crc in entry["buffers"]}
    frame = entry.get("frame")
    return ColumnMeta(
        name=entry["name"],
        data_type=data_type,
        single_value=entry["singleValue"],
        encoding=Encoding(entry["encoding"]),
        id_bits=entry["idBits"],
        packed=entry["packed"],
        codec=entry["codec"],
        stats=stats,
        buffers=buffers,
        frame=None if frame is None else FrameMeta(frame["base"], frame["exponent"], frame["divides"]),
        reason=entry.get("reason", ""),
    )
