"""Clients of a cluster's HTTP interfaces; they start without the engine. This is also a module of DB-API 2.0 (PEP 249)."""

from typing import Any

from gamay.client.broker import SQL_PATH, BrokerClient
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


# what users of pinotdb call settings
_RENAMED = {"username": "user", "verify_ssl": "verify", "timeout": "timeout_s", "query_options": "options"}


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
    `gamay.client.connection.Settings`; also by pinotdb's names `username`, `verify_ssl`, `timeout`, `query_options`, and
    `debug`, which does nothing here: so pinotdb's dialect of SQLAlchemy works with this module.
    """
    settings = {_RENAMED.get(name, name): value for name, value in settings.items() if name != "debug"}
    settings.setdefault("sql_path", path)
    if controller is not None:
        return Connection.from_controller(controller, **settings)
    return Connection.from_host_list(_address(host, port), scheme=scheme, **settings)


def _address(host: str, port: int | None) -> str:
    if "/" in host or port is None:
        return host
    return f"[{host}]:{port}" if ":" in host and not host.startswith("[") else f"{host}:{port}"
