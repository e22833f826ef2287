"""Geohashes (https://en.wikipedia.org/wiki/Geohash): a text of 1 to 12 characters for a cell of latitude and longitude.

Each character holds five bits, which halve longitude and latitude alternately.
"""

from typing import Any

import numpy as np
import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arguments import wrong
from gamay.functions.scalar.define import const, each, scalar
from gamay.functions.scalar.values import lists_of_distinct, of_distinct
from gamay.functions.vector import Vector
from gamay.model.types import DataType

STRING, INT, DOUBLE = DataType.STRING, DataType.INT, DataType.DOUBLE

_ALPHABET = "0123456789bcdefghjkmnpqrstuvwxyz"
_LETTERS = np.frombuffer(_ALPHABET.encode(), np.uint8)
_PLACES = {letter: i for i, letter in enumerate(_ALPHABET)}
_PRECISION_MAX = 12


def _bits(values: Any, half_span: float, count: int) -> Any:
    """Return which of 2**count equal parts of [-half_span, half_span] holds each value: int64; the last part is closed."""
    parts = 1 << count
    return np.minimum(np.floor((values + half_span) / (2 * half_span) * parts), parts - 1).astype(np.int64)


def geohashes(latitude: Any, longitude: Any, precision: int) -> Any:
    """Return the characters of geohashes: uint8 [n, precision]."""
    total = 5 * precision
    along, up = _bits(longitude, 180.0, (total + 1) // 2), _bits(latitude, 90.0, total // 2)
    letters = np.zeros((len(along), precision), np.int64)
    for bit in range(total):
        source, left = (along, (total + 1) // 2) if bit % 2 == 0 else (up, total // 2)
        value = (source >> (left - 1 - bit // 2)) & 1
        letters[:, bit // 5] |= value << (4 - bit % 5)
    return _LETTERS[letters]


@scalar("encodeGeoHash", params=(each(DOUBLE), each(DOUBLE), const(INT)), returns=STRING)
def encode_geo_hash(latitude: Any, longitude: Any, precision: int) -> pa.Array:
    """The geohash of a point, with 1 to 12 characters."""
    if not 1 <= precision <= _PRECISION_MAX:
        raise wrong("encodeGeoHash", f"a geohash has 1 to {_PRECISION_MAX} characters, not {precision}")
    up, along = np.broadcast_arrays(np.atleast_1d(latitude), np.atleast_1d(longitude))
    if not (np.all(np.abs(up) <= 90) and np.all(np.abs(along) <= 180)):
        raise QueryError(ErrorCode.QUERY_EXECUTION, "Function 'encodeGeoHash': a row has an invalid latitude or longitude")
    letters = np.ascontiguousarray(geohashes(up, along, precision))
    offsets = np.arange(len(letters) + 1, dtype=np.int32) * precision
    return pa.Array.from_buffers(pa.string(), len(letters), [None, pa.py_buffer(offsets), pa.py_buffer(letters)])


def decode(text: str) -> tuple[float, float]:
    """Return latitude and longitude of the centre of a geohash's cell; raises ValueError for an invalid geohash."""
    bounds = [[-90.0, 90.0], [-180.0, 180.0]]
    if not 1 <= len(text) <= _PRECISION_MAX or not set(text.lower()) <= _PLACES.keys():
        raise ValueError(f"'{text}' is not a geohash")
    is_along = True
    for letter in text.lower():
        for shift in range(4, -1, -1):
            span = bounds[is_along]
            span[1 - ((_PLACES[letter] >> shift) & 1)] = sum(span) / 2
            is_along = not is_along
    return sum(bounds[0]) / 2, sum(bounds[1]) / 2


@scalar("decodeGeoHash", params=(each(STRING),), returns=DOUBLE, multi_value=True)
def decode_geo_hash(text: Any) -> Vector:
    """Latitude and longitude of the centre of a cell."""
    return lists_of_distinct("decodeGeoHash", Vector(STRING, text), decode, DOUBLE)


@scalar("decodeGeoHashLatitude", "decodeGeoHashLat", params=(each(STRING),), returns=DOUBLE)
def decode_geo_hash_latitude(text: Any) -> Vector:
    return of_distinct("decodeGeoHashLatitude", Vector(STRING, text), lambda value: decode(value)[0], DOUBLE)


@scalar("decodeGeoHashLongitude", "decodeGeoHashLon", params=(each(STRING),), returns=DOUBLE)
def decode_geo_hash_longitude(text: Any) -> Vector:
    return of_distinct("decodeGeoHashLongitude", Vector(STRING, text), lambda value: decode(value)[1], DOUBLE)
