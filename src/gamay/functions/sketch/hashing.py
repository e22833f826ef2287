"""Values as byte strings, and their 128-bit MurmurHash3."""

from typing import TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import decimal_texts
from gamay.functions.vector import Vector
from gamay.kernels.hash.murmur128 import murmur3_x64_128
from gamay.model.types import DataType

ByteStrings: TypeAlias = tuple[Array, Array]
"""data uint8 and offsets [n + 1]: string i is data[offsets[i]:offsets[i + 1]]."""


def arrow_bytes(values: pa.Array) -> ByteStrings:
    """Return the byte strings of a text (in UTF-8) or binary array, without copying."""
    _, offsets, data = values.buffers()
    bounds = np.frombuffer(offsets, np.int32)[values.offset : values.offset + len(values) + 1]
    return (np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)), bounds


def number_bytes(values: Array) -> ByteStrings:
    """Return numbers of a fixed width as their little-endian bytes."""
    width = values.dtype.itemsize
    data = np.ascontiguousarray(values, values.dtype.newbyteorder("<")).view(np.uint8)
    return data, np.arange(len(values) + 1, dtype=np.int64) * width


def text_or_bytes(vector: Vector) -> pa.Array:
    """Return values without fixed width as an Arrow array; decimals as their text."""
    return decimal_texts(vector.values) if vector.type is DataType.BIG_DECIMAL else vector.values


def murmur128(strings: ByteStrings, seed: int) -> tuple[Array, Array]:
    """Return the low and the high half of the hash of each byte string: uint64."""
    data, offsets = strings
    low, high = np.empty(len(offsets) - 1, np.uint64), np.empty(len(offsets) - 1, np.uint64)
    murmur3_x64_128(data, offsets, seed, low, high)
    return low, high


def value_hashes(vector: Vector, seed: int) -> tuple[Array, Array]:
    """Return the low and the high half of the hash of each single value, as the datasketches libraries hash values.

    Integers are hashed as 64 bits; FLOAT as the equal double, -0.0 as 0.0 and all NaN as one; text and decimals as UTF-8;
    BYTES and UUID unchanged.
    """
    if not vector.type.is_fixed_width:
        return murmur128(arrow_bytes(text_or_bytes(vector)), seed)
    if vector.values.dtype.kind != "f":
        return murmur128(number_bytes(vector.values.astype(np.int64)), seed)
    doubles = vector.values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    doubles[np.isnan(doubles)] = np.nan
    return murmur128(number_bytes(doubles), seed)
