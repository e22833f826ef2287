"""The messages of Flight SQL, as Protobuf classes.

They are declared here by name, number and type, as in the protocol (Arrow's `FlightSql.proto` and `Flight.proto`). Fields
that Gamay never reads, such as those of transactions, are left out, and Protobuf skips them.
"""

from typing import Any

from gamay.base.errors import InvalidConfigError

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message, message_factory
    from google.protobuf.any_pb2 import Any as AnyMessage
except ImportError as error:  # pragma: no cover - depends on what is installed
    raise InvalidConfigError("Flight SQL needs Protobuf: pip install 'gamay[flight]'") from error

SQL_PACKAGE = "arrow.flight.protocol.sql"
_URL = "type.googleapis.com/"

# message -> fields, each as number, name, type; `?` after the type: optional with presence; `*`: repeated
_MESSAGES: dict[str, str] = {
    "CommandGetSqlInfo": "1 info uint32*",
    "CommandGetXdbcTypeInfo": "1 data_type int32?",
    "CommandGetCatalogs": "",
    "CommandGetDbSchemas": "1 catalog string?, 2 db_schema_filter_pattern string?",
    "CommandGetTables": (
        "1 catalog string?, 2 db_schema_filter_pattern string?, 3 table_name_filter_pattern string?, "
        "4 table_types string*, 5 include_schema bool"
    ),
    "CommandGetTableTypes": "",
    "CommandGetPrimaryKeys": "1 catalog string?, 2 db_schema string?, 3 table string",
    "CommandGetExportedKeys": "1 catalog string?, 2 db_schema string?, 3 table string",
    "CommandGetImportedKeys": "1 catalog string?, 2 db_schema string?, 3 table string",
    "CommandGetCrossReference": (
        "1 pk_catalog string?, 2 pk_db_schema string?, 3 pk_table string, "
        "4 fk_catalog string?, 5 fk_db_schema string?, 6 fk_table string"
    ),
    "ActionCreatePreparedStatementRequest": "1 query string, 2 transaction_id bytes?",
    "ActionCreatePreparedStatementResult": (
        "1 prepared_statement_handle bytes, 2 dataset_schema bytes, 3 parameter_schema bytes"
    ),
    "ActionClosePreparedStatementRequest": "1 prepared_statement_handle bytes",
    "ActionCancelQueryRequest": "1 info bytes",
    "ActionCancelQueryResult": "1 result int32",
    "CommandStatementQuery": "1 query string, 2 transaction_id bytes?",
    "CommandStatementSubstraitPlan": "2 transaction_id bytes?",
    "TicketStatementQuery": "1 statement_handle bytes",
    "CommandPreparedStatementQuery": "1 prepared_statement_handle bytes",
    "CommandStatementUpdate": "1 query string, 2 transaction_id bytes?",
    "CommandPreparedStatementUpdate": "1 prepared_statement_handle bytes",
    "CommandStatementIngest": "3 table string",
}

_FLIGHT_PACKAGE = "arrow.flight.protocol"
# `info` is a serialized FlightInfo, parsed by Arrow
_FLIGHT_MESSAGES = {"CancelFlightInfoRequest": "1 info bytes", "CancelFlightInfoResult": "1 status int32"}


def _file(package: str, messages: dict[str, str]) -> Any:
    file = descriptor_pb2.FileDescriptorProto(name=f"gamay/{package}.proto", package=package, syntax="proto3")
    for name, fields in messages.items():
        described = file.message_type.add(name=name)
        for text in fields.split(", ") if fields else ():
            number, field_name, kind = text.split()
            field = described.field.add(name=field_name, number=int(number))
            field.type = getattr(field, f"TYPE_{kind.rstrip('?*').upper()}")
            field.label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
            if kind.endswith("?"):
                field.proto3_optional = True
                field.oneof_index = len(described.oneof_decl)
                described.oneof_decl.add(name=f"_{field_name}")
    return file


# separate: a client in this process may have registered the whole protocol in the default pool
_pool = descriptor_pool.DescriptorPool()
_pool.Add(_file(SQL_PACKAGE, _MESSAGES))
_pool.Add(_file(_FLIGHT_PACKAGE, _FLIGHT_MESSAGES))


def _class(name: str) -> Any:
    return message_factory.GetMessageClass(_pool.FindMessageTypeByName(name))


_CLASSES = {name: _class(f"{SQL_PACKAGE}.{name}") for name in _MESSAGES} | {
    name: _class(f"{_FLIGHT_PACKAGE}.{name}") for name in _FLIGHT_MESSAGES
}


def new(name: str, **fields: Any) -> Any:
    """Create a message of Flight SQL."""
    return _CLASSES[name](**fields)


def read(name: str, data: bytes) -> Any:
    """Parse a message that is not wrapped. Raises InvalidConfigError."""
    found = _CLASSES[name]()
    try:
        found.ParseFromString(data)
    except message.DecodeError as error:
        raise InvalidConfigError(f"a message of kind {name} cannot be parsed: {error}") from error
    return found


def wrapped(found: Any) -> bytes:
    """Serialize a message wrapped in Protobuf's `Any`, as clients expect it."""
    name = found.DESCRIPTOR.full_name
    data: bytes = AnyMessage(type_url=f"{_URL}{name}", value=found.SerializeToString()).SerializeToString()
    return data


def unwrapped(data: bytes) -> tuple[str, Any]:
    """Return (kind, message) of data in Protobuf's `Any`; the kind is the message's name without its package.

    Raises InvalidConfigError for data that is not a message of Flight SQL, or an unknown one.
    """
    found = AnyMessage()
    try:
        found.ParseFromString(data)
    except message.DecodeError as error:
        raise InvalidConfigError(
            "this is not a command of Flight SQL; use a Flight SQL client, such as adbc-driver-flightsql"
        ) from error
    package, _, name = found.type_url.removeprefix(_URL).rpartition(".")
    if package != SQL_PACKAGE or name not in _CLASSES:
        raise InvalidConfigError(f"Gamay's Flight SQL does not know this command: '{found.type_url}'")
    return name, read(name, found.value)


def unwrapped_as(kind: str, data: bytes) -> Any:
    """Return the message of the given kind from Protobuf's `Any`. Raises InvalidConfigError for another kind."""
    name, found = unwrapped(data)
    if name != kind:
        raise InvalidConfigError(f"the body of this action must be a message of kind {kind}, not {name}")
    return found
