"""Who sends a call: `Authorization` headers as over HTTP, or a log-in (Flight's handshake) that gives a bearer token."""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pyarrow import flight

from gamay.base.clock import Clock
from gamay.broker.flight.failures import told
from gamay.broker.http.rights import QUERY_RIGHT
from gamay.cluster.access.audit import log_failed_login
from gamay.cluster.access.failed_logins import FailedLogins
from gamay.cluster.access.passwords import credentials
from gamay.cluster.access.principals import ANYONE, AccessControl, Principal, UnauthorizedError

LOGIN = "login"
_HEADER = "authorization"
_BEARER = "Bearer "
_TOKENS_MAX = 10_000
_TOKEN_UNUSED_S = 12 * 3600.0
_PEER = "Flight SQL"


class Logins:
    """Verifier of senders, and keeper of the tokens that log-ins are given.

    A token stands for the name and password it was given for, which are verified with each call, so that a user who
    is removed is out. It is forgotten when nobody has used it for twelve hours. sleep: waits for so many seconds.
    """

    def __init__(self, access: AccessControl, clock: Clock, sleep: Callable[[float], None] = time.sleep) -> None:
        self._access = access
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._failed = FailedLogins()
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def sender(self, authorization: str | None) -> Principal:
        """Return who sent a call with this header. Raises UnauthorizedError, ForbiddenError, TooManyLoginsError."""
        if self._access.is_open:
            return ANYONE
        found = self._verified(self._behind(authorization))
        QUERY_RIGHT.check_kind(found, "POST")
        return found

    def token(self, authorization: str) -> str:
        """Return a token that stands for a header."""
        made, now_s = secrets.token_urlsafe(32), self._clock.monotonic_s()
        with self._lock:
            self._tokens[made] = (_padded(authorization), now_s)
            while len(self._tokens) > _TOKENS_MAX or next(iter(self._tokens.values()))[1] < now_s - _TOKEN_UNUSED_S:
                self._tokens.popitem(last=False)
        return made

    def _behind(self, authorization: str | None) -> str | None:
        """Return the header that a token stands for, or a header as it is."""
        if authorization is None or not authorization.startswith(_BEARER):
            return authorization if authorization is None else _padded(authorization)
        with self._lock:
            found = self._tokens.get(given := authorization.removeprefix(_BEARER))
            if found is None:
                return authorization
            self._tokens[given] = (found[0], self._clock.monotonic_s())
            self._tokens.move_to_end(given)
        return found[0]

    def _verified(self, given: str | None) -> Principal:
        if given is None or self._access.is_known(given):
            return self._access.principal(given)
        name, now_s = credentials(given)[0], self._clock.monotonic_s
        with self._lock:
            wait_s = self._failed.wait_s(_PEER, name, now_s())
        if wait_s:
            self._sleep(wait_s)
        try:
            found = self._access.principal(given)
        except UnauthorizedError:
            with self._lock:
                count = self._failed.failed(_PEER, name, now_s())
            log_failed_login(name, _PEER, "Flight SQL", count)
            raise
        with self._lock:
            self._failed.succeeded(_PEER, name)
        return found


def _padded(authorization: str) -> str:
    """Return a header with the padding of Base64, which Arrow's client for Go, and so ADBC, leaves out."""
    kind, _, given = authorization.partition(" ")
    return f"{kind} {given}{'=' * (-len(given) % 4)}" if kind == "Basic" else authorization


class LoginFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Maker of what stands in front of each call: it lets in whom `logins` knows."""

    def __init__(self, logins: Logins) -> None:
        self._logins = logins

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str]]) -> "Login":
        """Return what is known of the sender of a call. Raises FlightUnauthenticatedError, FlightUnauthorizedError."""
        known = {name.lower(): values[-1] for name, values in headers.items() if values and isinstance(values[-1], str)}
        given = known.get(_HEADER)
        with told():
            principal = self._logins.sender(given)
        asks_token = info.method == flight.FlightMethod.HANDSHAKE and given is not None
        return Login(principal, known, self._logins.token(given) if asks_token and given is not None else None)


class Login(flight.ServerMiddleware):  # type: ignore[misc]
    """What is known of the sender of one call. headers: by lower-case name. token: that the answer gives to the sender."""

    def __init__(self, principal: Principal, headers: Mapping[str, str], token: str | None) -> None:
        self.principal = principal
        self.headers = headers
        self._token = token

    def sending_headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {} if self._token is None else {_HEADER: f"{_BEARER}{self._token}"}


class Handshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """Flight's own handshake, in which nothing is said: names and passwords are in headers, which `Login` has seen."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Take part."""

    def is_valid(self, token: bytes) -> bytes:
        """Return nothing: `Login` says who it is."""
        return b""
