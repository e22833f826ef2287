"""Decoding of Avro records with flat fields only directly into columns."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.ingest.stream.decode.records import records_to_rows
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch, Undecodable
from gamay.kernels.encode import avro as kernel

_KINDS = {
    "null": kernel.NULL, "boolean": kernel.BOOLEAN, "int": kernel.INTEGER, "long": kernel.INTEGER, "float": kernel.FLOAT,
    "double": kernel.DOUBLE, "bytes": kernel.BYTES, "string": kernel.BYTES, "fixed": kernel.FIXED, "enum": kernel.ENUM,
}  # fmt: skip
_TIMES = {
    "timestamp-millis": pa.timestamp("ms", "UTC"), "timestamp-micros": pa.timestamp("us", "UTC"),
    "timestamp-nanos": pa.timestamp("ns", "UTC"), "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"), "local-timestamp-nanos": pa.timestamp("ns"),
    "date": pa.date32(), "time-millis": pa.time32("ms"), "time-micros": pa.time64("us"),
}  # fmt: skip
_REASONS = {
    kernel.CUT_OFF: "it ends within the record",
    kernel.TRAILING: "there are bytes behind the record",
    kernel.INVALID: "it holds a value that its schema does not have",
}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    kind: int
    size: int
    null_branch: int
    arrow_type: pa.DataType
    symbols: tuple[str, ...]


class AvroColumns:
    """A decoder of messages of one flat schema."""

    def __init__(self, fields: list[_Field], wanted: InputFields) -> None:
        self._fields = fields
        self._wanted = wanted
        self._slots = np.full(len(fields), -1, np.int64)
        self._rows = {"longs": 0, "reals": 0}
        for at, field in enumerate(fields):
            if wanted.wants(field.name) and field.kind != kernel.NULL:
                into = "reals" if field.kind in (kernel.FLOAT, kernel.DOUBLE) else "longs"
                self._slots[at] = self._rows[into]
                self._rows[into] += 1

    @classmethod
    def of(cls, schema: Any, wanted: InputFields) -> "AvroColumns | None":
        """Return a decoder for a schema (parsed JSON), or None if it is not a record or has fields that are not flat."""
        if not isinstance(schema, Mapping) or schema.get("type") != "record":
            return None
        fields = [_flat(field) for field in schema["fields"]]
        found = [field for field in fields if field is not None]
        return cls(found, wanted) if len(found) == len(fields) else None

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return the rows; tombstones have none."""
        payloads = messages.payloads
        places = np.arange(len(payloads), dtype=np.int64)
        if payloads.null_count:
            valid = payloads.is_valid()
            places, payloads = places[np.asarray(valid)], payloads.filter(valid)
        n = len(payloads)
        if not n:
            return DecodedBatch(records_to_rows([], self._wanted), places)
        offsets = np.frombuffer(payloads.buffers()[1], np.int32, n + 1, 4 * payloads.offset)
        values = payloads.buffers()[2]
        data = np.frombuffer(values, np.uint8) if values is not None and values.size else np.zeros(1, np.uint8)
        longs, starts = np.zeros((2, self._rows["longs"], n), np.int64)
        reals = np.zeros((self._rows["reals"], n), np.uint64)
        nulls, status = np.zeros((len(self._fields), n), np.uint8), np.zeros(n, np.uint8)
        kernel.decode(
            data, offsets, np.array([f.kind for f in self._fields], np.int64),
            np.array([f.size for f in self._fields], np.int64), np.array([f.null_branch for f in self._fields], np.int64),
            self._slots, longs, reals, starts, nulls, status,
        )  # fmt: skip
        good = status == kernel.DECODED
        reasons = {int(i): _REASONS[int(status[i])] for i in np.flatnonzero(~good)}
        columns: dict[str, pa.Array] = {}
        for at, field in enumerate(self._fields):
            if self._wanted.wants(field.name):
                slot = int(self._slots[at])
                null = nulls[at].view(np.bool_) | ~good
                if field.kind in (kernel.BYTES, kernel.FIXED):
                    column, bad = _bytes(field, data, starts[slot], longs[slot], null)
                    reasons |= dict.fromkeys(bad, f"the field '{field.name}' is not UTF-8")
                    columns[field.name] = column
                else:
                    columns[field.name] = _numbers(field, longs, reals, slot, null)
        return self._result(columns, places, reasons)

    def _result(self, columns: dict[str, pa.Array], places: Any, reasons: dict[int, str]) -> DecodedBatch:
        n = len(places)
        rows = (
            pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
            if columns
            else records_to_rows([{}] * n, self._wanted)
        )
        if not reasons:
            return DecodedBatch(rows, places)
        good = np.ones(n, np.bool_)
        good[list(reasons)] = False
        bad = [Undecodable(int(places[i]), f"not an Avro record of its schema: {reasons[i]}") for i in sorted(reasons)]
        return DecodedBatch(rows.filter(pa.array(good)), places[good], bad)


