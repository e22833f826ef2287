"""Waiting for what other threads and processes do, for as long as even a machine takes that is busy with other things."""

import time
from collections.abc import Callable

PATIENCE_S = 300


def eventually(condition: Callable[[], object], explain: Callable[[], object] = str) -> None:
    """Return once a condition holds; fails with what `explain` returns when it does not within `PATIENCE_S`."""
    give_up = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < give_up, explain() or "it does not happen"
        time.sleep(0.01)
