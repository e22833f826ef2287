"""The types of columns in Spark.

| data type    | Spark type (multi-value: array of it)                                   |
| ------------ | ----------------------------------------------------------------------- |
| INT          | int                                                                     |
| LONG         | bigint                                                                  |
| FLOAT        | float                                                                   |
| DOUBLE       | double                                                                  |
| BIG_DECIMAL  | decimal(38,18), or the type in the option `bigDecimal`, such as string  |
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

from gamay.base.errors import InvalidConfigError
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
