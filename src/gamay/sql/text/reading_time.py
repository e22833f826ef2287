"""How long reading a long text may take: what works through it, word by word, looks at the time that its query has."""

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from gamay.base.errors import ErrorCode, QueryError

LONG_TEXT = 20_000
"""Characters; shorter texts are read within milliseconds."""
_SET_TIMEOUT = re.compile(r"\bSET\s+timeoutMs\s*=\s*'?(\d{1,15})", re.IGNORECASE)
_SETS_MAX = 2_000


class _Reading(threading.local):
    now_s: Callable[[], float] | None = None
    begun_s = until_s = 0.0


_reading = _Reading()


@contextmanager
def reading(now_s: Callable[[], float], begun_s: float, timeout_ms: float) -> Iterator[None]:
    """Let `check` end what this thread reads meanwhile once so much time has passed since it began."""
    before = _reading.now_s, _reading.begun_s, _reading.until_s
    _reading.now_s, _reading.begun_s, _reading.until_s = now_s, begun_s, begun_s + timeout_ms / 1000
    try:
        yield
    finally:
        _reading.now_s, _reading.begun_s, _reading.until_s = before


def heed(text: str, *options: Mapping[str, str] | None) -> None:
    """Take over the time limit that a text or its options, the last ones first, give; what is none is refused later."""
    if _reading.now_s is None:
        return
    found = _SET_TIMEOUT.search(text, 0, _SETS_MAX)
    told = [each["timeoutMs"] for each in options if each and "timeoutMs" in each]
    given = found[1] if found is not None else told[-1] if told else ""
    if given.isdecimal():
        _reading.until_s = _reading.begun_s + int(given) / 1000


def check() -> None:
    """Raise QueryError 250 where the time is over."""
    now_s = _reading.now_s
    if now_s is not None and now_s() > _reading.until_s:
        limit_ms = (_reading.until_s - _reading.begun_s) * 1000
        raise QueryError(
            ErrorCode.EXECUTION_TIMEOUT,
            f"The query timed out after {limit_ms:.0f} ms while its text was read; shorten it, for example by "
            "IN_SUBQUERY or IN_ID_SET in place of a list, or give it more time (timeoutMs)",
        )
