"""Only processes with the cluster's secret are answered; others consume almost no resources."""

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.waiting import PATIENCE_S

from gamay.rpc.client import Channel
from gamay.rpc.errors import NotSentError, ProtocolError, RpcError
from gamay.rpc.frames import (
    GREETING_BYTES_MAX,
    VERSION,
    Buffer,
    Frame,
    FrameKind,
    FrameReader,
    Header,
    Hello,
    pack,
    pack_hello,
    unpack_hello,
)
from gamay.rpc.handshake import NO_SECRET, NONCE_BYTES, ClusterSecret, Side
from gamay.rpc.peer import ConnectionLimits, Peer
from gamay.rpc.server import Call, Server

SECRET, OTHER = ClusterSecret(b"the secret of this cluster"), ClusterSecret(b"the secret of another")
LIMITS = ConnectionLimits(connect_s=15, silence_s=60)


def joined(pieces: list[Buffer]) -> bytes:
    return b"".join(pieces)


def hello_of(nonce: bytes, name: str = "caller") -> bytes:
    return joined(pack_hello(Hello(VERSION, VERSION, name, 1 << 20, 10, nonce)))


def frame_of(kind: FrameKind, *buffers: bytes) -> bytes:
    return joined(pack(Header(kind, 1 if kind is FrameKind.CALL else 0, tuple(map(len, buffers)), 10_000), buffers))


# the proofs themselves


@given(st.binary(max_size=40), st.binary(min_size=32, max_size=32), st.binary(min_size=32, max_size=32))
def test_a_proof_is_of_one_side_one_secret_and_both_numbers(secret: bytes, own: bytes, theirs: bytes) -> None:
    known = ClusterSecret(secret)
    proof = known.proof(Side.CALLER, own, theirs)
    assert known.is_proof(proof, Side.CALLER, own, theirs)
    assert not known.is_proof(proof, Side.ANSWERER, own, theirs)
    assert not ClusterSecret(secret + b"\1").is_proof(proof, Side.CALLER, own, theirs)
    assert own == theirs or not known.is_proof(proof, Side.CALLER, theirs, own)
    assert not known.is_proof(proof[:-1], Side.CALLER, own, theirs)
    assert not known.is_proof(known.proof(Side.CALLER, b"", theirs), Side.CALLER, b"", theirs)


def test_random_numbers_are_of_one_length_and_differ() -> None:
    numbers = {NO_SECRET.random() for _ in range(100)}
    assert len(numbers) == 100
    assert {len(number) for number in numbers} == {NONCE_BYTES}


# over sockets


