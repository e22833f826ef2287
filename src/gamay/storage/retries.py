"""Trying again what may succeed later: waits that grow, and differ by chance so that many processes do not come at once."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from gamay.base.rng import new_rng
from gamay.storage.filesystems import NO_ROOM

_log = logging.getLogger(__name__)
T = TypeVar("T")

LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Retries:
    """How often to try in all, and how long to wait in between.

    The n-th wait is chosen by chance between `wait_s * factor**(n-1)` and twice that, at most a minute. sleep: waits; a true
    answer means that the process ends, and what failed is not tried again. uniform: a random number between two.
    """

    attempts: int = 3
    wait_s: float = 0.1
    factor: float = 5.0
    sleep: Callable[[float], object] = time.sleep
    uniform: Callable[[float, float], float] = new_rng().uniform

    def call(self, what: str, action: Callable[[], T]) -> T:
        """Return what `action` returns. what: names it in the log. Raises what the last attempt raises.

        Only an OSError is tried again, and not one that says that something is missing, forbidden, or that a disk is full.
        """
        for attempt in range(1, self.attempts):
            try:
                return action()
            except OSError as error:
                if isinstance(error, (FileNotFoundError, PermissionError)) or error.errno in NO_ROOM:
                    raise
                shortest_s = min(LONGEST_WAIT_S, self.wait_s * self.factor ** (attempt - 1))
                wait_s = min(LONGEST_WAIT_S, self.uniform(shortest_s, 2 * shortest_s))
                _log.warning("%s: attempt %d of %d follows in %.2f s: %s", what, attempt + 1, self.attempts, wait_s, error)
                if self.sleep(wait_s):
                    raise
        return action()
