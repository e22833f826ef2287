"""Delimited text files: Arrow's columnar parser where it is exact, `gamay.ingest.read.csv_exact` where it is not.

Every column is text; the pipeline converts it to the schema's types.
"""

import codecs
from collections import deque
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from gamay.base.errors import InvalidConfigError, RecordError
from gamay.ingest.read.csv_exact import ExactParser, Fields, MalformedRecordError
from gamay.ingest.read.csv_format import CsvFormat
from gamay.ingest.read.parts import ByteRange, whole_lines, window
from gamay.ingest.read.records import BATCH_ROWS, MULTI_VALUE_DELIMITER, BadRecord, ErrorLog, FileReader
from gamay.ingest.read.sources import open_bytes
from gamay.model.schema.datetime_format import JodaPattern

BLOCK_BYTES = 4 << 20
_EXACT_ROWS = 8_192


class _NeedsExactParserError(Exception):
    """The file has content that the columnar parser would read differently."""


class CsvReader(FileReader):
    """Reader of a CSV file; see `gamay.ingest.read.records.RecordReader`.

    Raises InvalidConfigError for an invalid header.
    """

    def __init__(self, uri: str, csv_format: CsvFormat, log: ErrorLog) -> None:
        super().__init__(uri, log)
        self._format = csv_format
        self._dates = JodaPattern(csv_format.date_format) if csv_format.date_columns else None
        self._rows = 0
        self._bad = 0
        self._invalid_rows: deque[tuple[int, str]] = deque()

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            with open_bytes(self._uri) as whole:
                names, start, first_line = self._header(whole)
                stream = whole
                if self._part is not None:
                    lines = whole_lines(whole, self._part)
                    begin = max(lines.start, start)
                    stream = window(whole, ByteRange(begin, max(lines.end, begin)))
                    start, first_line = 0, first_line if begin == start else 1
                try:
                    if self._is_columnar():
                        stream.seek(start)
                        yield from self._columnar(stream, names)
                        return
                except _NeedsExactParserError:
                    pass
                stream.seek(start)
                yield from self._exact(stream, names, first_line)
        except (OSError, EOFError) as error:
            raise RecordError(f"{self.file}: cannot be read beyond record {self._rows + self._bad}: {error}") from error

    # -- header

    def _header(self, stream: BinaryIO) -> tuple[tuple[str, ...], int, int]:
        """Return the column names, and the byte and line where the data starts."""
        if stream.read(3) != b"\xef\xbb\xbf":  # a byte order mark
            stream.seek(0)
        if self._format.header is not None and not self._format.skip_header:
            return self._checked(self._format.header), stream.tell(), 1
        begin = stream.tell()
        parser = ExactParser(stream, self._format)
        records = iter(parser)
        _, first = next(records, (1, None))
        start, first_line = begin + parser.bytes_taken, parser.line
        if first is None:
            return (self._format.header or ()), start, first_line
        if isinstance(first, MalformedRecordError):
            raise RecordError(f"{self.file}, header line: {first}")
        names = self._format.header or tuple(name or "" for name in first)
        _, second = next(records, (1, None))
        if isinstance(second, list) and len(names) == 1 < len(second):
            raise InvalidConfigError(
                f"{self.file}: the header line {names[0]!r} does not contain the delimiter {self._format.delimiter!r}, "
                f"but the next line does; set 'delimiter' or 'header' in the reader config"
            )
        return self._checked(names), start, first_line

    def _checked(self, names: tuple[str, ...]) -> tuple[str, ...]:
        repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1]
        if repeated or "" in names:
            what = "a column without a name" if "" in names else f"the column '{repeated[0]}' twice"
            raise InvalidConfigError(f"{self.file}: the header has {what}: {self._format.delimiter.join(names)[:200]!r}")
        return names

    # -- the columnar parser

    def _is_columnar(self) -> bool:
        f = self._format
        standard = f.comment is None and f.escape is None and f.ignore_empty_lines
        return standard and f.record_separator in ("\n", "\r\n")

    def _columnar(self, stream: BinaryIO, names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        watched = _WatchedStream(stream, self._format)
        try:
            held: pa.RecordBatch | None = None
            for batch in self._open_columnar(watched, names):
                if held is not None:
                    yield from self._finished(held, watched)
                held = batch
            if held is not None and watched.quotes % 2:
                # an unclosed quote extends the value to the end of the file, so only the last row can have it
                yield from self._finished(held.slice(0, held.num_rows - 1), watched)
                raise _NeedsExactParserError
            if held is not None:
                yield from self._finished(held, watched)
            self._log_invalid_rows(self._rows)
        except pa.ArrowInvalid as error:
            raise _NeedsExactParserError from error

    def _open_columnar(self, watched: "_WatchedStream", names: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        if not watched.has_content():
            return iter(())
        quote: Any = self._format.quote or False
        null_values = ["", self._format.null_text] if self._format.null_text else [""]
        reader = pa_csv.open_csv(
            watched,
            read_options=pa_csv.ReadOptions(column_names=names, block_size=BLOCK_BYTES, use_threads=False),
            parse_options=pa_csv.ParseOptions(
                delimiter=self._format.delimiter,
                quote_char=quote,
                newlines_in_values=bool(quote),
                invalid_row_handler=self._on_invalid_row,
            ),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.binary()), null_values=null_values, strings_can_be_null=True
            ),
        )
        return iter(reader)

    def _on_invalid_row(self, row: Any) -> str:
        if self._format.ignore_extra_values and row.actual_columns > row.expected_columns:
            return "error"  # continue with the exact parser, which can read a part of a record
        reason = _wrong_number(row.actual_columns, row.expected_columns, repr(row.text[:100]))
        self._invalid_rows.append((row.number, reason))
        return "skip"

    def _log_invalid_rows(self, rows: int) -> None:
        """Log the rows with a wrong number of values that precede row `rows` of the valid ones."""
        while self._invalid_rows and (before := self._invalid_rows[0][0] - 1 - self._bad) <= rows:
            number, reason = self._invalid_rows.popleft()
            self._bad += 1
            self._positions.skip(before, self._bad)
            self._log.add(BadRecord(self.file, f"record {number}", reason))

    def _finished(self, batch: pa.RecordBatch, watched: "_WatchedStream") -> Iterator[pa.RecordBatch]:
        columns = [column.cast(pa.string()) for column in batch.columns]
        if watched.has_spaces:
            columns = [_trimmed(column) for column in columns]
        self._log_invalid_rows(self._rows + batch.num_rows)
        whole = self._with_dates(columns, batch.schema.names, self._rows)
        for start in range(0, whole.num_rows, BATCH_ROWS):
            part = whole.slice(start, BATCH_ROWS)
            self._rows += part.num_rows
            yield part

    # -- the exact parser

    def _exact(self, stream: BinaryIO, names: tuple[str, ...], first_line: int) -> Iterator[pa.RecordBatch]:
        done = self._rows + self._bad
        rows: list[Fields] = []
        for record, (line, fields) in enumerate(ExactParser(stream, self._format, first_line)):
            if record < done:
                continue
            if isinstance(fields, MalformedRecordError):
                self._reject(line, str(fields))
            elif len(fields) < len(names) or (len(fields) > len(names) and not self._format.ignore_extra_values):
                self._reject(line, _wrong_number(len(fields), len(names), str(fields)[:100]))
            else:
                self._positions.expect(self._rows + len(rows), line)
                rows.append(fields[: len(names)])
                if len(rows) == _EXACT_ROWS:
                    yield self._exact_batch(rows, names)
                    rows = []
        if rows:
            yield self._exact_batch(rows, names)

    def _exact_batch(self, rows: list[Fields], names: tuple[str, ...]) -> pa.RecordBatch:
        columns = [pa.array(values, pa.string()) for values in zip(*rows, strict=True)]
        batch = self._with_dates(columns, list(names), self._rows)
        self._rows += len(rows)
        return batch

    def _reject(self, line: int, reason: str) -> None:
        self._bad += 1
        self._log.add(BadRecord(self.file, f"line {line}", reason))

    # -- both

    def _with_dates(self, columns: list[pa.Array], names: list[str], first_row: int) -> pa.RecordBatch:
        if self._dates is not None:
            for name in self._format.date_columns:
                if name not in names:
                    raise InvalidConfigError(
                        f"{self.file}: the header has no column '{name}' of dateColumns; it has {names}"
                    )
                at = names.index(name)
                columns[at] = self._parsed_dates(columns[at], name, first_row)
        return pa.RecordBatch.from_arrays(columns, schema=self._schema(columns, names))

    def _schema(self, columns: list[pa.Array], names: list[str]) -> pa.Schema:
        delimiter = self._format.multi_value_delimiter
        metadata = {MULTI_VALUE_DELIMITER: delimiter.encode()} if delimiter else None
        return pa.schema([pa.field(n, c.type) for n, c in zip(names, columns, strict=True)], metadata=metadata)

    def _parsed_dates(self, column: pa.Array, name: str, first_row: int) -> pa.Array:
        """Return the dates as epoch milliseconds; a text that is not a date becomes null and is logged."""
        assert self._dates is not None
        encoded = column.dictionary_encode()
        millis: list[int | None] = []
        for text in encoded.dictionary.to_pylist():
            try:
                millis.append(self._dates.parse(text))
            except ValueError as error:
                row = first_row + int(np.flatnonzero(pc.equal(column, text).fill_null(False))[0])
                self._log.add(BadRecord(self.file, self.position(row), f"column '{name}': {error}"))
                millis.append(None)
        return pa.array(millis, pa.int64()).take(encoded.indices)


