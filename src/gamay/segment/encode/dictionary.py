"""The sorted dictionary of a column: its distinct values, ascending; an id is a value's position.

    fixed-width types:  dictionary.values   := value[cardinality]
    other types:        dictionary.offsets  := i32[cardinality + 1]
                        dictionary.data     := bytes end to end; value i is data[offsets[i]:offsets[i + 1]]

Order: numbers by value (NaN and -0.0 do not occur), false before true, text by its UTF-8 bytes, bytes unsigned, BIG_DECIMAL
by value (1.0 and 1.00 are the same value; the form with fewer digits is stored).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.expression import LiteralValue
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.storage_form import (
    Stored,
    binary_array,
    binary_buffers,
    concat_stored,
    decimals_of,
    empty_stored,
    fixed_dtype,
    from_python,
    to_values,
)
from gamay.segment.spi import Ids

# From this number of probes on, and relative to the cardinality, one vectorised pass is faster than binary searches.
_VECTOR_PROBES_MIN = 16
_PROBE_COST_IN_ENTRIES = 100


# Build


def sort_distinct(parts: list[Stored], data_type: DataType) -> "tuple[Stored, list[Ids]]":
    """Merge lists of values into one sorted dictionary.

    Returns the dictionary in stored form, and for each part an int32 array: the id of each of its values.
    """
    if not parts:
        return empty_stored(data_type), []
    everything = concat_stored(parts)
    if data_type is DataType.BIG_DECIMAL:
        distinct, ids = _sort_decimals(everything)
    elif isinstance(everything, np.ndarray):
        distinct, ids = np.unique(everything, return_inverse=True)
    else:
        encoded = everything.dictionary_encode()
        order = pc.sort_indices(encoded.dictionary).to_numpy()
        distinct = encoded.dictionary.take(pa.array(order))
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        ids = rank[encoded.indices.to_numpy()]
    ends = np.cumsum([len(part) for part in parts])
    return distinct, np.split(ids.astype(np.int32, copy=False), ends[:-1])


def _sort_decimals(texts: pa.BinaryArray) -> "tuple[pa.BinaryArray, Ids]":
    encoded = texts.dictionary_encode()
    forms = encoded.dictionary.to_pylist()
    numbers = decimals_of(forms)
    order = sorted(range(len(forms)), key=lambda i: (numbers[i], len(forms[i]), forms[i]))
    rank = np.empty(len(forms), np.int32)
    distinct: list[bytes] = []
    previous: Decimal | None = None
    for i in order:
        if numbers[i] != previous:
            distinct.append(forms[i])
            previous = numbers[i]
        rank[i] = len(distinct) - 1
    return pa.array(distinct, pa.binary()), rank[encoded.indices.to_numpy()]


def write_dictionary(writer: BufferWriter, stored: Stored) -> list[BufferMeta]:
    """Write a dictionary in stored form."""
    if isinstance(stored, np.ndarray):
        return [writer.add("dictionary.values", [stored])]
    offsets, data = binary_buffers(stored)
    return [writer.add("dictionary.offsets", [offsets]), writer.add("dictionary.data", [data])]


# Read


class SortedDictionary:
    """The dictionary of an immutable segment's column; implements `segment.spi.Dictionary`."""

    is_sorted = True

    def __init__(self, data_type: DataType, stored: Stored) -> None:
        self.data_type = data_type
        self.stored = stored
        self._keys: Any = stored if isinstance(stored, np.ndarray) else _BinaryKeys(stored, data_type)

    @classmethod
    def read(cls, file: BufferFile, buffers: "dict[str, BufferMeta]", data_type: DataType) -> "SortedDictionary":
        """Open the dictionary's buffers without copying them."""
        dtype = fixed_dtype(data_type)
        if dtype is not None:
            return cls(data_type, file.array(buffers["dictionary.values"], dtype))
        offsets = file.array(buffers["dictionary.offsets"], np.int32)
        return cls(data_type, binary_array(offsets, file.array(buffers["dictionary.data"], np.uint8)))

    def __len__(self) -> int:
        return len(self.stored)

    @cached_property
    def values(self) -> Vector:
        """All values, by id."""
        return Vector(self.data_type, to_values(self.stored, self.data_type), derived={}, ascends=True)

    def id_of(self, value: LiteralValue) -> int:
        """Return the id of a value of the column's type, or -1 when it does not occur."""
        key = self._key(value)
        if isinstance(self._keys, _BinaryKeys):
            return self._keys.find(key)
        position = bisect_left(self._keys, key)
        return position if position < len(self.stored) and self._keys[position] == key else -1

    def ids_of(self, values: Sequence[LiteralValue]) -> Ids:
        """Return the distinct ids of the values that occur, ascending: int32 [k]."""
        many = len(values) >= _VECTOR_PROBES_MIN and len(values) * _PROBE_COST_IN_ENTRIES >= len(self)
        if many and not isinstance(self.stored, np.ndarray) and self.data_type is not DataType.BIG_DECIMAL:
            wanted = pa.array([from_python(value, self.data_type) for value in values], pa.binary())
            return np.flatnonzero(pc.is_in(self.stored, wanted).to_numpy(zero_copy_only=False)).astype(np.int32)
        found = {self.id_of(value) for value in values}
        return np.array(sorted(found - {-1}), np.int32)

    def id_range(
        self, lower: LiteralValue, upper: LiteralValue, lower_inclusive: bool, upper_inclusive: bool
    ) -> tuple[int, int]:
        """Return the range [first, last) of ids between the bounds; None is unbounded."""
        first, last = 0, len(self)
        if lower is not None:
            first = (bisect_left if lower_inclusive else bisect_right)(self._keys, self._key(lower))
        if upper is not None:
            last = (bisect_right if upper_inclusive else bisect_left)(self._keys, self._key(upper))
        return first, max(first, last)

    def _key(self, value: LiteralValue) -> Any:
        """Return a value in the form that compares with `_keys`; a FLOAT is rounded like the column's values."""
        if self.data_type is DataType.FLOAT:
            return np.float32(value)
        return value.encode() if isinstance(value, str) else value


class _BinaryKeys(Sequence[Any]):
    """A BinaryArray as a sequence for binary search: bytes, or Decimal for BIG_DECIMAL."""

    def __init__(self, stored: pa.BinaryArray, data_type: DataType) -> None:
        offsets, data = binary_buffers(stored)
        # reading single numbers from a memoryview takes a third of the time
        self._offsets, self._data = offsets.data, data.data
        self._is_decimal = data_type is DataType.BIG_DECIMAL

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        offsets = self._offsets
        raw = self._data[offsets[index] : offsets[index + 1]].tobytes()
        return decimals_of([raw])[0] if self._is_decimal else raw

    def find(self, key: Any) -> int:
        """Return the position of a key, or -1. Inlined binary search, which avoids a call per step of `bisect_left`."""
        offsets, data, is_decimal = self._offsets, self._data, self._is_decimal
        low, high = 0, len(offsets) - 1
        while low < high:
            middle = (low + high) >> 1
            found: Any = data[offsets[middle] : offsets[middle + 1]].tobytes()
            if is_decimal:
                (found,) = decimals_of([found])
            if found < key:
                low = middle + 1
            elif found == key:
                return middle
            else:
                high = middle
        return -1
