"""Remote servers, reached over their query ports.

All connections belong to one event loop: that of the broker's HTTP interface if there is one, so that a query never changes
threads on its way to the servers and back; else a separate one.
"""

import asyncio
import logging
import ssl
import threading
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, TypeVar

import uvloop

from gamay.base import spans
from gamay.base.clock import Clock
from gamay.base.errors import ErrorCode, GamayError, QueryError, error_code
from gamay.broker.scatter.connection import UnreachableServerError
from gamay.broker.scatter.failures import FailureDetector
from gamay.broker.scatter.routed_query import RoutedQuery
from gamay.query.answer.response import BrokerResponse
from gamay.query.bind.binder import BoundQuery
from gamay.query.execute.server_result import ServerResult
from gamay.query.limits.deadline import Deadline
from gamay.query.wire.request import encode_known, encode_request
from gamay.query.wire.result import Received, done_of, receive
from gamay.rpc.client import Channel
from gamay.rpc.errors import BusyError, CallFailedError, CallTimeoutError, NotSentError, ProtocolError, RpcError
from gamay.rpc.handshake import NO_SECRET, ClusterSecret
from gamay.rpc.peer import BUSY_POLL_US, ConnectionLimits

T = TypeVar("T")

_log = logging.getLogger(__name__)

_CONNECT_S = 2.0
# Of a query's remaining time, servers get all but twice this share, and are waited for all but once, so that the results of
# the others can still be merged if one does not answer.
_RESERVED_SHARE = 0.02
_RESERVED_S_MAX = 0.1


class RemoteServer:
    """Client of one server."""

    def __init__(self, name: str, channel: Channel, loop: "ServerLoop", clock: Clock) -> None:
        self.name = name
        self.channel = channel
        self._loop = loop
        self._clock = clock

    async def ask(
        self,
        table: str,
        query: BoundQuery,
        segments: Sequence[str],
        deadline: Deadline,
        latest: Collection[str] = (),
        query_id: str = "",
    ) -> Received:
        """Like `execute`, from the event loop of the connections; `Received.result` decodes the result."""
        left_s, reserved_s = _times(deadline)
        try:
            request = encode_request(query_id, table, query, segments, deadline, latest)
            answer = await self.channel.call(request, left_s - reserved_s, left_s - 2 * reserved_s, spans.context())
        except CallFailedError as error:
            if error.buffers and deadline.budget is not None:
                deadline.budget.parts.append(done_of(error.buffers[0]))
            raise QueryError(error_code(error.code), str(error)) from error
        except RpcError as error:
            raise self._unreachable(error) from error
        return receive(answer)

    async def answer(
        self, routed: RoutedQuery, segments: Sequence[str], deadline: Deadline, query_id: str
    ) -> BrokerResponse | None:
        """Answer a query on the fast path from the named segments, on the event loop of the connections.

        None to leave it to `ask`, which also reports errors. Raises QueryError 503 if it was cancelled.
        """
        if not self.channel.is_connected:
            return None
        route, bound = routed.route, routed.statement.bound
        memory = route.limits.memory_bytes
        request = encode_known(query_id, route.table, bound, routed.filter, segments, deadline.timeout_ms, memory)
        left_s, reserved_s = _times(deadline)
        try:
            answer = await self.channel.call(request, left_s - reserved_s, left_s - 2 * reserved_s)
            return receive(answer).response(bound)
        except GamayError:
            deadline.check()
            return None

    def execute(
        self, table: str, query: BoundQuery, segments: Sequence[str], deadline: Deadline, latest: Collection[str] = ()
    ) -> tuple[ServerResult, Sequence[str]]:
        """Send the query, and block until the answer is there."""
        received = self._loop.wait(self.ask(table, query, segments, deadline, latest))
        return received.result(query, self._clock), received.missing

    async def probe(self) -> bool:
        """Return whether the server accepts queries, connecting to it if necessary."""
        try:
            await self.channel.connect()
        except NotSentError:
            return False
        return not self.channel.is_leaving

    def _unreachable(self, error: RpcError) -> QueryError:
        if isinstance(error, NotSentError):
            text = f"Server {self.name} was not asked: {error}"
            return UnreachableServerError(ErrorCode.BROKER_REQUEST_SEND, text, is_down=not isinstance(error, BusyError))
        if isinstance(error, ProtocolError):
            return QueryError(ErrorCode.BROKER_REQUEST_SEND, f"Server {self.name} was not asked: {error}")
        is_late = isinstance(error, CallTimeoutError)
        text = f"1 servers [{self.name}] not responded: {'it did not answer in time' if is_late else error}"
        return UnreachableServerError(ErrorCode.SERVER_NOT_RESPONDING, text, is_down=not is_late)


