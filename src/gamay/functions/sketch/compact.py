"""The bytes of theta and integer-tuple sketches: the compact form of the datasketches library, serial version 3.

| bytes      | hold                                                                                                    |
| ---------- | ------------------------------------------------------------------------------------------------------- |
| 0          | how many words of 8 bytes come before the entries: 1 for none or one entry, 2 while exact, 3 with theta |
| 1, 2       | 3; the family: 3 theta, 9 tuple                                                                         |
| 3, 4       | 0, 0 (theta); 1, 0 (tuple)                                                                              |
| 5          | flags: 2 read-only, 4 empty, 8 compact, 16 ordered                                                      |
| 6, 7       | the hash of the seed, 0x93cc                                                                            |
| 8 to 15    | the number of entries (4 bytes), 0                                                                      |
| 16 to 23   | theta                                                                                                   |

then the entries: hashes of 8 bytes, in tuple sketches each followed by a number of 4 bytes and its mode (0 sum, 1 min,
2 max). All numbers are little-endian. Other versions of theta sketches are read through the library.
"""

import base64
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.sketch.deferred import datasketches
from gamay.functions.sketch.entries import SEED_HASH, THETA_MAX, Entries, Mode

_THETA, _TUPLE = 3, 9
_READ_ONLY, _EMPTY, _COMPACT, _ORDERED = 2, 4, 8, 16
_TUPLE_ENTRY = np.dtype([("hash", "<u8"), ("number", "<i4"), ("mode", "u1")])
_THETA_ENTRY = np.dtype([("hash", "<u8")])
_INT_MIN, _INT_MAX = -(1 << 31), (1 << 31) - 1


def theta_bytes(entries: Entries) -> list[bytes]:
    """Return the bytes of theta sketches."""
    return [_header(_THETA, 0, *sketch) + hashes.tobytes() for *sketch, hashes, _ in _each(entries)]


def tuple_bytes(entries: Entries, mode: Mode) -> list[bytes]:
    """Return the bytes of integer-tuple sketches; numbers out of the range of INT become the nearest INT."""
    out = []
    for *sketch, hashes, numbers in _each(entries):
        packed = np.empty(len(hashes), _TUPLE_ENTRY)
        packed["hash"], packed["number"] = hashes, np.clip(numbers, _INT_MIN, _INT_MAX)
        packed["mode"] = mode.value
        out.append(_header(_TUPLE, 1, *sketch) + packed.tobytes())
    return out


def _each(entries: Entries) -> Iterable[tuple[Any, ...]]:
    """Yield count, theta, whether the sketch has seen a value, hashes and numbers of each sketch."""
    ends = np.cumsum(entries.counts)
    numbers = np.empty(0) if entries.numbers is None else entries.numbers
    start = 0
    for i, stop in enumerate(ends.tolist()):
        hashes = entries.hashes[start:stop].astype("<u8", copy=False)
        yield stop - start, int(entries.thetas[i]), bool(entries.seen[i]), hashes, numbers[start:stop]
        start = stop


def _header(family: int, kind: int, count: int, theta: int, seen: bool) -> bytes:
    exact = theta == THETA_MAX or not seen
    words = 3 if not exact else 1 if count <= 1 else 2
    empty = count == 0 and exact
    flags = _READ_ONLY | _COMPACT | _ORDERED | (_EMPTY if empty else 0)
    header = bytes([words, 3, family, kind, 0, flags]) + SEED_HASH.to_bytes(2, "little")
    if words > 1:
        header += count.to_bytes(4, "little") + bytes(4)
    return header + (theta.to_bytes(8, "little") if words > 2 else b"")


def theta_entries(sketches: Sequence[bytes]) -> Entries:
    """Parse theta sketches, one for each byte string; empty bytes are an empty one. Raises QueryError 200 for bad bytes."""
    return _entries(
        sketches, "theta", lambda data: _read(data if _is_current(data) else _current(data), _THETA, _THETA_ENTRY)
    )


def tuple_entries(sketches: Sequence[bytes]) -> Entries:
    """Parse integer-tuple sketches; see `theta_entries`."""
    return _entries(sketches, "integer tuple", lambda data: _read(data, _TUPLE, _TUPLE_ENTRY))


def _is_current(data: bytes) -> bool:
    return len(data) >= 8 and data[1] == 3 and data[2] == _THETA and data[5] & _COMPACT != 0


def _current(data: bytes) -> bytes:
    """Convert a sketch of another version, or that is not compact, to serial version 3."""
    return bytes(datasketches().compact_theta_sketch.deserialize(data).serialize())


def _read(data: bytes, family: int, entry: "np.dtype[Any]") -> tuple[Array, int, bool]:
    """Return the entries, theta, and whether the sketch has seen a value; raises ValueError."""
    if len(data) < 8 or data[1] != 3 or data[2] != family:
        raise ValueError("its header is invalid")
    words, flags = data[0], data[5]
    if flags & _EMPTY:
        return np.empty(0, entry), THETA_MAX, False
    if int.from_bytes(data[6:8], "little") != SEED_HASH:
        raise ValueError("its values were hashed with a seed other than 9001")
    count = 1 if words == 1 else int.from_bytes(data[8:12], "little")
    if words not in (1, 2, 3) or len(data) != 8 * words + count * entry.itemsize:
        raise ValueError("its length does not match its header")
    theta = int.from_bytes(data[16:24], "little") if words == 3 else THETA_MAX
    entries = np.frombuffer(data, entry, count, 8 * words)
    if theta > THETA_MAX or (count and not (0 < entries["hash"].min() <= entries["hash"].max() < theta)):
        raise ValueError("a hash is outside the range of the sketch")
    return entries, theta, True


def _entries(sketches: Sequence[bytes], kind: str, read: Callable[[bytes], tuple[Array, int, bool]]) -> Entries:
    parts, thetas, seen = [], np.full(len(sketches), THETA_MAX, np.uint64), np.zeros(len(sketches), np.bool_)
    for i, data in enumerate(sketches):
        if not data:
            continue
        try:
            part, thetas[i], seen[i] = read(data)
        except (ValueError, IndexError, RuntimeError, MemoryError) as error:
            raise not_a_sketch(kind, data, error) from error
        parts.append((i, part))
    counts = np.zeros(len(sketches), np.int64)
    for i, part in parts:
        counts[i] = len(part)
    every = np.concatenate([part for _, part in parts]) if parts else np.empty(0, _TUPLE_ENTRY)
    groups = np.repeat(np.arange(len(sketches), dtype=np.int32), counts)
    numbers = None
    if kind != "theta":
        numbers = every["number"].astype(np.int64)
    hashes = every["hash"].astype(np.uint64)
    order = np.lexsort((hashes, groups))
    return Entries(groups[order], hashes[order], None if numbers is None else numbers[order], thetas, seen)


def not_a_sketch(kind: str, data: bytes, reason: object) -> QueryError:
    """Return the error for bytes that are not a serialised sketch."""
    shown = data[:16].hex() + ("..." if len(data) > 16 else "")
    return QueryError(
        ErrorCode.QUERY_EXECUTION, f"the bytes {shown} ({len(data)}) are not a serialised {kind} sketch: {reason}"
    )


def base64_texts(sketches: Iterable[bytes]) -> pa.Array:
    """Return the bytes of sketches as base64 texts."""
    return pa.array([base64.b64encode(data).decode() for data in sketches], pa.string())
