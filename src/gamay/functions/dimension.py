"""Dimension tables in memory: from primary keys to rows, for lookUp.

A DimensionTable is an immutable snapshot of the rows. Keys of every type are mapped to 64-bit numbers, whole columns at a
time, which a hash table maps to rows: integers directly, doubles by their bits, texts and bytes by their hash (matches
are then compared), composite keys by the positions of their parts."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

import numpy as np
import pyarrow.compute as pc

from gamay.base import guard
from gamay.base.arrays import Array
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arrow import binary_buffers
from gamay.functions.convert import convert, convert_values, python_values, to_vector
from gamay.functions.vector import EncodedVector, Operand, Vector, concat, sorted_distinct, take
from gamay.kernels.hash.hashing import murmur64a
from gamay.kernels.hash.int_hash import fill_places, find_places
from gamay.model.types import DataType

Column: TypeAlias = Vector | EncodedVector

_SEED = 0x5C9E_21D7
_DOUBLES = (DataType.FLOAT, DataType.DOUBLE)
_WHOLE = (DataType.INT, DataType.LONG, DataType.TIMESTAMP, DataType.BOOLEAN)
_LONG_LIMIT = 2.0**63


@runtime_checkable
class KnowsDimensions(Protocol):
    """The guard of a query on a server that has dimension tables."""

    def dimension_table(self, table: str) -> "DimensionTable":
        """Return a typed table as of the first time that the query asked for it. Raises QueryError."""
        ...


def dimension_table(table: str) -> "DimensionTable":
    """Return a dimension table for the query that this thread works for. Raises QueryError."""
    watcher = guard.current()
    if not isinstance(watcher, KnowsDimensions):
        raise QueryError(ErrorCode.QUERY_VALIDATION, "Function 'lookUp': only queries on servers can read dimension tables")
    return watcher.dimension_table(table)


@dataclass(frozen=True, slots=True)
class KeyColumn:
    """One column of the primary key, with a value for each row."""

    name: str
    values: Vector


class DimensionTable:
    """A snapshot of the rows of a dimension table; safe to share between threads.

    keys: the primary key, in order; of rows with equal keys the last one wins. column: returns a column's values with one
    extra row at the end, for keys that no row has. Raises QueryError if `unique` is set and a key occurs twice.
    """

    def __init__(
        self, name: str, keys: Sequence[KeyColumn], column: Callable[[str], Vector], *, unique: bool = False
    ) -> None:
        self.name = name
        self._num_rows = len(keys[0].values)
        self._parts: list[_Numbers | _Objects] = [_part(key.values) for key in keys]
        self._joins: list[_Places] = []
        self._column = column
        self._columns: dict[str, Column] = {}
        self._lock = threading.Lock()
        repeated = self._enter([key.values for key in keys])
        if unique and repeated >= 0:
            values = [python_values(key.values.values[repeated : repeated + 1])[0] for key in keys]
            shown = ", ".join(f"{key.name} = {value!r}" for key, value in zip(keys, values, strict=True))
            raise QueryError(
                ErrorCode.QUERY_EXECUTION,
                f"The dimension table '{name}' has more than one row of the primary key {shown}, which its "
                "errorOnDuplicatePrimaryKey forbids",
            )

    @property
    def num_keys(self) -> int:
        """The number of columns of the primary key."""
        return len(self._parts)

    def _enter(self, keys: Sequence[Vector]) -> int:
        """Index the rows by the combined key; return the first row that repeats a key, -1 if none does."""
        places, repeated = self._parts[0].find(keys[0]), self._parts[0].repeated
        for part, key in zip(self._parts[1:], keys[1:], strict=True):
            join = _Places(self._packed(places, part.find(key)))
            self._joins.append(join)
            places, repeated = join.find(join.keys), join.repeated
        return repeated

    def _packed(self, places: Array, others: Array) -> Array:
        return np.where((places < 0) | (others < 0), np.int64(-1), places * np.int64(self._num_rows) + others)

    def rows(self, key: Sequence[Operand], num_rows: int) -> Array:
        """Return the row of each key: int64 [num_rows], the row after the last for keys that no row has.

        Raises QueryError for text that is invalid for the type of the key.
        """
        places = self._parts[0].find(to_vector(key[0], num_rows))
        for part, join, operand in zip(self._parts[1:], self._joins, key[1:], strict=True):
            places = join.find(self._packed(places, part.find(to_vector(operand, num_rows))))
        places[places < 0] = self._num_rows
        return places

    def column(self, name: str) -> Column:
        """Return a column with the extra row for missing keys at its end, dictionary-encoded if it holds texts or bytes."""
        known = self._columns.get(name)
        if known is None:
            with self._lock:
                known = self._columns.get(name)
                if known is None:
                    known = self._columns[name] = _encoded(self._column(name))
        return known


def _encoded(vector: Vector) -> Column:
    if vector.type.is_fixed_width or vector.type is DataType.BIG_DECIMAL:
        return vector
    entries, ids = sorted_distinct(Vector(vector.type, vector.values))
    dictionary = Vector(vector.type, entries, derived={}, ascends=True)
    return EncodedVector(ids.astype(np.uint32), dictionary, vector.offsets)


class _Places:
    """Hash table from 64-bit keys to positions. repeated: the first position whose key occurred before, else -1."""

    def __init__(self, keys: Array) -> None:
        self.keys = keys
        self._slots = np.full(1 << max(1, 2 * len(keys)).bit_length(), -1, np.int32)
        self.repeated = int(fill_places(keys, self._slots))

    def find(self, wanted: Array) -> Array:
        """Return the last position of each key: int64, -1 for unknown keys."""
        out = np.empty(len(wanted), np.int64)
        find_places(wanted, self.keys, self._slots, out)
        return out


class _Numbers:
    """A key column as numbers: its own values, or hashes of texts and bytes, whose matches are compared."""

    def __init__(self, values: Vector) -> None:
        self._values = values
        self._places = _Places(_numbers(values, values.type)[0])
        self.repeated = self._places.repeated

    def find(self, wanted: Vector) -> Array:
        """Return the last row with each value, -1 if there is none."""
        vector = _comparable(wanted, self._values.type)
        numbers, exact = _numbers(vector, self._values.type)
        places = self._places.find(numbers)
        if exact is not None:
            places[~exact] = -1
        if self._values.type.is_fixed_width or not len(self._values):
            return places
        found = take(self._values.values, np.maximum(places, 0))
        places[~np.asarray(pc.equal(found, vector.values))] = -1
        return places

    def is_exact(self) -> bool:
        """Whether no two different values of the column have equal hashes."""
        return bool((self.find(self._values) >= 0).all())


class _Objects:
    """A key column as a dict: decimals, and texts with colliding hashes."""

    def __init__(self, values: Vector) -> None:
        self._type = values.type
        listed = python_values(values.values)
        self._rows = {value: row for row, value in enumerate(listed)}
        # a row that is not the last one of its value has a repeat; any one will do for the message
        earlier = (value for row, value in enumerate(listed) if self._rows[value] != row)
        repeated = next(earlier, None)
        self.repeated = -1 if repeated is None else self._rows[repeated]

    def find(self, wanted: Vector) -> Array:
        """Return the last row with each value, -1 if there is none."""
        values = convert_values(wanted.values, wanted.type, self._type) if wanted.type is not self._type else wanted.values
        return np.array([self._rows.get(value, -1) for value in python_values(values)], np.int64)


def _part(values: Vector) -> _Numbers | _Objects:
    if values.type is DataType.BIG_DECIMAL:
        return _Objects(values)
    part = _Numbers(values)
    return part if values.type.is_fixed_width or part.is_exact() else _Objects(values)


def _comparable(wanted: Vector, key: DataType) -> Vector:
    """Convert values so that they are comparable with a key of a type; numbers are left unchanged."""
    if wanted.type is key or (key in _WHOLE and wanted.type in (*_WHOLE, *_DOUBLES)):
        return wanted
    if wanted.type is DataType.BIG_DECIMAL and key in _WHOLE:
        return _whole_decimals(wanted)
    target = DataType.DOUBLE if key in _DOUBLES else key
    converted = convert(wanted, target)
    assert isinstance(converted, Vector)
    return converted


def _whole_decimals(wanted: Vector) -> Vector:
    """Return decimals as LONG, or as DOUBLE with NaN, which matches no key, where they are not 64-bit integers."""
    fits = np.array([v == v.to_integral_value() and abs(v) < _LONG_LIMIT for v in wanted.values], np.bool_)
    if fits.all():
        return Vector(DataType.LONG, np.array([int(v) for v in wanted.values], np.int64))
    values = [float(v) if fit else float("nan") for v, fit in zip(wanted.values, fits, strict=True)]
    return Vector(DataType.DOUBLE, np.array(values, np.float64))


def _numbers(vector: Vector, key: DataType) -> tuple[Array, Array | None]:
    """Return the number that represents each value, int64, and where it is exact (None for everywhere)."""
    values = vector.values
    if key in _DOUBLES:
        doubles = values.astype(np.float64) + 0.0  # -0.0 is 0.0
        return doubles.view(np.int64), None
    if vector.type in _DOUBLES:
        doubles = values.astype(np.float64)
        exact = (np.abs(doubles) < _LONG_LIMIT) & (doubles == np.floor(doubles))
        return np.where(exact, doubles, 0.0).astype(np.int64), exact
    if key.is_fixed_width:
        return values.astype(np.int64), None
    offsets, data = binary_buffers(values)
    hashes = np.empty(len(values), np.int64)
    murmur64a(data, offsets, _SEED, hashes)
    return hashes, None


def with_row(vector: Vector, last: Vector) -> Vector:
    """Append the only row of `last` to a column; nulls hold the column's default already."""
    values = concat([vector.values, last.values])
    if vector.offsets is None:
        return Vector(vector.type, values)
    base = np.asarray(vector.offsets, np.int64)
    return Vector(vector.type, values, np.append(base - base[0], base[-1] - base[0] + len(last.values)))
