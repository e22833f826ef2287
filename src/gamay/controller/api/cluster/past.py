"""REST: what this controller and, through it, the other instances measured and logged of late."""

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import quote

import httpx
from fastapi import Query, Request
from starlette.responses import Response

from gamay.base.errors import GamayError
from gamay.base.log_memory import remember_log
from gamay.cluster.records.records import Role
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services
from gamay.web.process_routes import history_bounds, log_bounds

_TIMEOUT_S = 5.0

_Minutes = Annotated[int, Query(description="How far back, up to six hours")]
_Points = Annotated[int, Query(description="At most so many of each line of a chart; neighbours are put together")]
_Level = Annotated[str, Query(description="Lines of this level and of worse ones")]
_Lines = Annotated[int, Query(description="At most so many, the last ones")]
_Contains = Annotated[str, Query(description="Only lines with this text, in whatever case")]


class SilentInstanceError(GamayError):
    """An instance that does not answer in time."""

    http_status = 503


def past_router(services: Services) -> GuardedRouter:
    """Return the routes; the log of the process is kept from now on."""
    router = GuardedRouter(tags=["AppConfigs"])
    log, ask = remember_log(), _Instances(services).ask

    @router.get("/metrics/history", summary="Tell what the controller measured in the last minutes")
    def history(minutes: _Minutes = 60, points: _Points = 240) -> dict[str, Any]:
        return services.history.told(*history_bounds(_texts(minutes=minutes, points=points)))

    @router.get("/metrics/history/{name}", summary="Tell what an instance measured in the last minutes")
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


class _Instances:
    """The instances of the cluster, asked over HTTP.

    Brokers and controllers know those who use them, and are asked in their names; servers and minions are asked in that of
    this controller, which has looked at who asks already.
    """

    def __init__(self, services: Services) -> None:
        self._services = services
        self._client = httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False, verify=services.context.tls or True)

    async def ask(self, request: Request, name: str, path: str, params: Mapping[str, str]) -> Response:
        """Return the answer of an instance as it is. Raises NotFoundError, SilentInstanceError."""
        instance = self._services.instances.get(name)
        if name not in self._services.context.registry.live_instance_ids():  # whatever listens there now is shown no log-in
            raise SilentInstanceError(f"{name} is gone from the cluster")
        own = self._services.context.auth_token if instance.role in (Role.SERVER, Role.MINION) else ""
        authorization = own or request.headers.get("authorization", "")
        headers = {"Authorization": authorization} if authorization else {}
        try:
            answer = await self._client.get(f"{instance.url}{quote(path)}", params=dict(params), headers=headers)
        except httpx.HTTPError as error:
            raise SilentInstanceError(f"{name} does not answer at {instance.url}: {error!r}") from error
        return Response(answer.content, status_code=answer.status_code, media_type=answer.headers.get("content-type"))


def _texts(**given: object) -> dict[str, str]:
    return {name: str(value) for name, value in given.items()}
