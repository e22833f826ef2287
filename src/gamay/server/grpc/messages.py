"""The two messages of Pinot's `server.proto`, as Protobuf classes created from descriptors.

service PinotQueryServer { rpc Submit(ServerRequest) returns (stream ServerResponse); }
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE = "org.apache.pinot.common.proto"
SERVICE, METHOD = f"{_PACKAGE}.PinotQueryServer", "Submit"

# keys of their metadata, and values
STREAMING, PAYLOAD_TYPE, AUTHORIZATION, REQUEST_ID = "enableStreaming", "payloadType", "authorization", "requestId"
SQL = "sql"
RESPONSE_TYPE = "responseType"
DATA, METADATA, WHOLE = "data", "metadata", "nonStreaming"


def _file() -> Any:
    file = descriptor_pb2.FileDescriptorProto(name="gamay/pinot_server.proto", package=_PACKAGE, syntax="proto3")
    request, response = file.message_type.add(name="ServerRequest"), file.message_type.add(name="ServerResponse")
    for message in (request, response):
        entry = message.nested_type.add(name="MetadataEntry")
        entry.options.map_entry = True
        for number, name in enumerate(("key", "value"), 1):
            _add(entry, number, name, "STRING")
        field = _add(message, 1, "metadata", "MESSAGE", repeated=True)
        field.type_name = f".{_PACKAGE}.{message.name}.MetadataEntry"
    _add(request, 2, "sql", "STRING")
    _add(request, 3, "segments", "STRING", repeated=True)
    _add(request, 4, "payload", "BYTES")
    _add(response, 2, "payload", "BYTES")
    return file


def _add(message: Any, number: int, name: str, kind: str, *, repeated: bool = False) -> Any:
    field = message.field.add(name=name, number=number)
    field.type = getattr(field, f"TYPE_{kind}")
    field.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
    return field


_pool = descriptor_pool.DescriptorPool()  # separate: a client in this process may use the file in the default one
_pool.Add(_file())
ServerRequest: Any = message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.ServerRequest"))
ServerResponse: Any = message_factory.GetMessageClass(_pool.FindMessageTypeByName(f"{_PACKAGE}.ServerResponse"))
