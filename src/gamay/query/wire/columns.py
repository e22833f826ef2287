"""Vectors as Arrow arrays of one record batch, and back.

A batch travels in Arrow's own format (a schema message and a record batch message), so every buffer of it can be read where
it lies. Decimals are text; BOOLEAN is a byte a value; lists are Arrow lists; which rows are null is a column of its own,
for what stands in such a row counts.
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any, TypeAlias

import msgspec
import numpy as np
import pyarrow as pa

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.coding import decimal_texts, decimals
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType

Buffers: TypeAlias = "tuple[memoryview, memoryview]"

_NAMES = [str(number) for number in range(64)]
_KNOWN_SCHEMAS_MAX = 1000


class ColumnShape(msgspec.Struct, array_like=True, frozen=True):
    """How a vector lies in its arrays: its values, then, if it may be null, a byte a row."""

    type: str
    is_list: bool
    has_nulls: bool


def to_arrays(column: Vector | EncodedVector, arrays: list[pa.Array]) -> ColumnShape:
    """Append the arrays of a column; return how to read them."""
    vector = column.decode() if isinstance(column, EncodedVector) else column
    values = _stored(vector.type, vector.values)
    if vector.offsets is not None:
        kind = pa.LargeListArray if vector.offsets.dtype == np.int64 else pa.ListArray
        values = kind.from_arrays(_array(vector.offsets), values)
    arrays.append(values)
    if vector.nulls is not None:
        arrays.append(_array(vector.nulls.view(np.uint8)))
    return ColumnShape(vector.type.value, vector.offsets is not None, vector.nulls is not None)


def from_arrays(shape: ColumnShape, arrays: "list[pa.Array]") -> Vector:
    """Take the arrays of a column from the front of a list."""
    values, offsets, nulls = arrays.pop(0), None, None
    data_type = DataType(shape.type)
    if shape.is_list:
        offsets = values.offsets.to_numpy()
        values = values.flatten()
    if shape.has_nulls:
        nulls = arrays.pop(0).to_numpy().view(np.bool_)
    return Vector(data_type, _loaded(data_type, values), offsets, nulls)


def _array(values: "np.ndarray[Any, np.dtype[Any]]") -> pa.Array:
    # not pa.array(values): that imports pandas, wherever it is installed
    values = np.ascontiguousarray(values)
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(values)])


def _stored(data_type: DataType, values: Any) -> pa.Array:
    if not isinstance(values, np.ndarray):
        return values
    if data_type is DataType.UNKNOWN:  # all null, whatever stands there
        return _array(np.zeros(len(values), np.uint8))
    if values.dtype.hasobject:
        return decimal_texts(list(values))
    return _array(values.view(np.uint8) if values.dtype == np.bool_ else values)


def _loaded(data_type: DataType, values: pa.Array) -> Any:
    if data_type is DataType.BIG_DECIMAL:
        return decimals(values)
    if data_type is DataType.UNKNOWN:
        return np.full(len(values), Decimal(0), object)
    if not data_type.is_fixed_width:
        return values
    array = values.to_numpy()
    return array.view(np.bool_) if data_type is DataType.BOOLEAN else array


def pack_arrays(arrays: Sequence[pa.Array]) -> Buffers:
    """Return arrays of one length as a schema and a batch."""
    names = _NAMES if len(arrays) <= len(_NAMES) else [str(number) for number in range(len(arrays))]
    batch = pa.RecordBatch.from_arrays(list(arrays), names=names[: len(arrays)])
    return memoryview(batch.schema.serialize()), memoryview(batch.serialize())


_schemas: dict[bytes, pa.Schema] = {}


def unpack_arrays(schema: memoryview, batch: memoryview) -> list[pa.Array]:
    """Return the arrays, which lie over the batch. Raises QueryError 450 for what is no batch."""
    try:
        key = bytes(schema)
        known = _schemas.get(key)
        if known is None:
            if len(_schemas) >= _KNOWN_SCHEMAS_MAX:
                _schemas.clear()
            known = _schemas[key] = pa.ipc.read_schema(pa.py_buffer(key))
        found = pa.ipc.read_record_batch(pa.py_buffer(batch), known)
        found.validate()
        return list(found.columns)
    except (pa.ArrowException, OSError) as error:
        raise QueryError(ErrorCode.INTERNAL, f"A server sent columns that cannot be read: {error}") from error
