"""Watch on the memory that the system gave to the process, which includes more than queries count.

Queries count what they hold between blocks of rows. Blocks, messages, and freed memory that an allocator keeps are not
included, and may double the total if many queries run at once; the kernel would kill the process for it.
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
    """Return the process's memory in bytes without that of files; 0 if the system does not report it."""
    try:
        # pages: size, resident, those of files and shared memory among these, …
        _, resident, of_files, *_ = _STATM.read_text().split()
    except OSError:
        return 0
    return (int(resident) - int(of_files)) * os.sysconf("SC_PAGE_SIZE")


class MemoryWatch:
    """Watch that detects when the process is close to its memory limit; measures every few milliseconds.

    usable: the limit in bytes. measure: returns the bytes in use; taken: its last result. trim: releases free memory.
    Callers must hold one lock for all calls.
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
        """Return whether hardly any memory is left, even after free memory was released."""
        now_s = self._clock.monotonic_s()
        if now_s >= self._next_look_s:
            self._next_look_s = now_s + _LOOK_S
            self.taken = self._measure()
            if self.taken > self.usable * _SHORT_SHARE and now_s >= self._next_trim_s:
                self._next_trim_s = now_s + _TRIM_S
                self._trim()
                self.taken = self._measure()
        return self.taken > self.usable * _SHORT_SHARE
