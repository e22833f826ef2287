"""Event loops that poll briefly before sleeping: only while that pays, and never for long."""

import asyncio
import itertools
import socket
from collections.abc import Awaitable, Callable

import uvloop

from gamay.rpc.busy_poll import BusyPoll
from gamay.rpc.client import Channel
from gamay.rpc.peer import ConnectionLimits
from gamay.rpc.server import Call, Server

US, MS, S = 1000, 1_000_000, 1_000_000_000


class Watch:
    """A clock that advances by a fixed step at each reading."""

    def __init__(self, step_ns: int) -> None:
        self.now, self.step = 10 * S, step_ns

    def __call__(self) -> int:
        self.now += self.step
        return self.now


def on_a_loop(test: Callable[[BusyPoll, Watch], Awaitable[None]], step_ns: int = 5 * US, wait_us: int = 400) -> None:
    watch = Watch(step_ns)
    asyncio.run(test(BusyPoll(wait_us, watch), watch))


async def turns(busy_poll: BusyPoll, at_most: int = 1000) -> int:
    """Let the loop turn until it may sleep; return how often it turned."""
    count = 0
    while busy_poll.is_on and count < at_most:
        await asyncio.sleep(0)
        count += 1
    return count


def test_what_does_not_come_is_waited_for_only_so_long() -> None:
    async def test(busy_poll: BusyPoll, watch: Watch) -> None:
        busy_poll.expect()
        assert busy_poll.is_on
        assert 70 < await turns(busy_poll) < 90  # 400 us of 5

    on_a_loop(test)


def test_what_has_come_lets_the_loop_sleep() -> None:
    async def test(busy_poll: BusyPoll, watch: Watch) -> None:
        for _ in range(20):  # and it does so the next time as well
            busy_poll.expect()
            assert busy_poll.is_on
            await asyncio.sleep(0)
            busy_poll.arrived()
            assert await turns(busy_poll) <= 2

    on_a_loop(test)


def test_the_next_may_be_expected_before_the_loop_has_turned() -> None:
    async def test(busy_poll: BusyPoll, watch: Watch) -> None:
        for _ in range(100):
            busy_poll.expect()
            await asyncio.sleep(0)
            busy_poll.arrived()
            watch.now += 3 * MS  # it takes a while to do what has come; that is no slip
        busy_poll.expect()
        assert await turns(busy_poll) > 70

    on_a_loop(test)


def test_after_waiting_in_vain_it_sleeps_four_times_as_long() -> None:
    async def test(busy_poll: BusyPoll, watch: Watch) -> None:
        pauses = []
        for _ in range(8):
            busy_poll.expect()
            assert busy_poll.is_on
            await turns(busy_poll)
            ended = watch.now
            while not busy_poll.is_on:
                watch.now += MS // 10
                busy_poll.expect()
            pauses.append((watch.now - ended) / MS)
            busy_poll.arrived()
            await turns(busy_poll)
            watch.now += 2 * S
        assert all(later > 3 * earlier for earlier, later in itertools.pairwise(pauses[:5]))
        assert 0.9 < pauses[0] < 1.3
        assert all(pause < 1001 for pause in pauses)

    on_a_loop(test)


def test_what_comes_again_shortens_the_pause() -> None:
    async def test(busy_poll: BusyPoll, watch: Watch) -> None:
        for _ in range(6):
            busy_poll.expect()
            await turns(busy_poll)
            watch.now += 2 * S
        for _ in range(60):
            busy_poll.expect()
            busy_poll.arrived()
            await turns(busy_poll)
        busy_poll.expect()
        await turns(busy_poll)
        watch.now += 2 * MS
        busy_poll.expect()
        assert busy_poll.is_on
        await turns(busy_poll)

    on_a_loop(test)


def test_a_loop_that_others_keep_from_turning_goes_to_sleep() -> None:
    async def test(busy_poll: BusyPoll, watch: Watch) -> None:
        busy_poll.expect()
        for _ in range(5):
            await asyncio.sleep(0)
        watch.now += 250 * US
        assert await turns(busy_poll) == 1
        busy_poll.expect()
        assert not busy_poll.is_on

    on_a_loop(test)


def test_never_where_nobody_wants_it() -> None:
    async def test(busy_poll: BusyPoll, watch: Watch) -> None:
        busy_poll.expect()
        assert not busy_poll.is_on

    on_a_loop(test, wait_us=0)


def test_both_ends_of_a_connection_sleep_when_nothing_is_asked() -> None:
    looks = 0

    def count() -> int:
        nonlocal looks
        looks += 1
        return looks * US

    async def test() -> None:
        nonlocal looks
        listening = socket.create_server(("127.0.0.1", 0))
        limits = ConnectionLimits()
        held: list[Call] = []

        def handle(call: Call) -> None:
            if bytes(call.buffers[0]) == b"x":
                held.append(call)
            else:
                call.reply(call.buffers)

        server = Server("server", handle, limits)
        server.busy_poll = BusyPoll(limits.busy_poll_us, count)
        await server.start(listening)
        channel = Channel("127.0.0.1", listening.getsockname()[1], "client", limits)
        channel.busy_poll = BusyPoll(limits.busy_poll_us, count)
        for number in range(50):
            answer = await channel.call([b"%d" % number], 5)
            assert bytes(answer[0]) == b"%d" % number
        assert looks > 100
        while channel.busy_poll.is_on or server.busy_poll.is_on:
            await asyncio.sleep(0.001)
        before = looks
        await asyncio.sleep(0.05)
        assert looks == before
        waiting = asyncio.ensure_future(channel.call([b"x"], 5))
        while not held or channel.busy_poll.is_on:  # the server takes longer than anybody stays awake
            await asyncio.sleep(0.001)
        held[0].reply([b"late"])
        assert bytes((await waiting)[0]) == b"late"
        channel.close()
        await server.stop()

    for factory in (None, uvloop.new_event_loop):
        looks = 0
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(asyncio.wait_for(test(), 20))
