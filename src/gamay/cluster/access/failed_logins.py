"""Delays after failed log-ins, against guessing many passwords of one name, or one password of many names."""

from gamay.base.errors import GamayError

_FREE = 5  # failures of a name before its log-ins are delayed
_FREE_NAMES = 20  # failed names of an address before all of its log-ins are delayed
_FIRST_S, _LONGEST_S = 0.25, 5.0  # the wait doubles with each failure
_WAIT_MAX_S = 10.0
_FORGOTTEN_S = 900.0
_REMEMBERED_MAX = 10_000


class TooManyLoginsError(GamayError):
    """A log-in while too many of the same name or address are already delayed."""

    http_status = 429


class FailedLogins:
    """Counters of failures by address and name. Times are in seconds of a monotonic clock. Not thread-safe."""

    def __init__(self) -> None:
        # (address, None): the number of names of the address that failed
        self._failures: dict[tuple[str, str | None], tuple[int, float]] = {}
        self._free_at: dict[tuple[str, str | None], float] = {}

    def wait_s(self, address: str, name: str, now_s: float) -> float:
        """Return the delay before an attempt is verified; concurrent attempts queue up.

        Raises TooManyLoginsError if the delay would be too long.
        """
        return max(
            self._wait_s((address, name), _FREE, now_s, "log-ins of this name"),
            self._wait_s((address, None), _FREE_NAMES, now_s, "names from this address"),
        )

    def failed(self, address: str, name: str, now_s: float) -> int:
        """Record a failure; return the number of the name's failures since its last success."""
        if (address, name) not in self._failures:
            self._count((address, None), now_s)
        return self._count((address, name), now_s)

    def succeeded(self, address: str, name: str) -> None:
        """Reset the failures of a name."""
        self._forget((address, name))

    def _wait_s(self, who: tuple[str, str | None], free: int, now_s: float, what: str) -> float:
        count, last_s = self._failures.get(who, (0, now_s))
        if now_s - last_s > _FORGOTTEN_S:
            self._forget(who)
            return 0.0
        if count < free:
            return 0.0
        pause_s = min(_FIRST_S * float(2 ** min(count - free, 10)), _LONGEST_S)
        starts_s = max(now_s, self._free_at.get(who, now_s)) + pause_s
        if starts_s - now_s > _WAIT_MAX_S:
            raise TooManyLoginsError(f"HTTP 429 Too Many Requests: {count} {what} failed, try later")
        self._free_at[who] = starts_s
        return starts_s - now_s

    def _count(self, who: tuple[str, str | None], now_s: float) -> int:
        if who not in self._failures and len(self._failures) >= _REMEMBERED_MAX:
            self._forget(next(iter(self._failures)))
        count = self._failures.pop(who, (0, now_s))[0] + 1
        self._failures[who] = (count, now_s)
        return count

    def _forget(self, who: tuple[str, str | None]) -> None:
        self._failures.pop(who, None)
        self._free_at.pop(who, None)
