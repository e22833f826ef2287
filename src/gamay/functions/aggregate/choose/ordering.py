"""Values as int64 keys that sort as the values do, and back.

Numbers are compared by their bits: NaN is greatest, -0.0 below 0.0. Text (by UTF-8 bytes), byte strings (unsigned) and
decimals (by value, then by text) become ranks in the sorted list of the distinct values.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.arrays import Array
from gamay.functions.ranking import comparable
from gamay.functions.vector import EncodedVector, Values, Vector, numpy_dtype, take
from gamay.model.types import DataType

_LOW_BITS = np.int64((1 << 63) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class Ordered:
    """Keys of values: int64 [n].

    entries: the sorted values that keys are ranks in; None if keys depend on the values alone and are always comparable.
    """

    keys: Array
    entries: Values = None


def order(values: Vector | EncodedVector) -> Ordered:
    """Return the keys of single values."""
    values = comparable(values)
    if isinstance(values, EncodedVector):
        if values.type.is_fixed_width:
            return Ordered(take(number_keys(values.dictionary.values), values.ids))
        return Ordered(values.ids.astype(np.int64), values.dictionary.values)
    if values.type.is_fixed_width:
        return Ordered(number_keys(values.values))
    return _ranked_decimals(values.values) if values.type is DataType.BIG_DECIMAL else _ranked(values.values)


def values_of(data_type: DataType, keys: Array, entries: Values) -> Vector:
    """Return the values of keys; `entries` as returned by `order`."""
    if entries is not None:
        return Vector(data_type, take(entries, keys))
    dtype = numpy_dtype(data_type)
    return Vector(data_type, numbers_of(keys, is_float=dtype.kind == "f").astype(dtype, copy=False))


def numbers_of(keys: Array, is_float: bool) -> Array:
    """Invert `number_keys`: return float64 or int64 numbers."""
    return _flipped(keys).view(np.float64) if is_float else keys


def number_keys(values: Array) -> Array:
    """Return int64 keys that sort as the numbers do."""
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    doubles = values.astype(np.float64)
    doubles[np.isnan(doubles)] = np.nan  # canonical NaN
    return _flipped(doubles.view(np.int64))


def _flipped(bits: Array) -> Array:
    """Flip all bits of negative doubles except the sign; its own inverse."""
    return np.asarray(bits ^ ((bits >> 63) & _LOW_BITS))


def _ranked(values: pa.Array) -> Ordered:
    coded = values.dictionary_encode()
    sorting = pc.array_sort_indices(coded.dictionary)
    ranks = np.empty(len(sorting), np.int64)
    ranks[sorting.to_numpy()] = np.arange(len(sorting))
    return Ordered(ranks[coded.indices.to_numpy()], coded.dictionary.take(sorting))


def _ranked_decimals(values: Array) -> Ordered:
    texts = [str(value) for value in values]
    by_text = dict(zip(texts, values, strict=True))
    # decimals do not compare with NaN; it sorts last, as among doubles
    ascending = sorted(by_text, key=lambda t: (by_text[t].is_nan(), 0 if by_text[t].is_nan() else by_text[t], t))
    entries = np.empty(len(ascending), object)
    entries[:] = [by_text[text] for text in ascending]
    ranks = {text: rank for rank, text in enumerate(ascending)}
    return Ordered(np.array([ranks[text] for text in texts], np.int64), entries)
