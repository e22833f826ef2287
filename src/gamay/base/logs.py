"""The log of a process: lines for people, or one JSON object a line for machines.

    {"time": "2026-11-21T21:45:48.123Z", "level": "WARN", "role": "broker", "instance": "Broker_b1_8099",
     "logger": "gamay.queries", "message": "slow …", "requestId": "7", "table": "trips_OFFLINE"}

`requestId` and `table` are present if a line is about one: given as `extra=about(...)` of the logging call, or as a typed
table among the message's arguments. A traceback is in `exception`.
"""

import json
import logging
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from gamay.base.errors import InvalidConfigError, nearest

_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_ABOUT = "gamay_about"
_TYPES = ("_OFFLINE", "_REALTIME")
_ROLES = ("controller", "broker", "server", "minion")
_LEVELS = {"WARNING": "WARN", "CRITICAL": "FATAL"}


class LogFormat(Enum):
    """The format of log lines."""

    TEXT = "text"
    JSON = "json"

    @classmethod
    def of(cls, text: str) -> "LogFormat":
        """Read the name of a format. Raises InvalidConfigError."""
        names = [one.value for one in cls]
        if text.lower() not in names:
            raise InvalidConfigError(f"'{text}' is no format of logs, it must be text or json.{nearest(text, names)}")
        return cls(text.lower())


def about(request_id: str | int | None = None, table: str | None = None) -> dict[str, Any]:
    """Return the `extra` argument of a log call about a query or a typed table."""
    fields = {"requestId": None if request_id is None else str(request_id), "table": table}
    return {_ABOUT: {name: value for name, value in fields.items() if value}}


class JsonFormatter(logging.Formatter):
    """Formatter of records as JSON objects. role: of the process; None derives it from the logger's name."""

    def __init__(self, role: str | None = None, instance: str = "") -> None:
        super().__init__()
        self.role = role
        self.instance = instance

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without a line break."""
        return json.dumps(self.fields(record), ensure_ascii=False)

    def fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the fields of the line, without empty ones."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, Any] = {
            "time": time,
            "level": _LEVELS.get(record.levelname, record.levelname),
            "role": self.role or _role_of(record.name),
            "instance": self.instance,
            "logger": record.name,
            "message": record.getMessage(),
            "table": _table_of(record),
            **getattr(record, _ABOUT, {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return {name: value for name, value in line.items() if value not in (None, "")}


def write_log(log_format: LogFormat, role: str | None = None) -> None:
    """Write all lines that pass the loggers' levels to standard error; by default warnings and errors."""
    logging.basicConfig(level=logging.WARNING, format=_TEXT)
    if log_format is LogFormat.JSON:
        for handler in logging.getLogger().handlers:
            handler.setFormatter(formatter(log_format, role))


def formatter(log_format: LogFormat, role: str | None = None, instance: str = "") -> logging.Formatter:
    """Return the formatter of a log format."""
    return JsonFormatter(role, instance) if log_format is LogFormat.JSON else logging.Formatter(_TEXT)


def name_instance(instance: str) -> None:
    """Set the instance that JSON lines name from now on."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler.formatter, JsonFormatter):
            handler.formatter.instance = instance


def _table_of(record: logging.LogRecord) -> str | None:
    """Return the first typed table among a line's arguments."""
    values = record.args if isinstance(record.args, tuple) else ()
    return next((value for value in values if isinstance(value, str) and value.endswith(_TYPES)), None)


def _role_of(logger: str) -> str | None:
    """Return the role that a logger's package belongs to."""
    parts = logger.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in _ROLES else None