def _wrong_number(actual: int, expected: int, shown: str) -> str:
    option = "; with 'ignoreExtraValues' in the reader config the first ones are taken" if actual > expected else ""
    return f"{actual} values where the header has {expected}: {shown}{option}"


def _trimmed(column: pa.Array) -> pa.Array:
    trimmed = pc.utf8_trim(column, characters=" \t")
    return pc.if_else(pc.equal(pc.binary_length(trimmed), 0), pa.scalar(None, pa.string()), trimmed)


class _WatchedStream:
    """The input stream of the columnar parser; detects content that the parser would not read according to the format."""

    closed = False

    def __init__(self, stream: BinaryIO, csv_format: CsvFormat) -> None:
        self._stream = stream
        self._quote = csv_format.quote.encode() if csv_format.quote else None
        self._trim = csv_format.trim
        self._tabs_are_spaces = csv_format.delimiter != "\t"
        self._is_edge = np.zeros(256, np.bool_)
        self._is_edge[[ord(csv_format.delimiter), ord("\n"), ord("\r")]] = True
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._splits_character = False  # the blocks so far end within a character
        self._ahead = b""
        self._last = b"\n"
        self.quotes = 0
        self.has_spaces = False

    def has_content(self) -> bool:
        """Whether there is any content except line ends."""
        while not self._ahead.strip(b"\r\n"):
            block = self._stream.read(1 << 16)
            if not block:
                return False
            self._ahead += block
        return True

    def read(self, size: int = -1) -> bytes:
        if self._ahead:
            block, self._ahead = self._ahead[:size], self._ahead[size:]
        else:
            block = self._stream.read(size)
        if not block:
            if self._splits_character:
                raise _NeedsExactParserError
            self.has_spaces = self.has_spaces or (self._trim and self._last in b" \t")
            return block
        self._check_text(block)
        if self._trim:
            self._look_for_spaces(self._last + block)
        self._last = block[-1:]
        if self._quote is not None:
            self.quotes += block.count(self._quote)
        return block

    def _check_text(self, block: bytes) -> None:
        """Raise for bytes that are not UTF-8, for which Arrow cannot report the rows."""
        if block.isascii() and not self._splits_character:
            return
        try:
            self._decoder.decode(block)
        except UnicodeDecodeError as error:
            raise _NeedsExactParserError from error
        self._splits_character = bool(self._decoder.getstate()[0])

    def _look_for_spaces(self, block: bytes) -> None:
        """Detect spaces around values; raise if only the exact parser can interpret them."""
        has_quotes = self._quote is not None and self._quote in block
        has_tabs = self._tabs_are_spaces and b"\t" in block
        if (self.has_spaces and not has_quotes) or not (has_tabs or b" " in block):
            return
        text = np.frombuffer(block, np.uint8)
        spaces = np.flatnonzero((text == ord(" ")) | (text == ord("\t")) if has_tabs else text == ord(" "))
        beside = np.concatenate([text[spaces[spaces > 0] - 1], text[spaces[spaces < len(text) - 1] + 1]])
        if self._quote is not None and has_quotes and (beside == self._quote[0]).any():
            raise _NeedsExactParserError  # spaces within quotes are kept, those around them removed
        self.has_spaces = self.has_spaces or bool(self._is_edge[beside].any())

    def close(self) -> None:
        """Do nothing: the stream is closed by its owner."""
