"""Busy polling of an event loop for what is about to come, instead of going to sleep.

A processor that has nothing to do is halted, and to wake it, with caches that others used meanwhile, takes longer than most
of a small query: in a virtual machine 30 µs and more, twice for each query. So an event loop that has sent a small call, or
has answered one while others follow, goes on turning for a moment instead of waiting. In each turn it looks after everything
else that it has to do, and the lock of the interpreter is free for others.

Whether that pays is found out by trying. When nothing came in time, or another thread or process wanted the processor, it is
left alone for a while: four times as long as the last time, up to a second. A loop that would wait in vain, for calls that
are long or rare or on a machine that is busy, hardly tries: less than one part in a thousand of its time goes into that.
"""

import asyncio
import time
from collections.abc import Callable

_PAUSE_NS_MIN = 1_000_000
_PAUSE_NS_MAX = 1_000_000_000
# A turn takes a few µs. One that took so long was kept from the processor or the interpreter, or had other work.
_SLIP_NS = 200_000


class BusyPoll:
    """Busy poll of the running event loop. wait_us: how long at most, for what is expected; 0 is never. now_ns: a clock.

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
        """Whether the loop is kept awake now."""
        return self._is_on

    def expect(self) -> None:
        """Stay awake, if that paid lately."""
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
        """Take note that it has come, or is waited for no more."""
        if self._expects:
            self._expects = False
            self._last_ns = 0  # what the loop does with it now is no slip
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
