"""Limits on the size and rate of a listener's requests."""

import threading
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

import orjson

from gamay.base.clock import Clock

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_UNLIMITED = ("/health", "/metrics")


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """body_bytes: of bodies read into memory; upload_bytes: of multipart bodies, which go to disk. per_s: request rate, with
    a burst of as many after an idle period; None for no limit. /health and /metrics are exempt.
    """

    body_bytes: int = 64 << 20
    upload_bytes: int = 64 << 30
    per_s: float | None = None


class Limited:
    """ASGI middleware that rejects requests beyond the limits: with 413 by size, with 429 by rate."""

    def __init__(self, app: Any, limits: RequestLimits, clock: Clock) -> None:
        self._app = app
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens = limits.per_s or 0.0
        self._filled_s = clock.monotonic_s()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        """Handle a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if not scope["path"].startswith(_UNLIMITED) and not self._take():
            text = f"more than {self._limits.per_s:g} requests per second arrived at this listener; try again"
            await _refuse(send, 429, text)
            return
        headers = dict(scope["headers"])
        is_upload = headers.get(b"content-type", b"").startswith(b"multipart/")
        most = self._limits.upload_bytes if is_upload else self._limits.body_bytes
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > most:
            await _refuse(send, 413, _too_large(most))
            return
        await _Counted(self._app, most, receive, send).run(scope)

    def _take(self) -> bool:
        per_s = self._limits.per_s
        if per_s is None:
            return True
        with self._lock:
            now_s = self._clock.monotonic_s()
            self._tokens = min(max(per_s, 1.0), self._tokens + (now_s - self._filled_s) * per_s)
            self._filled_s = now_s
            if self._tokens < 1:
                return False
            self._tokens -= 1
            return True


class _Counted:
    """One request whose body is counted as it arrives, since its length may be unknown."""

    def __init__(self, app: Any, most: int, receive: Receive, send: Send) -> None:
        self._app, self._most, self._receive, self._send = app, most, receive, send
        self._left = most
        self._answered = False

    async def run(self, scope: Any) -> None:
        try:
            await self._app(scope, self._next, self._pass)
        except Exception:
            if self._left >= 0:
                raise
        if self._left < 0 and not self._answered:
            await _refuse(
                self._send, 413, f"the body of the request has more than the {self._most:,} bytes that are allowed"
            )

    async def _next(self) -> Message:
        message = await self._receive()
        self._left -= len(message.get("body", b""))
        return message if self._left >= 0 else {"type": "http.disconnect"}

    async def _pass(self, message: Message) -> None:
        if self._left >= 0 or self._answered:
            self._answered = True
            await self._send(message)


def _too_large(most: int) -> str:
    return f"the body of the request has more than the {most:,} bytes that are allowed"


async def _refuse(send: Send, status: int, text: str) -> None:
    content = orjson.dumps({"code": status, "error": text})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(content)), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
