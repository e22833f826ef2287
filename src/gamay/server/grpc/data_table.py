"""Encoding of rows as Pinot's DataTable, version 4. All numbers are big-endian.

table      = header sections metadata_length:int32 metadata
header     = version:int32 num_rows:int32 num_columns:int32 (start:int32 length:int32)[5], of the sections
sections   = exceptions texts schema rows values
exceptions = count:int32 (code:int32 text)*
texts      = count:int32 text*, every text of the rows, by its position; empty where there is none
schema     = count:int32 name:text* type:text*, empty where there are no rows
rows       = row* null_flags?
row        = a field for each column, without gaps: INT, BOOLEAN int32; LONG, TIMESTAMP int64; FLOAT float32;
             DOUBLE float64; STRING, JSON int32, the position of a text; others start:int32 length:int32 in `values`
null_flags = (start:int32 length:int32)* in `values`, of each column a Roaring bitmap of the rows that are null
values     = of BYTES bytes; of BIG_DECIMAL scale:int16 unscaled:two's complement; of lists their elements as in a row,
             the length being their number
metadata   = count:int32 (key:int32 value)*, the value an int32, an int64 or a text, depending on the key
text       = length:int32 UTF-8
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from struct import pack
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arrow import binary_buffers
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.segment.index.bitmaps import bitmap_of

_VERSION = 4
_NUM_SECTIONS = 5
_HEADER_BYTES = 4 * (3 + 2 * _NUM_SECTIONS)
_NUMBERS = {
    DataType.INT: np.dtype(">i4"),
    DataType.BOOLEAN: np.dtype(">i4"),
    DataType.LONG: np.dtype(">i8"),
    DataType.TIMESTAMP: np.dtype(">i8"),
    DataType.FLOAT: np.dtype(">f4"),
    DataType.DOUBLE: np.dtype(">f8"),
}
_POSITION = np.dtype(">i4")
_SPAN_BYTES = 8
# Pinot serialises maps in a Java-specific form; JSON is also their form in answers over HTTP
_AS_TEXT = {DataType.STRING: "STRING", DataType.JSON: "JSON", DataType.MAP: "JSON"}
_SCALE_MAX = 32_767

# of the metadata: the number of the key, and whether the value takes 8 bytes
_COUNTERS = {
    "numDocsScanned": (2, True),
    "numSegmentsQueried": (5, False),
    "numSegmentsProcessed": (6, False),
    "numSegmentsMatched": (7, False),
    "totalDocs": (10, True),
}
NOTHING: Mapping[str, int] = MappingProxyType({})


def encode_rows(
    names: Sequence[str], columns: Sequence[Vector], counters: Mapping[str, int] = NOTHING, *, null_handling: bool
) -> bytes:
    """Return a table of rows. null_handling: whether it marks null rows; else nulls are sent as their default values.

    counters: statistics, by the names of `_COUNTERS`. Raises QueryError for a column of a type that the format does not
    support.
    """
    num_rows = len(columns[0])
    texts, values = _Texts(), _Values()
    types = [_type_name(name, column) for name, column in zip(names, columns, strict=True)]
    fields = [_field(column, texts, values) for column in columns]
    rows = np.empty((num_rows, sum(field.shape[1] for field in fields)), np.uint8)
    at = 0
    for field in fields:
        rows[:, at : at + field.shape[1]] = field
        at += field.shape[1]
    flags = b"".join(_null_flags(column, values) for column in columns) if null_handling else b""
    schema = pack(">i", len(names)) + b"".join(map(_text, (*names, *types)))
    sections = (_exceptions({}), texts.encoded(), schema, rows.tobytes() + flags, values.encoded())
    return _table(num_rows, len(names), sections, counters)


def encode_counters(counters: Mapping[str, int]) -> bytes:
    """Return a table without rows that contains the statistics."""
    return _table(0, 0, (_exceptions({}), b"", b"", b"", b""), counters)


def encode_failure(code: int, text: str) -> bytes:
    """Return a table without rows that contains an error."""
    return _table(0, 0, (_exceptions({code: text}), b"", b"", b"", b""), NOTHING)


def _table(num_rows: int, num_columns: int, sections: Sequence[bytes], counters: Mapping[str, int]) -> bytes:
    header, start = [_VERSION, num_rows, num_columns], _HEADER_BYTES
    for section in sections:
        header += [start, len(section)]
        start += len(section)
    metadata = pack(">i", len(counters))
    for name, value in counters.items():
        key, is_long = _COUNTERS[name]
        metadata += pack(">iq" if is_long else ">ii", key, value)
    return b"".join((pack(f">{len(header)}i", *header), *sections, pack(">i", len(metadata)), metadata))


def _type_name(name: str, column: Vector) -> str:
    if column.type not in _NUMBERS and column.type not in _AS_TEXT and column.is_multi_value:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Column '{name}' has lists of {column.type.value}, which Pinot's DataTable does not support; omit it, or "
            "ask a broker",
        )
    if column.type is DataType.UUID:
        return "BYTES"
    return f"{_AS_TEXT.get(column.type, column.type.value)}{'_ARRAY' if column.is_multi_value else ''}"


def _field(column: Vector, texts: "_Texts", values: "_Values") -> Array:
    """Return the bytes of a column in each row, uint8 [rows, width]."""
    if column.type in _NUMBERS:
        elements = column.values.astype(_NUMBERS[column.type])
    elif column.type in _AS_TEXT:
        elements = texts.positions(column.values)
    elif column.type is DataType.BIG_DECIMAL:
        encoded = [_decimal(value) for value in column.values]
        return _spans(values.add(b"".join(encoded)), np.cumsum([0, *map(len, encoded)]))
    else:
        offsets, data = binary_buffers(column.values)
        return _spans(values.add(data.tobytes()), offsets)
    width = elements.dtype.itemsize
    if column.offsets is None:
        plain: Array = elements.view(np.uint8).reshape(len(elements), width)
        return plain
    offsets = column.offsets - column.offsets[0]
    start = values.add(elements[column.offsets[0] : column.offsets[-1]].tobytes())
    return _spans(start, offsets.astype(np.int64), width)


def _spans(start: int, offsets: Array, width: int = 1) -> Array:
    """Return (start, length) in `values` for each row. offsets: of elements of `width` bytes; the length is their number."""
    spans = np.empty((len(offsets) - 1, 2), _POSITION)
    spans[:, 0] = start + width * offsets[:-1]
    spans[:, 1] = np.diff(offsets)
    return spans.view(np.uint8).reshape(len(spans), _SPAN_BYTES)


def _null_flags(column: Vector, values: "_Values") -> bytes:
    if column.nulls is None or not column.nulls.any():
        return pack(">ii", 0, 0)
    bitmap = bitmap_of(np.flatnonzero(column.nulls)).serialize()
    return pack(">ii", values.add(bitmap), len(bitmap))


def _decimal(value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if not -_SCALE_MAX <= -exponent <= _SCALE_MAX:
        raise QueryError(ErrorCode.QUERY_EXECUTION, f"{value} has more decimal places than Pinot's DataTable supports")
    unscaled = int("".join(map(str, digits)))
    unscaled = -unscaled if sign else unscaled
    length = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return pack(">h", -exponent) + unscaled.to_bytes(length, "big", signed=True)


def _exceptions(found: Mapping[int, str]) -> bytes:
    return pack(">i", len(found)) + b"".join(pack(">i", code) + _text(text) for code, text in found.items())


def _text(text: str) -> bytes:
    data = text.encode()
    return pack(">i", len(data)) + data


class _Values:
    """The `values` section, which rows refer to."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._num_bytes = 0

    def add(self, data: bytes) -> int:
        """Append data and return its start."""
        start = self._num_bytes
        self._parts.append(data)
        self._num_bytes += len(data)
        return start

    def encoded(self) -> bytes:
        return b"".join(self._parts)


