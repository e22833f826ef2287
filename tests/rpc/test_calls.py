"""Calls over real sockets: concurrent, cancelled, late, refused, disconnected."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop

from gamay.rpc.client import Channel
from gamay.rpc.errors import CallFailedError, CallTimeoutError, ConnectionLostError, NotSentError, ProtocolError
from gamay.rpc.frames import VERSION, Frame, FrameKind, FrameReader, Header, Hello, pack, pack_hello, unpack_hello
from gamay.rpc.handshake import NO_SECRET, NONCE_BYTES, Side
from gamay.rpc.peer import ConnectionLimits
from gamay.rpc.server import Call, Server

# A busy machine may hold a process up for longer than the hurried limits; only tests about them have them.
PATIENT = ConnectionLimits(connect_s=15, silence_s=60)
HURRIED = ConnectionLimits(connect_s=0.5, silence_s=0.6)


def free_socket(port: int = 0) -> socket.socket:
    found = socket.socket()
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    found.bind(("127.0.0.1", port))
    return found


class World:
    """A server whose calls do what their first buffer commands."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.held: list[Call] = []
        self.cancelled: list[int] = []
        self.server = Server("server", self.handle, limits)
        self.socket = free_socket()
        self.port = self.socket.getsockname()[1]

    def handle(self, call: Call) -> None:
        call.on_cancel = lambda: self.cancelled.append(call.id)
        what = bytes(call.buffers[0])
        if what == b"echo":
            call.reply(call.buffers[1:])
        elif what == b"later":
            asyncio.get_running_loop().call_later(0.01, call.reply, call.buffers[1:])
        elif what == b"fail":
            call.fail(250, "too late")
        else:
            self.held.append(call)


@contextlib.asynccontextmanager
async def world(limits: ConnectionLimits = PATIENT) -> AsyncIterator[tuple[World, Channel]]:
    made = World(limits)
    await made.server.start(made.socket)
    channel = Channel("127.0.0.1", made.port, "client", limits)
    try:
        yield made, channel
    finally:
        channel.close()
        await made.server.stop()


def run(test: Callable[[], Awaitable[Any]]) -> None:
    async def limited() -> None:
        await asyncio.wait_for(test(), 20)

    for factory in (None, uvloop.new_event_loop):
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(limited())


def test_calls_are_answered_in_any_order() -> None:
    async def test() -> None:
        async with world() as (_, channel):
            kinds = [b"echo", b"later"] * 100
            answers = await asyncio.gather(
                *(channel.call([kind, str(i).encode(), bytes(i)], 15) for i, kind in enumerate(kinds))
            )
            assert [(bytes(a), len(b)) for a, b in answers] == [(str(i).encode(), i) for i in range(200)]
            assert channel.in_flight == 0

    run(test)


def test_large_answers_and_slow_readers() -> None:
    async def test() -> None:
        async with world() as (_, channel):
            big = bytes(range(256)) * 40_000
            answers = await asyncio.gather(*(channel.call([b"echo", big, b"x"], 10) for _ in range(6)))
            assert all(bytes(answer[0]) == big and bytes(answer[1]) == b"x" for answer in answers)

    run(test)


def test_what_waits_to_be_read_is_counted_until_it_was() -> None:
    async def test() -> None:
        unsent: list[int] = []
        made = World(PATIENT)
        made.server = Server("server", made.handle, PATIENT, count_unsent=unsent.append)
        await made.server.start(made.socket)
        reader, other = (Channel("127.0.0.1", made.port, "client", PATIENT) for _ in range(2))
        await asyncio.gather(*(channel.call([b"echo", b"x"], 15) for channel in (reader, other)))
        assert unsent == []
        big = bytes(32 << 20)
        for channel in (reader, other):
            asking = asyncio.ensure_future(channel.call([b"hold", b""], 15))
            while not made.held:
                await asyncio.sleep(0.01)
            peer = channel._peer  # type: ignore[attr-defined]
            peer.pause(True)
            made.held.pop().reply([big])
            assert sum(unsent) > 16 << 20  # the system takes some megabytes
            if channel is reader:
                peer.pause(False)
                assert len((await asking)[0]) == len(big)
            else:
                peer.close(ConnectionLostError("gone"))
                with contextlib.suppress(ConnectionLostError):
                    await asking
            while sum(unsent):
                await asyncio.sleep(0.01)
        reader.close()
        await made.server.stop()

    run(test)


