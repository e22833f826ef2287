"""Avro object container files, plain or gzipped as a whole."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, BinaryIO

import fastavro
import pyarrow as pa

from gamay.base.errors import RecordError
from gamay.ingest.convert.objects import values_to_array
from gamay.ingest.read.parts import ByteRange, window
from gamay.ingest.read.records import BadRecord, ErrorLog, FileReader
from gamay.ingest.read.sources import open_bytes

_BATCH_ROWS = 16_384
_MARKER_BYTES = 16  # after the header and each block
_SEARCH_BYTES = 1 << 20
_TIME_TYPES = {
    "timestamp-millis": pa.timestamp("ms"),
    "timestamp-micros": pa.timestamp("us"),
    "timestamp-nanos": pa.timestamp("ns"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
    "date": pa.date32(),
    "time-millis": pa.time32("ms"),
    "time-micros": pa.time64("us"),
}


class AvroReader(FileReader):
    """Reader of an Avro file; see `gamay.ingest.read.records.RecordReader`.

    Logical types (timestamps, dates, decimals, UUIDs) are converted; with `raw_times` times stay stored numbers.
    Data after a damaged block cannot be read: it is one error that names the first lost record.
    """

    def __init__(self, uri: str, log: ErrorLog, *, raw_times: bool = False) -> None:
        super().__init__(uri, log)
        self._raw_times = raw_times

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        with open_bytes(self._uri) as stream:
            try:
                records = fastavro.reader(stream)
                if self._part is not None:
                    records = fastavro.reader(_blocks(stream, self._part))
            except (ValueError, KeyError, EOFError, OSError, fastavro.schema.SchemaParseException) as error:
                raise RecordError(f"{self.file} is not an Avro file: {error}") from error
            names = _field_names(records.writer_schema, self.file)
            raw_types = _time_types(records.writer_schema) if self._raw_times else {}
            rows = 0
            while batch := self._next_records(records, rows):
                columns = [_column(batch, name, raw_types.get(name)) for name in names]
                yield pa.RecordBatch.from_arrays(columns, names)
                rows += len(batch)

    def _next_records(self, records: Any, rows_before: int) -> list[dict[str, Any]]:
        batch: list[dict[str, Any]] = []
        try:
            for record in islice(records, _BATCH_ROWS):
                batch.append(record)
        except Exception as error:  # noqa: BLE001 - fastavro raises whatever its damaged input leads to
            position = f"record {rows_before + len(batch) + 1} and all after it"
            self._log.add(BadRecord(self.file, position, f"the file is damaged: {type(error).__name__}: {error}"))
        return batch


def _blocks(stream: BinaryIO, part: ByteRange) -> BinaryIO:
    """Return a stream of the header and of the blocks that start in a part. stream: positioned after the header."""
    first = stream.tell()
    stream.seek(0)
    header = stream.read(first)
    cuts = [first if x <= first else _behind_marker(stream, header[-_MARKER_BYTES:], x) for x in (part.start, part.end)]
    return window(stream, ByteRange(*cuts), header)


def _behind_marker(stream: BinaryIO, marker: bytes, offset: int) -> int:
    """Return the end of the first marker that ends at or after an offset, or the end of the file."""
    at = offset - _MARKER_BYTES
    stream.seek(at)
    kept = b""
    while block := stream.read(_SEARCH_BYTES):
        text = kept + block
        found = text.find(marker)
        if found >= 0:
            return at - len(kept) + found + _MARKER_BYTES
        at += len(block)
        kept = text[-_MARKER_BYTES + 1 :]
    return at


def _field_names(schema: Any, file: str) -> list[str]:
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise RecordError(f"{file}: the Avro file must hold records, not {schema!r:.100}")
    return [field["name"] for field in schema["fields"]]


def _column(records: list[dict[str, Any]], name: str, time_type: pa.DataType | None) -> pa.Array:
    """Return a field's values; times as stored numbers if `time_type` has their unit."""
    values = values_to_array([record.get(name) for record in records])
    if time_type is None:
        return values
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp(values.type.unit))
    return values.cast(time_type).cast(pa.int32() if time_type.bit_width == 32 else pa.int64())


def _time_types(schema: Any) -> dict[str, pa.DataType]:
    """Return the type of each field that is a date or time, by name."""
    found = {}
    for field in schema["fields"]:
        branches = field["type"] if isinstance(field["type"], list) else [field["type"]]
        for branch in branches:
            logical = branch.get("logicalType") if isinstance(branch, dict) else None
            if logical in _TIME_TYPES:
                found[field["name"]] = _TIME_TYPES[logical]
    return found
