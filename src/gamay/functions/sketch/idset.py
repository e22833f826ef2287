"""Id sets: the results of IDSET, which `inIdSet` takes, as base64 text in Pinot's binary format.

The first byte is the kind:

| kind | holds            | then                                                                                     |
| ---- | ---------------- | ---------------------------------------------------------------------------------------- |
| 0    | nothing          |                                                                                          |
| 1    | INT values       | a roaring bitmap of their 32 bits                                                        |
| 2    | LONG values      | a byte 0, the number of bitmaps, then each one after the high 32 bits of its values      |
| 3    | values by hash   | a byte for what is hashed, then a Bloom filter                                           |

Bitmaps are in the portable roaring format, numbers before them int32 big-endian. What is hashed: 0, the 32 bits of INT and
FLOAT; 1, the 64 bits of LONG and DOUBLE; 2, text as UTF-16 little-endian; 3, bytes. A Bloom filter is that of Guava: byte 1
(MURMUR128_MITZ_64), the number of probes (a byte), the number of words (int32), words of 64 bits, big-endian; a value sets
the bits (h1 + i * h2) modulo 2^63 modulo the number of bits, where h1, h2 is its MurmurHash3 of 128 bits.

    text = to_text(build(values, Settings()))
    contains(parse(text), vector) -> bool [n]
"""

import base64
import binascii
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np
from pyroaring import BitMap, BitMap64

from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.sketch.hashing import ByteStrings, arrow_bytes, murmur128, number_bytes, text_or_bytes
from gamay.functions.vector import Vector
from gamay.kernels.hash.murmur128 import bloom_contains, bloom_set
from gamay.model.types import DataType

EMPTY, INTS, LONGS, BLOOM = range(4)
_OF_INTS, _OF_LONGS, _OF_TEXT, _OF_BYTES = range(4)
_INSERTIONS_MIN = 1000
_SETS_KEPT = 16
_LONG_TYPES = (DataType.LONG, DataType.TIMESTAMP)
_INT_TYPES = (DataType.INT, DataType.BOOLEAN)


@dataclass(frozen=True, slots=True)
class Settings:
    """The limit above which a set becomes a Bloom filter, and the size of that.

    threshold: bitmaps of more bytes become filters. insertions, fpp: a filter of this many values has this share of false
    positives.
    """

    threshold: int = 8 << 20
    insertions: int = 5_000_000
    fpp: float = 0.03


@dataclass(frozen=True, slots=True, eq=False)
class IdSet:
    """A parsed set. bitmap: for INTS and LONGS, of the values' bits; hashed, probes, words (uint64): for BLOOM."""

    kind: int
    bitmap: BitMap | BitMap64 | None = None
    hashed: int = 0
    probes: int = 0
    words: Array | None = None


def build(values: Vector, settings: Settings) -> bytes:
    """Return the bytes of the set of values (single values, distinct)."""
    if len(values) == 0:
        return bytes([EMPTY])
    bitmap = None
    if values.type in _INT_TYPES:
        bitmap = bytes([INTS]) + BitMap(values.values.astype(np.int32).view(np.uint32), optimize=False).serialize()
    elif values.type in _LONG_TYPES:
        bitmap = bytes([LONGS]) + _navigable(values.values)
    return bitmap if bitmap is not None and len(bitmap) <= settings.threshold else _bloom(values, settings)


def to_text(data: bytes) -> str:
    """Return the bytes of a set as text."""
    return base64.b64encode(data).decode()


@lru_cache(maxsize=_SETS_KEPT)
def parse(text: str) -> IdSet:
    """Parse the text of a set; raises QueryError 700 if it is invalid."""
    try:
        return _read(base64.b64decode(text, validate=True))
    except (ValueError, IndexError, binascii.Error) as error:
        shown = text if len(text) <= 40 else text[:40] + "..."
        raise QueryError(
            ErrorCode.QUERY_VALIDATION, f"'{shown}' is not an id set as returned by IDSET, in base64: {error}"
        ) from error


def contains(id_set: IdSet, vector: Vector) -> Array:
    """Return which single values are in the set (perhaps, for Bloom filters): bool [n].

    Raises QueryError 700 if values of this type cannot be in such a set.
    """
    check_type(id_set, vector.type)
    if id_set.words is not None:
        low, high = murmur128(_hashed_bytes(vector, id_set.hashed), 0)
        found = np.empty(len(vector), np.bool_)
        bloom_contains(low, high, id_set.probes, id_set.words, found)
        return found
    if id_set.bitmap is None:
        return np.zeros(len(vector), np.bool_)
    wanted = vector.values.astype(np.int64)
    if isinstance(id_set.bitmap, BitMap64):
        bits = wanted.view(np.uint64)
        return np.isin(bits, np.array((BitMap64(bits) & id_set.bitmap).to_array(), np.uint64))
    narrow = wanted.astype(np.int32)
    bits = narrow.view(np.uint32)
    inside = np.isin(bits, np.array((BitMap(bits) & id_set.bitmap).to_array(), np.uint32))
    return np.asarray(inside & (narrow == wanted))


