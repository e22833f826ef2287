"""CAST, and the SQL names of types."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gamay.base.errors import ErrorCode, QueryError, nearest
from gamay.functions.arguments import check_count, wrong
from gamay.functions.convert import by_distinct, convert, parse_text, saturate
from gamay.functions.expression import Call, Literal, LiteralValue
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.define import type_of
from gamay.functions.scalar.text.encoded import base64_bytes, decimal_of_bytes
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, numpy_dtype
from gamay.model.types import DataType
from gamay.model.zones import parse_timestamp

TYPE_NAMES: dict[str, DataType] = {
    "INT": DataType.INT,
    "TINYINT": DataType.INT,
    "SMALLINT": DataType.INT,
    "INTEGER": DataType.INT,
    "LONG": DataType.LONG,
    "BIGINT": DataType.LONG,
    "FLOAT": DataType.FLOAT,
    "REAL": DataType.FLOAT,
    "DOUBLE": DataType.DOUBLE,
    "DECIMAL": DataType.BIG_DECIMAL,
    "BIG_DECIMAL": DataType.BIG_DECIMAL,
    "BIGDECIMAL": DataType.BIG_DECIMAL,
    "NUMERIC": DataType.BIG_DECIMAL,
    "BOOL": DataType.BOOLEAN,
    "BOOLEAN": DataType.BOOLEAN,
    "TIMESTAMP": DataType.TIMESTAMP,
    "STRING": DataType.STRING,
    "VARCHAR": DataType.STRING,
    "CHAR": DataType.STRING,
    "JSON": DataType.JSON,
    "BYTES": DataType.BYTES,
    "VARBINARY": DataType.BYTES,
    "BINARY": DataType.BYTES,
    "UUID": DataType.UUID,
    # unsigned types, as the narrowest type that holds all their values
    "UTINYINT": DataType.INT,
    "USMALLINT": DataType.INT,
    "UINTEGER": DataType.LONG,
}
_ARRAY_SUFFIX = "_ARRAY"


def type_named(function: str, name: str) -> ValueType:
    """Return the type of a name such as `BIGINT` or `LONG_ARRAY`; raises QueryError that suggests the nearest."""
    upper = name.strip().upper()
    element = upper.removesuffix(_ARRAY_SUFFIX)
    if element not in TYPE_NAMES:
        known = ", ".join(dict.fromkeys(data_type.value for data_type in TYPE_NAMES.values()))
        raise wrong(function, f"'{name}' is not a type.{nearest(upper, TYPE_NAMES) or f' Use one of {known}'}")
    return TYPE_NAMES[element], upper.endswith(_ARRAY_SUFFIX)


def plain_type_name(name: str) -> str:
    """Resolve an alias to its type's name, `BIGINT` to `LONG`; unknown names are returned unchanged."""
    element = name.removesuffix(_ARRAY_SUFFIX)
    return TYPE_NAMES[element].value + name[len(element) :] if element in TYPE_NAMES else name


def _target(call: Call) -> ValueType:
    last = call.args[1]
    if not isinstance(last, Literal) or not isinstance(last.value, str):
        raise wrong("cast", "the second argument must be the name of a type, such as 'LONG'")
    return type_named("cast", last.value)


def _result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("cast", len(types), 2, 2)
    target, wants_lists = _target(call)
    source, multi_value = types[0]
    if wants_lists and not multi_value:
        raise wrong("cast", f"a single value cannot be cast to {target.value}_ARRAY")
    if not _castable(source, target):
        raise wrong("cast", f"{source.value} cannot be cast to {target.value}")
    return target, multi_value


def _castable(source: DataType, target: DataType) -> bool:
    if source is target or source is DataType.UNKNOWN:
        return True
    pair = {source, target}
    if source.is_binary or target.is_binary:
        other = target if source.is_binary else source
        return other.is_text or other.is_binary or (source is DataType.BYTES and target is DataType.BIG_DECIMAL)
    return pair != {DataType.BOOLEAN, DataType.TIMESTAMP}


def _compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    target, _ = _result_type(call, [type_of(arg) for arg in args])
    operand = args[0]
    special = _SPECIAL.get((operand.type, target))
    if operand.type.is_text and target in _OF_CONSTANT_TEXTS:
        if not isinstance(operand, Scalar):
            return _whole_numbers(operand, target)
        special = _OF_CONSTANT_TEXTS[target]
    if special is None or (isinstance(operand, Scalar) and operand.value is None):
        return convert(operand, target)
    if isinstance(operand, Scalar):
        return Scalar(special(operand.value), target)
    vector = operand.decode() if isinstance(operand, EncodedVector) else operand
    return Vector(target, by_distinct(vector.values, special, target), vector.offsets, vector.nulls)


def _read(decode: Callable[[Any], LiteralValue], target: DataType) -> Callable[[Any], LiteralValue]:
    def run(value: Any) -> LiteralValue:
        try:
            return decode(value)
        except ValueError as error:
            raise QueryError(ErrorCode.QUERY_EXECUTION, f"{value!r} cannot be cast to {target.value}: {error}") from None

    return run


def _whole_numbers(texts: Vector | EncodedVector, target: DataType) -> Operand:
    """Parse texts as `_within` does, with array operations where possible; a time among numbers is an error in the data."""
    try:
        return convert(texts, target)
    except QueryError as error:
        if error.code is not ErrorCode.QUERY_EXECUTION:
            raise
    vector = texts.decode() if isinstance(texts, EncodedVector) else texts
    values = by_distinct(vector.values, lambda text: _within(text, target), target)
    return Vector(target, values, vector.offsets, vector.nulls)


def _int(text: str) -> LiteralValue:
    return _within(text, DataType.INT)


def _within(text: str, target: DataType) -> LiteralValue:
    """Parse a whole number; one out of range becomes the nearest bound."""
    try:
        return parse_text(text, target)
    except QueryError as not_a_number:
        try:
            number = parse_text(text, DataType.DOUBLE)
        except QueryError:
            raise not_a_number from None
        if not isinstance(number, float) or not math.isfinite(number):
            raise
        return int(saturate(np.array([number]), numpy_dtype(target))[0])


def _long(text: str) -> LiteralValue:
    """Parse a number, or a timestamp as its milliseconds."""
    try:
        return _within(text, DataType.LONG)
    except QueryError as not_a_number:
        try:
            return parse_timestamp(text)
        except ValueError:
            raise not_a_number from None


_OF_CONSTANT_TEXTS: dict[DataType, Callable[[Any], LiteralValue]] = {DataType.INT: _int, DataType.LONG: _long}
# casts that differ from the implicit conversion of function arguments
_SPECIAL: dict[tuple[DataType, DataType], Callable[[Any], LiteralValue]] = {
    (DataType.BYTES, DataType.BIG_DECIMAL): _read(decimal_of_bytes, DataType.BIG_DECIMAL),
    (DataType.JSON, DataType.BYTES): _read(base64_bytes, DataType.BYTES),
}


register_scalar(["cast"], ScalarFunction("cast", 2, 2, _result_type, _compute))
