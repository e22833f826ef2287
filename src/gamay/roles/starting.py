"""The HTTP interface of a role until it has joined its cluster: alive, but not ready."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.responses import PlainTextResponse

from gamay.cluster.records.records import Role

_ALIVE = "/health/liveness"


def starting(role: Role) -> Callable[..., Awaitable[None]]:
    """Return an application that answers 200 to liveness checks, and 503 to all other requests."""
    not_ready = f"{role.value.capitalize()} is not ready, status: STARTING"

    async def app(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            is_liveness = scope["path"] == _ALIVE
            response = PlainTextResponse("OK" if is_liveness else not_ready, status_code=200 if is_liveness else 503)
            await response(dict(scope), receive, send)

    return app
