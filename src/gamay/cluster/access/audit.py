"""The audit log of changes, with their sender, address and outcome: logger `gamay.audit`.

    INFO  gamay.audit change by 'clerk' from 10.0.0.7: DeleteSegment of trips_OFFLINE, DELETE '/segments/trips_OFFLINE': 200
    WARN  gamay.audit log-in as 'root' from 10.0.0.9 failed at '/tables', failures in a row: 6

Parameters and bodies are not logged, since they may contain secrets. Requests between instances are not logged.
"""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gamay.cluster.access.principals import Principal
from gamay.cluster.access.rights import Level, Right

_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_App: TypeAlias = Callable[[MutableMapping[str, Any], _Receive, _Send], Awaitable[None]]

_log = logging.getLogger("gamay.audit")
_NOTE = "gamay.audit"
_CHANGES = frozenset({Level.WRITE, Level.OPERATE, Level.ADMINISTER})


@dataclass(slots=True)
class _Note:
    """The audit data of a request. right: None until a route has handled the request."""

    right: Right | None = None
    sender: str = ""
    tables: list[str] = field(default_factory=list)


class Audited:
    """An ASGI middleware in front of an application whose routes call `note`."""

    def __init__(self, app: _App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send) -> None:
        """Handle one request, and log it with its outcome if it is a change."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note = scope[_NOTE] = _Note()
        status = 500  # if it ends without an answer

        async def watched(message: _Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, watched)
        finally:
            if note.right is not None and note.right.level in _CHANGES:
                _log_change(scope, note, note.right, status)


def note(scope: MutableMapping[str, Any], right: Right, sender: Principal, tables: list[str]) -> None:
    """Record the purpose of a request, before its sender is authorised."""
    if (kept := scope.get(_NOTE)) is not None:
        kept.right, kept.sender, kept.tables = right, sender.name, tables


def log_failed_login(name: str, address: str, path: str, count: int) -> None:
    """Log a failed log-in. count: failures in a row."""
    _log.warning("log-in as %r from %s failed at %r, failures in a row: %d", name, address, path, count)


def address_of(scope: MutableMapping[str, Any]) -> str:
    """Return the client's address of a request."""
    client = scope.get("client")
    return client[0] if client else "unknown"


def _log_change(scope: MutableMapping[str, Any], made: _Note, right: Right, status: int) -> None:
    of_tables = f" of {', '.join(made.tables)}" if made.tables else ""
    _log.info(
        "change by %r from %s: %s%s, %s %r: %d",
        made.sender,
        address_of(scope),
        right.action,
        of_tables if of_tables.isprintable() else repr(of_tables),
        scope["method"],
        scope["path"],
        status,
    )