def test_an_error_has_its_code_and_the_connection_goes_on() -> None:
    async def test() -> None:
        async with world() as (_, channel):
            with pytest.raises(CallFailedError, match="too late") as failed:
                await channel.call([b"fail"], 15)
            assert failed.value.code == 250
            assert await channel.call([b"echo"], 15) == []

    run(test)


def test_a_call_that_is_late_or_cancelled_is_cancelled_at_the_server() -> None:
    async def test() -> None:
        async with world() as (made, channel):
            assert await channel.call([b"echo"], 15) == []
            with pytest.raises(CallTimeoutError, match="has not answered in time"):
                await channel.call([b"hold"], 0.4)
            task = asyncio.ensure_future(channel.call([b"hold"], 15))
            while len(made.held) < 2:
                await asyncio.sleep(0.005)
            task.cancel()
            while len(made.cancelled) < 2:
                await asyncio.sleep(0.005)
            made.held[0].reply([b"nobody waits for this"])
            assert await channel.call([b"echo"], 15) == []
            assert made.server.in_flight == 0
            assert 0 < made.held[0].timeout_ms < 400.1  # a difference of floats

    run(test)


def test_a_server_that_nobody_runs() -> None:
    async def test() -> None:
        unused = free_socket()
        port = unused.getsockname()[1]
        unused.close()
        with pytest.raises(NotSentError, match=f"127.0.0.1:{port} cannot be reached"):
            await Channel("127.0.0.1", port, "client", PATIENT).call([b"echo"], 15)

    run(test)


def test_a_server_that_dies_and_comes_back() -> None:
    async def test() -> None:
        async with world() as (made, channel):
            task = asyncio.ensure_future(channel.call([b"hold"], 15))
            while not made.held:
                await asyncio.sleep(0.005)
            await made.server.stop()
            with pytest.raises(ConnectionLostError, match=f"127.0.0.1:{made.port}: the connection broke"):
                await task
            with pytest.raises(NotSentError):
                await channel.call([b"echo"], 15)
            again = World(PATIENT)
            again.socket.close()
            again.socket = free_socket(made.port)
            await again.server.start(again.socket)
            assert await channel.call([b"echo"], 15) == []
            await again.server.stop()

    run(test)


def test_a_server_that_stands_still_counts_as_gone() -> None:
    async def test() -> None:
        listening = free_socket()
        listening.listen()
        loop = asyncio.get_running_loop()

        async def greet_and_stop() -> None:
            listening.setblocking(False)
            accepted, _ = await loop.sock_accept(listening)
            own, frames = bytes(NONCE_BYTES), FrameReader(1 << 10)
            await loop.sock_sendall(accepted, b"".join(pack_hello(Hello(VERSION, VERSION, "stopped", 1 << 20, 10, own))))
            heard: list[Frame] = []
            while len(heard) < 2:  # a hello and a proof
                heard += list(frames.filled(await loop.sock_recv_into(accepted, frames.space())))
            proof = NO_SECRET.proof(Side.ANSWERER, own, unpack_hello(heard[0]).nonce)
            await loop.sock_sendall(accepted, b"".join(pack(Header(FrameKind.PROOF, 0, (len(proof),)), [proof])))
            await asyncio.sleep(60)

        standing = asyncio.ensure_future(greet_and_stop())
        channel = Channel("127.0.0.1", listening.getsockname()[1], "client", ConnectionLimits(connect_s=15, silence_s=0.6))
        with pytest.raises(ConnectionLostError, match="silent"):  # not that the call's own time is over
            await channel.call([b"x"], 60)
        standing.cancel()
        listening.close()

    run(test)


def test_a_server_that_works_for_long_answers_pings() -> None:
    async def test() -> None:
        async with world(ConnectionLimits(connect_s=15, silence_s=0.6)) as (made, channel):
            task = asyncio.ensure_future(channel.call([b"hold"], 15))
            while not made.held:
                await asyncio.sleep(0.005)
            await asyncio.sleep(1.3)  # longer than a silent server has
            made.held[0].reply([b"done"])
            assert [bytes(b) for b in await task] == [b"done"]

    run(test)


