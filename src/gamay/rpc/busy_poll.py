"""Busy polling of an event loop for an expected message, instead of sleeping.

An idle processor is halted, and waking it, with cold caches, takes longer than most of a small query: 30 µs or more
in a virtual machine, twice for each query. So an event loop that has sent a small call, or has answered one while
others follow, keeps iterating for a moment instead of waiting. In each iteration it handles all other events, and the
GIL is free for other threads.

Whether polling pays is determined by trial. If nothing came in time, or another thread or process needed the
processor, polling pauses: four times as long as the last time, up to a second. A loop for which polling does not pay,
because calls are long or rare or the machine is busy, spends less than a thousandth of its time on trials.
"""

import asyncio
import time
from collections.abc import Callable

_PAUSE_NS_MIN = 1_000_000
_PAUSE_NS_MAX = 1_000_000_000
# an iteration takes a few µs; one that took this long waited for the processor or the GIL, or had other work
_SLIP_NS = 200_000


class BusyPoll:
    """Busy poll of the running event loop. wait_us: the longest poll for an expected message; 0 disables it. now_ns:
    a clock.

    All methods are to be called on the event loop.
    """

    __slots__ = ("_expects", "_is_on", "_last_ns", "_now_ns", "_pause_ns", "_resume_ns", "_until_ns", "_wait_ns")

    def __init__(self, wait_us: int, now_ns: Callable[[], int] = time.perf_counter_ns) -> None:
        self._wait_ns = wait_us * 1000
        self._now_ns = now_ns
        self._expects = False
        self._is_on = False
        self._pause_ns = 0
        self._resume_ns = self._until_ns = self._last_ns = 0

    @property
    def is_on(self) -> bool:
        """Whether the loop is polling now."""
        return self._is_on

    def expect(self) -> None:
        """Start to poll, if that paid off lately."""
        if not self._wait_ns:
            return
        now_ns = self._now_ns()
        if now_ns < self._resume_ns:
            return
        self._expects = True
        self._until_ns = now_ns + self._wait_ns
        if not self._is_on:
            self._is_on, self._last_ns = True, 0
            asyncio.get_running_loop().call_soon(self._turn)

    def arrived(self) -> None:
        """Stop polling: the expected message has arrived, or is no longer awaited."""
        if self._expects:
            self._expects = False
            self._last_ns = 0  # handling the message does not count as a slip
            self._pause_ns -= self._pause_ns >> 3

    def _turn(self) -> None:
        if not self._expects:
            self._is_on = False
            return
        now_ns = self._now_ns()
        if now_ns >= self._until_ns or (self._last_ns and now_ns - self._last_ns > _SLIP_NS):
            self._is_on = self._expects = False
            self._pause_ns = min(max(4 * self._pause_ns, _PAUSE_NS_MIN), _PAUSE_NS_MAX)
            self._resume_ns = now_ns + self._pause_ns
            return
        self._last_ns = now_ns
        asyncio.get_running_loop().call_soon(self._turn)
