"""REST: what the process writes to its log, and how much of it."""

import logging
from typing import Any

from fastapi import APIRouter

from gamay.base.errors import InvalidConfigError, NotFoundError, nearest
from gamay.controller.api.services import Services

_ROOT = "root"
# Clients know the names of Java's loggers.
_LEVELS = {
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
_NO_FILES = "Gamay writes its log to standard error, there are no log files"


def logger_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["Logger"])

    @router.get("/loggers", summary="List the loggers of the process")
    def loggers() -> list[str]:
        return [_ROOT, *_names()]

    @router.get("/loggers/files", summary="List the log files of the controller: there are none")
    def files() -> list[str]:
        raise NotFoundError(_NO_FILES)

    @router.get("/loggers/download", summary="Download a log file: there is none")
    def download() -> None:
        raise NotFoundError(_NO_FILES)

    @router.get("/loggers/instances", summary="List the log files of all instances: there are none")
    def instances() -> dict[str, list[str]]:
        return {name: [] for name in services.context.registry.live_instance_ids()}

    @router.get("/loggers/instances/{name}", summary="List the log files of an instance: there are none")
    def instance(name: str) -> list[str]:
        services.instances.get(name)
        return []

    @router.get("/loggers/instances/{name}/download", summary="Download a log file of an instance: there is none")
    def download_of(name: str) -> None:
        services.instances.get(name)
        raise NotFoundError(_NO_FILES)

    @router.get("/loggers/{name}", summary="Show the level of a logger")
    def show(name: str) -> dict[str, Any]:
        return _shown(name)

    @router.put("/loggers/{name}", summary="Change the level of a logger, until the process ends")
    def change(name: str, level: str) -> dict[str, Any]:
        _shown(name)
        if level.upper() not in _LEVELS:
            raise InvalidConfigError(f"Unrecognized logger level: '{level}', it must be one of {', '.join(_LEVELS)}")
        logging.getLogger(None if name == _ROOT else name).setLevel(_LEVELS[level.upper()])
        return _shown(name)

    return router


def _names() -> list[str]:
    # Among them are those that only group others: a level given to `gamay` holds for all of its modules.
    return sorted(logging.Logger.manager.loggerDict)


def _shown(name: str) -> dict[str, Any]:
    names = [_ROOT, *_names()]
    if name not in names:
        raise NotFoundError(f"Logger - {name} not found.{nearest(name, names)}")
    level = logging.getLogger(None if name == _ROOT else name).getEffectiveLevel()
    return {"name": name, "level": _SHOWN.get(level, logging.getLevelName(level)), "filter": None}
