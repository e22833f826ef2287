"""The log of who changed what, from where, and with which outcome: logger `gamay.audit`.

    INFO  gamay.audit change by 'clerk' from 10.0.0.7: DeleteSegment of trips_OFFLINE, DELETE '/segments/trips_OFFLINE': 200
    WARN  gamay.audit log-in as 'root' from 10.0.0.9 failed at '/tables', failures in a row: 6

Parameters and bodies are not written, for they may hold what is secret. What instances tell each other is not in it.
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
    """What a route knows of the request that it takes; None until one has."""

    right: Right | None = None
    sender: str = ""
    tables: list[str] = field(default_factory=list)


class Audited:
    """An ASGI application in front of one whose routes `note` what they do."""

    def __init__(self, app: _App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: _Receive, send: _Send) -> None:
        """Handle one request, and log it once its outcome is known, if it is one for a change."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        note = scope[_NOTE] = _Note()
        status = 500  # of one that ends without an answer

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
    """Tell what a request is for, before it is decided whether its sender may."""
    if (kept := scope.get(_NOTE)) is not None:
        kept.right, kept.sender, kept.tables = right, sender.name, tables


def log_failed_login(name: str, address: str, path: str, count: int) -> None:
    """Log that somebody could not log in; count: how often in a row."""
    _log.warning("log-in as %r from %s failed at %r, failures in a row: %d", name, address, path, count)


def address_of(scope: MutableMapping[str, Any]) -> str:
    """Return from where a request comes."""
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
