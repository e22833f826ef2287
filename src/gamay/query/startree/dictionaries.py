"""Dictionaries of dimensions, shared by segments, most of which have the same values of a dimension with few values."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol, TypeAlias
from weakref import WeakValueDictionary, ref

import numpy as np

from gamay.base.arrays import Array
from gamay.functions.vector import EncodedVector, Vector
from gamay.segment.encode.dictionary import SortedDictionary, sort_distinct
from gamay.segment.encode.storage_form import binary_array, binary_buffers, to_values

_Contents: TypeAlias = tuple[Any, ...]

SHORT_MAX = 1 << 16
CODES_MAX = 1 << 21
_CODINGS_MAX = 256
_shared: WeakValueDictionary[_Contents, SortedDictionary] = WeakValueDictionary()


def shared_dictionary(dictionary: SortedDictionary) -> SortedDictionary:
    """Return the same object for equal small dictionaries, which does not keep a segment's file open."""
    if len(dictionary) > SHORT_MAX:
        return dictionary
    stored = dictionary.stored
    if isinstance(stored, np.ndarray):
        key: _Contents = (dictionary.data_type, stored.dtype.str, stored.tobytes())
    else:
        offsets, data = binary_buffers(stored)
        key = (dictionary.data_type, offsets.tobytes(), data.tobytes())
    kept = _shared.get(key)
    if kept is None:
        copied = stored.copy() if isinstance(stored, np.ndarray) else binary_array(offsets.copy(), data.copy())
        kept = _shared[key] = SortedDictionary(dictionary.data_type, copied)
    return kept


class HasKeys(Protocol):
    """A holder of the dictionaries of a segment's keys."""

    @property
    def key_dictionaries(self) -> tuple[SortedDictionary, ...]: ...


@dataclass(frozen=True, slots=True)
class Coding:
    """The mapping from the keys of records of several segments to one number each.

    of: weak references to the holders of each segment's keys. values: for each key one common dictionary. codes: for each
    segment, codes[starts[k] + id] is the part of the number for an id of key k: its position in `values[k]`, shifted left by
    shifted[k] bits.
    """

    of: tuple["ref[HasKeys]", ...]
    values: tuple[Vector, ...]
    shifted: tuple[int, ...]
    codes: tuple[Array, ...]
    starts: tuple[Array, ...]

    def keys(self, packed: Array) -> tuple[EncodedVector, ...]:
        """Return the keys encoded in numbers."""
        keys = []
        for values, bits in zip(self.values, self.shifted, strict=True):
            ids = packed >> bits & ((1 << bits_of(len(values))) - 1)
            keys.append(EncodedVector(ids.astype(np.uint32), values))
        return tuple(keys)


_codings: dict[tuple[int, ...], Coding] = {}


def coding_of(segments: Sequence[HasKeys]) -> Coding:
    """Return the coding for some segments, created once for the same ones."""
    place = tuple(map(id, segments))
    kept = _codings.get(place)
    if kept is not None and all(one() is other for one, other in zip(kept.of, segments, strict=True)):
        return kept
    num_codes = sum(len(codes) for coding in list(_codings.values()) for codes in coding.codes)
    if num_codes > CODES_MAX or len(_codings) >= _CODINGS_MAX:
        _codings.clear()
    made = _codings[place] = _coding([segment.key_dictionaries for segment in segments], tuple(map(ref, segments)))
    return made


def _coding(segments: Sequence[tuple[SortedDictionary, ...]], of: tuple["ref[HasKeys]", ...]) -> Coding:
    merged = [_merged(column) for column in zip(*segments, strict=True)]
    shifted = (0, *accumulate(bits_of(len(values)) for values, _ in merged))[:-1]
    ids = [[part.astype(np.int64) << bits for part in parts] for (_, parts), bits in zip(merged, shifted, strict=True)]
    codes = tuple([np.concatenate(parts) for parts in zip(*ids, strict=True)])
    starts = tuple([np.cumsum([0, *map(len, segment[:-1])]) for segment in segments])
    return Coding(of, tuple([values for values, _ in merged]), shifted, codes, starts)


def bits_of(cardinality: int) -> int:
    """Return the number of bits of a dictionary's ids."""
    return max(cardinality - 1, 0).bit_length()


def _merged(dictionaries: Sequence[SortedDictionary]) -> tuple[Vector, list[Array]]:
    """Return the merged dictionary, and the positions of each dictionary's values in it."""
    first = dictionaries[0]
    if all(other is first for other in dictionaries):
        return first.values, [np.arange(len(first))] * len(dictionaries)
    stored, ids = sort_distinct([dictionary.stored for dictionary in dictionaries], first.data_type)
    return Vector(first.data_type, to_values(stored, first.data_type), derived={}, ascends=True), list(ids)
