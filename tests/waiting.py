"""Waiting for the work of other threads and processes, long enough for a busy machine."""

import time
from collections.abc import Callable

PATIENCE_S = 300
_LONGEST_PAUSE_S = 0.05  # to look costs processor time that what is waited for could use


def eventually(condition: Callable[[], object], explain: Callable[[], object] = str) -> None:
    """Return once a condition holds; fails with what `explain` returns when it does not within `PATIENCE_S`."""
    give_up, pause_s = time.monotonic() + PATIENCE_S, 0.002
    while not condition():
        assert time.monotonic() < give_up, explain() or "it does not happen"
        time.sleep(pause_s)
        pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)
