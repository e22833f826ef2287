"""An HTTP interface that lets in whom its access control knows."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias
from urllib.parse import parse_qs

import orjson

from gamay.base.errors import GamayError
from gamay.cluster.access import AccessControl, UnauthorizedError, check_access

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiApp: TypeAlias = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

# where a request's scope tells who sent it
PRINCIPAL = "gamay.principal"

_OPEN_PATHS = frozenset({"/", "/help", "/api", "/swagger.json", "/auth/info", "/auth/verify", "/auth/verify/v2"})
_OPEN_FOLDERS = ("/health", "/pinot-controller/admin", "/static-offline-docs")
# the part behind these is a table, with or without its type, or a schema, which is named like its table, but for these paths
_TABLE_AFTER = frozenset(
    {
        "tables", "table", "segments", "tableConfigs", "timeBoundary", "routingTable", "queryQuota", "routing", "schemas",
        "deleteSegmentsFromSequenceNum", "reloadStatus",
    }
)  # fmt: skip
_OF_NO_TABLE = (
    "/tables/validate",
    "/tables/livebrokers",
    "/tables/recommender",
    "/tables/forceCommitStatus",
    "/tableConfigs/validate",
    "/tableConfigs/tune",
    "/schemas/validate",
    "/schemas/info",
    "/schemas/fieldSpec",
    "/segments/batchUpload",
    "/segments/segmentReloadStatus",
    "/debug/routingTable/sql",
    "/debug/routingTableWithOptionalSegments/sql",
)


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
            raw = headers.get(b"authorization")
            given = None if raw is None else raw.decode("latin-1")
            method = "GET" if scope["path"] in self._asks_by_post else scope["method"]
            table = table_of(scope["path"], scope["query_string"])
            try:
                if not self._access.is_known(given):
                    await asyncio.to_thread(self._access.principal, given)
                scope[PRINCIPAL] = check_access(self._access, given, method, table)
            except GamayError as error:
                await _refuse(send, error)
                return
        await self._app(scope, receive, send)


def table_of(path: str, query: bytes) -> str | None:
    """Return the table that a request is about, None when it is about none."""
    parts = path.split("/")
    position = table_position(parts)
    if position is not None:
        return parts[position]
    if query:
        asked = parse_qs(query.decode("latin-1"))
        for name in ("tableName", "tableNameWithType", "table"):
            if name in asked:
                return asked[name][0]
    return None


def table_position(parts: Sequence[str]) -> int | None:
    """Return where the parts of a path name a table or a schema, None when they name none."""
    path = "/".join(parts)
    if any(path == known or path.startswith(f"{known}/") for known in _OF_NO_TABLE):
        return None
    for position, (before, after) in enumerate(pairwise(parts)):
        if before in _TABLE_AFTER and after and after not in _TABLE_AFTER:
            return position + 1
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
