"""Forms of requests that mean the same on every role: a path that ends in a slash, and HEAD for GET."""

from collections.abc import MutableMapping
from typing import Any

from gamay.web.guarded import AsgiApp, Message, Receive, Send


class UsualForm:
    """An ASGI application in front of another one, which sees GET for HEAD, and paths without the slash at their end.

    Clients do not follow a redirection when they post, and some drop their `Authorization` on the way. It stands in front of
    what looks at paths and methods to tell who may pass.
    """

    def __init__(self, app: AsgiApp) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request. A slash that is a part of the last name, as %2F, stays. HEAD is answered without a body."""
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
