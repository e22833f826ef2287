"""REST: what the process writes to its log, and how much of it."""

from typing import Any

from gamay.base.errors import NotFoundError
from gamay.base.loggers import NO_FILES, logger_names, set_logger_level, shown_logger
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services


def logger_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Logger"])

    @router.get("/loggers", summary="List the loggers of the process")
    def loggers() -> list[str]:
        return logger_names()

    @router.get("/loggers/files", summary="List the log files of the controller: there are none")
    def files() -> list[str]:
        raise NotFoundError(NO_FILES)

    @router.get("/loggers/download", summary="Download a log file: there is none")
    def download() -> None:
        raise NotFoundError(NO_FILES)

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
        raise NotFoundError(NO_FILES)

    @router.get("/loggers/{name}", summary="Show the level of a logger")
    def show(name: str) -> dict[str, Any]:
        return shown_logger(name)

    @router.put("/loggers/{name}", summary="Change the level of a logger, until the process ends")
    def change(name: str, level: str) -> dict[str, Any]:
        return set_logger_level(name, level)

    return router
