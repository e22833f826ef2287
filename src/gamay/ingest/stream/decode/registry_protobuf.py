"""Protobuf messages prefixed with the id of a schema in a registry (`pip install gamay[protobuf]`).

The zero byte and the id are followed by the path of the message type: the number of steps, then the steps, each the index
of a type in the file or in the enclosing type, all as zigzag varints; a single zero byte stands for the first type. The
registry returns types as serialized file descriptors (`?format=serialized`), with references to the files they import.
"""

import base64
import binascii
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gamay.base.errors import InvalidConfigError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.protobuf_decoder import reader_of
from gamay.ingest.stream.decode.records import decode_each
from gamay.ingest.stream.decode.registry import (
    PREFIX_BYTES,
    RegistryClient,
    SchemaCache,
    UnknownSchemaError,
    schema_ids,
)
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch

Reader: TypeAlias = Callable[[bytes], Mapping[str, Any]]
_STEPS_MAX = 100  # limit on the nesting of types


class RegistryProtobufDecoder:
    """A `MessageDecoder` of messages whose types are in a registry. Fields are read as in `ProtobufDecoder`."""

    def __init__(self, config: StreamConfig, fields: InputFields) -> None:
        """Raises InvalidConfigError if the registry's address is not configured or the package protobuf is missing."""
        try:
            importlib.import_module("google.protobuf.descriptor_pb2")
        except ImportError:
            raise InvalidConfigError("the Protobuf decoder needs protobuf: pip install 'gamay[protobuf]'") from None
        self._fields = fields
        self._registry = RegistryClient(config)
        self._files: SchemaCache[_File] = SchemaCache(config)

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return a row for each message that is of its type; see `MessageDecoder.decode`.

        Raises TransientStreamError and PermanentStreamError for failures of the registry.
        """
        files = {number: self._file(number) for number in np.unique(schema_ids(messages)).tolist() if number >= 0}

        def read(payload: bytes) -> Mapping[str, Any]:
            if len(payload) < PREFIX_BYTES or payload[0]:
                raise UnknownSchemaError("it does not begin with a zero byte and the id of a schema")
            file = files[int.from_bytes(payload[1:PREFIX_BYTES], "big")]
            if isinstance(file, UnknownSchemaError):
                raise file
            steps, start = _steps(payload)
            return file.reader(steps, self._fields)(payload[start:])

        return decode_each(messages, self._fields, read, "a Protobuf message of the registry")

    def _file(self, number: int) -> "_File | UnknownSchemaError":
        made = self._files.get(number)
        if made is not None:
            return made
        try:
            found = self._registry.schema(number, serialized=True)
            if found.get("schemaType") != "PROTOBUF":
                raise UnknownSchemaError(f"schema {number} of the registry is not Protobuf")
            return self._files.put(number, _File(found, self._registry))
        except UnknownSchemaError as error:
            return error


class _File:
    """The message types of one schema. Raises UnknownSchemaError, and the registry's errors for referenced schemas."""

    def __init__(self, found: Mapping[str, Any], registry: RegistryClient) -> None:
        from google.protobuf import descriptor_pool

        self._pool = descriptor_pool.DescriptorPool()
        self._readers: dict[tuple[int, ...], Reader] = {}
        self._added: set[str] = set()
        self._file = self._add(found, registry, None)

    def _add(self, found: Mapping[str, Any], registry: RegistryClient, name: str | None) -> Any:
        """Add a file after those it imports. name: the name by which others import it."""
        from google.protobuf import descriptor_pb2, message

        try:
            file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(str(found["schema"]), validate=True))
        except (KeyError, binascii.Error, message.DecodeError) as error:
            raise UnknownSchemaError(f"the registry gives no serialized file descriptor: {error}") from error
        file.name = name or file.name or "schema.proto"
        if file.name not in self._added:
            self._added.add(file.name)
            for reference in found.get("references") or ():
                try:
                    imported, subject, version = reference["name"], reference["subject"], int(reference["version"])
                except (KeyError, TypeError, ValueError):
                    raise UnknownSchemaError(f"the registry's reference {reference} names no version") from None
                self._add(registry.version(subject, version, serialized=True), registry, imported)
            for imported in file.dependency:
                if imported not in self._added:
                    self._add_well_known(imported)
            try:
                self._pool.Add(file)
            except TypeError as error:
                raise UnknownSchemaError(f"the registry's file descriptor cannot be used: {error}") from error
        return self._pool.FindFileByName(file.name)

    def _add_well_known(self, name: str) -> None:
        """Add a file that is part of Protobuf, such as `google/protobuf/timestamp.proto`."""
        from google.protobuf import descriptor_pb2

        try:
            module = importlib.import_module(name.removesuffix(".proto").replace("/", ".") + "_pb2")
        except ImportError:
            raise UnknownSchemaError(f"the schema imports '{name}', which the registry does not refer to") from None
        file = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
        self._added.add(name)
        for imported in file.dependency:
            if imported not in self._added:
                self._add_well_known(imported)
        self._pool.Add(file)

    def reader(self, steps: tuple[int, ...], fields: InputFields) -> Reader:
        """Return the reader of messages of the type at a path. Raises UnknownSchemaError."""
        made = self._readers.get(steps)
        if made is None:
            from google.protobuf import message_factory

            found = _type_at(self._pool, self._file, steps)
            made = self._readers[steps] = reader_of(message_factory.GetMessageClass(found), fields)
        return made


def _type_at(pool: Any, file: Any, steps: Sequence[int]) -> Any:
    """Return the descriptor of the type at a path, by the order of declarations in the file."""
    from google.protobuf import descriptor_pb2

    declared = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
    name, types = declared.package, declared.message_type
    for step in steps:
        if not 0 <= step < len(types):
            raise UnknownSchemaError(f"the schema has no message type at {list(steps)}")
        name, types = f"{name}.{types[step].name}".strip("."), types[step].nested_type
    return pool.FindMessageTypeByName(name)


def _steps(payload: bytes) -> tuple[tuple[int, ...], int]:
    """Return the path of a message's type, and the position at which the message starts."""
    count, at = _varint(payload, PREFIX_BYTES)
    if count == 0:
        return (0,), at
    if not 0 < count <= _STEPS_MAX:
        raise UnknownSchemaError(f"the place of its type has {count} steps")
    steps = []
    for _ in range(count):
        step, at = _varint(payload, at)
        steps.append(step)
    return tuple(steps), at


def _varint(payload: bytes, at: int) -> tuple[int, int]:
    """Read a zigzag varint of up to 5 bytes; return its value and the position after it."""
    value = 0
    for shift in range(0, 35, 7):
        if at >= len(payload):
            break
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
    raise UnknownSchemaError("the place of its type is cut off")
