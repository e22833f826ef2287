"""REST: recent metrics and log lines of this controller and, through it, of the other instances."""

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from gamay.base.log_memory import remember_log
from gamay.controller.api.cluster.instance_calls import Instances
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services
from gamay.web.process_routes import history_bounds, log_bounds

_Minutes = Annotated[int, Query(description="How far back, up to six hours")]
_Points = Annotated[int, Query(description="Points per line of the chart at most; neighbouring ones are merged")]
_Level = Annotated[str, Query(description="Lines of this level and of more severe ones")]
_Lines = Annotated[int, Query(description="The number of lines at most; the last ones are returned")]
_Contains = Annotated[str, Query(description="Only lines that contain this text, in upper or lower case")]


def past_router(services: Services) -> GuardedRouter:
    """Return the routes, and start to keep the last lines of the process's log."""
    router = GuardedRouter(tags=["AppConfigs"])
    log, ask = remember_log(), Instances(services).ask

    @router.get("/metrics/history", summary="Show the recent metrics of the controller")
    def history(minutes: _Minutes = 60, points: _Points = 240) -> dict[str, Any]:
        return services.history.told(*history_bounds(_texts(minutes=minutes, points=points)))

    @router.get("/metrics/history/{name}", summary="Show the recent metrics of an instance")
    async def history_of(request: Request, name: str, minutes: _Minutes = 60, points: _Points = 240) -> Response:
        return await ask(request, name, "/metrics/history", _texts(minutes=minutes, points=points))

    @router.get("/loggers/recent", summary="Show the last lines of the controller's log", tags=["Logger"])
    def lines(level: _Level = "WARN", lines: _Lines = 200, contains: _Contains = "") -> dict[str, Any]:
        return log.told(*log_bounds(_texts(level=level, lines=lines, contains=contains)))

    @router.get("/loggers/instances/{name}/recent", summary="Show the last lines of an instance's log", tags=["Logger"])
    async def lines_of(
        request: Request, name: str, level: _Level = "WARN", lines: _Lines = 200, contains: _Contains = ""
    ) -> Response:
        return await ask(request, name, "/loggers/recent", _texts(level=level, lines=lines, contains=contains))

    return router


def _texts(**given: object) -> dict[str, str]:
    return {name: str(value) for name, value in given.items()}
