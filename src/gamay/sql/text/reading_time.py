"""Time limit for parsing long texts: loops over words check the deadline of their query."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from gamay.base.errors import ErrorCode, QueryError

LONG_TEXT = 20_000
"""Characters; shorter texts are parsed within milliseconds."""
_SET_TIMEOUT = re.compile(r"\bSET\s+timeoutMs\s*=\s*'?(\d{1,15})", re.IGNORECASE)
_SETS_MAX = 2_000


class _Reading(threading.local):
    now_s: Callable[[], float] | None = None
    begun_s = until_s = 0.0


_reading = _Reading()


@contextmanager
def reading(now_s: Callable[[], float], begun_s: float, timeout_ms: float) -> Iterator[None]:
    """Let `check` abort parsing on this thread after a timeout since `begun_s`, until the end of the block."""
    before = _reading.now_s, _reading.begun_s, _reading.until_s
    _reading.now_s, _reading.begun_s, _reading.until_s = now_s, begun_s, begun_s + timeout_ms / 1000
    try:
        yield
    finally:
        _reading.now_s, _reading.begun_s, _reading.until_s = before


def heed(text: str, *options: Mapping[str, str] | None) -> None:
    """Apply the timeout of a text or its options, of which the last take precedence; invalid values are rejected later."""
    if _reading.now_s is None:
        return
    found = _SET_TIMEOUT.search(text, 0, _SETS_MAX)
    timeouts = [each["timeoutMs"] for each in options if each and "timeoutMs" in each]
    given = found[1] if found is not None else timeouts[-1] if timeouts else ""
    if given.isdecimal():
        _reading.until_s = _reading.begun_s + int(given) / 1000


def check() -> None:
    """Raise QueryError 250 after the deadline."""
    now_s = _reading.now_s
    if now_s is not None and now_s() > _reading.until_s:
        limit_ms = (_reading.until_s - _reading.begun_s) * 1000
        raise QueryError(
            ErrorCode.EXECUTION_TIMEOUT,
            f"The query timed out after {limit_ms:.0f} ms while its text was parsed; shorten it, for example with "
            "IN_SUBQUERY or IN_ID_SET instead of a list, or increase timeoutMs",
        )
