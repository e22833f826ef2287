"""Paths that end in a slash mean the same without it, on every role."""

from collections.abc import MutableMapping
from typing import Any

from gamay.cluster.guarded import AsgiApp, Receive, Send


class WithoutSlash:
    """An ASGI application in front of another one, which sees paths without the slash at their end.

    Clients do not follow a redirection when they post, and some drop their `Authorization` on the way. It stands in front of
    what looks at paths to tell who may pass.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request. A slash that is a part of the last name, as %2F, stays."""
        if scope["type"] == "http" and scope["path"].endswith("/") and scope.get("raw_path", b"/").endswith(b"/"):
            scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        await self._app(scope, receive, send)
