"""One end of a connection: greeting and authentication, frames in both directions, and flow control."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from gamay.rpc.errors import ConnectionLostError, ProtocolError, RpcError
from gamay.rpc.frames import (
    GREETING_BYTES_MAX,
    VERSION,
    VERSION_MIN,
    Buffer,
    Frame,
    FrameKind,
    FrameReader,
    Header,
    Hello,
    Unfinished,
    pack,
    pack_hello,
    unpack_hello,
)
from gamay.rpc.handshake import NO_SECRET, ClusterSecret, Side

_WRITE_BYTES_HIGH = 4 << 20

SECRET_KEY = "gamay.cluster.secret"
"""The setting of processes for the shared secret."""

_NAME_MAX = 200

BUSY_POLL_US = 600
"""See `ConnectionLimits`."""


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits and timeouts of one end of a connection.

    frame_bytes: the largest frame. unfinished_bytes: of incomplete frames, over all connections to a server. calls: in
    flight on a connection. connect_s: until both sides have greeted and authenticated. silence_s: how long a side with
    unanswered calls may be silent before it counts as dead; it is pinged in between. busy_poll_us: how long an event loop
    polls for the answer to a call, or for the call after an answer; 0 disables it.
    """

    frame_bytes: int = 1 << 30
    unfinished_bytes: int = 1 << 30
    calls: int = 1024
    connect_s: float = 2.0
    silence_s: float = 3.0
    busy_poll_us: int = BUSY_POLL_US


OnFrame: TypeAlias = Callable[["Peer", Frame], None]
OnLost: TypeAlias = Callable[["Peer", RpcError], None]
CountUnsent: TypeAlias = Callable[[int], None]


