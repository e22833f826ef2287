"""Parts of ZooKeeper's protocol that kazoo lacks: persistent recursive watches, and batched reads.

Both exist since ZooKeeper 3.6. The structures are those of ZooKeeper's `zookeeper.jute`; kazoo sends any object with `type`
and `serialize`, and passes the bytes of the answer to its `deserialize`.
"""

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

_INT = struct.Struct("!i")
_STAT = struct.Struct("!qqqqiiiqiiq")
_MULTI_HEADER = struct.Struct("!iBi")
_WATCH_EVENT = struct.Struct("!iii")

_GET_DATA = 4
_ERROR = -1
_NO_NODE = -101
_PERSISTENT_RECURSIVE = 1


class Stat(NamedTuple):
    """The fields of a node's statistics, in the order of the wire."""

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


@dataclass(frozen=True, slots=True)
class AddWatch:
    """Request for a watch of a node and its descendants, for the duration of the connection."""

    type: ClassVar[int] = 106
    path: str

    def serialize(self) -> bytes:
        """Return the request's body."""
        return _text(self.path) + _INT.pack(_PERSISTENT_RECURSIVE)

    @staticmethod
    def deserialize(_: bytes, __: int) -> bool:
        """Return True."""
        return True


@dataclass(frozen=True, slots=True)
class MultiRead:
    """Request for the values and statistics of many nodes."""

    type: ClassVar[int] = 22
    paths: Sequence[str]

    def serialize(self) -> bytes:
        """Return the request's body."""
        header = _MULTI_HEADER.pack(_GET_DATA, 0, -1)
        return b"".join(header + _text(path) + b"\0" for path in self.paths) + _MULTI_HEADER.pack(-1, 1, -1)

    @staticmethod
    def deserialize(body: bytes, offset: int) -> list[tuple[bytes, Stat] | int]:
        """Return value and statistics of each node, or ZooKeeper's error code, below 0."""
        found: list[tuple[bytes, Stat] | int] = []
        while True:
            kind, done, _ = _MULTI_HEADER.unpack_from(body, offset)
            offset += _MULTI_HEADER.size
            if done:
                return found
            (number,) = _INT.unpack_from(body, offset)
            offset += _INT.size
            if kind == _ERROR:
                found.append(number)
                continue
            value = body[offset : offset + number] if number > 0 else b""
            offset += max(number, 0)
            found.append((value, Stat._make(_STAT.unpack_from(body, offset))))
            offset += _STAT.size


def is_no_node(code: int) -> bool:
    """Whether an error code means that the node does not exist."""
    return code == _NO_NODE


def send(client: Any, request: AddWatch | MultiRead) -> Any:
    """Send a request over a KazooClient and return its future result."""
    result = client.handler.async_result()
    client._call(request, result)
    return result


def follow_events(client: Any, notify: Callable[[str], None]) -> None:
    """Call `notify` with the path of each change reported by a watch of this client, on the client's own thread.

    This replaces kazoo's dispatch of one-shot watches, which a store does not use.
    """

    def read_event(body: bytes, offset: int) -> None:
        _, _, length = _WATCH_EVENT.unpack_from(body, offset)
        offset += _WATCH_EVENT.size
        notify(body[offset : offset + length].decode())

    client._connection._read_watch_event = read_event


def _text(text: str) -> bytes:
    encoded = text.encode()
    return _INT.pack(len(encoded)) + encoded
