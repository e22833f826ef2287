"""The partition of each group, by a hash of its keys."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.coding import Key, decimal_texts, to_bits
from gamay.functions.arrow import binary_buffers
from gamay.functions.vector import EncodedVector, Vector, take
from gamay.kernels.sketch.hll import hash_bytes, hash_longs

_BITS = 6
NUM_PARTITIONS = 1 << _BITS
# how many times a partition that is too large can be divided again
LEVELS = 5

_ODD = np.uint64(0x9E3779B97F4A7C15)
_NULL = np.uint32(0x5BD1E995)


def partitions_of(keys: Sequence[Key], num_groups: int, level: int) -> Array:
    """Return the partition of each group: uint8 [num_groups], below `NUM_PARTITIONS`. level: each level (0, 1, …) uses
    other bits."""
    mixed = np.zeros(num_groups, np.uint64)
    for key in keys:
        mixed = (mixed ^ _hashes(key)) * _ODD
        mixed ^= mixed >> np.uint64(32)
    mixed *= _ODD
    shift = np.uint64(64 - _BITS * (level + 1))
    return ((mixed >> shift) & np.uint64(NUM_PARTITIONS - 1)).astype(np.uint8)


def _hashes(key: Key) -> Array:
    """Return a hash of each value: uint32 [n], equal for equal keys."""
    if isinstance(key, EncodedVector):
        few = len(key.dictionary) < len(key.ids)
        hashes = take(_of_values(key.dictionary), key.ids) if few else _of_values(key.decode())
    else:
        hashes = _of_values(key)
    return hashes if key.nulls is None else np.where(key.nulls, _NULL, hashes)


def _of_values(vector: Vector) -> Array:
    values = vector.values
    out = np.empty(len(vector), np.uint32)
    if isinstance(values, np.ndarray) and values.dtype.hasobject:
        values = decimal_texts(list(values))
    if isinstance(values, pa.Array):
        hash_bytes(*binary_buffers(values), out)
    else:
        hash_longs(to_bits(values).view(np.uint64), out)
    return out
