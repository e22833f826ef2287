"""Operations on whole result columns: joining, picking rows."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gamay.functions.vector import EncodedVector, Vector, concat, take


def concat_vectors(parts: Sequence[Vector]) -> Vector:
    """Join columns of one type end to end; `parts` must not be empty."""
    if len(parts) == 1:
        return parts[0]
    values = concat([part.values for part in parts])
    nulls = None
    if any(part.nulls is not None for part in parts):
        nulls = np.concatenate([np.zeros(len(part), bool) if part.nulls is None else part.nulls for part in parts])
    return Vector(parts[0].type, values, _concat_offsets(parts), nulls)


def concat_encoded(parts: Sequence[EncodedVector]) -> EncodedVector:
    """Join single-value columns over one dictionary end to end."""
    return EncodedVector(np.concatenate([part.ids for part in parts]), parts[0].dictionary)


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
    """Return the rows at these positions, in this order."""
    nulls = None if column.nulls is None else column.nulls[rows]
    if column.offsets is None:
        return Vector(column.type, take(column.values, rows), nulls=nulls)
    positions, offsets = list_positions(column.offsets, rows)
    return Vector(column.type, take(column.values, positions), offsets, nulls)


def list_positions(
    offsets: "np.ndarray[Any, np.dtype[Any]]", rows: "np.ndarray[Any, np.dtype[Any]]"
) -> "tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.int64]]]":
    """Return where the values of some rows of a multi-value column lie, end to end, and the offsets of these rows."""
    starts = offsets[rows].astype(np.int64)
    lengths = offsets[rows + 1] - starts
    picked = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=picked[1:])
    return np.arange(picked[-1]) + np.repeat(starts - picked[:-1], lengths), picked
