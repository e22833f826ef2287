"""Ids that sort as their values do, for dictionaries in order of arrival."""

from typing import Any

import numpy as np
import pyarrow.compute as pc

from gamay.functions.vector import EncodedVector, Vector, take
from gamay.model.types import DataType

_KEY = "ascending"
# Above this ratio of entries to rows, a dictionary is not sorted for the rows' sake, unless it is already.
_ENTRIES_PER_ROW = 4


def in_order(encoded: EncodedVector) -> EncodedVector:
    """Return the same values, encoded with the same dictionary in ascending order.

    A dictionary is sorted only once in its lifetime, so equal dictionaries yield equal ids.
    """
    dictionary = encoded.dictionary
    if dictionary.ascends:
        return encoded
    known = None if dictionary.derived is None else dictionary.derived.get(_KEY)
    if known is None:
        known = _ascending(dictionary)
        if dictionary.derived is not None:
            known = dictionary.derived.setdefault(_KEY, known)
    ascending, ranks = known
    return EncodedVector(take(ranks, encoded.ids), ascending, encoded.offsets, encoded.nulls)


def comparable(values: Vector | EncodedVector) -> Vector | EncodedVector:
    """Return values with ids that sort as they do, or decoded if that is cheaper."""
    if not isinstance(values, EncodedVector) or values.dictionary.ascends:
        return values
    if values.type.is_fixed_width:
        return values.decode()
    known = values.dictionary.derived is not None and _KEY in values.dictionary.derived
    too_many = len(values.dictionary) > _ENTRIES_PER_ROW * len(values.ids)
    return values.decode() if too_many and not known else in_order(values)


def _ascending(dictionary: Vector) -> "tuple[Vector, np.ndarray[Any, np.dtype[np.uint32]]]":
    """Return the sorted dictionary, and the rank of each entry."""
    values = dictionary.values
    if not isinstance(values, np.ndarray):
        order = pc.sort_indices(values).to_numpy()
    elif dictionary.type is DataType.BIG_DECIMAL:
        order = np.array(sorted(range(len(values)), key=values.__getitem__), np.int64)
    else:
        order = np.argsort(values, kind="stable")
    ranks = np.empty(len(order), np.uint32)
    ranks[order] = np.arange(len(order), dtype=np.uint32)
    return Vector(dictionary.type, take(values, order), derived={}, ascends=True), ranks
