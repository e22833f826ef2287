"""Queue in which long queries wait for one of a few threads; its length is limited.

One additional thread is for short queries, so that they need not wait for long ones. Work that is mostly done in Python runs
in turns: two such queries at a time would compete for the interpreter's lock at every step, and take twice as long (joins of
a dashboard: 290 per second on four threads, 530 in turns).
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from gamay.base.errors import ErrorCode, QueryError
from gamay.query.limits.deadline import CancellableDeadline

T = TypeVar("T")

# Limits on the number of waiting queries, and on the bytes of their texts. A query whose deadline passes while it waits is
# not run.
WAITING_MAX = 1000
# how long to wait for an ended query to report its own error
_GRACE_S = 0.05
WAITING_BYTES_MAX = 64 << 20
# how long to wait for a turn, if the previous one takes longer than expected
_TURN_S = 0.05


class QueryQueue:
    """Runs work on `threads` threads, first come, first served; if these are busy, short work runs on one more."""

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
        """The number of queries that run or wait."""
        return self._inside

    def submit(
        self, work: Callable[[], T], num_bytes: int, *, is_short: bool = False, takes_turns: bool = False
    ) -> "Future[T]":
        """Queue some work. num_bytes: the memory it holds while it waits. is_short: whether it takes milliseconds.

        takes_turns: whether it is mostly done in Python, and short. Raises QueryError 211 if so much work is waiting that
        more would be answered too late, or not at all.
        """
        with self._lock:
            waiting = self._inside - self.threads
            if waiting >= self._waiting_max or (waiting > 0 and self._bytes + num_bytes > self._waiting_bytes_max):
                raise QueryError(
                    ErrorCode.SERVER_OUT_OF_CAPACITY,
                    f"{self.threads} queries are running and {waiting} are waiting, which is the limit; retry later, "
                    "or send fewer queries",
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
        """Queue some work, wait for its end, and return its result. Other parameters as for `submit`.

        Raises QueryError 211 like `submit`. If `deadline` passes before its turn comes, raises 240, or 503 if it is
        cancelled. Running work ends on its own; if it does not do so within a moment, in the middle of a long step, the
        caller stops waiting: QueryError 250 or 503. The work keeps its thread until it has ended.
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
        if not ending.done() and future.cancel():  # it was still waiting; running work ends on its own
            if deadline.is_cancelled:
                raise QueryError(ErrorCode.QUERY_CANCELLATION, "The query was cancelled while it waited for its turn")
            raise QueryError(
                ErrorCode.QUERY_SCHEDULING_TIMEOUT,
                f"The {deadline.timeout_ms:.0f} ms of the query passed before its turn came, with {before} others before "
                "it; retry later, or set a larger timeoutMs",
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
        """Stop the threads; waiting work is not started."""
        for executor in (self._executor, self._short):
            executor.shutdown(wait=wait, cancel_futures=True)


def _seen(ended: "asyncio.Future[T]") -> None:
    """Retrieve the exception of abandoned work, as asyncio logs exceptions that nobody retrieves."""
    if not ended.cancelled():
        ended.exception()