def test_no_greeting_and_a_foreign_one() -> None:
    async def test() -> None:
        listening = free_socket()
        listening.listen()
        port = listening.getsockname()[1]
        with pytest.raises(NotSentError, match=r"did not answer within 0\.5 s"):
            await Channel("127.0.0.1", port, "client", HURRIED).call([b"x"], 15)
        listening.close()

        async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        server = await asyncio.start_server(http, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotSentError, match="is it a query port"):
            await Channel("127.0.0.1", port, "client", PATIENT).call([b"x"], 15)
        server.close()

    run(test)


def test_calls_do_not_wait_for_a_machine_that_is_silent_until_it_is_back() -> None:
    async def test() -> None:
        made = World(PATIENT)
        made.socket.listen()  # no process accepts, as on a machine that hangs
        channel = Channel("127.0.0.1", made.port, "client", HURRIED)
        with pytest.raises(NotSentError, match=r"did not answer within 0\.5 s"):
            await channel.call([b"echo"], 15)
        for _ in range(100):
            with pytest.raises(NotSentError, match="reconnecting in the background"):
                await channel.call([b"echo"], 15)
        await made.server.start(made.socket)
        while True:
            try:
                answer = await channel.call([b"echo", b"back"], 15)
            except NotSentError:
                await asyncio.sleep(0.01)
            else:
                break
        assert [bytes(part) for part in answer] == [b"back"]
        channel.close()
        await made.server.stop()

    run(test)


def test_versions_that_do_not_meet() -> None:
    async def test() -> None:
        async def newer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.writelines(pack_hello(Hello(5, 6, "Server_new_1", 1 << 20, 10)))

        server = await asyncio.start_server(newer, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotSentError, match="'Server_new_1' speaks versions 5 to 6 of the query protocol"):
            await Channel("127.0.0.1", port, "client", PATIENT).call([b"x"], 15)
        server.close()

    run(test)


def test_what_is_too_large_is_not_sent() -> None:
    async def test() -> None:
        async with world(ConnectionLimits(frame_bytes=50_000, connect_s=15)) as (_, channel):
            with pytest.raises(ProtocolError, match="takes frames of 50000 bytes"):
                await channel.call([b"echo", bytes(60_000)], 15)
            assert await channel.call([b"echo"], 15) == []

    run(test)


def test_no_more_calls_than_the_other_side_takes() -> None:
    async def test() -> None:
        async with world(ConnectionLimits(calls=2, connect_s=15)) as (made, channel):
            held = [asyncio.ensure_future(channel.call([b"hold"], 15)) for _ in range(2)]
            while len(made.held) < 2:
                await asyncio.sleep(0.005)
            with pytest.raises(NotSentError, match="2 calls to"):
                await channel.call([b"echo"], 15)
            for call in made.held:
                call.reply([])
            await asyncio.gather(*held)

    run(test)


def test_a_server_that_leaves_finishes_what_is_under_way() -> None:
    async def test() -> None:
        async with world() as (made, channel):
            task = asyncio.ensure_future(channel.call([b"hold"], 15))
            while not made.held:
                await asyncio.sleep(0.005)
            made.server.leave()
            while not channel.is_leaving:
                await asyncio.sleep(0.005)
            with pytest.raises(NotSentError, match="takes no more calls"):
                await channel.call([b"echo"], 15)
            made.held[0].reply([b"done"])
            assert [bytes(b) for b in await task] == [b"done"]

    run(test)


def test_a_caller_that_goes_or_talks_nonsense_harms_nobody() -> None:
    async def test() -> None:
        async with world() as (made, channel):
            _, writer = await asyncio.open_connection("127.0.0.1", made.port)
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            lost = Channel("127.0.0.1", made.port, "lost", PATIENT)
            task = asyncio.ensure_future(lost.call([b"hold"], 15))
            while not made.held:
                await asyncio.sleep(0.005)
            lost.close()
            with pytest.raises(ConnectionLostError):
                await task
            while not made.cancelled:
                await asyncio.sleep(0.005)
            peer = await channel.connect()
            peer._transport.writelines(pack(Header(99)))  # type: ignore[union-attr]
            await asyncio.wait_for(peer.ended.wait(), 5)
            assert await channel.call([b"echo"], 15) == []
            writer.close()

    run(test)
