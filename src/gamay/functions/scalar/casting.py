"""CAST, and the names that types have in SQL."""

from collections.abc import Sequence

from gamay.base.errors import nearest
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ScalarFunction, ValueType, register_scalar
from gamay.functions.scalar.convert import convert
from gamay.functions.scalar.define import check_count, wrong
from gamay.functions.vector import Operand
from gamay.model.types import DataType

TYPE_NAMES: dict[str, DataType] = {
    "INT": DataType.INT,
    "INTEGER": DataType.INT,
    "LONG": DataType.LONG,
    "BIGINT": DataType.LONG,
    "FLOAT": DataType.FLOAT,
    "REAL": DataType.FLOAT,
    "DOUBLE": DataType.DOUBLE,
    "DECIMAL": DataType.BIG_DECIMAL,
    "BIG_DECIMAL": DataType.BIG_DECIMAL,
    "BIGDECIMAL": DataType.BIG_DECIMAL,
    "BOOL": DataType.BOOLEAN,
    "BOOLEAN": DataType.BOOLEAN,
    "TIMESTAMP": DataType.TIMESTAMP,
    "STRING": DataType.STRING,
    "VARCHAR": DataType.STRING,
    "JSON": DataType.JSON,
    "BYTES": DataType.BYTES,
    "VARBINARY": DataType.BYTES,
    "UUID": DataType.UUID,
}
_ARRAY_SUFFIX = "_ARRAY"


def type_named(function: str, name: str) -> ValueType:
    """Return the type of a name such as `BIGINT` or `LONG_ARRAY`; raises QueryError with the nearest."""
    upper = name.strip().upper()
    element = upper.removesuffix(_ARRAY_SUFFIX)
    if element not in TYPE_NAMES:
        raise wrong(function, f"'{name}' is no type.{nearest(upper, TYPE_NAMES)}")
    return TYPE_NAMES[element], upper.endswith(_ARRAY_SUFFIX)


def _target(call: Call) -> ValueType:
    last = call.args[1]
    if not isinstance(last, Literal) or not isinstance(last.value, str):
        raise wrong("cast", "the second argument is the name of a type, such as 'LONG'")
    return type_named("cast", last.value)


def _result_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    check_count("cast", len(types), 2, 2)
    target, wants_lists = _target(call)
    source, multi_value = types[0]
    if wants_lists and not multi_value:
        raise wrong("cast", f"a single value cannot be cast to {target.value}_ARRAY")
    forbidden = {source, target} & {DataType.BYTES, DataType.UUID} and {source, target} & {
        DataType.BOOLEAN,
        DataType.TIMESTAMP,
    }
    if forbidden or {source, target} == {DataType.BOOLEAN, DataType.TIMESTAMP}:
        raise wrong("cast", f"{source.value} cannot be cast to {target.value}")
    return target, multi_value


def _compute(call: Call, args: Sequence[Operand], num_rows: int) -> Operand:
    target, _ = _target(call)
    return convert(args[0], target)


register_scalar(["cast"], ScalarFunction("cast", 2, 2, _result_type, _compute))
