"""Ids whose order is that of their values, for dictionaries in order of arrival."""

from typing import Any

import numpy as np
import pyarrow.compute as pc

from gamay.functions.vector import EncodedVector, Vector, take
from gamay.model.types import DataType

_KEY = "ascending"
# So many more entries than rows are not put in order for the rows' sake, unless they are already.
_ENTRIES_PER_ROW = 4


def in_order(encoded: EncodedVector) -> EncodedVector:
    """Return the same values by ids of the same dictionary in ascending order.

    The dictionary is sorted once for as long as it lives: for equal dictionaries, equal ids come out.
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
    """Return values by ids in their order, or, where that costs more, decoded."""
    if not isinstance(values, EncodedVector) or values.dictionary.ascends:
        return values
    if values.type.is_fixed_width:
        return values.decode()
    known = values.dictionary.derived is not None and _KEY in values.dictionary.derived
    too_many = len(values.dictionary) > _ENTRIES_PER_ROW * len(values.ids)
    return values.decode() if too_many and not known else in_order(values)


def _ascending(dictionary: Vector) -> "tuple[Vector, np.ndarray[Any, np.dtype[np.uint32]]]":
    """Return the dictionary sorted, and the place of each entry in it."""
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
