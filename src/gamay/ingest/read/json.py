"""JSON files: one object per line, concatenated objects, or one array of objects.

Lines are decoded a few megabytes at a time, by Arrow if the records are flat, else by orjson. Other
layouts are read by `gamay.ingest.read.json_stream`. Nested objects become text of Arrow's JSON type, as
written.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json

from gamay.base.errors import RecordError
from gamay.ingest.convert.objects import records_to_batch
from gamay.ingest.read.json_stream import MalformedJsonError, iterate_objects
from gamay.ingest.read.parts import ByteRange, whole_lines, window
from gamay.ingest.read.records import BATCH_ROWS, BadRecord, ErrorLog, FileReader
from gamay.ingest.read.sources import open_bytes

BLOCK_BYTES = 4 << 20
_STREAM_ROWS = 8_192
_EXACT_DOUBLES_BELOW = float(2**53)
_LONG_INTEGER = re.compile(rb"(?<![\d.])\d{19}")


class JsonReader(FileReader):
    """Reader of a JSON file; see `gamay.ingest.read.records.RecordReader`."""

    def __init__(self, uri: str, log: ErrorLog) -> None:
        super().__init__(uri, log, "line")
        self._rows = 0
        self._text_fields: dict[str, pa.DataType] = {}
        self._is_flat = True

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            with open_bytes(self._uri) as stream:
                if stream.read(3) != b"\xef\xbb\xbf":  # a byte order mark
                    stream.seek(0)
                start = stream.tell()
                is_lines = _begins_with_a_line(stream)
                stream.seek(start)
                batches = self._lines(self._restricted(stream, start)) if is_lines else self._stream(stream)
                for batch in batches:
                    for at in range(0, batch.num_rows, BATCH_ROWS):
                        part = batch.slice(at, BATCH_ROWS)
                        self._rows += part.num_rows
                        yield part
        except (OSError, EOFError) as error:
            raise RecordError(f"{self.file}: cannot be read beyond {self.position(self._rows)}: {error}") from error

    # -- one object per line

    def _restricted(self, stream: BinaryIO, start: int) -> BinaryIO:
        if self._part is None:
            return stream
        lines = whole_lines(stream, self._part)
        return window(stream, ByteRange(max(lines.start, start), lines.end))

    def _lines(self, stream: BinaryIO) -> Iterator[pa.RecordBatch]:
        line = 1
        while block := stream.read(BLOCK_BYTES):
            block += stream.readline()  # complete the last line of the block
            yield self._decode(block, line)
            line += block.count(b"\n")

    def _decode(self, block: bytes, first_line: int) -> pa.RecordBatch:
        self._positions.expect(self._rows, first_line)
        if self._is_flat:
            batch = self._decode_flat(block)
            if batch is not None and batch.num_rows == block.count(b"\n") + (not block.endswith(b"\n")):
                return batch
        lines = block.split(b"\n")
        try:
            records = _loads(b"[" + b",".join(line for line in lines if line.strip()) + b"]")
            if len(records) == sum(1 for line in lines if line) and set(map(type, records)) == {dict}:
                if any(not line for line in lines[:-1]):
                    self._expect_lines(lines, first_line)
                return records_to_batch(records)
        except orjson.JSONDecodeError:
            pass
        return records_to_batch(self._decode_lines(lines, first_line))

    def _decode_flat(self, block: bytes) -> pa.RecordBatch | None:
        """Return the records if Arrow reads them exactly as written, else None."""
        batch = self._arrow_decode(block)
        if batch is not None and (dates := text_like_times(batch.schema)):
            self._text_fields.update(dates)
            batch = self._arrow_decode(block)
        if batch is None:
            return None
        for column in batch.columns:
            kind = column.type.value_type if pa.types.is_list(column.type) else column.type
            if pa.types.is_nested(kind):
                self._is_flat = False
                return None
            if pa.types.is_float64(column.type) and not _doubles_are_exact(column):
                return None
        return batch

    def _arrow_decode(self, block: bytes) -> pa.RecordBatch | None:
        hints = pa.schema(self._text_fields.items()) if self._text_fields else None
        try:
            table = pa_json.read_json(
                pa.BufferReader(block),
                read_options=pa_json.ReadOptions(use_threads=False, block_size=len(block) + 1),
                parse_options=pa_json.ParseOptions(explicit_schema=hints),
            )
            _ = table.column_names  # Arrow does not validate the names
            table.validate()  # lists that start with null would lose it
        except (pa.ArrowInvalid, UnicodeDecodeError):
            return None
        batches = table.combine_chunks().to_batches()
        return batches[0] if batches else None

    def _decode_lines(self, lines: list[bytes], first_line: int) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        for number, line in enumerate(lines, first_line):
            if not line.strip():
                continue
            try:
                record = _loads(line)
                if not isinstance(record, dict):
                    raise ValueError(f"an object is expected, not {line[:80]!r}")
            except ValueError as error:
                self._log.add(BadRecord(self.file, f"line {number}", f"not a JSON object: {error}"))
                continue
            self._positions.expect(self._rows + len(records), number)
            records.append(record)
        return records

    def _expect_lines(self, lines: list[bytes], first_line: int) -> None:
        row = self._rows
        for number, line in enumerate(lines, first_line):
            if line:
                self._positions.expect(row, number)
                row += 1

    # -- anything else

    def _stream(self, stream: BinaryIO) -> Iterator[pa.RecordBatch]:
        records: list[dict[str, Any]] = []
        for line, record in iterate_objects(stream):
            if isinstance(record, MalformedJsonError):
                self._log.add(BadRecord(self.file, f"line {line}", str(record)))
                continue
            self._positions.expect(self._rows + len(records), line)
            records.append(record)
            if len(records) == _STREAM_ROWS:
                yield records_to_batch(records)
                records = []
        if records:
            yield records_to_batch(records)


def is_one_object_a_line(uri: str) -> bool:
    """Whether a JSON file is read line by line. Raises NotFoundError."""
    with open_bytes(uri) as stream:
        if stream.read(3) != b"\xef\xbb\xbf":
            stream.seek(0)
        return _begins_with_a_line(stream)


def _begins_with_a_line(stream: BinaryIO) -> bool:
    """Whether the first line that is not blank is a complete object."""
    while line := stream.readline(BLOCK_BYTES):
        if line.strip():
            try:
                return isinstance(orjson.loads(line), dict)
            except orjson.JSONDecodeError:
                return False
    return True


def _loads(text: bytes) -> Any:
    """Parse JSON with all digits of integers, which orjson converts to doubles if they exceed 64 bits."""
    read = orjson.loads(text)
    return json.loads(text) if _LONG_INTEGER.search(text) else read


def text_like_times(schema: pa.Schema) -> dict[str, pa.DataType]:
    """Return the fields that Arrow inferred as times from their text, with types to read them as text instead."""
    found = {}
    for field in schema:
        if pa.types.is_timestamp(field.type):
            found[field.name] = pa.string()
        elif pa.types.is_list(field.type) and pa.types.is_timestamp(field.type.value_type):
            found[field.name] = pa.list_(pa.string())
    return found


def _doubles_are_exact(column: pa.Array) -> bool:
    """Whether no value is so large that it may have been an integer beyond the precision of doubles."""
    extremes = pc.min_max(column).as_py()
    low, high = extremes["min"], extremes["max"]
    return low is None or (low > -_EXACT_DOUBLES_BELOW and high < _EXACT_DOUBLES_BELOW)
