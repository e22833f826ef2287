"""Values in memory: the operands and results of expressions.

| data type         | `Vector.values`                                             |
| ----------------- | ----------------------------------------------------------- |
| INT               | ndarray int32                                               |
| LONG, TIMESTAMP   | ndarray int64 (TIMESTAMP: milliseconds since the epoch, UTC) |
| FLOAT             | ndarray float32                                             |
| DOUBLE            | ndarray float64                                             |
| BOOLEAN           | ndarray bool                                                |
| BIG_DECIMAL       | ndarray object of decimal.Decimal                           |
| STRING, JSON, MAP | pyarrow.StringArray, no nulls in it                         |
| BYTES, UUID       | pyarrow.BinaryArray, no nulls in it (UUID: 16 bytes each)   |
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.expression import LiteralValue
from gamay.kernels.rows.gather import gather
from gamay.model.types import DataType

Values: TypeAlias = Any  # np.ndarray | pa.Array, by data type as in the table above

_COMPILED_TAKE_MIN = 1024

_ARROW_TYPES = {np.dtype(letter): pa.from_numpy_dtype(np.dtype(letter)) for letter in "bBhHiIqQ"}
_NUMPY_DTYPES: dict[DataType, np.dtype[Any]] = {
    DataType.INT: np.dtype(np.int32),
    DataType.LONG: np.dtype(np.int64),
    DataType.TIMESTAMP: np.dtype(np.int64),
    DataType.FLOAT: np.dtype(np.float32),
    DataType.DOUBLE: np.dtype(np.float64),
    DataType.BOOLEAN: np.dtype(np.bool_),
    DataType.BIG_DECIMAL: np.dtype(object),
}


def numpy_dtype(data_type: DataType) -> np.dtype[Any]:
    """Return the dtype of `Vector.values`; only for types stored in an ndarray."""
    return _NUMPY_DTYPES[data_type]


@dataclass(slots=True, eq=False)  # not frozen: small queries make several, and freezing takes five times as long
class Vector:
    """`n` values of one type, or `n` lists of values when `offsets` is given (a multi-value column).

    offsets: int32 or int64 [n + 1], row i holds values[offsets[i]:offsets[i + 1]]; None for single values.
    nulls: bool [n], True where the row is null (its value is a placeholder); None if nothing is null.
    derived: a cache of data computed from the values; only dictionaries, which outlive a query, have one. ascends:
    whether these are the entries of a dictionary in ascending order; False means unknown.
    """

    type: DataType
    values: Values
    offsets: "np.ndarray[Any, np.dtype[Any]] | None" = None
    nulls: "np.ndarray[Any, np.dtype[np.bool_]] | None" = None
    derived: "dict[str, Any] | None" = None
    ascends: bool = False

    def __len__(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    @property
    def is_multi_value(self) -> bool:
        return self.offsets is not None

    def at(self, rows: "np.ndarray[Any, np.dtype[Any]]") -> "Vector":
        """Return the rows of single values at these positions, which may repeat."""
        return Vector(self.type, take(self.values, rows), None, None if self.nulls is None else self.nulls[rows])


@dataclass(slots=True, eq=False)  # not frozen: small queries make several, and freezing takes five times as long
class EncodedVector:
    """`n` single values (or lists, with `offsets`) as ids into a dictionary: row i is `dictionary.values[ids[i]]`.

    ids: uint8, uint16, uint32 or int32 [number of values]; dictionary: a single-value Vector without repeats,
    ascending when it `ascends`, else in order of arrival (`gamay.functions.ranking` helps).
    """

    ids: "np.ndarray[Any, np.dtype[Any]]"
    dictionary: Vector
    offsets: "np.ndarray[Any, np.dtype[Any]] | None" = None
    nulls: "np.ndarray[Any, np.dtype[np.bool_]] | None" = None

    def __len__(self) -> int:
        return len(self.ids) if self.offsets is None else len(self.offsets) - 1

    @property
    def type(self) -> DataType:
        return self.dictionary.type

    def decode(self) -> Vector:
        """Return the values themselves."""
        if not len(self.ids):
            return Vector(self.type, self.dictionary.values[:0], self.offsets, self.nulls)
        return Vector(self.type, take(self.dictionary.values, self.ids), self.offsets, self.nulls)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A constant that is the value of all rows."""

    value: LiteralValue
    type: DataType


Operand: TypeAlias = Vector | EncodedVector | Scalar


def take(values: Values, indices: "np.ndarray[Any, np.dtype[Any]]") -> Values:
    """Gather `values[indices]` for both kinds of storage."""
    if isinstance(values, np.ndarray):
        # a compiled loop pays from a certain size on, and does not support objects
        if len(indices) < _COMPILED_TAKE_MIN or values.dtype.hasobject or indices.dtype == np.bool_:
            return values[indices]
        out = np.empty(len(indices), values.dtype)
        gather(values, indices, out)
        return out
    # Not pa.array(indices): that imports pandas, wherever it is installed, which takes longer than most queries; and not
    # `values.take`, which takes three times as long as what it calls.
    indices = np.ascontiguousarray(indices)
    positions = pa.Array.from_buffers(_ARROW_TYPES[indices.dtype], len(indices), (None, pa.py_buffer(indices)))
    return _array_take().call([values, positions])


@cache
def _array_take() -> pc.Function:
    return pc.get_function("array_take")


def union_nulls(operands: "Sequence[Operand]") -> "np.ndarray[Any, np.dtype[np.bool_]] | None":
    """Return the rows in which any operand is null; None if none has nulls. Constants are ignored."""
    nulls = None
    for operand in operands:
        if not isinstance(operand, Scalar) and operand.nulls is not None:
            nulls = operand.nulls if nulls is None else nulls | operand.nulls
    return nulls


def take_rows(operand: Operand, rows: "np.ndarray[Any, np.dtype[Any]]") -> Operand:
    """Return an operand at some rows, which may repeat; a constant is returned unchanged."""
    if isinstance(operand, Scalar):
        return operand
    if isinstance(operand, Vector) and operand.offsets is None:
        return operand.at(rows)
    nulls = None if operand.nulls is None else operand.nulls[rows]
    positions, offsets = rows, None
    if operand.offsets is not None:
        lengths = (operand.offsets[1:] - operand.offsets[:-1])[rows].astype(np.int64)
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        # position of each kept value: its row's start, plus its position within the row
        positions = np.repeat(operand.offsets[:-1][rows] - offsets[:-1], lengths) + np.arange(offsets[-1])
    if isinstance(operand, EncodedVector):
        return EncodedVector(take(operand.ids, positions), operand.dictionary, offsets, nulls)
    return Vector(operand.type, take(operand.values, positions), offsets, nulls)


def concat(parts: Sequence[Values]) -> Values:
    """Concatenate storages of the same kind; `parts` must not be empty."""
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return pa.concat_arrays(list(parts))


def sorted_distinct(vector: Vector) -> "tuple[Values, np.ndarray[Any, np.dtype[np.int64]]]":
    """Return the distinct single values, ascending, and the rank of each value among them; not for BIG_DECIMAL."""
    if isinstance(vector.values, np.ndarray):
        distinct, codes = np.unique(vector.values, return_inverse=True)
        return distinct, codes
    coded = vector.values.dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return take(coded.dictionary, order), places[coded.indices.to_numpy()]
