"""The wire format: length-prefixed frames of a small header and raw buffers.

    frame    = u32 content length, u32 header length, content             (both little endian)
    content  = header, padding, (buffer, padding)*                        (padding: zeros up to a multiple of 16 bytes)
    header   = MessagePack of `Header`: its fields as an array, in order

Buffers begin at multiples of 16 in memory, too, so that arrays can lie over what was received without a copy.
"""

import sys
from collections.abc import Iterator, Sequence
from enum import IntEnum
from struct import Struct
from typing import TypeAlias

import msgspec
import numpy as np

from gamay.rpc.errors import ProtocolError

Buffer: TypeAlias = "bytes | bytearray | memoryview"

VERSION = 4
"""The version of the frames and of the calls' contents; raised when either changes in a way that older peers do not
understand."""

VERSION_MIN = 4
"""The oldest version that this process also speaks; 4 is the first with authentication by the cluster's secret."""

ALIGNMENT = 16
HEADER_BYTES_MAX = 1 << 20
GREETING_BYTES_MAX = 1 << 10
"""The largest frame of a peer that has not authenticated yet."""

_PREFIX = Struct("<II")
_SCRATCH_BYTES = 1 << 16
_PADDING = bytes(ALIGNMENT)


class FrameKind(IntEnum):
    """The kinds of frames."""

    HELLO = 1  # first frame of either side. protocol versions, limits, a nonce
    CALL = 2  # number: time limit in milliseconds; text: the call's context at the caller
    REPLY = 3
    FAIL = 4  # number: code; text: message
    CANCEL = 5  # the answer to call `id` is no longer wanted
    PING = 6
    PONG = 7
    LEAVE = 8  # this side takes no more calls, and finishes those in flight
    PROOF = 9  # second frame of either side, the caller's first: see `gamay.rpc.handshake`


class Header(msgspec.Struct, array_like=True, frozen=True):
    """The header of a frame. id: of the call that it belongs to, 0 for none. sizes: of the buffers, in bytes."""

    kind: int
    id: int = 0
    sizes: tuple[int, ...] = ()
    number: float = 0.0
    text: str = ""


class Hello(msgspec.Struct, array_like=True, frozen=True):
    """The greeting of one side.

    name: of the process. frame_bytes, calls: what it takes at most: content of a frame, calls under way. nonce: the random
    number that the other side has to prove with.
    """

    version_min: int
    version_max: int
    name: str
    frame_bytes: int
    calls: int
    nonce: bytes = b""


_encode = msgspec.msgpack.Encoder().encode
_decode_header = msgspec.msgpack.Decoder(Header).decode
_decode_hello = msgspec.msgpack.Decoder(Hello).decode
_LARGE_BYTES = 1 << 14


