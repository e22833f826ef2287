"""Clients of a cluster's HTTP interfaces; they start without the engine. This is also a module of DB-API 2.0 (PEP 249)."""

from typing import Any

from gamay.client.broker import SQL_PATH, BrokerClient, options_of
from gamay.client.connection import Connection
from gamay.client.controller import ControllerClient
from gamay.client.cursor import Cursor
from gamay.client.errors import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from gamay.client.results import QueryStatistics, ResultSet, ResultSetGroup
from gamay.client.statement import PreparedStatement
from gamay.client.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    Binary,
    Date,
    DateFromTicks,
    Time,
    TimeFromTicks,
    Timestamp,
    TimestampFromTicks,
)

apilevel = "2.0"
threadsafety = 2  # threads may share connections, but not cursors
paramstyle = "pyformat"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "BrokerClient",
    "Connection",
    "ControllerClient",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "PreparedStatement",
    "ProgrammingError",
    "QueryStatistics",
    "ResultSet",
    "ResultSetGroup",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]


# what users of pinotdb call settings, and what needs none here: values have their types, and nothing is printed
_RENAMED = {"username": "user", "verify_ssl": "verify", "timeout": "timeout_s", "query_options": "options"}
_NEEDLESS = ("debug", "preserve_types")


def connect(
    host: str = "localhost",
    port: int | None = 8099,
    path: str = SQL_PATH,
    scheme: str = "http",
    *,
    controller: str | None = None,
    **settings: Any,
) -> Connection:
    """Return a connection to a broker, or, given the URL of a controller, to the brokers that it knows.

    host: may be a URL, which then says scheme and port itself. path: where the broker takes SQL. settings: the fields of
    `gamay.client.connection.Settings`; also by pinotdb's names `username`, `verify_ssl`, `timeout`, `query_options`,
    `use_multistage_engine` and `extra_request_headers`, and `debug` and `preserve_types`, which do nothing: so pinotdb's
    dialect of SQLAlchemy works with this module.
    """
    settings = {_RENAMED.get(name, name): value for name, value in settings.items() if name not in _NEEDLESS}
    settings.setdefault("sql_path", path)
    if str(settings.pop("use_multistage_engine", False)).lower() == "true":
        settings["options"] = {**options_of(settings.get("options")), "useMultistageEngine": True}
    if headers := settings.pop("extra_request_headers", ""):
        settings["headers"] = {**settings.get("headers", {}), **_headers(headers)}
    if controller is not None:
        return Connection.from_controller(controller, **settings)
    return Connection.from_host_list(_address(host, port), scheme=scheme, **settings)


def _headers(text: str) -> dict[str, str]:
    """Return headers written as `name=value,name2=value2`. Raises InterfaceError."""
    parts = [part.partition("=") for part in text.split(",")]
    if not all(name.strip() and equals for name, equals, _ in parts):
        raise InterfaceError(f"extra_request_headers={text!r} must be written name=value,name2=value2")
    return {name.strip(): value.strip() for name, _, value in parts}


def _address(host: str, port: int | None) -> str:
    if "/" in host or port is None:
        return host
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