class _Texts:
    """The distinct texts of each column."""

    def __init__(self) -> None:
        self._arrays: list[pa.StringArray] = []
        self._count = 0

    def positions(self, values: pa.StringArray) -> Array:
        """Add texts and return their positions."""
        encoded: Any = pc.dictionary_encode(values)
        found = np.frombuffer(encoded.indices.buffers()[1], np.int32, len(values)) if len(values) else np.empty(0, np.int32)
        positions = (found + np.int32(self._count)).astype(_POSITION)
        self._arrays.append(encoded.dictionary)
        self._count += len(encoded.dictionary)
        return positions

    def encoded(self) -> bytes:
        if not self._arrays:
            return b""
        return pack(">i", self._count) + b"".join(map(_lengths_and_data, self._arrays))


def _lengths_and_data(texts: pa.StringArray) -> bytes:
    """Return length:int32 and UTF-8 of each text, in order."""
    offsets, data = binary_buffers(texts)
    count = len(texts)
    starts = offsets[:-1].astype(np.int64) + 4 * np.arange(count)
    out = np.empty(4 * count + len(data), np.uint8)
    is_length = np.zeros(len(out), bool)
    places = starts[:, np.newaxis] + np.arange(4)
    is_length[places] = True
    out[places] = np.diff(offsets).astype(_POSITION).view(np.uint8).reshape(count, 4)
    out[~is_length] = data
    return out.tobytes()
