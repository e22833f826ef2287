"""CSV messages: one record each, without a header."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv

from gamay.base.errors import InvalidConfigError
from gamay.ingest.read.csv_exact import FieldSplitter, IncompleteError
from gamay.ingest.read.csv_format import parse_csv_format
from gamay.ingest.read.records import MULTI_VALUE_DELIMITER
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.records import decode_each, records_to_rows
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch


class CsvDecoder:
    """A `MessageDecoder` of CSV records with the properties of the CSV reader; `header` is required.

    A batch without quotes, escapes, comment characters and line ends is parsed by Arrow.
    """

    def __init__(self, config: StreamConfig, fields: InputFields) -> None:
        """Raises InvalidConfigError for unknown properties or a missing header."""
        where = config.property_key("decoder.prop.")
        properties = {k: v for k, v in config.decoder_properties.items() if k != "stopOnDecodeError"}
        try:
            self._format = parse_csv_format(properties)
        except InvalidConfigError as error:
            raise InvalidConfigError(f"{where}: {error}") from error
        if not self._format.header:
            raise InvalidConfigError(f"{where}header is required: the names of the fields, as in a file's first line")
        self._fields = fields
        self._names = list(self._format.header)
        self._splitter = FieldSplitter(self._format)
        special = (self._format.quote, self._format.escape, self._format.comment, "\n", "\r")
        self._special = "[" + "".join(f"\\x{ord(c):02x}" for c in special if c) + "]"
        delimiter = self._format.multi_value_delimiter
        self._metadata = {MULTI_VALUE_DELIMITER: delimiter.encode()} if delimiter else None

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return a row for each message that is a record; see `MessageDecoder.decode`."""
        decoded = self._decode_at_once(messages)
        if decoded is None:
            decoded = decode_each(messages, self._fields, self._record, "a CSV record")
        rows = decoded.rows.replace_schema_metadata(self._metadata)
        return DecodedBatch(rows, decoded.message_of_row, decoded.undecodable)

    def _decode_at_once(self, messages: MessageBatch) -> DecodedBatch | None:
        payloads = messages.payloads
        places = np.arange(len(payloads), dtype=np.int64)
        if payloads.null_count:
            valid = payloads.is_valid()
            places, payloads = places[np.asarray(valid)], payloads.filter(valid)
        if not len(payloads):
            return DecodedBatch(records_to_rows([], self._fields), places)
        try:
            text = payloads.cast(pa.string())
        except pa.ArrowInvalid:
            return None
        is_odd = pc.or_(pc.equal(pc.binary_length(text), 0), pc.match_substring_regex(text, self._special))
        if pc.any(is_odd).as_py():
            return None
        rows = self._parse(pc.binary_join_element_wise(text, "", "\n").buffers()[2])
        return DecodedBatch(rows, places) if rows is not None and rows.num_rows == len(places) else None

    def _parse(self, lines: pa.Buffer) -> pa.RecordBatch | None:
        wanted = [name for name in self._names if self._fields.wants(name)]
        null_values = ["", self._format.null_text] if self._format.null_text else [""]
        try:
            table = pa_csv.read_csv(
                pa.BufferReader(lines),
                read_options=pa_csv.ReadOptions(
                    column_names=self._names, block_size=min(lines.size + 1, (1 << 31) - 1), use_threads=False
                ),
                parse_options=pa_csv.ParseOptions(
                    delimiter=self._format.delimiter, quote_char=False, ignore_empty_lines=False
                ),
                convert_options=pa_csv.ConvertOptions(
                    column_types=dict.fromkeys(self._names, pa.string()), null_values=null_values,
                    strings_can_be_null=True, include_columns=wanted,
                ),
            )  # fmt: skip
        except pa.ArrowInvalid:
            return None
        columns = [column.combine_chunks() for column in table.columns]
        return pa.RecordBatch.from_arrays([self._trimmed(column) for column in columns], table.schema.names)

    def _trimmed(self, column: pa.Array) -> pa.Array:
        if not self._format.trim:
            return column
        trimmed = pc.utf8_trim(column, characters=" \t")
        empty = pc.or_(pc.equal(pc.binary_length(trimmed), 0), pc.equal(trimmed, self._format.null_text or ""))
        return pc.if_else(empty, pa.scalar(None, pa.string()), trimmed)

    def _record(self, payload: bytes) -> Mapping[str, Any] | None:
        text = payload.decode().removesuffix("\n").removesuffix("\r")
        if (not text and self._format.ignore_empty_lines) or (
            self._format.comment and text.startswith(self._format.comment)
        ):
            return None
        try:
            values = self._splitter.split(text)
        except IncompleteError:
            raise ValueError("a quote is never closed") from None
        if len(values) != len(self._names):
            raise ValueError(f"{len(values)} values where the header has {len(self._names)}: {text[:100]!r}")
        return dict(zip(self._names, values, strict=True))
