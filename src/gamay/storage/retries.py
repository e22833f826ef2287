"""Retries with exponential backoff and jitter, so that many processes do not retry at the same time."""

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
    """The number of attempts, and the waits between them.

    The n-th wait is random between `wait_s * factor**(n-1)` and twice that, at most a minute. sleep: waits; a true
    result means that the process is ending, and prevents further attempts. uniform: returns a random number between two.
    """

    attempts: int = 3
    wait_s: float = 0.1
    factor: float = 5.0
    sleep: Callable[[float], object] = time.sleep
    uniform: Callable[[float, float], float] = new_rng().uniform

    def call(self, what: str, action: Callable[[], T]) -> T:
        """Return the result of `action`. what: its name in the log. Raises what the last attempt raises.

        Only an OSError is retried, except for a missing file, a missing permission or a full disk.
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