class World:
    """A server that knows the secret, and counts the calls that reach it."""

    def __init__(self) -> None:
        self.calls = 0
        self.server = Server("server", self.handle, LIMITS, SECRET)
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]

    def handle(self, call: Call) -> None:
        self.calls += 1
        call.reply(call.buffers)

    async def said_to(self, data: bytes) -> bytes:
        """Return the server's complete response to bytes, until it closes the connection."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            return await reader.read()
        return b""


def in_world(test: Any) -> None:
    async def run() -> None:
        world = World()
        await world.server.start(world.socket)
        try:
            await asyncio.wait_for(test(world), 20)
        finally:
            await world.server.stop()

    asyncio.run(run())


def test_who_knows_the_secret_is_answered() -> None:
    async def test(world: World) -> None:
        channel = Channel("127.0.0.1", world.port, "broker", LIMITS, secret=SECRET)
        answers = await asyncio.gather(*(channel.call([b"a" * size], 15) for size in (1, 100, 5_000, 300_000)))
        assert [len(answer[0]) for answer in answers] == [1, 100, 5_000, 300_000]
        channel.close()

    in_world(test)


@pytest.mark.parametrize("secret", [OTHER, NO_SECRET])
def test_who_knows_another_is_told_so_and_not_heard(secret: ClusterSecret, caplog: pytest.LogCaptureFixture) -> None:
    async def test(world: World) -> None:
        channel = Channel("127.0.0.1", world.port, "Broker_a", LIMITS, secret=secret)
        with pytest.raises(NotSentError, match=r"'Broker_a' and 'server' do not have the same .*gamay\.cluster\.secret"):
            await channel.call([b"a"], 15)
        assert world.calls == 0

    in_world(test)
    assert "a connection of 127.0.0.1" in caplog.text
    assert "'Broker_a' and 'server' do not have the same cluster secret" in caplog.text


def test_a_server_that_knows_another_secret_is_not_believed() -> None:
    """A process that listens at a server's address is sent nothing, whatever proof it forges."""

    async def test(world: World) -> None:
        received = bytearray()

        async def pretend(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(hello_of(bytes(32), "Server_x") + frame_of(FrameKind.PROOF, bytes(32)))
            received.extend(await reader.read())

        server = await asyncio.start_server(pretend, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotSentError, match="do not have the same cluster secret"):
            await Channel("127.0.0.1", port, "broker", LIMITS, secret=SECRET).call([b"something private"], 15)
        await asyncio.sleep(0.05)
        assert b"something private" not in received
        server.close()

    in_world(test)


def test_calls_without_a_proof_are_not_heard() -> None:
    async def test(world: World) -> None:
        call, number = frame_of(FrameKind.CALL, b"x"), bytes(range(32))
        for said in (
            call,
            hello_of(number) + call,
            hello_of(number) + frame_of(FrameKind.PROOF, bytes(32)) + call,
            hello_of(number) + frame_of(FrameKind.PROOF, bytes(32)) + frame_of(FrameKind.PROOF, bytes(32)) + call,
            hello_of(number) + frame_of(FrameKind.PROOF) + call,
            hello_of(b"") + frame_of(FrameKind.PROOF, SECRET.proof(Side.CALLER, b"", b"")) + call,
            hello_of(number) + frame_of(FrameKind.PING) + call,
        ):
            answer = await world.said_to(said)
            assert answer.count(b"server") <= 2  # its hello, and the reason
        assert world.calls == 0

    in_world(test)


def test_a_proof_that_was_overheard_is_of_no_use() -> None:
    async def test(world: World) -> None:
        overheard = bytearray()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, to_there = await asyncio.open_connection("127.0.0.1", world.port)

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, copy: bytearray | None) -> None:
                while data := await source.read(1 << 16):
                    if copy is not None:
                        copy.extend(data)
                    sink.write(data)

            await asyncio.gather(pump(reader, to_there, overheard), pump(there, writer, None))

        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        channel = Channel("127.0.0.1", server.sockets[0].getsockname()[1], "broker", LIMITS, secret=SECRET)
        assert [bytes(part) for part in await channel.call([b"a"], 15)] == [b"a"]
        assert world.calls == 1
        await world.said_to(bytes(overheard))
        assert world.calls == 1
        channel.close()
        server.close()

    in_world(test)


def test_a_frame_may_come_with_the_proof_before_it() -> None:
    """What is allowed of a frame is decided when the one before it has been taken."""

    async def test(world: World) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        frames = FrameReader(1 << 20)
        own = bytes(range(32))
        writer.write(hello_of(own))

        heard: list[Frame] = []

        async def next_frame() -> Frame:
            while not heard:
                data = await reader.read(1 << 12)
                frames.space()[: len(data)] = data
                heard.extend(frames.filled(len(data)))
            return heard.pop(0)

        theirs = unpack_hello(await next_frame()).nonce
        writer.write(
            frame_of(FrameKind.PROOF, SECRET.proof(Side.CALLER, own, theirs))
            + frame_of(FrameKind.CALL, bytes(8 * GREETING_BYTES_MAX))
        )
        proof = await next_frame()
        assert SECRET.is_proof(bytes(proof.buffers[0]), Side.ANSWERER, theirs, own)
        assert len((await next_frame()).buffers[0]) == 8 * GREETING_BYTES_MAX
        writer.close()

    in_world(test)


