"""The loggers of a process and their levels, under the level names that clients know."""

import logging
from typing import Any

from gamay.base.errors import InvalidConfigError, NotFoundError, nearest

_ROOT = "root"
# Clients know Java's names of levels.
LEVELS = {
    "ALL": logging.DEBUG,
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "WARNING": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "OFF": logging.CRITICAL + 1,
}
_SHOWN = {
    logging.DEBUG: "DEBUG",
    logging.INFO: "INFO",
    logging.WARNING: "WARN",
    logging.ERROR: "ERROR",
    logging.CRITICAL: "FATAL",
    logging.CRITICAL + 1: "OFF",
}


def logger_names() -> list[str]:
    """Return the names of all loggers; a level set for `gamay` applies to all of its modules."""
    return [_ROOT, *sorted(logging.Logger.manager.loggerDict)]


def shown_logger(name: str) -> dict[str, Any]:
    """Return a logger in the form that clients expect. Raises NotFoundError."""
    names = logger_names()
    if name not in names:
        raise NotFoundError(f"Logger - {name} not found.{nearest(name, names)}")
    level = logging.getLogger(None if name == _ROOT else name).getEffectiveLevel()
    return {"name": name, "level": _SHOWN.get(level, logging.getLevelName(level)), "filter": None}


def set_logger_level(name: str, level: str) -> dict[str, Any]:
    """Change the level of a logger until the process ends. Raises NotFoundError, InvalidConfigError."""
    shown_logger(name)
    if level.upper() not in LEVELS:
        raise InvalidConfigError(f"Unrecognized logger level: '{level}', it must be one of {', '.join(LEVELS)}")
    logging.getLogger(None if name == _ROOT else name).setLevel(LEVELS[level.upper()])
    return shown_logger(name)