def _flat(field: Mapping[str, Any]) -> _Field | None:
    """Return a field of a primitive type, an enum, a fixed, or a union of one of these with null; else None."""
    kind, null_branch = field["type"], -1
    if isinstance(kind, list):
        if len(kind) != 2 or kind.count("null") != 1:
            return None
        null_branch = kind.index("null")
        kind = kind[1 - null_branch]
    properties: Mapping[str, Any] = kind if isinstance(kind, Mapping) else {}
    name = properties.get("type", kind)
    if not isinstance(name, str) or name not in _KINDS or properties.get("logicalType") == "decimal":
        return None
    symbols = tuple(properties.get("symbols", ()))
    size = len(symbols) if name == "enum" else int(properties.get("size", 0))
    return _Field(field["name"], _KINDS[name], size, null_branch, _arrow_type(name, properties), symbols)


def _arrow_type(name: str, properties: Mapping[str, Any]) -> pa.DataType:
    if name in ("int", "long"):
        width = pa.int32() if name == "int" else pa.int64()
        time = _TIMES.get(str(properties.get("logicalType")))
        return time if time is not None and time.bit_width == width.bit_width else width
    return {
        "null": pa.null(), "boolean": pa.bool_(), "float": pa.float32(), "double": pa.float64(), "bytes": pa.binary(),
        "fixed": pa.binary(), "string": pa.string(), "enum": pa.string(),
    }[name]  # fmt: skip


def _numbers(field: _Field, longs: Any, reals: Any, slot: int, null: Any) -> pa.Array:
    if field.kind == kernel.NULL:
        return pa.nulls(len(null))
    if field.kind == kernel.DOUBLE:
        return pa.array(reals[slot].view(np.float64), mask=null)
    if field.kind == kernel.FLOAT:
        return pa.array(reals[slot].astype(np.uint32).view(np.float32), mask=null)
    if field.kind == kernel.BOOLEAN:
        return pa.array(longs[slot].astype(np.bool_), mask=null)
    if field.kind == kernel.ENUM:
        return pa.array(field.symbols, pa.string()).take(pa.array(longs[slot], mask=null))
    if field.arrow_type.bit_width == 32:
        return pa.array(longs[slot].astype(np.int32), mask=null).cast(field.arrow_type)
    return pa.array(longs[slot], mask=null).cast(field.arrow_type)


def _bytes(field: _Field, data: Any, starts: Any, lengths: Any, null: Any) -> tuple[pa.Array, list[int]]:
    """Return a column of text or bytes, and the positions of texts that are not UTF-8 (null in the column)."""
    offsets = np.zeros(len(null) + 1, np.int32)
    np.cumsum(np.where(null, 0, lengths), out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    kernel.gather(data, starts, offsets, out)
    validity = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    raw = pa.Array.from_buffers(pa.binary(), len(null), [validity, pa.py_buffer(offsets), pa.py_buffer(out)])
    if not pa.types.is_string(field.arrow_type):
        return raw, []
    try:
        return raw.cast(pa.string()), []
    except pa.ArrowInvalid:
        texts = [_text_or_none(value) for value in raw.to_pylist()]
        bad = [i for i, text in enumerate(texts) if text is None and not null[i]]
        return pa.array(texts, pa.string()), bad


def _text_or_none(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None
