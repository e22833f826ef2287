"""Protobuf messages of a type that a descriptor file describes (`pip install gamay[protobuf]`)."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from gamay.base.errors import InvalidConfigError
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.decode.properties import check_properties
from gamay.ingest.stream.decode.records import decode_each
from gamay.ingest.stream.spi import DecodedBatch, InputFields, MessageBatch

Getter: TypeAlias = Callable[[Any], Any]

_MESSAGE_TYPES = (10, 11)  # FieldDescriptor.TYPE_GROUP, TYPE_MESSAGE
_ENUM_TYPE = 14


class ProtobufDecoder:
    """A `MessageDecoder` of one message type.

    descriptorFile: the path of a FileDescriptorSet (`protoc --include_imports --descriptor_set_out`); protoClassName: the
    full name of the message type. Fields keep their names; enum values are their names, nested messages are objects. An
    unset field is null if it has presence, else its default.
    """

    def __init__(self, config: StreamConfig, fields: InputFields) -> None:
        """Raises InvalidConfigError naming the missing or invalid property."""
        check_properties(config, "descriptorFile", "protoClassName")
        where = config.property_key("decoder.prop.")
        path, name = (config.decoder_properties.get(key, "").strip() for key in ("descriptorFile", "protoClassName"))
        if not path or not name:
            raise InvalidConfigError(f"{where}descriptorFile and {where}protoClassName are both required")
        self._fields = fields
        self._type = _message_type(path, name, where)
        self._record = reader_of(self._type, fields)

    def decode(self, messages: MessageBatch) -> DecodedBatch:
        """Return a row for each message that is of the type; see `MessageDecoder.decode`."""
        return decode_each(messages, self._fields, self._record, f"a message of type {self._type.DESCRIPTOR.full_name}")


def reader_of(message_type: Any, fields: InputFields) -> Callable[[bytes], Mapping[str, Any]]:
    """Return a function that reads the wanted fields of a message of a generated class."""
    getters = [(field.name, _getter(field)) for field in message_type.DESCRIPTOR.fields if fields.wants(field.name)]

    def read(payload: bytes) -> Mapping[str, Any]:
        message = message_type.FromString(payload)
        return {name: get(message) for name, get in getters}

    return read


def _message_type(path: str, name: str, where: str) -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
    except ImportError:
        raise InvalidConfigError("the Protobuf decoder needs protobuf: pip install 'gamay[protobuf]'") from None
    file_set = descriptor_pb2.FileDescriptorSet()
    try:
        file_set.ParseFromString(Path(path.removeprefix("file://")).read_bytes())
        pool = descriptor_pool.DescriptorPool()
        for file in file_set.file:
            pool.Add(file)
        return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
    except (OSError, ValueError, message.DecodeError, TypeError) as error:
        raise InvalidConfigError(f"{where}descriptorFile: '{path}' is not a set of file descriptors: {error}") from error
    except KeyError:
        known = ", ".join(f"{f.package}.{m.name}".strip(".") for f in file_set.file for m in f.message_type)
        raise InvalidConfigError(f"{where}protoClassName: there is no message type '{name}'; known are {known}") from None


def _getter(field: Any) -> Getter:
    name, convert = field.name, _converter(field)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        value = _converter(field.message_type.fields_by_name["value"])
        return lambda m: {str(k): value(v) for k, v in getattr(m, name).items()}
    if _is_repeated(field):
        return lambda m: [convert(value) for value in getattr(m, name)]
    if field.has_presence:
        return lambda m: convert(getattr(m, name)) if m.HasField(name) else None
    return lambda m: convert(getattr(m, name))


def _is_repeated(field: Any) -> bool:
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)


def _converter(field: Any) -> Getter:
    if field.type in _MESSAGE_TYPES:
        getters: list[tuple[str, Getter]] = []

        def nested(message: Any) -> dict[str, Any]:
            if not getters:  # lazily, for recursive types
                getters.extend((f.name, _getter(f)) for f in message.DESCRIPTOR.fields)
            return {name: get(message) for name, get in getters}

        return nested
    if field.type == _ENUM_TYPE:
        names = {number: value.name for number, value in field.enum_type.values_by_number.items()}
        return lambda number: names.get(number, str(number))
    return lambda value: value
