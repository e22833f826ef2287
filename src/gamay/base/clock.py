"""Time as an argument: the system's clock, and one that tests move by hand."""

import time
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now_ms(self) -> int:
        """Return wall-clock time in milliseconds since 1970-01-01T00:00Z; it may step backwards."""
        ...

    def monotonic_s(self) -> float:
        """Return seconds from an arbitrary start; it never steps backwards."""
        ...

    def thread_cpu_ns(self) -> int:
        """Return the processor time that the calling thread has used, in nanoseconds from an arbitrary start."""
        ...


class SystemClock:
    """The system's clock."""

    # not wrapped: each query reads it a dozen times
    monotonic_s = staticmethod(time.monotonic)
    thread_cpu_ns = staticmethod(time.thread_time_ns)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when `advance` is called; threads count as busy all the time."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._elapsed_s = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return self._elapsed_s

    def thread_cpu_ns(self) -> int:
        return round(self._elapsed_s * 1e9)

    def advance(self, seconds: float) -> None:
        """Move both readings forward."""
        self._elapsed_s += seconds
        self._now_ms += round(seconds * 1000)


SYSTEM_CLOCK = SystemClock()
