"""Result types of functions whose arguments mix types."""

from collections.abc import Sequence

from gamay.functions.arguments import wrong
from gamay.functions.expression import Call
from gamay.functions.registry import ValueType
from gamay.model.types import DataType

_RANK = {DataType.INT: 0, DataType.LONG: 1, DataType.FLOAT: 2, DataType.DOUBLE: 3, DataType.BIG_DECIMAL: 4}


def single_values(call: Call, types: Sequence[ValueType]) -> list[DataType]:
    """Return the types of arguments that must be single-value; raises QueryError."""
    for i, (_, multi_value) in enumerate(types):
        if multi_value:
            raise wrong(call.name, f"argument {i + 1} must be single-value")
    return [data_type for data_type, _ in types]


def common_type(types: Sequence[DataType]) -> DataType | None:
    """Return the type that holds the values of all types: numbers widen, UNKNOWN is ignored; None if there is none."""
    known = list(dict.fromkeys(t for t in types if t is not DataType.UNKNOWN))
    if not known:
        return DataType.UNKNOWN
    if len(known) == 1:
        return known[0]
    if all(t in _RANK for t in known):
        return max(known, key=_RANK.__getitem__)
    if set(known) == {DataType.TIMESTAMP, DataType.LONG}:
        return DataType.LONG
    if set(known) == {DataType.STRING, DataType.JSON}:
        return DataType.STRING
    return None


def arithmetic_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    """Return DOUBLE, or BIG_DECIMAL if any argument is one."""
    for data_type in single_values(call, types):
        if data_type.is_binary:
            raise wrong(call.name, f"{data_type.value} is not a number")
    decimal = any(data_type is DataType.BIG_DECIMAL for data_type, _ in types)
    return (DataType.BIG_DECIMAL if decimal else DataType.DOUBLE), False


def same_number(call: Call, types: Sequence[ValueType]) -> ValueType:
    """Return the numeric type of the first argument; other types are read as DOUBLE."""
    data_type = single_values(call, types)[0]
    return (data_type if data_type.is_numeric else DataType.DOUBLE), False


def whole_number(call: Call, types: Sequence[ValueType]) -> ValueType:
    """Return INT if all arguments are INT, else LONG."""
    return (DataType.INT if all(t is DataType.INT for t in single_values(call, types)) else DataType.LONG), False


def long_or_double(call: Call, types: Sequence[ValueType]) -> ValueType:
    """Return LONG if all arguments are integers, else DOUBLE."""
    whole = all(t in (DataType.INT, DataType.LONG) for t in single_values(call, types))
    return (DataType.LONG if whole else DataType.DOUBLE), False
