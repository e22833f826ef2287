"""REST: the loggers of the process, their levels, and its log files."""

import asyncio
from typing import Annotated, Any

import orjson
from fastapi import Query, Request
from starlette.responses import Response

from gamay.base.errors import GamayError
from gamay.base.log_files import LOG_FILES
from gamay.base.loggers import logger_names, set_logger_level, shown_logger
from gamay.controller.api.cluster.instance_calls import Instances
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services
from gamay.web.process_routes import log_file

_FilePath = Annotated[str, Query(alias="filePath", description="The name of a log file, as it is listed")]


def logger_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Logger"])
    others = Instances(services)

    @router.get("/loggers", summary="List the loggers of the process")
    def loggers() -> list[str]:
        return logger_names()

    @router.get("/loggers/files", summary="List the log files of the controller, where its configuration names a folder")
    def files() -> list[str]:
        return LOG_FILES.names()

    @router.get("/loggers/download", summary="Download a log file of the controller")
    def download(file_path: _FilePath) -> Response:
        return log_file(file_path)

    @router.get("/loggers/instances", summary="List the log files of all instances that answer")
    async def instances(request: Request) -> dict[str, list[str]]:
        async def names_of(name: str) -> list[str]:
            try:
                answer = await others.ask(request, name, "/loggers/files", {})
            except GamayError:
                return []
            return orjson.loads(answer.body) if answer.status_code == 200 else []

        names = services.context.registry.live_instance_ids()
        return dict(zip(names, await asyncio.gather(*map(names_of, names)), strict=True))

    @router.get("/loggers/instances/{name}", summary="List the log files of an instance")
    async def instance(request: Request, name: str) -> Response:
        return await others.ask(request, name, "/loggers/files", {})

    @router.get("/loggers/instances/{name}/download", summary="Download a log file of an instance")
    async def download_of(request: Request, name: str, file_path: _FilePath) -> Response:
        return await others.fetch(request, name, "/loggers/download", {"filePath": file_path})

    @router.get("/loggers/{name}", summary="Show the level of a logger")
    def show(name: str) -> dict[str, Any]:
        return shown_logger(name)

    @router.put("/loggers/{name}", summary="Change the level of a logger, until the process ends")
    def change(name: str, level: str) -> dict[str, Any]:
        return set_logger_level(name, level)

    return router
