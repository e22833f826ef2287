"""The stored form of each data type in buffers, and its conversion to `Vector.values`.

| data type                        | stored as                                                   |
| -------------------------------- | ----------------------------------------------------------- |
| INT, LONG, TIMESTAMP, FLOAT, DOUBLE | little-endian array, 4 or 8 bytes each                   |
| BOOLEAN                          | one byte each, 0 or 1                                       |
| STRING, JSON, MAP, BYTES, UUID   | bytes end to end, and int32 offsets                         |
| BIG_DECIMAL                      | plain decimal text, as STRING                               |

The *stored form* is an ndarray for the fixed-width types and a pyarrow BinaryArray without nulls for the others.
"""

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import CorruptSegmentError, InvalidConfigError
from gamay.functions.arrow import binary_buffers as binary_buffers
from gamay.functions.expression import LiteralValue
from gamay.model.types import DataType

Stored: TypeAlias = Any  # np.ndarray | pa.BinaryArray

_FIXED: dict[DataType, np.dtype[Any]] = {
    DataType.INT: np.dtype("<i4"),
    DataType.LONG: np.dtype("<i8"),
    DataType.TIMESTAMP: np.dtype("<i8"),
    DataType.FLOAT: np.dtype("<f4"),
    DataType.DOUBLE: np.dtype("<f8"),
    DataType.BOOLEAN: np.dtype("u1"),
}

# the largest offset within one array of texts
OFFSET_MAX = 2**31 - 1


def fixed_dtype(data_type: DataType) -> "np.dtype[Any] | None":
    """Return the dtype of a fixed-width type's stored form; None for types of variable width."""
    return _FIXED.get(data_type)


def from_arrow(array: pa.Array, data_type: DataType) -> Stored:
    """Return the stored form of a conformed Arrow array without nulls."""
    if data_type is DataType.BOOLEAN:
        return array.cast(pa.uint8()).to_numpy()
    if data_type is DataType.TIMESTAMP:
        return array.view(pa.int64()).to_numpy()
    return array.to_numpy() if data_type in _FIXED else array.view(pa.binary())


def to_values(stored: Stored, data_type: DataType) -> Any:
    """Return `Vector.values` of a stored form: without copying, except for BIG_DECIMAL."""
    if data_type is DataType.BOOLEAN:
        return stored.view(np.bool_)
    if data_type.is_text:
        return stored.view(pa.string())
    if data_type is DataType.BIG_DECIMAL:
        return np.array([*decimals_of(stored.to_pylist()), None], dtype=object)[:-1]
    return stored


def decimals_of(texts: Sequence[bytes]) -> list[Decimal]:
    """Return the decimals of texts in stored form. Raises CorruptSegmentError."""
    try:
        return [Decimal(text.decode()) for text in texts]
    except (InvalidOperation, UnicodeDecodeError) as error:
        raise CorruptSegmentError("a column of type BIG_DECIMAL holds texts that are no numbers") from error


def to_python(stored: Stored, index: int, data_type: DataType) -> LiteralValue:
    """Return one value in its Python form."""
    item = stored[index]
    if data_type in _FIXED:
        return bool(item) if data_type is DataType.BOOLEAN else item.item()
    raw: bytes = item.as_py()
    if data_type is DataType.BIG_DECIMAL:
        return decimals_of([raw])[0]
    return raw.decode() if data_type.is_text else raw


def from_python(value: LiteralValue, data_type: DataType) -> Any:
    """Return one value in its stored form: a number or bytes; None stays None."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, Decimal) and data_type is DataType.BIG_DECIMAL:
        return format(value, "f").encode()
    return value


def concat_stored(parts: list[Stored]) -> Stored:
    """Join stored forms of one type end to end; `parts` must not be empty.

    Raises InvalidConfigError if the bytes of all values, or of all distinct ones, exceed the range of int32 offsets.
    """
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    size = sum(part.nbytes for part in parts)
    if size > OFFSET_MAX and sum(pc.sum(pc.binary_length(part)).as_py() or 0 for part in parts) > OFFSET_MAX:
        raise InvalidConfigError(
            f"a column has {size:,} bytes of values in one segment, more than {OFFSET_MAX:,}: make segments smaller"
        )
    return pa.concat_arrays(parts)


def empty_stored(data_type: DataType) -> Stored:
    """Return the stored form of no values."""
    dtype = _FIXED.get(data_type)
    return pa.array([], pa.binary()) if dtype is None else np.empty(0, dtype)


def binary_array(
    offsets: "np.ndarray[Any, np.dtype[np.int32]]", data: "np.ndarray[Any, np.dtype[np.uint8]]"
) -> pa.BinaryArray:
    """Return a BinaryArray over int32 offsets [n + 1] and bytes, without copying."""
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
