"""Columns of Gamay as columns of Spark.

| data type    | Spark type (multi-value: array of it)                                   |
| ------------ | ----------------------------------------------------------------------- |
| INT          | int                                                                     |
| LONG         | bigint                                                                  |
| FLOAT        | float                                                                   |
| DOUBLE       | double                                                                  |
| BIG_DECIMAL  | decimal(38,18), or what the option `bigDecimal` says, string among them |
| BOOLEAN      | boolean                                                                 |
| TIMESTAMP    | timestamp                                                               |
| STRING, JSON | string                                                                  |
| BYTES        | binary                                                                  |
| UUID         | binary of 16 bytes                                                      |
| MAP          | map of string to the type of its values                                 |
"""

import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import InvalidConfigError
from gamay.functions.arrow import arrow_type
from gamay.ingest.convert.maps import to_lists
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType

_SPARK = {
    DataType.INT: "IntegerType",
    DataType.LONG: "LongType",
    DataType.FLOAT: "FloatType",
    DataType.DOUBLE: "DoubleType",
    DataType.BOOLEAN: "BooleanType",
    DataType.TIMESTAMP: "TimestampType",
    DataType.STRING: "StringType",
    DataType.JSON: "StringType",
    DataType.BYTES: "BinaryType",
    DataType.UUID: "BinaryType",
}


_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_DIGITS_MAX = 38


def struct_type(fields: Iterable[FieldSpec], big_decimal: str) -> Any:
    """Return the StructType of columns. big_decimal: the type of BIG_DECIMAL ones, as DDL. Raises InvalidConfigError."""
    from pyspark.sql.types import StructType

    decimal = _decimal_type(big_decimal)
    struct = StructType()
    for spec in fields:
        struct.add(spec.name, _spark_type(spec, decimal))
    return struct


def _spark_type(spec: FieldSpec, decimal: Any) -> Any:
    from pyspark.sql import types

    if spec.data_type is DataType.MAP:
        return types.MapType(types.StringType(), _spark_type(spec.child_fields["value"], decimal))
    element = decimal if spec.data_type is DataType.BIG_DECIMAL else getattr(types, _SPARK[spec.data_type])()
    return element if spec.single_value else types.ArrayType(element)


def _decimal_type(text: str) -> Any:
    from pyspark.sql.types import DecimalType, StringType

    if text.lower() == "string":
        return StringType()
    found = _DECIMAL.fullmatch(text.lower())
    if found is None or not int(found[2]) <= int(found[1]) <= _DIGITS_MAX or found[1] == "0":
        raise InvalidConfigError(f"the option 'bigDecimal' must be string or decimal(p,s), p at most 38, not '{text}'")
    return DecimalType(int(found[1]), int(found[2]))


def to_spark(array: pa.Array, spec: FieldSpec, target: pa.DataType) -> pa.Array:
    """Return a conformed column as Spark takes it. target: its Arrow type there.

    Raises InvalidConfigError for a value that does not fit, such as a decimal of too many digits.
    """
    if spec.data_type is DataType.MAP:
        array = _maps(array, spec, target)
    try:
        return array if array.type == target else array.cast(target)
    except pa.ArrowInvalid as error:
        hint = ""
        if spec.data_type is DataType.BIG_DECIMAL:
            hint = "; say .option('bigDecimal', 'decimal(p,s)') with more places, or 'string'"
        raise InvalidConfigError(f"column '{spec.name}' has a value that is no {target}: {error}{hint}") from error


def _maps(array: pa.Array, spec: FieldSpec, target: pa.DataType) -> pa.Array:
    value = spec.child_fields["value"]
    keys, values, _ = to_lists(array, value.data_type)
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(np.asarray(pc.list_value_length(keys).fill_null(0)), out=offsets[1:])
    typed = values.flatten().cast(arrow_type(value.data_type))
    items = to_spark(typed, value, target.item_type)
    maps = pa.MapArray.from_arrays(pa.array(offsets), keys.flatten(), items)
    return pc.if_else(pc.is_valid(array), maps, None) if array.null_count else maps