def check_type(id_set: IdSet, data_type: DataType) -> None:
    """Raise QueryError 700 if values of this type cannot be in such a set."""
    if id_set.kind == EMPTY:
        return
    whole = (*_INT_TYPES, *_LONG_TYPES)
    fits: Sequence[DataType] = whole
    if id_set.kind == BLOOM:
        fits = {
            _OF_INTS: (*_INT_TYPES, DataType.FLOAT),
            _OF_LONGS: (*whole, DataType.DOUBLE),
            _OF_TEXT: (DataType.STRING, DataType.JSON, DataType.BIG_DECIMAL),
            _OF_BYTES: (DataType.BYTES, DataType.UUID),
        }[id_set.hashed]
    if data_type not in fits:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"The id set holds {' or '.join(fit.value for fit in fits)}, but the argument is {data_type.value}; "
            "CAST the values to the type that IDSET was computed of",
        )


# -- bitmaps of 64-bit values


def _navigable(values: Array) -> bytes:
    ordered = np.sort(values.astype(np.int64).view(np.uint64))
    highs = (ordered >> np.uint64(32)).astype(np.uint32)
    starts = np.flatnonzero(np.concatenate([[True], highs[1:] != highs[:-1]]))
    parts = [b"\0", len(starts).to_bytes(4, "big")]
    for start, lows in zip(starts, np.split(ordered.astype(np.uint32), starts[1:]), strict=True):
        parts += [int(highs[start]).to_bytes(4, "big"), BitMap(lows, optimize=False).serialize()]
    return b"".join(parts)


def _read_navigable(data: bytes) -> BitMap64:
    """Parse the bitmaps by converting them to the portable format: a 64-bit count, little-endian numbers."""
    if len(data) < 5:
        raise ValueError("it is truncated before the number of its bitmaps")
    count, position = int.from_bytes(data[1:5], "big"), 5
    parts = [count.to_bytes(8, "little")]
    for _ in range(count):
        bitmap = BitMap.deserialize(data[position + 4 :]).serialize()
        parts += [data[position : position + 4][::-1], bitmap]
        position += 4 + len(bitmap)
    return BitMap64.deserialize(b"".join(parts))


# -- Bloom filters


def _hashed(data_type: DataType) -> int:
    if data_type in (DataType.INT, DataType.BOOLEAN, DataType.FLOAT):
        return _OF_INTS
    if data_type in (*_LONG_TYPES, DataType.DOUBLE):
        return _OF_LONGS
    return _OF_BYTES if data_type.is_binary else _OF_TEXT


def _hashed_bytes(values: Vector, hashed: int) -> ByteStrings:
    if values.type.is_fixed_width:
        numbers = values.values
        if numbers.dtype.kind != "f":
            numbers = numbers.astype(np.int32 if hashed == _OF_INTS else np.int64)
        return number_bytes(numbers)
    strings = arrow_bytes(text_or_bytes(values))
    return strings if hashed == _OF_BYTES else _utf16(strings)


def _utf16(strings: ByteStrings) -> ByteStrings:
    data, offsets = strings
    used = data[offsets[0] : offsets[-1]]
    if len(used) == 0 or used.max() < 128:
        wide = np.zeros(2 * len(used), np.uint8)
        wide[::2] = used
        return wide, (offsets.astype(np.int64) - offsets[0]) * 2
    raw = data.tobytes()
    texts = [raw[start:stop].decode().encode("utf-16-le") for start, stop in pairwise(offsets)]
    lengths = np.array([len(text) for text in texts], np.int64)
    return np.frombuffer(b"".join(texts), np.uint8), np.concatenate([[0], np.cumsum(lengths)])


def _bloom(values: Vector, settings: Settings) -> bytes:
    # all values are known, so no room for more is needed: the filters of many groups must not exhaust the memory
    insertions = min(settings.insertions, max(len(values), _INSERTIONS_MIN))
    bits = int(-insertions * math.log(settings.fpp) / math.log(2) ** 2)
    words = np.zeros(max(-(-bits // 64), 1), np.uint64)
    probes = max(1, round(bits / insertions * math.log(2)))
    hashed = _hashed(values.type)
    low, high = murmur128(_hashed_bytes(values, hashed), 0)
    bloom_set(low, high, probes, words)
    header = bytes([BLOOM, hashed, 1, probes]) + len(words).to_bytes(4, "big")
    return header + bytes(words.astype(">u8").tobytes())


# -- reading


def _read(data: bytes) -> IdSet:
    if len(data) == 0:
        raise ValueError("it is empty")
    kind, rest = data[0], data[1:]
    if kind == EMPTY:
        return IdSet(EMPTY)
    if kind == INTS:
        return IdSet(INTS, BitMap.deserialize(rest))
    if kind == LONGS:
        return IdSet(LONGS, _read_navigable(rest))
    if kind != BLOOM:
        raise ValueError(f"the kind {kind} is unknown")
    if len(rest) < 7 or rest[1] != 1 or rest[0] > _OF_BYTES:
        raise ValueError("the header of the Bloom filter is invalid")
    count = int.from_bytes(rest[3:7], "big")
    if count == 0 or len(rest) != 7 + 8 * count:
        raise ValueError("the length of the Bloom filter does not match its header")
    return IdSet(BLOOM, None, rest[0], rest[2], np.frombuffer(rest[7:], ">u8").astype(np.uint64))
