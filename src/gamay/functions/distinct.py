"""Distinct values of rows, for functions that are too expensive to compute for each row."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.functions.convert import python_values
from gamay.functions.vector import Vector, take
from gamay.model.types import DataType

Codes: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def distinct(vector: Vector) -> tuple[Codes, Vector]:
    """Return for each row of a single-value vector the position of its value among the distinct values, and those values."""
    if vector.type is DataType.BIG_DECIMAL:
        positions: dict[Any, int] = {}
        codes = np.array([positions.setdefault(value, len(positions)) for value in vector.values], dtype=np.int64)
        values = np.empty(len(positions), dtype=object)
        values[:] = list(positions)
        return codes, Vector(vector.type, values)
    encoded = pa.array(vector.values).dictionary_encode()
    codes = np.asarray(encoded.indices).astype(np.int64, copy=False)
    if isinstance(vector.values, np.ndarray):
        return codes, Vector(vector.type, encoded.dictionary.to_numpy(zero_copy_only=False))
    return codes, Vector(vector.type, encoded.dictionary)


def distinct_rows(columns: Sequence[Vector]) -> tuple[Codes, list[tuple[Any, ...]]]:
    """Return for each row the position of its combination of values among the distinct ones, and these."""
    if len(columns) == 1:
        codes, values = distinct(columns[0])
        return codes, [(value,) for value in python_values(values.values)]
    combined = np.zeros(len(columns[0]) if columns else 1, dtype=np.int64)
    for column in columns:
        codes, values = distinct(column)
        # renumbering after each column keeps the product of two cardinalities below the number of rows squared
        _, combined = np.unique(combined * max(len(values), 1) + codes, return_inverse=True)
    _, first, combined = np.unique(combined, return_index=True, return_inverse=True)
    taken = [python_values(take(column.values, first)) for column in columns]
    return combined, list(zip(*taken, strict=True)) if taken else [()]
