"""Authentication of calls: `Authorization` headers as over HTTP, or a log-in (Flight's handshake) that returns a bearer
token."""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyarrow import flight

from gamay.base.clock import Clock
from gamay.broker.flight.failures import told
from gamay.broker.http.rights import QUERY_RIGHT
from gamay.cluster.access.logins import Logins, address_of_peer
from gamay.cluster.access.principals import ANYONE, Principal, UnauthorizedError

LOGIN = "login"
_HEADER = "authorization"
_BEARER = "Bearer "
_TOKENS_MAX = 10_000
_TOKEN_UNUSED_S = 12 * 3600.0
UNTOLD = "Flight SQL"
"""Placeholder for an unknown address: `FailedLogins` counts all such senders as one."""
_PATH = "Flight SQL"
_SEEN_HERE = (flight.FlightMethod.HANDSHAKE, flight.FlightMethod.GET_SCHEMA)


class Senders:
    """Authenticator of senders, and store of the tokens issued at log-in.

    A token stands for the name and password it was issued for, which are verified with each call, so that a removed user
    loses access. It expires after twelve hours without use.
    """

    def __init__(self, logins: Logins, clock: Clock) -> None:
        self._logins = logins
        self._clock = clock
        self._lock = threading.Lock()
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def known(self, authorization: str | None) -> Principal | None:
        """Return the sender of this header, None if a password has to be verified first. Raises like `sender`."""
        access, given = self._logins.access, self._behind(authorization)
        is_known = access.is_open or given is None or access.verified(given) is not None
        return self.sender(given, UNTOLD) if is_known else None

    def sender(self, authorization: str | None, address: str) -> Principal:
        """Authenticate a call by this header, from an address.

        Raises UnauthorizedError, ForbiddenError, TooManyLoginsError.
        """
        if self._logins.access.is_open:
            return ANYONE
        found = self._logins.principal_of_call(self._behind(authorization), address, _PATH)
        QUERY_RIGHT.check_kind(found, "POST")
        return found

    def token(self, authorization: str) -> str:
        """Issue a token that stands for a header."""
        made, now_s = secrets.token_urlsafe(32), self._clock.monotonic_s()
        with self._lock:
            self._tokens[made] = (_padded(authorization), now_s)
            while len(self._tokens) > _TOKENS_MAX or next(iter(self._tokens.values()))[1] < now_s - _TOKEN_UNUSED_S:
                self._tokens.popitem(last=False)
        return made

    def _behind(self, authorization: str | None) -> str | None:
        """Resolve a token to the header it stands for; return other headers as they are."""
        if authorization is None or not authorization.startswith(_BEARER):
            return authorization if authorization is None else _padded(authorization)
        with self._lock:
            found = self._tokens.get(given := authorization.removeprefix(_BEARER))
            if found is None:
                return authorization
            self._tokens[given] = (found[0], self._clock.monotonic_s())
            self._tokens.move_to_end(given)
        return found[0]


def _padded(authorization: str) -> str:
    """Restore the padding of Base64, which Arrow's Go client, and so ADBC, omits."""
    kind, _, given = authorization.partition(" ")
    return f"{kind} {given}{'=' * (-len(given) % 4)}" if kind == "Basic" else authorization


class LoginFactory(flight.ServerMiddlewareFactory):  # type: ignore[misc]
    """Factory of the middleware of each call; it admits the senders that `senders` knows.

    Arrow exposes no address here, so passwords that were not verified before are left to `entered`, except in handshakes,
    whose headers no later hook sees, and in GetSchema, where Arrow sends errors of `entered` as unknown ones.
    """

    def __init__(self, senders: Senders) -> None:
        self._senders = senders

    def start_call(self, info: Any, headers: Mapping[str, Sequence[str]]) -> "Login":
        """Return the login of a call. Raises FlightUnauthenticatedError, FlightUnauthorizedError."""
        known = {name.lower(): values[-1] for name, values in headers.items() if values and isinstance(values[-1], str)}
        given = known.get(_HEADER)
        token = None
        with told():
            principal = self._senders.sender(given, UNTOLD) if info.method in _SEEN_HERE else self._senders.known(given)
        if info.method == flight.FlightMethod.HANDSHAKE and given is not None:
            token = self._senders.token(given)
        return Login(self._senders, principal, known, token)


class Login(flight.ServerMiddleware):  # type: ignore[misc]
    """The sender of one call. headers: by lower-case name. token: returned to the sender with the answer.

    principal: None until verified.
    """

    def __init__(self, senders: Senders, principal: Principal | None, headers: Mapping[str, str], token: str | None) -> None:
        self._senders = senders
        self._principal = principal
        self.headers = headers
        self._token = token

    @property
    def principal(self) -> Principal:
        """The sender of the call."""
        if self._principal is None:
            raise UnauthorizedError("HTTP 401 Unauthorized: the sender of this call was not verified")
        return self._principal

    def verify(self, address: str) -> None:
        """Authenticate the sender of the call. Raises like `Senders.sender`."""
        if self._principal is None:
            self._principal = self._senders.sender(self.headers.get(_HEADER), address)

    def sending_headers(self) -> dict[str, str]:
        """Return the headers of the answer."""
        return {} if self._token is None else {_HEADER: f"{_BEARER}{self._token}"}


@contextmanager
def entered(context: Any) -> Iterator[Login]:
    """Authenticate the sender of a call; translate errors of the body of `with` into Flight's."""
    with told():
        login: Login = context.get_middleware(LOGIN)
        login.verify(address_of_peer(context.peer(), UNTOLD))
        yield login


class Handshake(flight.ServerAuthHandler):  # type: ignore[misc]
    """Flight's own handshake, which exchanges nothing: names and passwords are in headers, which `Login` has seen."""

    def authenticate(self, outgoing: Any, incoming: Any) -> None:
        """Complete the handshake."""

    def is_valid(self, token: bytes) -> bytes:
        """Return nothing: `Login` holds the principal."""
        return b""
