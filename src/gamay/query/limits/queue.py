"""Queries that take long wait here for one of a few threads, no more of them than there is room for.

One thread more is for short queries, so that they need not wait until long ones end. What is done in Python for the most
part takes turns: two such queries at a time would take the interpreter's lock from each other at every step outside of it,
and twice as long (joins of a dashboard: 290 a second on four threads, 530 in turn).
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from gamay.base.errors import ErrorCode, QueryError
from gamay.query.limits.deadline import CancellableDeadline

T = TypeVar("T")

# Queries that wait, and the bytes of their texts. A query that has waited to its deadline is answered without being run.
WAITING_MAX = 1000
# how long the client of a query that must end waits for it to say so itself
_GRACE_S = 0.05
WAITING_BYTES_MAX = 64 << 20
# how long a turn is waited for, should one take longer than was expected
_TURN_S = 0.05


class QueryQueue:
    """Runs work on `threads` threads, first come first served; where these are taken, what is short on one more."""

    def __init__(
        self,
        threads: int,
        waiting_max: int = WAITING_MAX,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
        thread_name: str = "broker-query",
    ) -> None:
        self.threads = threads
        self._waiting_max = waiting_max
        self._waiting_bytes_max = waiting_bytes_max
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=thread_name)
        self._short = ThreadPoolExecutor(1, thread_name_prefix=f"{thread_name}-short")
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._inside = 0
        self._bytes = 0

    @property
    def inside(self) -> int:
        """How many queries run or wait."""
        return self._inside

    def submit(
        self, work: Callable[[], T], num_bytes: int, *, is_short: bool = False, takes_turns: bool = False
    ) -> "Future[T]":
        """Let work wait for its turn; num_bytes: of what it holds while it waits. is_short: whether it takes milliseconds.

        takes_turns: whether it is done in Python for the most part, and takes few of them. Raises QueryError 211 when so
        much waits already that more would be answered too late, or not at all.
        """
        with self._lock:
            waiting = self._inside - self.threads
            if waiting >= self._waiting_max or (waiting > 0 and self._bytes + num_bytes > self._waiting_bytes_max):
                raise QueryError(
                    ErrorCode.SERVER_OUT_OF_CAPACITY,
                    f"{self.threads} queries run and {waiting} wait already, and no more can; ask again later, or less",
                )
            self._inside += 1
            self._bytes += num_bytes
        executor = self._short if is_short and waiting >= 0 else self._executor
        future = executor.submit(self._in_turn, work) if takes_turns else executor.submit(work)
        future.add_done_callback(lambda _: self._left(num_bytes))
        return future

    async def turn(
        self,
        work: Callable[[], T],
        num_bytes: int,
        deadline: CancellableDeadline | None = None,
        *,
        is_short: bool = False,
        takes_turns: bool = False,
    ) -> T:
        """Wait for the turn of some work, and for its end; return what it returns. The rest as for `submit`.

        Raises QueryError 211 as `submit`; and where `deadline` ends before its turn comes, 240, or 503 when it is cancelled.
        Work that runs then ends by itself; where it does not within a moment, in the middle of a long step, nobody waits for
        it: QueryError 250 or 503. It keeps its thread until it has ended.
        """
        loop = asyncio.get_running_loop()
        before = self._inside
        future = self.submit(work, num_bytes, is_short=is_short, takes_turns=takes_turns)
        ending = asyncio.wrap_future(future)
        ending.add_done_callback(_seen)
        if deadline is None:
            return await ending
        cancelled = asyncio.Event()
        deadline.on_cancel = lambda: loop.call_soon_threadsafe(cancelled.set)
        cancelling = asyncio.ensure_future(cancelled.wait())
        try:
            await asyncio.wait(
                (ending, cancelling), timeout=max(0.0, deadline.remaining_ms / 1000), return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            deadline.on_cancel = None
            cancelling.cancel()
        if not ending.done() and future.cancel():  # its turn had not come; what runs ends by itself
            if deadline.is_cancelled:
                raise QueryError(ErrorCode.QUERY_CANCELLATION, "The query was cancelled while it waited for its turn")
            raise QueryError(
                ErrorCode.QUERY_SCHEDULING_TIMEOUT,
                f"The {deadline.timeout_ms:.0f} ms of the query ended before its turn came, with {before} others before it; "
                "ask again later, or set a larger timeoutMs",
            )
        await asyncio.wait((ending,), timeout=_GRACE_S)
        if not ending.done():
            deadline.check()
        return await ending

    def _in_turn(self, work: Callable[[], T]) -> T:
        has_turn = self._turn.acquire(timeout=_TURN_S)
        try:
            return work()
        finally:
            if has_turn:
                self._turn.release()

    def _left(self, num_bytes: int) -> None:
        with self._lock:
            self._inside -= 1
            self._bytes -= num_bytes

    def shutdown(self, wait: bool = True) -> None:
        """End the threads; what waits is not begun any more."""
        for executor in (self._executor, self._short):
            executor.shutdown(wait=wait, cancel_futures=True)


def _seen(ended: "asyncio.Future[T]") -> None:
    """Take note of how work ended for which nobody waits any more, else asyncio logs that nobody did."""
    if not ended.cancelled():
        ended.exception()