def pack(header: Header, buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """Return the pieces of a frame; small ones are one piece. `header.sizes` must be those of the buffers."""
    head = _encode(header)
    pieces: list[Buffer] = [b"", head, _pad(len(head))]
    length = len(head) + len(pieces[2])
    for buffer, size in zip(buffers, header.sizes, strict=True):
        padding = _pad(size)
        pieces += (buffer, padding)
        length += size + len(padding)
    if length >= 1 << 32:
        raise ProtocolError(f"a frame holds less than 4 GiB, not {length} bytes")
    pieces[0] = _PREFIX.pack(length, len(head))
    return [b"".join(pieces)] if length <= _LARGE_BYTES else pieces


def pack_hello(hello: Hello) -> list[Buffer]:
    """Return the first frame of a connection."""
    body = _encode(hello)
    return pack(Header(FrameKind.HELLO, 0, (len(body),)), (body,))


def unpack_hello(frame: "Frame") -> Hello:
    """Return the greeting of the other side. Raises ProtocolError."""
    if frame.header.kind != FrameKind.HELLO or len(frame.buffers) != 1:
        raise ProtocolError("the other side does not begin with a hello; is it a query port of Gamay?")
    try:
        return _decode_hello(frame.buffers[0])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the other side's hello cannot be read: {error}") from error


def _pad(size: int) -> bytes:
    return _PADDING[: -size % ALIGNMENT]


class Frame(msgspec.Struct, frozen=True):
    """A frame that was received; the buffers are writable and owned by the receiver."""

    header: Header
    buffers: list[memoryview]


class Unfinished:
    """Counter of the bytes of incomplete frames over several connections; to be used on one event loop."""

    def __init__(self, bytes_max: int) -> None:
        self.held = 0
        self._bytes_max = bytes_max

    def add(self, count: int) -> None:
        """Add bytes, or remove them if negative. Raises ProtocolError above the limit."""
        self.held += count
        if self.held > self._bytes_max:
            raise ProtocolError(
                f"all connections together have sent {self.held} bytes of frames that are not complete, more than the "
                f"{self._bytes_max} allowed"
            )


class FrameReader:
    """Parser of a byte stream into frames, independent of how the stream is chunked.

    The caller fills what `space` returns, and tells by `filled` how far. frame_bytes: the largest content that is taken,
    which may be changed between frames. unfinished: what counts bytes of frames that are not complete, until `close`.

    Memory is used as it is filled, whatever size a frame claims to have: the system hands out pages when they are written.
    """

    def __init__(self, frame_bytes: int, unfinished: Unfinished | None = None) -> None:
        self.frame_bytes = frame_bytes
        self._unfinished = unfinished or Unfinished(sys.maxsize)
        self._scratch = _unwritten(_SCRATCH_BYTES)
        self._held = 0
        self._content: memoryview | None = None
        self._content_held = 0
        self._header_length = 0

    def space(self) -> memoryview:
        """Return the buffer for the next bytes; never empty."""
        return self._scratch[self._held :] if self._content is None else self._content[self._content_held :]

    def filled(self, count: int) -> Iterator[Frame]:
        """Process bytes written into `space`, and yield the frames that they complete; the iterator must be exhausted.

        Raises ProtocolError.
        """
        if self._content is not None:
            self._content_held += count
            self._unfinished.add(count)
            if self._content_held == len(self._content):
                content = self._content
                self.close()
                yield _frame(content, self._header_length)
            return
        self._held += count
        start = 0
        while self._held - start >= _PREFIX.size:
            length, self._header_length = _PREFIX.unpack_from(self._scratch, start)
            self._check(length)
            begin = start + _PREFIX.size
            start = begin + length
            if start <= self._held:
                yield _frame(memoryview(bytearray(self._scratch[begin:start])), self._header_length)
                continue
            have, start = self._held - begin, self._held
            self._content, self._content_held = _unwritten(length), have
            self._content[:have] = self._scratch[begin:start]
            self._unfinished.add(have)
            break
        rest = self._held - start
        if start and rest:
            self._scratch[:rest] = bytes(self._scratch[start : self._held])
        self._held = rest

    def close(self) -> None:
        """Discard the incomplete frame."""
        if self._content is not None:
            self._unfinished.add(-self._content_held)
            self._content = None

    def _check(self, length: int) -> None:
        if not 0 < self._header_length <= min(length, HEADER_BYTES_MAX):
            raise ProtocolError("the other side sent what is no frame; is it a query port of Gamay?")
        if length > self.frame_bytes:
            raise ProtocolError(f"the other side sent a frame of {length} bytes, more than the {self.frame_bytes} allowed")


def _unwritten(size: int) -> memoryview:
    return np.empty(size, np.uint8).data


def _frame(content: memoryview, header_length: int) -> Frame:
    try:
        header = _decode_header(content[:header_length])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"the other side sent a header that cannot be read: {error}") from error
    buffers: list[memoryview] = []
    start = header_length + (-header_length % ALIGNMENT)
    for size in header.sizes:
        if size < 0 or start + size > len(content):
            raise ProtocolError("the other side sent buffers that do not fit into their frame")
        buffers.append(content[start : start + size])
        start += size + (-size % ALIGNMENT)
    if start != len(content):
        raise ProtocolError("the other side sent a frame with bytes that belong to no buffer")
    return Frame(header, buffers)
