"""Coders: they map the values of one expression to small integers, block by block.

The codes of a dictionary-encoded column are its dictionary ids. All other values are numbered in order of appearance by a
growing dictionary.
"""

from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.functions.aggregate.distinct.growth import GROWTH_MAX, expected_values
from gamay.functions.aggregate.distinct.text_numbers import TextNumbers
from gamay.functions.aggregate.totals.totals import repeat
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, concat, numpy_dtype, take
from gamay.kernels.group.ascending import merge_ascending
from gamay.kernels.group.grouping import number_by_hash, rebuild_table
from gamay.model.types import DataType

Key: TypeAlias = Vector | EncodedVector

# Codes and group numbers are int32.
CODES_MAX = (1 << 31) - 2
DISTINCT = "distinct values"
# growing a larger table reserves memory first
_RESERVED_KEYS = 1 << 16
# smaller tables grow by a factor of 4, which takes least time; larger ones double, which takes least memory
_GROWN_FOURFOLD = 1 << 18
_SLOTS_LEAST = 1 << 12
# Up to so many sorted dictionaries are merged one by one: 5 ns a value, against 60 ns for hashing. Small ones are hashed.
_NUMBERS = frozenset({DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.FLOAT, DataType.DOUBLE})
_MERGED_MAX = 8
_MERGED_LEAST = 1 << 12


