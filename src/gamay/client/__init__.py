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


# pinotdb's names of settings, and those without effect here: values are typed always, and nothing is printed
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
    """Return a connection to a broker or, given a controller's URL, to the brokers that it lists.

    host: a host name, or a URL that includes scheme and port. path: the broker's SQL endpoint. settings: the fields of
    `gamay.client.connection.Settings`. pinotdb's names `username`, `verify_ssl`, `timeout`, `query_options`,
    `use_multistage_engine` and `extra_request_headers` are accepted too, as are `debug` and `preserve_types`, which have no
    effect, so that pinotdb's SQLAlchemy dialect works with this module.
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
