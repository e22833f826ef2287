"""Vectors of one repeated value."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from gamay.functions.expression import LiteralValue
from gamay.functions.vector import Vector, numpy_dtype
from gamay.model.types import DataType

_PLACEHOLDERS: dict[DataType, LiteralValue] = {DataType.BYTES: b"", DataType.UUID: bytes(16), DataType.MAP: "{}"}


def values_of(data_type: DataType, listed: list[Any]) -> Any:
    """Return Python values in the storage format of `Vector.values`."""
    if data_type.is_text or data_type is DataType.OBJECT:
        return pa.array(listed, pa.string())
    if data_type.is_binary:
        return pa.array(listed, pa.binary())
    if data_type in (DataType.UNKNOWN, DataType.BIG_DECIMAL):
        array = np.empty(len(listed), object)
        array[:] = listed
        return array
    return np.array(listed, numpy_dtype(data_type))


def repeated(value: LiteralValue, data_type: DataType, num_rows: int) -> Vector:
    """Return a vector of `num_rows` equal values; None gives nulls over a placeholder."""
    nulls = np.ones(num_rows, bool) if value is None else None
    if value is None:
        value = _PLACEHOLDERS.get(data_type, "" if data_type.is_text else Decimal(0))
    one = values_of(data_type, [value])
    if isinstance(one, np.ndarray):
        return Vector(data_type, np.repeat(one, num_rows), nulls=nulls)
    return Vector(data_type, pa.repeat(one[0], num_rows), nulls=nulls)


def empty(data_type: DataType, multi_value: bool = False) -> Vector:
    """Return an empty vector of a type."""
    return Vector(data_type, values_of(data_type, []), np.zeros(1, np.int32) if multi_value else None)
