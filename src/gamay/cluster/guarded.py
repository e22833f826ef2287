"""An HTTP interface that lets in whom its access control knows."""

from collections.abc import Awaitable, Callable, MutableMapping
from itertools import pairwise
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import orjson

from gamay.base.errors import GamayError
from gamay.cluster.access import AccessControl, UnauthorizedError

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

# where a request's scope tells who sent it
PRINCIPAL = "gamay.principal"

_OPEN_PATHS = frozenset({"/", "/help", "/api", "/swagger.json", "/auth/info", "/auth/verify", "/auth/verify/v2"})
_OPEN_FOLDERS = ("/health", "/pinot-controller/admin", "/static-offline-docs")
# the part behind these is a table, with or without its type, but for these paths
_TABLE_AFTER = frozenset(
    {"tables", "table", "segments", "tableConfigs", "timeBoundary", "routingTable", "queryQuota", "routing"}
)
_OF_NO_TABLE = ("/tables/validate", "/tables/livebrokers", "/segments/batchUpload", "/segments/segmentReloadStatus")


class Guarded:
    """An ASGI application in front of another one, which it hands requests to that may pass.

    asks_by_post: paths whose POST only asks, which READ is enough for.
    """

    def __init__(self, app: AsgiApp, access: AccessControl, asks_by_post: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._access = access
        self._asks_by_post = asks_by_post

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] == "http" and not _is_open(scope["path"]) and scope["method"] != "OPTIONS":
            headers = dict(scope["headers"])
            given = headers.get(b"authorization")
            method = "GET" if scope["path"] in self._asks_by_post else scope["method"]
            try:
                scope[PRINCIPAL] = self._access.check(
                    None if given is None else given.decode("latin-1"),
                    method,
                    table_of(scope["path"], scope["query_string"]),
                )
            except GamayError as error:
                await _refuse(send, error)
                return
        await self._app(scope, receive, send)


def table_of(path: str, query: bytes) -> str | None:
    """Return the table that a request is about, None when it is about none."""
    parts = path.strip("/").split("/")
    if not path.startswith(_OF_NO_TABLE):
        for before, after in pairwise(parts):
            if before in _TABLE_AFTER and after not in _TABLE_AFTER:
                return after
    if query:
        asked = parse_qs(query.decode("latin-1"))
        for name in ("tableName", "tableNameWithType", "table"):
            if name in asked:
                return asked[name][0]
    return None


def _is_open(path: str) -> bool:
    return path in _OPEN_PATHS or path.startswith(_OPEN_FOLDERS)


async def _refuse(send: Send, error: GamayError) -> None:
    content = orjson.dumps({"code": error.http_status, "error": str(error)})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content))]
    if isinstance(error, UnauthorizedError):
        headers.append((b"www-authenticate", b'Basic realm="gamay"'))
    await send({"type": "http.response.start", "status": error.http_status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
