"""Normalization of requests for every role: trailing slashes, and HEAD."""

from collections.abc import MutableMapping
from typing import Any

from gamay.web.guarded import AsgiApp, Message, Receive, Send


class UsualForm:
    """ASGI middleware that turns HEAD into GET, and removes trailing slashes from paths.

    Redirections are no alternative: clients do not follow them for POST, and some drop their `Authorization`. It must
    precede the middleware that checks rights by path and method.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle a request. A slash that is part of the last name, as %2F, is kept. HEAD gets a response without a body."""
        if scope["type"] == "http" and scope["path"].endswith("/") and scope.get("raw_path", b"/").endswith(b"/"):
            scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        if scope["type"] == "http" and scope["method"] == "HEAD":
            await self._app({**scope, "method": "GET"}, receive, _without_body(send))
        else:
            await self._app(scope, receive, send)


def _without_body(send: Send) -> Send:
    async def send_head(message: Message) -> None:
        await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

    return send_head
