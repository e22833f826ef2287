"""Constants as values of the type that they are compared with: `intCol < 5.1` becomes `<= 5`, `intCol = 5.5` is never true.

Nothing is truncated or wrapped; text is parsed. FLOAT is compared as float32, so that `floatCol = 1.1` matches values
printed as 1.1, and a FLOAT constant means the decimal number that it prints as. Conditions on columns, which indexes
answer, and on expressions, which are computed, both read their constants here, so that they match the same rows.
"""

import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from gamay.functions.convert import convert_value
from gamay.functions.expression import LiteralValue
from gamay.functions.text import literal_text
from gamay.model.number_text import number_text
from gamay.model.schema.default_null import null_value_from_json
from gamay.model.types import DataType
from gamay.model.zones import parse_timestamp

INTEGER_BITS = {DataType.INT: 32, DataType.LONG: 64, DataType.TIMESTAMP: 64}


@dataclass(frozen=True, slots=True)
class Coerced:
    """A constant in another type. `side`: where its exact value lies relative to `value`: -1 below, 0 equal, 1 above."""

    value: Any
    side: int = 0


def coerced(value: LiteralValue, source: DataType, target: DataType) -> Coerced:
    """Return the value of `target` nearest to a constant of type `source`, which is not NULL.

    NaN stays NaN among FLOAT, DOUBLE and BIG_DECIMAL, and is above all integers. Raises ValueError, which says why, if
    the constant is invalid for that type.
    """
    if source is DataType.FLOAT and isinstance(value, float) and math.isfinite(value):
        value = float(str(np.float32(value)))
    elif source in _WITH_TEXT_OF_THEIR_OWN and target.is_text:
        value = convert_value(value, source, DataType.STRING)
    try:
        return _COERCIONS[target](value)
    except InvalidOperation as error:
        raise ValueError("it is not a number") from error


_WITH_TEXT_OF_THEIR_OWN = (DataType.TIMESTAMP, DataType.UUID)


def _number(value: Any) -> Any:
    """Return a constant as an exact number: int, float or Decimal."""
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
    # decimal text means the double that it parses to; an integer means itself
    if isinstance(exact, int) and near != exact:
        return Coerced(near, 1 if exact > near else -1)
    return Coerced(near + 0.0)  # -0.0 becomes 0.0: bloom filters distinguish them


def _float(value: Any) -> Coerced:
    wide = _double(value).value
    with np.errstate(over="ignore"):
        near = float(np.float32(wide))
    if math.isinf(near) and not math.isinf(wide):
        return Coerced(near, -1 if near > 0 else 1)
    return Coerced(near)


def _decimal(value: Any) -> Coerced:
    exact = _number(value)
    return Coerced(Decimal(repr(exact)) if isinstance(exact, float) else Decimal(exact))


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


def _map(value: Any) -> Coerced:
    return Coerced(null_value_from_json(value, DataType.MAP))


_COERCIONS: dict[DataType, Callable[[Any], Coerced]] = {
    **{data_type: _integer(bits) for data_type, bits in INTEGER_BITS.items()},
    DataType.TIMESTAMP: _timestamp,
    DataType.FLOAT: _float,
    DataType.DOUBLE: _double,
    DataType.BIG_DECIMAL: _decimal,
    DataType.BOOLEAN: _boolean,
    DataType.STRING: _text,
    DataType.JSON: _text,
    DataType.BYTES: _bytes,
    DataType.UUID: _uuid,
    DataType.MAP: _map,
}
