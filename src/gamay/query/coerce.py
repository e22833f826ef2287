"""Literals as values of a column's type: `intCol < 5.1` becomes `<= 5`, `intCol = 5.5` matches nothing, text is parsed.

Nothing is truncated or wrapped. FLOAT columns are compared as float32, so that `floatCol = 1.1` finds what prints as 1.1.
"""

import math
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, cast

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Literal, LiteralValue
from gamay.functions.text import literal_text
from gamay.model.number_text import number_text
from gamay.model.types import DataType
from gamay.model.zones import parse_timestamp

_INTEGER_BITS = {DataType.INT: 32, DataType.LONG: 64, DataType.TIMESTAMP: 64}


@dataclass(frozen=True, slots=True)
class Coerced:
    """A literal in a column's type. `side`: where its exact value lies from `value`: -1 below, 0 at it, 1 above."""

    value: Any
    side: int = 0


def coerce(literal: Literal, data_type: DataType, column: str) -> Coerced:
    """Return the value of `data_type` next to the literal; raises QueryError when the text cannot be read as that type."""
    value = literal.value
    if value is None:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION, f"Column '{column}' is compared with NULL, which matches nothing; write IS NULL"
        )
    try:
        return _COERCIONS[data_type](value)
    except (ValueError, InvalidOperation, OverflowError) as reason:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Cannot compare column '{column}' of type {data_type.value} with {value!r}: {_why(reason)}",
        ) from reason


def _why(reason: Exception) -> str:
    return "it is not a number" if isinstance(reason, InvalidOperation) else str(reason)


def coerce_equal(literal: Literal, data_type: DataType, column: str) -> LiteralValue:
    """Return the one value of the type that equals the literal, or None when there is none."""
    coerced = coerce(literal, data_type, column)
    equal: LiteralValue = coerced.value if coerced.side == 0 else None
    return equal


def coerce_each_equal(literals: Sequence[Literal], data_type: DataType, column: str) -> list[LiteralValue]:
    """Return for each literal what `coerce_equal` does; those of a long list that are of the type already, all at once."""
    values = [literal.value for literal in literals]
    kinds = set(map(type, values))
    if kinds == {str} and data_type.is_text:
        return values
    bits = _INTEGER_BITS.get(data_type)
    if kinds == {int} and bits is not None:
        whole = cast(list[int], values)
        if min(whole) >= -(1 << bits - 1) and max(whole) < 1 << bits - 1:
            return values
    return [coerce_equal(literal, data_type, column) for literal in literals]


def coerce_lower(literal: Literal, data_type: DataType, column: str, inclusive: bool) -> tuple[LiteralValue, bool]:
    """Return the lower bound (value, inclusive) that keeps exactly the values above the literal."""
    coerced = coerce(literal, data_type, column)
    return coerced.value, inclusive if coerced.side == 0 else coerced.side < 0


def coerce_upper(literal: Literal, data_type: DataType, column: str, inclusive: bool) -> tuple[LiteralValue, bool]:
    """Return the upper bound (value, inclusive) that keeps exactly the values below the literal."""
    coerced = coerce(literal, data_type, column)
    return coerced.value, inclusive if coerced.side == 0 else coerced.side > 0


def _number(value: Any) -> Any:
    """Return a literal as an exact number: int, float or Decimal."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        text = number_text(value)
        try:
            return int(text)
        except ValueError:
            number = Decimal(text)
            return number if number.is_finite() else float(number)
    if isinstance(value, bytes):
        raise ValueError("a byte string is not a number")
    return value


def _integer(bits: int) -> Callable[[Any], Coerced]:
    least, most = -(1 << bits - 1), (1 << bits - 1) - 1

    def convert(value: Any) -> Coerced:
        exact = _number(value)
        if exact != exact or exact > most:  # NaN is greater than every number
            return Coerced(most, 1)
        if exact < least:
            return Coerced(least, -1)
        nearest = math.floor(exact)
        return Coerced(nearest, 0 if nearest == exact else 1)

    return convert


def _double(value: Any) -> Coerced:
    exact = _number(value)
    try:
        near = float(exact)
    except OverflowError:
        near = math.inf if exact > 0 else -math.inf
    # decimal text means the double it is read as; an integer literal means itself
    if isinstance(exact, int) and near != exact:
        return Coerced(near, 1 if exact > near else -1)
    return Coerced(near)


def _float(value: Any) -> Coerced:
    wide = _double(value).value
    with np.errstate(over="ignore"):
        near = float(np.float32(wide))
    if math.isinf(near) and not math.isinf(wide):
        return Coerced(near, -1 if near > 0 else 1)
    return Coerced(near)


def _decimal(value: Any) -> Coerced:
    exact = _number(value)
    if isinstance(exact, float):
        if exact != exact:  # NaN is greater than every number, infinity included
            return Coerced(Decimal("Infinity"), 1)
        exact = Decimal(repr(exact))
    return Coerced(Decimal(exact))


def _boolean(value: Any) -> Coerced:
    if isinstance(value, str):
        return Coerced(value.lower() == "true" or value == "1")
    if isinstance(value, bytes):
        raise ValueError("a byte string is not a truth value")
    return Coerced(bool(value == 1))  # as in text, 1 is true and everything else is not


_long = _integer(64)


def _timestamp(value: Any) -> Coerced:
    return _long(parse_timestamp(value)) if isinstance(value, str) else _long(value)


def _text(value: Any) -> Coerced:
    return Coerced(literal_text(value))


def _bytes(value: Any) -> Coerced:
    if isinstance(value, bytes):
        return Coerced(value)
    try:
        return Coerced(bytes.fromhex(value))
    except (TypeError, ValueError):
        raise ValueError("bytes are written as a text of hex digits, two for each byte, such as 'ff00'") from None


def _uuid(value: Any) -> Coerced:
    if isinstance(value, bytes):
        return Coerced(value)
    try:
        return Coerced(uuid.UUID(str(value)).bytes)
    except ValueError:
        raise ValueError("a UUID is written like '123e4567-e89b-12d3-a456-426614174000'") from None


_COERCIONS: dict[DataType, Callable[[Any], Coerced]] = {
    **{data_type: _integer(bits) for data_type, bits in _INTEGER_BITS.items()},
    DataType.TIMESTAMP: _timestamp,
    DataType.FLOAT: _float,
    DataType.DOUBLE: _double,
    DataType.BIG_DECIMAL: _decimal,
    DataType.BOOLEAN: _boolean,
    DataType.STRING: _text,
    DataType.JSON: _text,
    DataType.BYTES: _bytes,
    DataType.UUID: _uuid,
}
