"""The minion's HTTP interface."""

from collections.abc import Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route


def minion_app(is_ready: Callable[[], bool]) -> Starlette:
    """Return the application. is_ready: whether the minion can be given tasks."""

    async def readiness(_: Request) -> Response:
        if is_ready():
            return PlainTextResponse("OK")
        return PlainTextResponse("Minion is not ready, status: STARTING", status_code=503)

    async def liveness(_: Request) -> Response:
        return PlainTextResponse("OK")

    routes = [Route("/health", readiness), Route("/health/readiness", readiness), Route("/health/liveness", liveness)]
    return Starlette(routes=routes)