def _times(deadline: Deadline) -> tuple[float, float]:
    """Return the remaining time of a query, and the share of it that is reserved twice for merging; seconds."""
    left_s = deadline.remaining_ms / 1000
    return left_s, min(_RESERVED_S_MAX, left_s * _RESERVED_SHARE)


class ServerLoop:
    """The event loop of the connections: the first loop that uses them, or one on a separate thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def adopt(self) -> None:
        """Adopt the running event loop, unless there is one already."""
        if self._loop is not None:
            return
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.get_running_loop()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work on the loop of the connections, awaited from any loop."""
        self.adopt()
        assert self._loop is not None
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run work on the loop of the connections, blocking a thread that has no loop."""
        with self._lock:
            if self._loop is None:
                self._loop = uvloop.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="broker-servers", daemon=True)
                self._thread.start()
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call(self, work: Callable[[], object]) -> None:
        """Schedule a call on the loop, if there is one."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(work)

    def close(self) -> None:
        """Stop the thread, if there is one."""
        if self._thread is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()


class QueryConnections:
    """Connections to the servers of a cluster by instance id; implements `gamay.broker.scatter.connection.Connections`.

    name: of this broker. address_of: returns the (host, port) of an instance's query port; None if unknown. busy_poll_us:
    see `gamay.rpc.peer.ConnectionLimits`; None for the default. secret: shared with the servers.
    """

    def __init__(
        self,
        name: str,
        address_of: Callable[[str], tuple[str, int] | None],
        clock: Clock,
        tls: ssl.SSLContext | None = None,
        limits: ConnectionLimits | None = None,
        busy_poll_us: int | None = None,
        secret: ClusterSecret = NO_SECRET,
    ) -> None:
        self.loop = ServerLoop()
        self._secret = secret
        self._name = name
        self._address_of = address_of
        self._clock = clock
        self._tls = tls
        self._limits = limits or ConnectionLimits(
            connect_s=_CONNECT_S, busy_poll_us=BUSY_POLL_US if busy_poll_us is None else busy_poll_us
        )
        self._lock = threading.Lock()
        self._servers: dict[str, RemoteServer] = {}
        self._probes: set[asyncio.Task[None]] = set()
        self._closed = False
        self.failures = FailureDetector()

    def get(self, server: str, /) -> RemoteServer | None:
        """Return the client of a server, or None if its address is unknown. May read the metadata store."""
        known = self._servers.get(server)
        return known if known is not None else self._at(server, self._address(server))

    def known(self, server: str) -> RemoteServer | None:
        """Return the client of a server that was asked before; None if `find` has to look it up."""
        return self._servers.get(server)

    async def find(self, server: str) -> RemoteServer | None:
        """Like `get`, without blocking an event loop on the metadata store."""
        known = self._servers.get(server)
        return known if known is not None else self._at(server, await asyncio.to_thread(self._address, server))

    def _address(self, server: str) -> tuple[str, int] | None:
        try:
            return self._address_of(server)
        except Exception:  # noqa: BLE001 - without the metadata store, the last known address is used
            _log.exception("cannot read the address of %s; using the last known one", server)
            known = self._servers.get(server)
            return None if known is None else (known.channel.host, known.channel.port)

    def _at(self, server: str, address: tuple[str, int] | None) -> RemoteServer | None:
        """Return the client of a server, reconnecting if its address changed; None if the address is None."""
        known = self._servers.get(server)
        if known is not None and address == (known.channel.host, known.channel.port):
            return known
        if known is not None:
            self.forget(server)
        if address is None:
            return None
        with self._lock:
            if server not in self._servers:
                channel = Channel(*address, self._name, self._limits, self._tls, self._secret)
                self._servers[server] = RemoteServer(server, channel, self.loop, self._clock)
            return self._servers[server]

    def probe_until_up(self, server: str) -> None:
        """Probe a server that is down until it accepts queries."""
        self.loop.call(lambda: self._keep(asyncio.ensure_future(self._probe(server))))

    def _keep(self, task: "asyncio.Task[None]") -> None:
        self._probes.add(task)
        task.add_done_callback(self._probes.discard)

    async def _probe(self, server: str) -> None:
        while not self._closed:
            await asyncio.sleep(self.failures.retry_s(server))
            if server not in self.failures.down:
                return
            known = self._at(server, await asyncio.to_thread(self._address, server))
            if known is None or await known.probe():  # an unknown address: later routes will not contain the server
                self.failures.recovered(server)
                return

    def forget(self, server: str) -> None:
        """Look up a server's address again at its next use."""
        with self._lock:
            known = self._servers.pop(server, None)
        if known is not None:
            self.loop.call(known.channel.close)

    def close(self) -> None:
        """Close all connections."""
        self._closed = True
        self.loop.call(lambda: [probe.cancel() for probe in self._probes])
        for server in list(self._servers):
            self.forget(server)
        self.loop.close()
