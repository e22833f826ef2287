"""The Arrow types of data types: in a *conformed batch*, which segments are built from, and in results.

| data type    | Arrow type (multi-value: list of it)         |
| ------------ | -------------------------------------------- |
| INT          | int32                                        |
| LONG         | int64                                        |
| FLOAT        | float32                                      |
| DOUBLE       | float64                                      |
| BIG_DECIMAL  | string, plain decimal text                   |
| BOOLEAN      | bool                                         |
| TIMESTAMP    | timestamp("ms")                              |
| STRING, JSON | string                                       |
| BYTES        | binary                                       |
| UUID         | binary of 16 bytes                           |
| MAP          | string: a JSON object, its keys in order     |

A conformed batch has exactly the schema's stored columns, in the schema's order, in these types; null means that the
row has no value, and the segment builder replaces it by the column's default null value (and records it in the null
vector if the table asks for one).
"""

from typing import Any

import numpy as np
import pyarrow as pa

from gamay.functions.expression import LiteralValue
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType

_ARROW_TYPES: dict[DataType, pa.DataType] = {
    DataType.INT: pa.int32(),
    DataType.LONG: pa.int64(),
    DataType.FLOAT: pa.float32(),
    DataType.DOUBLE: pa.float64(),
    DataType.BIG_DECIMAL: pa.string(),
    DataType.BOOLEAN: pa.bool_(),
    DataType.TIMESTAMP: pa.timestamp("ms"),
    DataType.STRING: pa.string(),
    DataType.JSON: pa.string(),
    DataType.BYTES: pa.binary(),
    DataType.UUID: pa.binary(),
    DataType.MAP: pa.string(),
}


def arrow_type(data_type: DataType, single_value: bool = True) -> pa.DataType:
    """Return the Arrow type of a column of this type in a conformed batch."""
    element = _ARROW_TYPES[data_type]
    return element if single_value else pa.list_(element)


def conformed_schema(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a table's conformed batches."""
    return pa.schema([(spec.name, arrow_type(spec.data_type, spec.single_value)) for spec in schema.stored_fields])


def binary_buffers(
    array: pa.BinaryArray,
) -> "tuple[np.ndarray[Any, np.dtype[np.int32]], np.ndarray[Any, np.dtype[np.uint8]]]":
    """Return (int32 offsets [n + 1] that begin with 0, uint8 bytes) of a BinaryArray without nulls; copies no bytes."""
    if len(array) == 0:
        return np.zeros(1, np.int32), np.empty(0, np.uint8)
    _, offset_buffer, data_buffer = array.buffers()
    offsets = np.frombuffer(offset_buffer, np.int32)[array.offset : array.offset + len(array) + 1]
    data = np.empty(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
    return offsets - offsets[0], data[offsets[0] : offsets[-1]]


def arrow_scalar(value: LiteralValue, data_type: DataType) -> pa.Scalar:
    """Return a value as a scalar of the conformed Arrow type."""
    if data_type is DataType.BIG_DECIMAL:
        value = format(value, "f")
    return pa.scalar(value, arrow_type(data_type))
