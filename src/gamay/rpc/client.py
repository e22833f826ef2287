"""Client side: one persistent connection to a server for concurrent calls, reconnected when it breaks."""

import asyncio
import ssl
from collections.abc import Sequence

from gamay.rpc.busy_poll import BusyPoll
from gamay.rpc.errors import (
    BusyError,
    CallFailedError,
    CallTimeoutError,
    ConnectionLostError,
    NotSentError,
    ProtocolError,
    RpcError,
)
from gamay.rpc.frames import Buffer, Frame, FrameKind, Header
from gamay.rpc.handshake import NO_SECRET, ClusterSecret, Side
from gamay.rpc.peer import ConnectionLimits, Peer

# checks without a received byte after which a pinged server counts as dead
_MISSED_MAX = 3


class Channel:
    """The connection to one server, to be used on one event loop.

    name: of this process. tls: the context that verifies the server's certificate; None for no encryption. secret: shared
    with the server.
    """

    def __init__(
        self,
        host: str,
        port: int,
        name: str,
        limits: ConnectionLimits | None = None,
        tls: ssl.SSLContext | None = None,
        secret: ClusterSecret = NO_SECRET,
    ) -> None:
        self.address = f"{host}:{port}"
        self.host, self.port = host, port
        self._name, self._tls, self._secret = name, tls, secret
        self._limits = limits or ConnectionLimits()
        self.busy_poll = BusyPoll(self._limits.busy_poll_us)
        self._peer: Peer | None = None
        self._connecting: asyncio.Task[Peer] | None = None
        self._is_silent = False  # the last attempt to connect got no answer, as from a machine that is down
        self._calls: dict[int, asyncio.Future[list[memoryview]]] = {}
        self._next_id = 1
        self._watch: asyncio.TimerHandle | None = None
        self._seen = -1
        self._missed = 0
        self.is_leaving = False

    @property
    def in_flight(self) -> int:
        """The number of calls without an answer yet."""
        return len(self._calls)

    @property
    def is_connected(self) -> bool:
        """Whether there is an open connection, on which a call is sent at once."""
        return self._peer is not None and self._peer.is_open

    async def connect(self) -> Peer:
        """Return the connection; connect if needed. Raises NotSentError."""
        peer = self._peer
        if peer is not None and peer.is_open:
            return peer
        connecting = self._attempt()
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not connecting.cancelled() or (task is not None and task.cancelling()):
                raise
            raise NotSentError(f"the connection to {self.address} was closed by this process") from None

    def _attempt(self) -> "asyncio.Task[Peer]":
        """Return the running attempt to connect, or start one."""
        if self._connecting is None:
            self._connecting = asyncio.ensure_future(self._open())
            self._connecting.add_done_callback(self._opened)
        return self._connecting

    async def call(
        self, buffers: Sequence[Buffer], timeout_s: float, server_s: float | None = None, context: str = ""
    ) -> list[memoryview]:
        """Send buffers; return those of the answer. server_s: the server's time limit, if less. context: identifies
        the call's context at the caller; sent to the server. If the last attempt to connect got no answer, a call
        starts the next attempt but does not wait for it, since it may take as long again.

        Raises NotSentError, ConnectionLostError, CallTimeoutError, ProtocolError (too large), CallFailedError.
        """
        loop = asyncio.get_running_loop()
        expires_s = loop.time() + timeout_s
        peer = self._peer
        try:
            if peer is None or not peer.is_open:
                attempt = self._attempt()
                if self._is_silent and not attempt.done():
                    raise NotSentError(f"{self.address} does not answer; reconnecting in the background")
                peer = await asyncio.wait_for(self.connect(), timeout_s)
            if not peer.has_room:
                await asyncio.wait_for(peer.room(), expires_s - loop.time())
        except TimeoutError:
            raise CallTimeoutError(f"{self.address} took no call within {timeout_s * 1000:.0f} ms") from None
        if self.is_leaving:
            raise NotSentError(f"{self.address} is shutting down, and takes no more calls")
        if peer.other is None or len(self._calls) >= peer.other.calls:
            raise BusyError(f"{len(self._calls)} calls to {self.address} are in flight, which is the limit")
        number, self._next_id = self._next_id, self._next_id + 1
        left_s = expires_s - loop.time() - (0.0 if server_s is None else timeout_s - server_s)
        try:
            peer.send(Header(FrameKind.CALL, number, tuple(map(_size, buffers)), left_s * 1000, context), buffers)
        except ConnectionLostError as error:
            raise NotSentError(str(error)) from error
        answer: asyncio.Future[list[memoryview]] = loop.create_future()
        self._calls[number] = answer
        if len(self._calls) == 1:
            self.busy_poll.expect()
        if self._watch is None:
            self._watch = loop.call_later(self._limits.silence_s / 4, self._check_silence)
        timer = loop.call_at(expires_s, self._expire, number)
        try:
            return await answer
        finally:
            timer.cancel()
            self.busy_poll.arrived()
            if self._calls.pop(number, None) is not None and peer.is_open and not _came(answer):
                peer.send(Header(FrameKind.CANCEL, number))

    def close(self) -> None:
        """Close the connection; calls in flight fail."""
        if self._connecting is not None:
            self._connecting.cancel()
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._peer is not None:
            self._peer.close(ConnectionLostError("the connection was closed by this process"))

    async def _open(self) -> Peer:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(self._limits.connect_s):
                _, peer = await loop.create_connection(
                    lambda: Peer(self._name, self._limits, Side.CALLER, self._on_frame, self._on_lost, self._secret),
                    self.host, self.port, ssl=self._tls,
                )  # fmt: skip
                try:
                    await peer.greeted
                except BaseException:
                    peer.close(ConnectionLostError("no greeting"))
                    raise
        except TimeoutError:
            self._is_silent = True
            raise NotSentError(f"{self.address} did not answer within {self._limits.connect_s:g} s") from None
        except (OSError, RpcError) as error:
            self._is_silent = False
            raise NotSentError(f"{self.address} cannot be reached: {error}") from error
        self.is_leaving = self._is_silent = False
        return peer

    def _opened(self, task: "asyncio.Task[Peer]") -> None:
        self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self._peer = task.result()

    def _on_frame(self, peer: Peer, frame: Frame) -> None:
        header = frame.header
        if header.kind == FrameKind.LEAVE:
            self.is_leaving = True
        elif header.kind in (FrameKind.REPLY, FrameKind.FAIL):
            answer = self._calls.get(header.id)
            if answer is None or answer.done():  # the call is no longer awaited
                return
            if header.kind == FrameKind.REPLY:
                answer.set_result(frame.buffers)
            else:
                answer.set_exception(CallFailedError(int(header.number), header.text, frame.buffers))
        elif header.kind != FrameKind.PONG:
            raise ProtocolError(f"{self.address} sent a frame of the unknown kind {header.kind}")

    def _on_lost(self, peer: Peer, reason: RpcError) -> None:
        if self._peer is peer or self._peer is None:
            self._peer = None
            for answer in self._calls.values():
                if not answer.done():
                    answer.set_exception(ConnectionLostError(f"{self.address}: {reason}"))

    def _expire(self, number: int) -> None:
        answer = self._calls.get(number)
        if answer is not None and not answer.done():
            answer.set_exception(CallTimeoutError(f"{self.address} has not answered in time"))

    def _check_silence(self) -> None:
        """Ping a server with unanswered calls; close the connection if it stays silent."""
        loop, peer = asyncio.get_running_loop(), self._peer
        self._watch = None
        if not self._calls or peer is None or not peer.is_open:
            return
        # checks are counted, not seconds: after a suspension of this process, received bytes are read after this check
        self._missed = self._missed + 1 if peer.num_received == self._seen else 0
        self._seen = peer.num_received
        if self._missed == 1:
            peer.send(Header(FrameKind.PING))
        elif self._missed > _MISSED_MAX:
            peer.close(ConnectionLostError(f"it has been silent for {self._limits.silence_s:g} s"))
            return
        self._watch = loop.call_later(self._limits.silence_s / 4, self._check_silence)


def _size(buffer: Buffer) -> int:
    return buffer.nbytes if isinstance(buffer, memoryview) else len(buffer)


def _came(answer: "asyncio.Future[list[memoryview]]") -> bool:
    """Whether the other side has answered the call."""
    if not answer.done() or answer.cancelled():
        return False
    return not isinstance(answer.exception(), CallTimeoutError)
