"""Who fails to log in has to wait: passwords cannot be guessed by trying many."""

from gamay.base.errors import GamayError

_FREE = 5  # failures before anybody has to wait
_FIRST_S, _LONGEST_S = 0.25, 5.0  # the wait doubles with each failure
_WAIT_MAX_S = 10.0
_FORGOTTEN_S = 900.0
_REMEMBERED_MAX = 10_000


class TooManyLoginsError(GamayError):
    """A log-in while many others of the same name and address wait that failed before."""

    http_status = 429


class FailedLogins:
    """Counts failures by address and name. Times are in seconds of one steady clock; used from one event loop."""

    def __init__(self) -> None:
        self._failures: dict[tuple[str, str], tuple[int, float]] = {}
        self._free_at: dict[tuple[str, str], float] = {}

    def wait_s(self, address: str, name: str, now_s: float) -> float:
        """Return for how long an attempt has to wait before it is looked at; attempts at once wait for each other.

        Raises TooManyLoginsError when that would be too long.
        """
        who = (address, name)
        count, last_s = self._failures.get(who, (0, now_s))
        if now_s - last_s > _FORGOTTEN_S:
            self.succeeded(address, name)
            return 0.0
        if count < _FREE:
            return 0.0
        pause_s = min(_FIRST_S * float(2 ** min(count - _FREE, 10)), _LONGEST_S)
        starts_s = max(now_s, self._free_at.get(who, now_s)) + pause_s
        if starts_s - now_s > _WAIT_MAX_S:
            raise TooManyLoginsError(f"HTTP 429 Too Many Requests: {count} log-ins of this name failed, try later")
        self._free_at[who] = starts_s
        return starts_s - now_s

    def failed(self, address: str, name: str, now_s: float) -> int:
        """Note a failure; return how many there were without a success between."""
        who = (address, name)
        if who not in self._failures and len(self._failures) >= _REMEMBERED_MAX:
            oldest = next(iter(self._failures))
            self.succeeded(*oldest)
        count = self._failures.pop(who, (0, now_s))[0] + 1
        self._failures[who] = (count, now_s)
        return count

    def succeeded(self, address: str, name: str) -> None:
        """Forget the failures."""
        self._failures.pop((address, name), None)
        self._free_at.pop((address, name), None)
