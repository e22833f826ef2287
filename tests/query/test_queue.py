"""Work waits for its turn, is removed when cancelled or late, and is refused when the queue is full."""

import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest
from tests.waiting import PATIENCE_S, eventually

from gamay.base.clock import SYSTEM_CLOCK
from gamay.base.errors import ErrorCode, QueryError
from gamay.query.limits import queue as queues
from gamay.query.limits.deadline import CancellableDeadline
from gamay.query.limits.queue import QueryQueue


def deadline(timeout_ms: float = 60_000) -> CancellableDeadline:
    """Return a deadline so far ahead."""
    return CancellableDeadline(SYSTEM_CLOCK, SYSTEM_CLOCK.monotonic_s() + timeout_ms / 1000, timeout_ms)


@pytest.fixture
def release() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def test_what_is_submitted_is_run_in_order(release: threading.Event) -> None:
    queue, order = QueryQueue(1), list[int]()
    futures = [queue.submit(release.wait, 0), *(queue.submit(lambda i=i: order.append(i), 0) for i in range(20))]
    assert queue.inside == 21
    release.set()
    for future in futures:
        future.result(60)
    assert order == list(range(20))
    queue.shutdown()
    assert queue.inside == 0


def test_what_is_short_does_not_wait_for_what_is_long(release: threading.Event) -> None:
    queue = QueryQueue(2)
    long = [queue.submit(release.wait, 0) for _ in range(3)]
    assert queue.submit(lambda: threading.current_thread().name, 0, is_short=True).result(60).endswith("-short_0")
    assert not any(future.done() for future in long)
    release.set()
    eventually(lambda: queue.inside == 0)
    assert "short" not in queue.submit(lambda: threading.current_thread().name, 0, is_short=True).result(60)
    queue.shutdown()


def test_what_takes_turns_runs_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "_TURN_S", 60.0)
    queue, inside, most = QueryQueue(4), 0, 0

    def work() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        threading.Event().wait(0.001)
        inside -= 1

    for future in [queue.submit(work, 0, takes_turns=True) for _ in range(40)]:
        future.result(60)
    assert most == 1
    queue.shutdown()


def test_a_turn_that_takes_long_holds_nobody_up(release: threading.Event) -> None:
    queue = QueryQueue(2)
    long = queue.submit(release.wait, 0, takes_turns=True)
    assert queue.submit(lambda: 7, 0, takes_turns=True).result(60) == 7
    assert not long.done()
    release.set()
    assert long.result(60)
    assert queue.submit(lambda: 8, 0, takes_turns=True).result(60) == 8
    queue.shutdown()


def test_more_than_there_is_room_for_is_refused(release: threading.Event) -> None:
    queue = QueryQueue(2, waiting_max=3)
    futures = [queue.submit(release.wait, 0) for _ in range(5)]
    with pytest.raises(QueryError, match="2 queries are running and 3 are waiting") as raised:
        queue.submit(release.wait, 0)
    assert raised.value.code is ErrorCode.SERVER_OUT_OF_CAPACITY
    assert futures[-1].cancel()  # whoever leaves makes room
    queue.submit(release.wait, 0)
    release.set()
    queue.shutdown()


def test_long_texts_count_by_their_bytes(release: threading.Event) -> None:
    queue = QueryQueue(1, waiting_bytes_max=100)
    queue.submit(release.wait, 30)
    queue.submit(release.wait, 60)
    with pytest.raises(QueryError, match="are running and"):
        queue.submit(release.wait, 60)
    release.set()
    queue.shutdown()


def test_who_waits_is_told_at_once_that_it_was_cancelled_or_is_too_late(release: threading.Event) -> None:
    queue = QueryQueue(1)
    queue.submit(release.wait, 0)
    ran: list[str] = []

    async def ask() -> tuple[int, int]:
        waits = deadline()
        cancelled = asyncio.ensure_future(queue.turn(lambda: ran.append("cancelled"), 0, waits))
        await asyncio.sleep(0.01)
        threading.Thread(target=waits.cancel).start()
        with pytest.raises(QueryError) as first:
            await cancelled
        with pytest.raises(QueryError) as second:
            await queue.turn(lambda: ran.append("late"), 0, deadline(timeout_ms=20))
        assert "The 20 ms of the query passed before its turn came, with 1 others before it" in str(second.value)
        return first.value.code.code, second.value.code.code

    assert asyncio.run(ask()) == (503, 240)
    assert queue.inside == 1
    release.set()
    queue.shutdown()
    assert ran == []


def test_what_runs_answers_for_itself(release: threading.Event) -> None:
    queue = QueryQueue(1)
    begun = threading.Event()
    ends = deadline()

    def work() -> str:
        begun.set()
        while not ends.is_cancelled:
            release.wait(0.001)
        return "ended by itself"

    async def ask() -> str:
        answer = asyncio.ensure_future(queue.turn(work, 0, ends))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        ends.cancel()
        return await answer

    assert asyncio.run(ask()) == "ended by itself"
    queue.shutdown()


@pytest.mark.parametrize(("timeout_ms", "code"), [(60_000, 503), (30, 250)])
def test_nobody_waits_for_work_in_the_middle_of_a_long_step(release: threading.Event, timeout_ms: float, code: int) -> None:
    queue = QueryQueue(1)
    begun = threading.Event()
    ends = deadline(timeout_ms)

    def work() -> None:
        begun.set()
        release.wait(PATIENCE_S)

    async def ask() -> int:
        answer = asyncio.ensure_future(queue.turn(work, 0, ends))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        if code == 503:
            ends.cancel()
        with pytest.raises(QueryError) as raised:
            await answer
        return raised.value.code.code

    assert asyncio.run(ask()) == code
    assert queue.inside == 1  # its thread is not free yet
    release.set()
    queue.shutdown()
    assert queue.inside == 0


def test_work_that_nobody_waits_for_any_more_may_fail(release: threading.Event) -> None:
    queue, begun, ends, told = QueryQueue(1), threading.Event(), deadline(), list[object]()

    def work() -> None:
        begun.set()
        release.wait()
        ends.check()

    async def ask() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
        answer = asyncio.ensure_future(queue.turn(work, 0, ends))
        while not begun.is_set():
            await asyncio.sleep(0.001)
        ends.cancel()
        with pytest.raises(QueryError):
            await answer
        del answer
        release.set()
        while queue.inside:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        gc.collect()

    asyncio.run(ask())
    gc.collect()
    queue.shutdown()
    assert told == []
