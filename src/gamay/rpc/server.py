"""Server side: connections of callers, and answers to their calls."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TypeAlias

from gamay.rpc.busy_poll import BusyPoll
from gamay.rpc.errors import ConnectionLostError, ProtocolError, RpcError
from gamay.rpc.frames import Buffer, Frame, FrameKind, Header, Unfinished
from gamay.rpc.handshake import NO_SECRET, ClusterSecret, Side
from gamay.rpc.peer import ConnectionLimits, CountUnsent, Peer

_log = logging.getLogger(__name__)

OUT_OF_CAPACITY = 211
INTERNAL = 450


class Call:
    """One call in flight. timeout_ms: its time limit. on_cancel: called when it is cancelled. context: identifies the
    call's context at the caller.

    All methods are to be called on the event loop.
    """

    __slots__ = ("_busy_poll", "_peer", "_under_way", "buffers", "context", "id", "on_cancel", "timeout_ms")

    def __init__(self, peer: Peer, frame: Frame, under_way: "dict[int, Call]", busy_poll: BusyPoll) -> None:
        self._peer = peer
        self._busy_poll = busy_poll
        self._under_way = under_way
        self.id = frame.header.id
        self.timeout_ms = frame.header.number
        self.context = frame.header.text
        self.buffers = frame.buffers
        self.on_cancel: Callable[[], object] | None = None
        under_way[self.id] = self

    def reply(self, buffers: Sequence[Buffer]) -> None:
        """Answer; the answer to a call that was cancelled, or whose caller is gone, is dropped."""
        if self._end():
            try:
                self._peer.send(Header(FrameKind.REPLY, self.id, _sizes(buffers)), buffers)
            except ProtocolError as error:
                self._peer.send(Header(FrameKind.FAIL, self.id, (), INTERNAL, str(error)))
            if not self._under_way:
                self._busy_poll.expect()

    def fail(self, code: int, message: str, buffers: Sequence[Buffer] = ()) -> None:
        """Answer with an error, and buffers about it."""
        if self._end():
            self._peer.send(Header(FrameKind.FAIL, self.id, _sizes(buffers), code, message), buffers)

    def _end(self) -> bool:
        return self._under_way.pop(self.id, None) is not None and self._peer.is_open


def _sizes(buffers: Sequence[Buffer]) -> tuple[int, ...]:
    return tuple([buffer.nbytes if isinstance(buffer, memoryview) else len(buffer) for buffer in buffers])


Handler: TypeAlias = Callable[[Call], None]
"""Handles a call; it answers at once or later, and must return quickly."""


class Server:
    """Server that accepts connections between `start` and `stop`, on the event loop on which both are awaited.

    secret: shared with callers. A connection that does not authenticate in time is closed. count_unsent: see `Peer`.
    """

    def __init__(
        self,
        name: str,
        handler: Handler,
        limits: ConnectionLimits | None = None,
        secret: ClusterSecret = NO_SECRET,
        count_unsent: CountUnsent = lambda _: None,
    ) -> None:
        self._name = name
        self._count_unsent = count_unsent
        self._secret = secret
        self._handler = handler
        self._limits = limits or ConnectionLimits()
        self._server: asyncio.Server | None = None
        self._unfinished = Unfinished(self._limits.unfinished_bytes)
        self._peers: dict[Peer, dict[int, Call]] = {}
        self._is_leaving = False
        self._told_s = float("-inf")
        self.busy_poll = BusyPoll(self._limits.busy_poll_us)

    @property
    def in_flight(self) -> int:
        """The number of calls without an answer yet."""
        return sum(map(len, self._peers.values()))

    async def start(self, listening: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """Start to accept connections on a bound socket."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._peer, sock=listening, ssl=tls)

    def leave(self) -> None:
        """Ask all callers to send no more calls; those that still arrive are answered."""
        self._is_leaving = True
        for peer in self._peers:
            if peer.is_open:
                peer.send(Header(FrameKind.LEAVE))

    async def stop(self) -> None:
        """Close all connections."""
        if self._server is not None:
            self._server.close()
        for peer in list(self._peers):
            peer.close()
        for peer in list(self._peers):
            try:
                await asyncio.wait_for(peer.ended.wait(), 1)
            except TimeoutError:  # the other side does not read what it was sent
                peer.close(ConnectionLostError("this process ends"))

    def _peer(self) -> Peer:
        peer = Peer(
            self._name, self._limits, Side.ANSWERER, self._on_frame, self._on_lost, self._secret, self._unfinished,
            self._count_unsent,
        )  # fmt: skip
        # do not read calls from a peer that does not read answers
        peer.on_room = lambda has_room: peer.pause(not has_room)
        peer.greeted.add_done_callback(lambda _: self._greeted(peer))
        self._peers[peer] = {}
        self._expect_greeting(peer)
        return peer

    def _expect_greeting(self, peer: Peer) -> None:
        def check() -> None:
            if not peer.greeted.done():
                peer.close(ProtocolError("no greeting came"))

        asyncio.get_running_loop().call_later(self._limits.connect_s, check)

    def _greeted(self, peer: Peer) -> None:
        if self._is_leaving and peer.is_open:
            peer.send(Header(FrameKind.LEAVE))

    def _on_frame(self, peer: Peer, frame: Frame) -> None:
        header, under_way = frame.header, self._peers[peer]
        if header.kind == FrameKind.CANCEL:
            call = under_way.pop(header.id, None)
            if call is not None and call.on_cancel is not None:
                call.on_cancel()
        elif header.kind == FrameKind.CALL and header.id not in under_way:
            self.busy_poll.arrived()
            if len(under_way) >= self._limits.calls:
                text = f"{len(under_way)} calls of this connection are in flight, which is the limit"
                peer.send(Header(FrameKind.FAIL, header.id, (), OUT_OF_CAPACITY, text))
            else:
                self._handler(Call(peer, frame, under_way, self.busy_poll))
        elif header.kind != FrameKind.PONG:
            raise ProtocolError(f"a caller sent a frame of the kind {header.kind}, call {header.id}, out of turn")

    def _on_lost(self, peer: Peer, reason: RpcError) -> None:
        if isinstance(reason, ProtocolError):
            self._tell(peer, reason)
        for call in list(self._peers.pop(peer, {}).values()):
            if call.on_cancel is not None:
                call.on_cancel()

    def _tell(self, peer: Peer, reason: ProtocolError) -> None:
        """Log why a connection was refused or ended; at most once a second, since any client can cause it."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._told_s >= 1:
            self._told_s = now_s
            _log.warning("a connection of %s to the query port was closed: %s", peer.address, reason)
