"""Middleware that turns a session's cookie into the `Authorization` header of the session."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from gamay.cluster.access.principals import ForbiddenError
from gamay.cluster.access.rights import Level, Right
from gamay.controller.api.sessions import Session, Sessions
from gamay.web.guarded import AsgiApp, Message, Receive, Send

TOKEN_HEADER = "X-CSRF-Token"  # noqa: S105 - the name of a header
_TOKEN = TOKEN_HEADER.lower().encode()
_CHALLENGE, _BROWSER_ASKS, _CONSOLE_ASKS = b"www-authenticate", b"Basic", b'Session realm="gamay"'
_HARMLESS_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_SCOPE = "gamay.session"


@dataclass(frozen=True, slots=True)
class Sent:
    """The session of a request. has_token: whether the request carries the session's token."""

    secret: str
    session: Session
    has_token: bool


class SessionCookies:
    """An ASGI middleware in front of an application that knows `Authorization` only.

    A request with its own `Authorization` header and no token is left unchanged. Requests of the console carry a
    token; their refusals have no `Basic` challenge, which would make browsers open their own log-in window.
    """

    def __init__(self, app: AsgiApp, sessions: Sessions, cookie: str) -> None:
        """Wrap an application. cookie: the name of the session's cookie."""
        self._app = app
        self._sessions = sessions
        self._cookie = cookie

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        sent = self._sent(headers)
        if sent is not None and (sent.has_token or b"authorization" not in headers):
            authorization = (b"authorization", sent.session.authorization.encode("latin-1"))
            others = [header for header in scope["headers"] if header[0] != b"authorization"]
            scope = {**scope, "headers": [*others, authorization], _SCOPE: sent}
        else:
            sent = None

        async def send_to_console(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] == 401:
                message = {**message, "headers": self._without_window(message["headers"], sent)}
            await send(message)

        await self._app(scope, receive, send_to_console if sent is not None or _TOKEN in headers else send)

    def _sent(self, headers: dict[bytes, bytes]) -> Sent | None:
        secret = cookie_in(headers.get(b"cookie", b"").decode("latin-1"), self._cookie)
        session = self._sessions.get(secret) if secret else None
        token = headers.get(_TOKEN)
        if session is None:
            return None
        return Sent(secret, session, token is not None and session.has_token(token.decode("latin-1")))

    def _without_window(self, headers: list[tuple[bytes, bytes]], sent: Sent | None) -> list[tuple[bytes, bytes]]:
        """Return a refusal's headers without a `Basic` challenge. A challenge by this controller, not by a broker,
        ends the session."""
        asks = [(name, value) for name, value in headers if name.lower() == _CHALLENGE and value.startswith(_BROWSER_ASKS)]
        if not asks:
            return headers
        if sent is not None:
            self._sessions.end(sent.secret)
        return [header for header in headers if header not in asks] + [(_CHALLENGE, _CONSOLE_ASKS)]


def session_of(scope: MutableMapping[str, Any]) -> Sent | None:
    """Return the session of a request, or None if it has its own `Authorization` header or no session."""
    found: Sent | None = scope.get(_SCOPE)
    return found


def check_forgery(scope: MutableMapping[str, Any], right: Right) -> None:
    """Raise ForbiddenError for a change that another site may have forged: one by a session, without the session's
    token."""
    sent = session_of(scope)
    harmless = right.level is Level.OPEN or (right.level is Level.READ and scope["method"] in _HARMLESS_METHODS)
    if sent is not None and not sent.has_token and not harmless:
        raise ForbiddenError(f"Permission denied.Reason: a change by a session needs its {TOKEN_HEADER} header")


def cookie_name(instance_id: str) -> str:
    """Return the name of a controller's session cookie.

    Browsers send the cookies of a host to all of its ports, and controllers behind one address share them, so each
    needs its own name.
    """
    return "gamay_session_" + "".join(c if c.isascii() and c.isalnum() else "_" for c in instance_id)


def cookie_in(header: str, name: str) -> str:
    """Return the value of a cookie in a `Cookie` header, or '' if it is absent."""
    if name not in header:
        return ""
    for part in header.split(";"):
        key, _, value = part.strip().partition("=")
        if key == name:
            return value.strip('"')
    return ""


def set_cookie(name: str, secret: str, *, secure: bool) -> str:
    """Return the `Set-Cookie` header of a session; an empty secret deletes the cookie. It ends with the browser."""
    ends = "" if secret else "; Max-Age=0"
    return f"{name}={secret}; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}{ends}"
