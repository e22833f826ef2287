"""Watch on the memory that the process has from the system: more than queries tell of, and what the kernel ends it for.

Queries count what they hold between blocks of rows. Blocks, messages, and freed memory that an allocator keeps come on top,
and with many queries at once that can be as much again.
"""

import os
from collections.abc import Callable
from pathlib import Path

from gamay.base.allocator import trim_heap
from gamay.base.clock import SYSTEM_CLOCK, Clock

_SHORT_SHARE = 0.85
_LOOK_S = 0.005
_TRIM_S = 0.1
_STATM = Path("/proc/self/statm")


def anonymous_bytes() -> int:
    """Return how many bytes of memory this process has that are no file's; 0 where the system does not say so."""
    try:
        # pages: size, resident, those of files and shared memory among these, …
        _, resident, of_files, *_ = _STATM.read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(of_files)) * os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Watch that knows when the process is about to have all memory that it may use; looks every few milliseconds.

    usable: how many bytes that is. measure: returns how many it has; taken: what it returned last. trim: gives back what is
    free. For callers that hold one lock while they ask.
    """

    def __init__(
        self,
        usable: int,
        measure: Callable[[], int] = anonymous_bytes,
        trim: Callable[[], None] = trim_heap,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.usable = usable
        self.taken = 0
        self._measure, self._trim, self._clock = measure, trim, clock
        self._next_look_s = self._next_trim_s = 0.0

    @property
    def is_short(self) -> bool:
        """Whether hardly any memory is left, after what was free has been given back."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_S
            self.taken = self._measure()
            if self.taken > self.usable * _SHORT_SHARE and now_s >= self._next_trim_s:
                self._next_trim_s = now_s + _TRIM_S
                self._trim()
                self.taken = self._measure()
        return self.taken > self.usable * _SHORT_SHARE
