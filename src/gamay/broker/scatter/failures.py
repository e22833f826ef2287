"""Which servers do not answer, and when to try them again. Pure; time is passed in."""

import threading

FIRST_RETRY_S = 0.25
LONGEST_RETRY_S = 15.0
_FACTOR = 2.0


class FailureDetector:
    """The servers that are down; safe to share between threads.

    A server is down from the first query that it could not be sent, or whose connection broke, until a probe reaches it.
    Other replicas are asked meanwhile. Probes come after `FIRST_RETRY_S`, then each after twice the time, at most
    `LONGEST_RETRY_S`.
    """

    def __init__(self) -> None:
        self._retries: dict[str, int] = {}
        self._lock = threading.Lock()
        self.down: frozenset[str] = frozenset()

    def failed(self, server: str) -> bool:
        """Take note that a server did not answer; return whether it was up before."""
        with self._lock:
            if server in self._retries:
                return False
            self._retries[server] = 0
            self.down = frozenset(self._retries)
            return True

    def retry_s(self, server: str) -> float:
        """Return how long to wait before the next probe of a server that is down."""
        with self._lock:
            retries = self._retries.get(server, 0)
            self._retries[server] = retries + 1
        return min(LONGEST_RETRY_S, FIRST_RETRY_S * _FACTOR ** min(retries, 32))

    def recovered(self, server: str) -> None:
        """Take note that a probe reached a server."""
        with self._lock:
            self._retries.pop(server, None)
            self.down = frozenset(self._retries)
