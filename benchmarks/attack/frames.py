"""Frames at the query port of a server."""

import asyncio
import random
import socket
import tempfile
import time
from pathlib import Path
from typing import Self

import msgspec
from tests.fuzz import fuzz_world

import gamay
from benchmarks.attack.findings import Findings
from benchmarks.attack.judged import DEFECTS, LATE_S
from benchmarks.attack.mutations import mutated
from benchmarks.attack.target import SECRET, Doors
from benchmarks.attack.wire import judge_bytes
from gamay.base.clock import SYSTEM_CLOCK
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.routes.routing import RoutingTables
from gamay.broker.scatter.remote import QueryConnections
from gamay.embedded.core import LocalCluster
from gamay.query.wire.request import decode_request_header, encode_header
from gamay.rpc.client import Channel
from gamay.rpc.errors import CallFailedError, CallTimeoutError, RpcError
from gamay.rpc.frames import VERSION, FrameKind, Header, Hello, pack, pack_hello
from gamay.rpc.handshake import NO_SECRET, NONCE_BYTES, ClusterSecret
from gamay.rpc.peer import ConnectionLimits
from gamay.rpc.server import Call, Server

_LIMITS = ConnectionLimits(connect_s=LATE_S, silence_s=60)
_QUERIES = (
    "SELECT COUNT(*) FROM t WHERE i > 1 AND s IN ('a', 'b')",
    "SELECT s, SUM(x), DISTINCTCOUNTHLL(i) FROM t WHERE x < 2 GROUP BY s ORDER BY 2 DESC LIMIT 5",
    "SELECT DISTINCT s, i FROM t ORDER BY i LIMIT 2",
    "SELECT * FROM t WHERE regexp_like(s, '^a') LIMIT 3",
    "SELECT CASE WHEN i > 1 THEN 'x' ELSE s END, PERCENTILE(x, 90) FROM t GROUP BY 1 HAVING COUNT(*) > 0",
)


class Frames:
    """Frames at the query port: damaged ones of strangers, and damaged calls of a member."""

    _STRANGERS_SHARE = 0.5

    def __init__(self, doors: Doors, seed: int) -> None:
        self._port = doors.query_port
        self._loop = asyncio.new_event_loop()
        self._calls = self._loop.run_until_complete(_recorded_calls())
        hello = b"".join(pack_hello(Hello(VERSION, VERSION, "Broker_x", 1 << 20, 10, bytes(NONCE_BYTES))))
        self._hellos = [
            hello + frame for frame in (_frame(FrameKind.PROOF, bytes(32)), _frame(FrameKind.CALL, *self._calls[0]), b"")
        ]
        secret = ClusterSecret(SECRET.encode())
        self._channel = Channel("127.0.0.1", doors.query_port, "Broker_attack", _LIMITS, secret=secret)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon(self._channel.close)
        self._loop.run_until_complete(asyncio.sleep(0.1))
        self._loop.close()

    def send(self, number: int, rng: random.Random, findings: Findings) -> None:
        """Send a frame."""
        if rng.random() < self._STRANGERS_SHARE:
            judge_bytes(self._port, mutated(rng.choice(self._hellos), rng, self._hellos), number, findings, b"defect")
            return
        call = list(rng.choice(self._calls))
        place = rng.randrange(len(call))
        call[place] = mutated(call[place], rng, [other[min(place, len(other) - 1)] for other in self._calls])
        began_s = time.monotonic()
        try:
            self._loop.run_until_complete(self._channel.call(call, LATE_S))
        except CallTimeoutError as error:
            findings.wrongly(number, call, repr(error))
        except CallFailedError as error:
            if any(text in str(error) for text in DEFECTS):
                findings.wrongly(number, call, str(error))
            else:
                findings.refused()
        except RpcError as error:  # the connection was closed: the next call makes another
            findings.wrongly(number, call, repr(error))
        else:
            findings.answered()
        findings.took(time.monotonic() - began_s, call)


def _frame(kind: FrameKind, *buffers: bytes) -> bytes:
    return b"".join(pack(Header(kind, 1 if kind is FrameKind.CALL else 0, tuple(map(len, buffers)), 10_000), buffers))


async def _recorded_calls() -> list[list[bytes]]:
    """Return the calls that a broker sends for some queries of the target's table `t`, as the buffers of each."""
    calls: list[list[bytes]] = []

    def note(call: Call) -> None:
        header, *rest = call.buffers
        asked = msgspec.structs.replace(decode_request_header(memoryview(header)), segments=("t_0",))
        calls.append([encode_header(asked), *map(bytes, rest)])
        call.fail(0, "noted")

    server = Server("noting", note, _LIMITS, NO_SECRET)
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    await server.start(listening)
    with tempfile.TemporaryDirectory() as folder:
        with gamay.connect(folder) as db:
            db.create_table("t", fuzz_world.rows(random.Random(1), 3, 0.0), schema=fuzz_world.schema("t"))
        cluster = LocalCluster(Path(folder), threads=1)
        cluster.prepare()
        cluster.start()
        servers = QueryConnections("Broker_notes", lambda _: ("127.0.0.1", listening.getsockname()[1]), SYSTEM_CLOCK)
        routing = RoutingTables(cluster.registry)
        routing.start()
        runner = QueryRunner("Broker_notes", routing, servers, SYSTEM_CLOCK)
        for sql in _QUERIES:
            await asyncio.to_thread(runner.run, sql, {})
        servers.close()
        cluster.stop()
    await server.stop()
    return calls
