"""Formats values as answers to PQL do: as text, unless the option preserveType asks for JSON types."""

from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from gamay.functions.text import java_double_text, java_float_text
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.answer.values import json_values

_FIVE_PLACES = Decimal("0.00001")
# wide enough for the 309 digits of the largest double and five places
_ROUNDING = Context(prec=320, rounding=ROUND_HALF_UP)
_LONG_END = 2.0**63
_DECIMALS = {DataType.FLOAT: 5, DataType.DOUBLE: 10}


def aggregate_texts(column: Vector) -> list[str | None]:
    """Return the results of an aggregate: doubles with five decimals, rounded half up, other types unchanged.

    >>> import numpy as np
    >>> aggregate_texts(Vector(DataType.DOUBLE, np.array([15.0, 1 / 3, float("-inf")])))
    ['15.00000', '0.33333', '-Infinity']
    """
    if column.type not in (DataType.FLOAT, DataType.DOUBLE) or column.is_multi_value:
        return _texts(_values(column))
    return [None if value is None else _five_decimals(value) for value in json_values(column)]


def _five_decimals(value: float | str) -> str:
    if isinstance(value, str):
        return value  # NaN and infinities
    if value.is_integer() and abs(value) < _LONG_END:
        return f"{int(value)}.00000"
    return str(Decimal(repr(value)).quantize(_FIVE_PLACES, context=_ROUNDING))


def selection_texts(column: Vector) -> list[Any]:
    """Return the values of a selection's column; lists of text for multi-value columns.

    FLOAT has 1 to 5 decimals and DOUBLE 1 to 10, rounded half to even.

    >>> import numpy as np
    >>> selection_texts(Vector(DataType.DOUBLE, np.array([1.0, 0.12345678905, 1e20])))
    ['1.0', '0.1234567891', '100000000000000000000.0']
    """
    decimals = _DECIMALS.get(column.type)
    if decimals is None:
        return _texts(_values(column))
    # a FLOAT's decimals are those of the double that equals it, as Java's DecimalFormat sees it
    values = Vector(DataType.DOUBLE, column.values.astype("float64"), column.offsets, column.nulls)
    return _deeply(json_values(values), lambda value: _decimals(value, decimals))


def _decimals(value: float | str, decimals: int) -> str:
    if isinstance(value, str):
        return value
    shortest = Decimal(repr(value))  # Java has no other digits of a double
    text = f"{shortest:f}"
    if len(text.partition(".")[2]) > decimals:
        # no decimal with so many places lies between the shortest and the exact value, so both round alike
        text = f"{value:.{decimals}f}".rstrip("0")
    whole, _, places = text.partition(".")
    return f"{whole}.{places or '0'}"


def group_texts(column: Vector) -> list[Any]:
    """Return group keys: FLOAT and DOUBLE as Java prints them (`1.0`, `1.0E10`), others as in a selection."""
    if column.type is DataType.DOUBLE and not column.is_multi_value:
        keys: list[Any] = [java_double_text(value) for value in column.values.tolist()]
    elif column.type is DataType.FLOAT and not column.is_multi_value:
        keys = [java_float_text(value) for value in column.values]
    else:
        return _texts(_values(column))
    if column.nulls is not None:
        keys = [None if null else key for key, null in zip(keys, column.nulls.tolist(), strict=True)]
    return keys


def _values(column: Vector) -> list[Any]:
    """Return values as in JSON; maps as the text of the object."""
    is_map = column.type is DataType.MAP
    return json_values(Vector(DataType.STRING, column.values, column.offsets, column.nulls) if is_map else column)


def _texts(values: list[Any]) -> list[Any]:
    return _deeply(values, _text)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _deeply(values: list[Any], convert: Any) -> list[Any]:
    return [
        None if value is None else [convert(one) for one in value] if isinstance(value, list) else convert(value)
        for value in values
    ]
