"""Avro messages: one record each, of a schema given in the config or identified by an id at the start of the message."""

import io
import json
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias
from uuid import UUID

import fastavro
import numpy as np

from gamay.base.errors import InvalidConfigError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.avro_columns import AvroColumns
from gamay.ingest.stream.decode.properties import check_properties
from gamay.ingest.stream.decode.records import decode_each, joined, not_a
from gamay.ingest.stream.decode.registry import (
    PREFIX_BYTES,
    RegistryClient,
    SchemaCache,
    UnknownSchemaError,
    schema_ids,
    stripped,
)
from gamay.ingest.stream.named import schema_file
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch

DecodeBatch: TypeAlias = Callable[[MessageBatch], DecodedBatch]


class AvroDecoder:
    """A `MessageDecoder` of records of one schema, given by the property `schema` inline or as a file path.

    leading.bytes.to.strip: the number of bytes before each record.
    """

    def __init__(self, config: StreamConfig, fields: InputFields) -> None:
        """Raises InvalidConfigError naming the missing or invalid property."""
        check_properties(config, "schema", "leading.bytes.to.strip")
        key = config.property_key("decoder.prop.schema")
        text = config.decoder_properties.get("schema", "").strip()
        if not text:
            raise InvalidConfigError(f"{key} is required: an Avro schema in JSON, or the path of a file with one")
        if (file := schema_file(config)) is not None:
            try:
                text = Path(file).read_text(encoding="utf-8")
            except (OSError, ValueError) as error:
                raise InvalidConfigError(f"{key}: the file '{file}' cannot be read: {error}") from error
        strip = config.decoder_properties.get("leading.bytes.to.strip", "0")
        if not strip.isdigit():
            raise InvalidConfigError(
                f"{config.property_key('decoder.prop.leading.bytes.to.strip')}: '{strip}' is not a whole number"
            )
        self._strip = int(strip)
        try:
            self._decode = _decoder_of(text, fields)
        except _BadSchemaError as error:
            raise InvalidConfigError(f"{key}: {error}") from error

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return a row for each message that is a record; see `MessageDecoder.decode`."""
        return self._decode(stripped(messages, self._strip))


class RegistryAvroDecoder:
    """A `MessageDecoder` of records prefixed with the id of their schema in a registry."""

    def __init__(self, config: StreamConfig, fields: InputFields) -> None:
        self._fields = fields
        self._registry = RegistryClient(config)
        self._decoders: SchemaCache[DecodeBatch] = SchemaCache(config)

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return a row for each record. Consecutive messages of one schema are decoded together."""
        ids = schema_ids(messages)
        bounds = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(messages)]
        parts = []
        for start, stop in pairwise(bounds):
            run = messages.part(start, stop)
            parts.append(self._decode_run(run, int(ids[start]) if stop > start else -1))
        return parts[0] if len(parts) == 1 else joined(parts, bounds[:-1], self._fields)

    def _decode_run(self, run: MessageBatch, number: int) -> DecodedBatch:
        try:
            decode = self._decoder(number)
        except UnknownSchemaError as error:
            return decode_each(run, self._fields, _refusing(str(error)), "an Avro record")
        return decode(stripped(run, PREFIX_BYTES))

    def _decoder(self, number: int) -> DecodeBatch:
        if number < 0:
            raise UnknownSchemaError("it does not begin with a zero byte and the id of a schema")
        made = self._decoders.get(number)
        if made is not None:
            return made
        found = self._registry.schema(number)
        if found.get("schemaType", "AVRO") != "AVRO" or found.get("references"):
            raise UnknownSchemaError(f"schema {number} of the registry is not Avro alone")
        try:
            return self._decoders.put(number, _decoder_of(str(found["schema"]), self._fields))
        except _BadSchemaError as error:
            raise UnknownSchemaError(f"schema {number} of the registry: {error}") from error


class _BadSchemaError(Exception):
    """The text is not an Avro schema of a record."""


def _refusing(reason: str) -> Callable[[bytes], Mapping[str, Any] | None]:
    def refuse(_: bytes) -> Mapping[str, Any] | None:
        raise ValueError(reason)

    return refuse


def _decoder_of(text: str, fields: InputFields) -> DecodeBatch:
    try:
        document = json.loads(text)
        schema = fastavro.parse_schema(document)
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise _BadSchemaError(not_a("an Avro schema", error)) from error
    if not isinstance(document, dict) or document.get("type") != "record":
        raise _BadSchemaError("the schema must be of a record")
    columns = AvroColumns.of(document, fields)
    if columns is not None:
        return columns.decode

    def decode_one(payload: bytes) -> Mapping[str, Any]:
        source = io.BytesIO(payload)
        record: Mapping[str, Any] = fastavro.schemaless_reader(source, schema, None)  # type: ignore[assignment]
        if source.tell() != len(payload):
            raise ValueError("there are bytes behind the record")
        return {name: _plain(value) for name, value in record.items() if fields.wants(name)}

    return lambda messages: decode_each(messages, fields, decode_one, "an Avro record of its schema")


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, UUID) else value