class HashNumbers:
    """Numbering of int64 keys as 0, 1, … in order of first appearance, up to a limit.

    expected: the approximate number of distinct keys.
    """

    def __init__(self, limit: int = CODES_MAX, expected: int = 0) -> None:
        self.count = 0
        self.dropped = False
        self._limit = limit
        self._table = np.full(max(_SLOTS_LEAST, 2 << expected.bit_length()), -1, np.int32)
        self._keys = np.empty(len(self._table) // 2, np.int64)

    @property
    def keys(self) -> Array:
        """The keys, by number: int64 [count]."""
        return self._keys[: self.count]

    def number(self, keys: Array) -> Array:
        """Return the number of each key: int32 [n]; `limit` for new keys once the limit is reached."""
        out = np.empty(len(keys), np.int32)
        done, before = 0, self.count
        while True:
            done, count, dropped = number_by_hash(keys, done, self._table, self._keys, self.count, self._limit, out)
            self.count = int(count)
            self.dropped |= bool(dropped)
            if done == len(keys):
                return out
            self._enlarge(min(before + expected_values(self.count - before, done, len(keys)), self._limit))

    def _enlarge(self, expected: int) -> None:
        """Make room for more keys; expected: the approximate number of distinct keys."""
        factor = 4 if self.count < _GROWN_FOURFOLD else 2
        while factor < GROWTH_MAX and factor * len(self._table) < 2 * expected:
            factor *= 2
        if self.count > _RESERVED_KEYS:  # the old arrays coexist with the new ones until those are filled
            guard.reserve(DISTINCT, (factor - 1) * self._table.nbytes + factor * self._keys.nbytes)
        self._table = np.full(factor * len(self._table), -1, np.int32)
        keys = np.empty(len(self._table) // 2, np.int64)
        keys[: self.count] = self.keys
        self._keys = keys
        rebuild_table(self._keys, self.count, self._table)


class Coder(Protocol):
    """The codes of one expression.

    cardinality: codes are in [0, cardinality); None if the number of codes is not known in advance.
    """

    @property
    def cardinality(self) -> int | None: ...

    @property
    def num_codes(self) -> int:
        """The number of codes so far; all codes are smaller."""
        ...

    def codes(self, operand: Operand, num_rows: int) -> Array:
        """Return the code of each value: an integer array [n]."""
        ...

    def decode(self, codes: Array) -> Key:
        """Return the values of codes, as single values."""
        ...


class DictionaryCoder:
    """Coder of a column whose blocks all share one dictionary: the dictionary ids are the codes."""

    def __init__(self, dictionary: Vector) -> None:
        self._dictionary = dictionary

    @property
    def cardinality(self) -> int:
        return len(self._dictionary)

    @property
    def num_codes(self) -> int:
        return len(self._dictionary)

    def equals(self, other: Coder) -> bool:
        """Whether another coder assigns the same codes."""
        return isinstance(other, DictionaryCoder) and other._dictionary.values is self._dictionary.values

    def holds(self, operand: Operand) -> bool:
        """Whether an operand is encoded with this dictionary."""
        return isinstance(operand, EncodedVector) and operand.dictionary.values is self._dictionary.values

    def codes(self, operand: Operand, num_rows: int) -> Array:
        if not isinstance(operand, EncodedVector):
            raise TypeError("a column with a dictionary was read without it")
        return operand.ids

    def decode(self, codes: Array) -> Key:
        return EncodedVector(codes.astype(np.uint32), self._dictionary)


class NumberCoder:
    """Coder of fixed-width values, by their bits; all NaN share a code, and so do 0.0 and -0.0."""

    def __init__(self, data_type: DataType, expected: int = 0) -> None:
        self._type = data_type
        self._numbers = HashNumbers(expected=expected)
        self._dictionaries = _DictionaryCodes()

    @property
    def cardinality(self) -> None:
        return None

    @property
    def num_codes(self) -> int:
        return self._numbers.count

    def codes(self, operand: Operand, num_rows: int) -> Array:
        return self._dictionaries.codes(operand, num_rows, self._code_values)

    def decode(self, codes: Array) -> Key:
        return Vector(self._type, from_bits(self._type, self._numbers.keys[codes]))

    def _code_values(self, values: Values) -> Array:
        return self._numbers.number(to_bits(values))


class TextCoder:
    """Coder of strings and byte strings; decimals are coded by their text, so that 1.0 and 1.00 differ."""

    def __init__(self, data_type: DataType, expected: int = 0) -> None:
        self._type = data_type
        self._numbers = TextNumbers(DISTINCT, pa.binary() if data_type.is_binary else pa.string(), expected)
        self._dictionaries = _DictionaryCodes()

    @property
    def cardinality(self) -> None:
        return None

    @property
    def num_codes(self) -> int:
        return self._numbers.count

    def codes(self, operand: Operand, num_rows: int) -> Array:
        return self._dictionaries.codes(operand, num_rows, self._code_values)

    def decode(self, codes: Array) -> Key:
        if len(codes) > self._numbers.count:  # texts repeat: store each once
            return EncodedVector(codes.astype(np.uint32), self._vector(self._numbers.texts))
        if len(codes) > _RESERVED_KEYS:
            guard.reserve(DISTINCT, self._numbers.num_bytes * len(codes) // max(1, self._numbers.count))
        return self._vector(take(self._numbers.texts, codes))

    def _vector(self, texts: pa.Array) -> Vector:
        return Vector(self._type, decimals(texts) if self._type is DataType.BIG_DECIMAL else texts)

    def _code_values(self, values: Values) -> Array:
        return self._numbers.number(decimal_texts(values) if self._type is DataType.BIG_DECIMAL else values)


class NullableCoder:
    """The codes of another coder plus one; 0 is null."""

    def __init__(self, inner: Coder) -> None:
        self._inner = inner

    @property
    def cardinality(self) -> int | None:
        return None if self._inner.cardinality is None else self._inner.cardinality + 1

    @property
    def num_codes(self) -> int:
        return self._inner.num_codes + 1

    def codes(self, operand: Operand, num_rows: int) -> Array:
        nulls = None if isinstance(operand, Scalar) else operand.nulls
        return self.shifted(self._inner.codes(operand, num_rows), nulls)

    def shifted(self, codes: Array, nulls: Array | None) -> Array:
        """Return the nullable codes of rows, given the inner coder's codes."""
        width = self.cardinality or 1 << 32
        dtype = np.uint8 if width <= 1 << 8 else np.uint16 if width <= 1 << 16 else np.uint32
        moved: Array = codes.astype(dtype)
        np.add(moved, 1, out=moved)
        if nulls is not None:
            moved[nulls] = 0
        return moved

    def decode(self, codes: Array) -> Key:
        nulls = codes == 0
        key = self._inner.decode(np.where(nulls, 0, codes.astype(np.int64) - 1))
        if isinstance(key, EncodedVector):
            return EncodedVector(key.ids, key.dictionary, None, nulls)
        return Vector(key.type, key.values, None, nulls)


class _DictionaryCodes:
    """Codes of operands that may be encoded with their own dictionaries: each dictionary is coded once."""

    def __init__(self) -> None:
        self._dictionary: Values = None
        self._lookup: Array = np.empty(0, np.int32)

    def codes(self, operand: Operand, num_rows: int, code_values: "_CodeValues") -> Array:
        if isinstance(operand, Scalar):
            code = code_values(repeat(operand, 1))
            return np.full(num_rows, code[0], np.int32)
        if isinstance(operand, Vector):
            return code_values(operand.values)
        if len(operand.dictionary) > max(len(operand.ids), 1024):
            return code_values(operand.decode().values)
        if operand.dictionary.values is not self._dictionary:
            self._dictionary = operand.dictionary.values
            lookup = code_values(self._dictionary)
            self._lookup = lookup.astype(np.min_scalar_type(lookup.max(initial=0)))
        return np.asarray(take(self._lookup, operand.ids))


class _CodeValues(Protocol):
    def __call__(self, values: Values, /) -> Array: ...


def to_bits(values: Array) -> Array:
    """Return values of a fixed width as int64 that are equal exactly when the values are (NaN equals NaN)."""
    if values.dtype.kind != "f":
        return values.astype(np.int64)
    doubles = values.astype(np.float64) + 0.0  # -0.0 becomes 0.0
    doubles[np.isnan(doubles)] = np.nan
    return doubles.view(np.int64)


def from_bits(data_type: DataType, bits: Array) -> Array:
    """Invert `to_bits`."""
    dtype = numpy_dtype(data_type)
    return (bits.view(np.float64) if dtype.kind == "f" else bits).astype(dtype)


def decimal_texts(values: Sequence[Decimal]) -> pa.Array:
    """Return decimals as text that distinguishes 1.0 from 1.00."""
    return pa.array([str(value) for value in values], pa.string())


def decimals(texts: pa.Array) -> Array:
    """Parse texts as decimals."""
    values = np.empty(len(texts), object)
    values[:] = [Decimal(text) for text in texts.to_pylist()]
    return values


def coder_of(data_type: DataType, expected: int = 0) -> Coder:
    """Return a coder for values of a type that share no dictionary. expected: the approximate number of codes."""
    return NumberCoder(data_type, expected) if data_type.is_fixed_width else TextCoder(data_type, expected)


def common_codes(keys: Sequence[Key]) -> tuple[Coder, list[Array]]:
    """Return one coder for all keys, and the codes of each; equal dictionaries need no lookups."""
    if all(key.nulls is None for key in keys):
        return _common_codes(keys)
    inner, codes = _common_codes(keys)
    coder = NullableCoder(inner)
    return coder, [coder.shifted(part, key.nulls) for part, key in zip(codes, keys, strict=True)]


def _common_codes(keys: Sequence[Key]) -> tuple[Coder, list[Array]]:
    first = keys[0]
    if isinstance(first, EncodedVector) and all(_same_dictionary(first, key) for key in _of_each_dictionary(keys)):
        return DictionaryCoder(first.dictionary), [key.ids for key in keys if isinstance(key, EncodedVector)]
    sources = [_source(key) for key in keys]
    if sum(map(len, sources)) > _RESERVED_KEYS:
        guard.reserve(DISTINCT, sum(source.values.nbytes for source in sources))
    coder, parts = _merged_codes(first.type, sources) or _hashed_codes(first.type, sources)
    codes = [
        part[key.ids] if isinstance(key, EncodedVector) and source is key.dictionary else part
        for key, source, part in zip(keys, sources, parts, strict=True)
    ]
    return coder, codes


def _hashed_codes(data_type: DataType, sources: Sequence[Vector]) -> tuple[Coder, list[Array]]:
    """Return a coder and the codes of each source's values, all hashed in one pass."""
    coder = coder_of(data_type)
    every = Vector(data_type, concat([source.values for source in sources]))
    parts = np.split(coder.codes(every, len(every)), np.cumsum([len(source) for source in sources])[:-1])
    return coder, parts


def _merged_codes(data_type: DataType, sources: Sequence[Vector]) -> tuple[Coder, list[Array]] | None:
    """Return a coder and the codes of each source's values if all sources are sorted, as dictionaries are; else None."""
    if data_type not in _NUMBERS or len(sources) > _MERGED_MAX or sum(map(len, sources)) < _MERGED_LEAST:
        return None
    wide = np.float64 if numpy_dtype(data_type).kind == "f" else np.int64
    values: list[Array] = [np.ascontiguousarray(source.values, wide) for source in sources]
    if not all((some[1:] > some[:-1]).all() and not np.isnan(some[-1:]).any() for some in values):
        return None
    merged, parts = values[0], [np.arange(len(values[0]), dtype=np.int32)]
    for other in values[1:]:
        both = np.empty(len(merged) + len(other), wide)
        of_merged, of_other = np.empty(len(merged), np.int32), np.empty(len(other), np.int32)
        count = merge_ascending(merged, other, both, of_merged, of_other)
        merged, parts = both[:count], [*(of_merged[part] for part in parts), of_other]
    if wide is np.float64:
        merged = np.add(merged, 0.0)  # -0.0 is 0.0
    dictionary = Vector(data_type, merged.astype(numpy_dtype(data_type), copy=False), derived={}, ascends=True)
    return DictionaryCoder(dictionary), parts


def _source(key: Key) -> Vector:
    """Return what is coded for a key: its dictionary if values repeat, else the values."""
    if not isinstance(key, EncodedVector):
        return key
    return key.dictionary if len(key.dictionary) < len(key) else key.decode()


def _of_each_dictionary(keys: Sequence[Key]) -> Collection[Key]:
    """Return one key for each dictionary, and all keys without one: pieces of one segment share its dictionary."""
    return {id(key.dictionary.values if isinstance(key, EncodedVector) else key): key for key in keys}.values()


def _same_dictionary(first: EncodedVector, other: Key) -> bool:
    if not isinstance(other, EncodedVector) or len(first.dictionary) != len(other.dictionary):
        return False
    mine, theirs = first.dictionary.values, other.dictionary.values
    if mine is theirs:
        return True
    return bool(mine.equals(theirs)) if isinstance(mine, pa.Array) else _same_values(first.dictionary, mine, theirs)


def _same_values(dictionary: Vector, mine: Array, theirs: Array) -> bool:
    if mine.dtype == np.dtype(object):
        # Decimals that are equal as numbers may differ as keys.
        return [str(value) for value in mine] == [str(value) for value in theirs]
    return np.array_equal(mine, theirs)