class Peer(asyncio.BufferedProtocol):
    """One end of a connection, as a protocol of asyncio.

    name: of this process. on_frame: receives frames after the greeting. on_lost: called once, when the connection
    ends. side: which end this is. secret: shared by both ends. unfinished: counts the incomplete frames of several
    connections. count_unsent: called with changes of the number of unsent bytes, when the other side is slower.

    All methods are to be called on the event loop of the connection. `greeted` is done when the other side has
    greeted and authenticated; `other` is its greeting. Until then it may send small frames only. `num_received`
    counts the received bytes.
    """

    def __init__(
        self,
        name: str,
        limits: ConnectionLimits,
        side: Side,
        on_frame: OnFrame,
        on_lost: OnLost,
        secret: ClusterSecret = NO_SECRET,
        unfinished: Unfinished | None = None,
        count_unsent: CountUnsent = lambda _: None,
    ) -> None:
        self._hello = Hello(VERSION_MIN, VERSION, name, limits.frame_bytes, limits.calls, secret.random())
        self._side, self._secret = side, secret
        self._frame_bytes = limits.frame_bytes
        self._reader = FrameReader(GREETING_BYTES_MAX, unfinished)
        self._on_frame = on_frame
        self._on_lost = on_lost
        self._count_unsent = count_unsent
        self._unsent = 0
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._reason: RpcError | None = None
        self.other: Hello | None = None
        self.num_received = 0
        self.greeted: asyncio.Future[Hello] = asyncio.get_running_loop().create_future()
        self.ended = asyncio.Event()
        self.on_room: Callable[[bool], None] = lambda _: None

    @property
    def is_open(self) -> bool:
        """Whether frames can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def address(self) -> str:
        """The address of the other side."""
        name = None if self._transport is None else self._transport.get_extra_info("peername")
        return f"{name[0]}:{name[1]}" if name else "somewhere"

    def send(self, header: Header, buffers: Sequence[Buffer] = ()) -> None:
        """Send a frame. Raises ConnectionLostError without a connection, ProtocolError if the frame is too large."""
        if self._transport is None or self._transport.is_closing():
            raise self._reason or ConnectionLostError("the connection is closed")
        if self.other is not None and sum(header.sizes) > self.other.frame_bytes - (1 << 12):
            raise ProtocolError(
                f"the other side takes frames of {self.other.frame_bytes} bytes, this one has {sum(header.sizes)}"
            )
        pieces = pack(header, buffers)
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)
        if not self._writable.is_set():
            self._note_unsent(self._transport.get_write_buffer_size())

    @property
    def has_room(self) -> bool:
        """Whether the send buffer is below its limit."""
        return self._writable.is_set()

    async def room(self) -> None:
        """Wait until there is room, or the connection has ended."""
        await self._writable.wait()

    def pause(self, paused: bool) -> None:
        """Pause or resume reading from the other side."""
        if self._transport is not None and not self._transport.is_closing():
            if paused:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def close(self, reason: RpcError | None = None) -> None:
        """Close the connection after sending buffered data; at once if a reason is given."""
        if self._transport is None:
            return
        self._reason = self._reason or reason
        if reason is None:
            self._transport.close()
        else:
            self._transport.abort()

    # callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have the methods of asyncio's, but are not subclasses
        self._transport = transport = cast("asyncio.Transport", transport)
        transport.set_write_buffer_limits(high=_WRITE_BYTES_HIGH)
        transport.writelines(pack_hello(self._hello))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._reader.space()

    def buffer_updated(self, nbytes: int) -> None:
        self.num_received += nbytes
        try:
            for frame in self._reader.filled(nbytes):
                if self._reason is None:
                    self._take(frame)
        except RpcError as error:
            self.close(error)

    def _take(self, frame: Frame) -> None:
        if not self.greeted.done():
            self._greet(frame)
        elif frame.header.kind == FrameKind.PING:
            if self.is_open:
                self.send(Header(FrameKind.PONG))
        else:
            self._on_frame(self, frame)

    def _greet(self, frame: Frame) -> None:
        """Handle a frame of the greeting: a hello, then a proof or a refusal."""
        if self.other is None:
            self._hear(unpack_hello(frame))
        elif frame.header.kind == FrameKind.PROOF and len(frame.buffers) == 1:
            self._check(self.other, bytes(frame.buffers[0]))
        elif frame.header.kind == FrameKind.FAIL and self._side is Side.CALLER:
            raise ProtocolError(frame.header.text)
        else:
            raise ProtocolError("the other side does not prove that it belongs to the cluster")

    def _hear(self, hello: Hello) -> None:
        if hello.version_max < VERSION_MIN or hello.version_min > VERSION:
            raise ProtocolError(
                f"'{hello.name}' speaks versions {hello.version_min} to {hello.version_max} of the query protocol, "
                f"this process {VERSION_MIN} to {VERSION}"
            )
        self.other = hello
        if self._side is Side.CALLER:
            self._prove(hello)

    def _prove(self, hello: Hello) -> None:
        proof = self._secret.proof(self._side, self._hello.nonce, hello.nonce)
        self.send(Header(FrameKind.PROOF, 0, (len(proof),)), (proof,))

    def _check(self, hello: Hello, proof: bytes) -> None:
        """Check the other side's proof. Raises ProtocolError if it is wrong."""
        if not self._secret.is_proof(proof, self._side.other, hello.nonce, self._hello.nonce):
            refused = (
                f"'{hello.name[:_NAME_MAX]}' and '{self._hello.name}' do not have the same cluster secret: "
                f"{SECRET_KEY} must be the same for all processes of a cluster, or be set for none"
            )
            if self._side is Side.CALLER:
                raise ProtocolError(refused)
            self.send(Header(FrameKind.FAIL, text=refused))
            self._reason = ProtocolError(refused)
            self.close()  # once the reason has been sent
            return
        if self._side is Side.ANSWERER:
            self._prove(hello)
        self._reader.frame_bytes = self._frame_bytes
        self.greeted.set_result(hello)

    def pause_writing(self) -> None:
        assert self._transport is not None
        self._writable.clear()
        self._note_unsent(self._transport.get_write_buffer_size())
        self.on_room(False)

    def resume_writing(self) -> None:
        self._note_unsent(0)
        self._writable.set()
        self.on_room(True)

    def connection_lost(self, exc: Exception | None) -> None:
        reason = self._reason or ConnectionLostError(f"the connection broke: {exc or 'closed by the other side'}")
        self._reason = reason
        self._reader.close()
        self._note_unsent(0)
        self._writable.set()
        self.ended.set()
        if not self.greeted.done():
            self.greeted.set_exception(reason)
            self.greeted.exception()  # mark the exception as retrieved, in case the future is not awaited
        self._on_lost(self, reason)

    def _note_unsent(self, num_bytes: int) -> None:
        grown, self._unsent = num_bytes - self._unsent, num_bytes
        if grown:
            self._count_unsent(grown)
