"""JSON messages in the formats of the property `jsonFormat`: text, or a binary encoding."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError, nearest
from gamay.ingest.convert.objects import plain_value
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.json_decoder import JsonDecoder
from gamay.ingest.stream.decode.properties import REGISTRY_PROPERTIES, check_properties
from gamay.ingest.stream.decode.records import decode_each, merged
from gamay.ingest.stream.decode.registry import stripped
from gamay.ingest.stream.decode.smile import HEADER as SMILE_HEADER
from gamay.ingest.stream.decode.smile import read_smile
from gamay.ingest.stream.decode.sqlite_jsonb import OBJECT, header, read_sqlite_jsonb
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch

Read: TypeAlias = Callable[[bytes], Any]

_POSTGRES_VERSION = b"\x01"
_CBOR_TAG = b"\xd9\xd9\xf7"
_NO_VERSION = "not PostgreSQL's JSONB: there is no version 1 before the text"
_NO_CBOR = "CBOR needs cbor2: pip install 'gamay[cbor]'"


class JsonFormatDecoder:
    """A `MessageDecoder` of JSON objects.

    jsonFormat: TEXT; POSTGRES_JSONB (a byte 1, then text, as PostgreSQL sends it); SQLITE_JSONB; SMILE; CBOR; AUTO detects
    the format by the first bytes of each message (CBOR by its tag 55799) and defaults to text.
    """

    def __init__(self, config: StreamConfig, fields: InputFields) -> None:
        """Raises InvalidConfigError for unknown properties and formats, and if the format's library is not installed."""
        check_properties(config, "jsonFormat", *REGISTRY_PROPERTIES)
        form = config.decoder_properties.get("jsonFormat", "TEXT").strip().upper()
        key = config.property_key("decoder.prop.jsonFormat")
        if form not in _FORMATS:
            raise InvalidConfigError(
                f"{key}: '{form}' is not a format of JSON; it must be one of {', '.join(_FORMATS)}.{nearest(form, _FORMATS)}"
            )
        if form == "CBOR" and _cbor() is None:
            raise InvalidConfigError(f"{key}: {_NO_CBOR}")
        self._fields = fields
        self._text = JsonDecoder(fields)
        self._decode = _FORMATS[form]

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return a row for each message that is an object; see `MessageDecoder.decode`."""
        return self._decode(self, messages)

    def decode_text(self, messages: MessageBatch) -> DecodedBatch:
        """Decode messages of JSON text."""
        return self._text.decode(messages)

    def decode_postgres(self, messages: MessageBatch) -> DecodedBatch:
        """Decode messages of JSON text after a version byte."""
        has_version = pc.starts_with(messages.payloads, _POSTGRES_VERSION)
        texts = stripped(messages, 1).payloads
        if pc.all(has_version).as_py():
            return self._text.decode(messages.with_payloads(texts))
        decoded = self._text.decode(messages.with_payloads(pc.if_else(has_version, texts, b"")))
        told = [bad if has_version[bad.message].as_py() else replace(bad, reason=_NO_VERSION) for bad in decoded.undecodable]
        return replace(decoded, undecodable=told)

    def decode_binary(self, messages: MessageBatch, read: Read, what: str) -> DecodedBatch:
        """Decode messages one by one."""
        return decode_each(messages, self._fields, lambda payload: _object(read(payload)), what)

    def decode_any(self, messages: MessageBatch) -> DecodedBatch:
        """Decode messages by their first bytes; all text messages in one batch."""
        is_postgres = pc.starts_with(messages.payloads, _POSTGRES_VERSION)
        if pc.any(is_postgres).as_py():
            texts = pc.if_else(is_postgres, stripped(messages, 1).payloads, messages.payloads)
            messages = messages.with_payloads(texts)
        payloads = messages.payloads.to_pylist()
        is_binary = np.array([data is not None and _binary_reader(data) is not None for data in payloads], np.bool_)
        if not is_binary.any():
            return self.decode_text(messages)
        places, binary = np.flatnonzero(is_binary), messages.where(is_binary)
        decoded = self.decode_binary(binary, _read_binary, "an object of binary JSON")
        text = self.decode_text(messages.where(~is_binary))
        return merged(text, np.flatnonzero(~is_binary), decoded, places, self._fields)


def _object(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"it is {str(value)[:80]!r}")
    return value


def _cbor() -> Any:
    try:
        import cbor2
    except ImportError:
        return None
    return cbor2


def read_cbor(data: bytes) -> Any:
    """Return the value of a message; raises ValueError unless it is exactly one value."""
    library = _cbor()
    if library is None:
        raise ValueError(_NO_CBOR)
    return plain_value(library.loads(data), lambda value: None if value is library.undefined else str(value))


def _binary_reader(data: bytes) -> Read | None:
    """Return the reader for a message that begins as one of the binary formats, else None."""
    if data.startswith(SMILE_HEADER):
        return read_smile
    if data.startswith(_CBOR_TAG):
        return read_cbor
    try:
        kind, _, end = header(data, 0, len(data))
    except ValueError:
        return None
    return read_sqlite_jsonb if kind == OBJECT and end == len(data) else None


def _read_binary(data: bytes) -> Any:
    read = _binary_reader(data)
    assert read is not None
    return read(data)


_FORMATS: Mapping[str, Callable[[JsonFormatDecoder, MessageBatch], DecodedBatch]] = {
    "TEXT": JsonFormatDecoder.decode_text,
    "AUTO": JsonFormatDecoder.decode_any,
    "POSTGRES_JSONB": JsonFormatDecoder.decode_postgres,
    "SQLITE_JSONB": lambda decoder, messages: decoder.decode_binary(
        messages, read_sqlite_jsonb, "an object in SQLite's JSONB"
    ),
    "SMILE": lambda decoder, messages: decoder.decode_binary(messages, read_smile, "an object in Smile"),
    "CBOR": lambda decoder, messages: decoder.decode_binary(messages, read_cbor, "an object in CBOR"),
}
