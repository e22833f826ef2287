"""Failure detection: the unresponsive servers, and when to probe them. Pure; times are arguments."""

import threading

FIRST_RETRY_S = 0.25
LONGEST_RETRY_S = 15.0
_FACTOR = 2.0


class FailureDetector:
    """The servers that are down; thread-safe.

    A server is down from the first query that could not be sent to it, or whose connection broke, until a probe reaches it;
    meanwhile other replicas are asked. The first probe follows after `FIRST_RETRY_S`, later ones after doubling intervals,
    at most `LONGEST_RETRY_S`.
    """

    def __init__(self) -> None:
        self._retries: dict[str, int] = {}
        self._lock = threading.Lock()
        self.down: frozenset[str] = frozenset()

    def failed(self, server: str) -> bool:
        """Record a failure of a server; return whether it was up before."""
        with self._lock:
            if server in self._retries:
                return False
            self._retries[server] = 0
            self.down = frozenset(self._retries)
            return True

    def retry_s(self, server: str) -> float:
        """Return the delay before the next probe of a server that is down."""
        with self._lock:
            retries = self._retries.get(server, 0)
            self._retries[server] = retries + 1
        return min(LONGEST_RETRY_S, FIRST_RETRY_S * _FACTOR ** min(retries, 32))

    def recovered(self, server: str) -> None:
        """Record that a probe reached a server."""
        with self._lock:
            self._retries.pop(server, None)
            self.down = frozenset(self._retries)