class Wire:
    """The transport of an event loop, as seen by a peer."""

    def __init__(self) -> None:
        self.closed = False

    def write(self, data: bytes) -> None:
        pass

    def writelines(self, data: Any) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_extra_info(self, name: str) -> tuple[str, int]:
        return "192.0.2.1", 99


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_damaged_greetings_end_the_connection_or_wait(data: st.DataObject) -> None:
    """Only an RpcError ends a connection, and no frame is delivered."""
    sent = bytearray(hello_of(bytes(32)) + frame_of(FrameKind.PROOF, bytes(32)) + frame_of(FrameKind.CALL, b"x"))
    for _ in range(data.draw(st.integers(0, 4))):
        sent[data.draw(st.integers(0, len(sent) - 1))] = data.draw(st.integers(0, 255))
    side = data.draw(st.sampled_from(Side))
    handed: list[Frame] = []

    async def feed() -> None:
        ended: list[RpcError] = []
        peer = Peer("peer", LIMITS, side, lambda _, frame: handed.append(frame), lambda _, why: ended.append(why), SECRET)
        wire = Wire()
        peer.connection_made(wire)  # type: ignore[arg-type]
        start = 0
        while start < len(sent) and not wire.closed:
            space = peer.get_buffer(0)
            count = min(len(space), len(sent) - start, data.draw(st.integers(1, 200)))
            space[:count] = sent[start : start + count]
            peer.buffer_updated(count)
            start += count
        peer.connection_lost(None)
        assert isinstance(ended[0], ProtocolError) or not wire.closed

    asyncio.run(feed())
    assert not handed


MEMORY_PROGRAM = """
import asyncio, os, socket, sys
from struct import pack
sys.path.insert(0, os.getcwd())
from gamay.base.allocator import keep_freed_memory
from gamay.rpc.client import Channel
from gamay.rpc.frames import FrameKind, Header
from gamay.rpc.handshake import ClusterSecret
from gamay.rpc.peer import ConnectionLimits
from gamay.rpc.server import Server

keep_freed_memory()
SECRET = ClusterSecret(b"one that both know")

def resident_mb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

async def main():
    limits = ConnectionLimits(frame_bytes=64 << 20, connect_s=1)
    server = Server("server", lambda call: call.reply([]), limits, SECRET)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(1024)
    await server.start(listening)
    port = listening.getsockname()[1]
    before = resident_mb()
    claim = pack("<II", 64 << 20, 100) + bytes(102)
    strangers = [await asyncio.open_connection("127.0.0.1", port) for _ in range(300)]
    for _, writer in strangers:
        writer.write(claim)
    await asyncio.sleep(0.3)
    of_strangers = resident_mb()
    members = [Channel("127.0.0.1", port, f"b{i}", limits, secret=SECRET) for i in range(100)]
    for member in members:
        peer = await member.connect()
        peer._transport.write(claim)
    await asyncio.sleep(0.3)
    most = resident_mb()
    for member in members:
        member.close()
    ended = all([await reader.read() is not None for reader, _ in strangers])
    for _, writer in strangers:
        writer.close()
    await asyncio.sleep(0.3)
    print(before, of_strangers, most, resident_mb(), ended, sep=",")
    await server.stop()

asyncio.run(main())
"""


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="resident memory is read from /proc")
def test_claims_take_no_memory() -> None:
    """300 strangers and 100 members each claim a frame of 64 MiB, of which they send 100 bytes."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY_PROGRAM], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr
    before, of_strangers, most, after, ended = done.stdout.strip().split(",")
    assert ended == "True"
    assert float(of_strangers) - float(before) < 30
    assert float(most) - float(before) < 60
    assert float(after) <= 1.1 * float(before) + 10
