"""Sessions of users who logged in with a name and a password and send a cookie from then on.

They are in the memory of the controller that created them, so users log in again at another controller, or after a
restart. A session holds the `Authorization` header with which its requests are passed on, also to brokers and
servers, and passwords belong neither in cookies nor in the metadata store. The header is verified at each request, so
a session ends when its user is deleted or gets another password.
"""

import hashlib
import hmac
import secrets
import threading
from dataclasses import dataclass, field

from gamay.base.clock import Clock

IDLE_S = 2 * 3600.0
LONGEST_S = 12 * 3600.0
_SECRET_BYTES = 32
_SESSIONS_MAX = 10_000


@dataclass(slots=True)
class Session:
    """A session of one user.

    authorization: the header of its requests. csrf_token: required of its requests for changes. Times: monotonic.
    """

    authorization: str = field(repr=False)
    csrf_token: str = field(repr=False)
    ends_s: float
    used_s: float

    def has_token(self, given: str) -> bool:
        """Whether a request carries the token."""
        return hmac.compare_digest(self.csrf_token.encode(), given.encode())

    def left_s(self, now_s: float) -> float:
        """Return the seconds until it expires unused: at most `IDLE_S`; zero or less when it has ended."""
        return min(self.ends_s, self.used_s + IDLE_S) - now_s


class Sessions:
    """The sessions of one controller, by the digest of the secret in their cookie; the secret itself is not kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._open: dict[bytes, Session] = {}

    def begin(self, authorization: str) -> tuple[str, Session]:
        """Return a new session for a header that was verified, and the secret for its cookie."""
        secret, now_s = secrets.token_urlsafe(_SECRET_BYTES), self._clock.monotonic_s()
        made = Session(authorization, secrets.token_urlsafe(_SECRET_BYTES), now_s + LONGEST_S, now_s)
        with self._lock:
            for key in [key for key, session in self._open.items() if session.left_s(now_s) <= 0]:
                del self._open[key]
            while len(self._open) >= _SESSIONS_MAX:
                del self._open[next(iter(self._open))]
            self._open[_key(secret)] = made
        return secret, made

    def get(self, secret: str) -> Session | None:
        """Return the session of a cookie and restart its idle time, or None if it has ended or never existed."""
        now_s, key = self._clock.monotonic_s(), _key(secret)
        with self._lock:
            found = self._open.get(key)
            if found is None:
                return None
            if found.left_s(now_s) <= 0:
                del self._open[key]
                return None
            found.used_s = now_s
            return found

    def end(self, secret: str) -> None:
        """End a session; an unknown secret is not an error."""
        with self._lock:
            self._open.pop(_key(secret), None)

    def left_s(self, session: Session) -> float:
        """Return the seconds until a session expires unused."""
        return session.left_s(self._clock.monotonic_s())


def _key(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()
