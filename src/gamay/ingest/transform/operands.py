"""Conversion of conformed Arrow columns to operands of expressions, and of results to Arrow columns."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.arrow import arrow_type
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, numpy_dtype
from gamay.ingest.convert.arrays import Mask, is_json_text, list_array
from gamay.model.types import DataType


def data_type_of(kind: pa.DataType) -> tuple[DataType, bool]:
    """Return the data type of an Arrow type in expressions, and whether it is single-value."""
    if is_json_text(kind):
        return DataType.JSON, True
    if isinstance(kind, pa.BaseExtensionType):
        return data_type_of(kind.storage_type)
    if pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind):
        return data_type_of(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        element, is_single = data_type_of(kind.value_type)
        return (element, False) if is_single and element is not DataType.JSON else (DataType.JSON, True)
    if pa.types.is_nested(kind):
        return DataType.JSON, True
    return _scalar_type(kind), True


def _scalar_type(kind: pa.DataType) -> DataType:
    if pa.types.is_boolean(kind):
        return DataType.BOOLEAN
    if pa.types.is_integer(kind):
        small = kind.bit_width < 32 or kind == pa.int32()
        return DataType.INT if small else DataType.LONG
    if pa.types.is_float64(kind):
        return DataType.DOUBLE
    if pa.types.is_floating(kind):
        return DataType.FLOAT
    if pa.types.is_decimal(kind):
        return DataType.BIG_DECIMAL
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        return DataType.TIMESTAMP
    binary = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return DataType.BYTES if binary or pa.types.is_binary_view(kind) else DataType.STRING


def to_vector(array: pa.Array, data_type: DataType, single_value: bool) -> Vector:
    """Return a conformed column as a vector."""
    nulls = np.asarray(pc.is_null(array)) if array.null_count else None
    if single_value:
        return Vector(data_type, _values(array, data_type), None, nulls)
    lengths = np.asarray(pc.list_value_length(array).fill_null(0))
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return Vector(data_type, _values(pc.list_flatten(array), data_type), offsets, nulls)


def _values(array: pa.Array, data_type: DataType) -> Values:
    if data_type.is_text or data_type.is_binary:
        return array.fill_null("" if data_type.is_text else b"") if array.null_count else array
    if data_type is DataType.BIG_DECIMAL:
        values = np.empty(len(array), object)
        values[:] = [Decimal(0) if text is None else Decimal(text) for text in array.to_pylist()]
        return values
    if data_type is DataType.TIMESTAMP:
        array = array.cast(pa.int64())
    if array.null_count:
        array = array.fill_null(False if data_type is DataType.BOOLEAN else 0)
    return array.to_numpy(zero_copy_only=False)


def to_arrow(operand: Operand, num_rows: int) -> pa.Array:
    """Return the result of an expression as a conformed column of its own type; NULL constants as nulls."""
    if isinstance(operand, Scalar):
        return _repeated(operand, num_rows)
    if isinstance(operand, EncodedVector):
        operand = operand.decode()
    if operand.offsets is None:
        return _array(operand.values, operand.type, operand.nulls)
    values = _array(operand.values, operand.type, None)
    counts = np.diff(operand.offsets).astype(np.int64)
    if operand.nulls is None or not (operand.nulls & (counts > 0)).any():
        return list_array(counts, values)
    kept = ~np.repeat(operand.nulls, counts)
    return list_array(np.where(operand.nulls, 0, counts), values.filter(pa.array(kept)))


def _repeated(scalar: Scalar, num_rows: int) -> pa.Array:
    if scalar.value is None or scalar.type in (DataType.UNKNOWN, DataType.OBJECT):
        return pa.nulls(num_rows)
    value = format(scalar.value, "f") if isinstance(scalar.value, Decimal) else scalar.value
    return pa.repeat(pa.scalar(value, arrow_type(scalar.type)), num_rows)


def _array(values: Values, data_type: DataType, nulls: Mask | None) -> pa.Array:
    target = arrow_type(data_type)
    if not isinstance(values, np.ndarray):
        return values if nulls is None else pc.if_else(pa.array(nulls), pa.scalar(None, values.type), values)
    if data_type is DataType.BIG_DECIMAL:
        return pa.array([format(v, "f") for v in values], target, mask=nulls)
    array = pa.array(values.astype(numpy_dtype(data_type), copy=False), mask=nulls)
    return array.cast(target) if array.type != target else array
