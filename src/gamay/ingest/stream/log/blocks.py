"""The format of log files: blocks of messages in the layout of Arrow's binary arrays, so that reading copies nothing.

A block is a header of 48 bytes (little endian) and a body whose buffers are aligned to 8 bytes:

    magic "GLB1", crc32 of everything after it, body bytes, messages, offset of the first message (int64), time of writing
    in ms since 1970 (int64), flags, payload bytes, key bytes, 0
    payload offsets int32 [messages + 1], payloads, validity bits if flag 1,
    and if flag 2: key offsets int32 [messages + 1], keys, validity bits

A file `<offset of its first message, 20 digits>.log` is a sequence of blocks. Its `.index` file has an entry (offset,
position, time; int64 each) for about one block per INDEX_BYTES. The index is optional: blocks without an entry are found by
scanning.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

INDEX_BYTES = 64 << 10
BLOCK_BYTES_MAX = 4 << 20
"""The maximum payload bytes of a block; a block of a single message may be larger."""

HEADER = struct.Struct("<4sIIIqqIIII")
_MAGIC = b"GLB1"
_CHECKED_FROM = 8
_HAS_NULLS, _HAS_KEYS = 1, 2
_BODY_BYTES_LIMIT = 1 << 31

INDEX_ENTRY = np.dtype([("offset", "<i8"), ("position", "<i8"), ("timestamp", "<i8")])
Index: TypeAlias = npt.NDArray[Any]


class DamagedBlockError(Exception):
    """The bytes at a position are not a valid block."""


@dataclass(frozen=True, slots=True)
class Header:
    """The header of a block; `position` is the start of the block in its file or buffer."""

    position: int
    crc: int
    body_bytes: int
    count: int
    offset: int
    timestamp: int
    flags: int
    payload_bytes: int
    key_bytes: int

    @property
    def end(self) -> int:
        """The end of the block in its file or buffer."""
        return self.position + HEADER.size + self.body_bytes

    @property
    def next_offset(self) -> int:
        """The offset after the block's last message."""
        return self.offset + self.count


def read_header(data: "bytes | memoryview", at: int, position: int) -> Header:
    """Parse the header at `data[at:]`, which is at `position` of its file; raises DamagedBlockError."""
    if len(data) - at < HEADER.size:
        raise DamagedBlockError("the header is cut off")
    magic, crc, body, count, offset, timestamp, flags, payload, key, zero = HEADER.unpack_from(data, at)
    if magic != _MAGIC or zero or not count or body >= _BODY_BYTES_LIMIT or flags & ~3:
        raise DamagedBlockError("there is no block header")
    return Header(position, crc, body, count, offset, timestamp, flags, payload, key)


def check(header: Header, block: memoryview) -> None:
    """Verify the checksum of a whole block; raises DamagedBlockError."""
    if zlib.crc32(block[_CHECKED_FROM:]) != header.crc:
        raise DamagedBlockError("the checksum is wrong")


def _padded(size: int) -> int:
    return (size + 7) & ~7


def _buffers(array: pa.BinaryArray) -> tuple[list[bytes], int]:
    """Return offsets that start at 0, the values, and the total bytes of the values; a null has 0 bytes."""
    if array.null_count:
        array = pc.fill_null(array, b"")
    offsets = np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, 4 * array.offset)
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    values = array.buffers()[2]
    return [(offsets - offsets[0]).tobytes(), values[first : first + size].to_pybytes() if size else b""], size


def encode(payloads: pa.BinaryArray, keys: pa.BinaryArray | None, offset: int, timestamp: int) -> bytes:
    """Return the bytes of a block.

    payloads, keys: of equal length, at least 1; a null payload is a tombstone, a null key a message without a key.
    """
    flags = (_HAS_NULLS if payloads.null_count else 0) | (_HAS_KEYS if keys is not None else 0)
    parts, payload_bytes = _buffers(payloads)
    if payloads.null_count:
        parts.append(_validity(payloads))
    key_bytes = 0
    if keys is not None:
        key_parts, key_bytes = _buffers(keys)
        parts += [*key_parts, _validity(keys)]
    body = b"".join(part.ljust(_padded(len(part)), b"\0") for part in parts)
    rest = HEADER.pack(
        _MAGIC, 0, len(body), len(payloads), offset, timestamp, flags, payload_bytes, key_bytes, 0
    )[_CHECKED_FROM:]  # fmt: skip
    crc = zlib.crc32(body, zlib.crc32(rest))
    return b"".join((_MAGIC, crc.to_bytes(4, "little"), rest, body))


def _validity(array: pa.BinaryArray) -> bytes:
    return np.packbits(np.asarray(array.is_valid()), bitorder="little").tobytes()


def decode(header: Header, buffer: pa.Buffer, at: int) -> tuple[pa.BinaryArray, pa.BinaryArray | None]:
    """Return, without copying, payloads and keys of the block whose header is at `buffer[at:]`."""
    start = at + HEADER.size
    count, bits = header.count, _padded((header.count + 7) // 8)
    payloads, start = _array(buffer, start, count, header.payload_bytes, bits if header.flags & _HAS_NULLS else 0)
    if not header.flags & _HAS_KEYS:
        return payloads, None
    keys, _ = _array(buffer, start, count, header.key_bytes, bits)
    return payloads, keys


def _array(buffer: pa.Buffer, start: int, count: int, size: int, validity: int) -> tuple[pa.BinaryArray, int]:
    values = start + _padded(4 * (count + 1))
    valid = values + _padded(size)
    buffers = [
        buffer.slice(valid, validity) if validity else None,
        buffer.slice(start, 4 * (count + 1)),
        buffer.slice(values, size),
    ]
    return pa.Array.from_buffers(pa.binary(), count, buffers), valid + validity


def split(payloads: pa.BinaryArray) -> Iterator[tuple[int, int]]:
    """Yield the range of messages of each block."""
    ends = np.cumsum(np.asarray(pc.fill_null(pc.binary_length(payloads), 0)), dtype=np.int64)
    start = 0
    while start < len(payloads):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + BLOCK_BYTES_MAX, side="right")))
        yield start, stop
        start = stop


def walk(data: memoryview, position: int, end: int) -> Iterator[tuple[Header, int]]:
    """Yield the header of each complete block in `data`, and its position there, up to the file position `end`.

    data: the file's bytes from `position` on. Raises DamagedBlockError where the bytes are not a valid block.
    """
    at = 0
    while position < end and len(data) - at >= HEADER.size:
        header = read_header(data, at, position)
        if header.end > end or at + HEADER.size + header.body_bytes > len(data):
            return
        yield header, at
        at += HEADER.size + header.body_bytes
        position = header.end
