"""Operations on whole result columns: concatenation, selection of rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gamay.base.arrays import Mask
from gamay.functions.frame import FramedVector
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, concat, take
from gamay.model.types import DataType
from gamay.query.columns.constants import repeated


def concat_vectors(parts: Sequence[Vector]) -> Vector:
    """Concatenate columns of one type; `parts` must not be empty."""
    if len(parts) == 1:
        return parts[0]
    values = concat([part.values for part in parts])
    return Vector(parts[0].type, values, _concat_offsets(parts), _concat_nulls(parts))


def concat_encoded(parts: Sequence[EncodedVector]) -> EncodedVector:
    """Concatenate single-value columns with one dictionary."""
    return EncodedVector(np.concatenate([part.ids for part in parts]), parts[0].dictionary, None, _concat_nulls(parts))


def with_nulls(operand: Operand, nulls: "np.ndarray[Any, np.dtype[np.bool_]] | None") -> Operand:
    """Return an operand with these null flags; a constant is unchanged."""
    if isinstance(operand, EncodedVector):
        return EncodedVector(operand.ids, operand.dictionary, operand.offsets, nulls)
    if isinstance(operand, FramedVector):
        return operand.with_nulls(nulls)
    return Vector(operand.type, operand.values, operand.offsets, nulls) if isinstance(operand, Vector) else operand


def without_nulls(operand: Vector | EncodedVector) -> Vector:
    """Return an operand with placeholders of the type in place of nulls."""
    vector = operand.decode() if isinstance(operand, EncodedVector) else operand
    if vector.nulls is None:
        return vector
    filled = concat([vector.values, repeated(None, vector.type, 1).values])
    if vector.offsets is not None:
        return Vector(vector.type, vector.values, vector.offsets)
    positions = np.where(vector.nulls, len(vector.values), np.arange(len(vector.values)))
    return Vector(vector.type, take(filled, positions))


def _concat_nulls(parts: Sequence[Vector | EncodedVector]) -> "np.ndarray[Any, np.dtype[np.bool_]] | None":
    if all(part.nulls is None for part in parts):
        return None
    return np.concatenate([np.zeros(len(part), bool) if part.nulls is None else part.nulls for part in parts])


def _concat_offsets(parts: Sequence[Vector]) -> "np.ndarray[Any, np.dtype[Any]] | None":
    if parts[0].offsets is None:
        return None
    pieces, base = [np.zeros(1, np.int64)], 0
    for part in parts:
        assert part.offsets is not None
        pieces.append(part.offsets[1:].astype(np.int64) - int(part.offsets[0]) + base)
        base += int(part.offsets[-1]) - int(part.offsets[0])
    return np.concatenate(pieces)


def take_rows(column: Vector, rows: "np.ndarray[Any, np.dtype[Any]]") -> Vector:
    """Return the rows at positions, in this order."""
    if column.offsets is None:
        return column.at(rows)
    nulls = None if column.nulls is None else column.nulls[rows]
    positions, offsets = list_positions(column.offsets, rows)
    return Vector(column.type, take(column.values, positions), offsets, nulls)


def list_positions(
    offsets: "np.ndarray[Any, np.dtype[Any]]", rows: "np.ndarray[Any, np.dtype[Any]]"
) -> "tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]":
    """Return the positions of the values of some rows of a multi-value column, concatenated, and the offsets of these
    rows."""
    starts = offsets[rows].astype(np.int64)
    lengths = offsets[rows + 1] - starts
    picked = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=picked[1:])
    return np.arange(picked[-1]) + np.repeat(starts - picked[:-1], lengths), picked


def truth(operand: Vector | EncodedVector | Scalar, num_rows: int) -> Mask:
    """Return the result of a boolean expression as a new array of flags; null is false."""
    if isinstance(operand, Scalar):
        return np.full(num_rows, bool(operand.value), np.bool_)
    vector = operand.decode() if isinstance(operand, EncodedVector) else operand
    if vector.type is not DataType.BOOLEAN:
        raise TypeError(f"a condition has the type {vector.type.value}")
    return np.array(vector.values if vector.nulls is None else vector.values & ~vector.nulls, np.bool_)
