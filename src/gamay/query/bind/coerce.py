"""Converts literals to values and bounds of a column's type: see `gamay.functions.scalar.coerce`."""

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import cast

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Literal, LiteralValue
from gamay.functions.scalar.coerce import INTEGER_BITS, Coerced, coerced
from gamay.model.types import DataType


def coerce(literal: Literal, data_type: DataType, column: str) -> Coerced:
    """Return the value of `data_type` closest to the literal; raises QueryError if the text is not of that type."""
    value = literal.value
    if value is None:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION, f"Column '{column}' is compared with NULL, which matches nothing; write IS NULL"
        )
    try:
        found = coerced(value, literal.type, data_type)
    except ValueError as reason:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            f"Cannot compare column '{column}' of type {data_type.value} with {value!r}: {reason}",
        ) from reason
    if found.value != found.value:  # NaN is above all numbers, and columns contain none
        return Coerced(Decimal("Infinity") if data_type is DataType.BIG_DECIMAL else math.inf, 1)
    return found


def coerce_equal(literal: Literal, data_type: DataType, column: str) -> LiteralValue:
    """Return the value of the type that equals the literal, or None."""
    found = coerce(literal, data_type, column)
    equal: LiteralValue = found.value if found.side == 0 else None
    return equal


def coerce_each_equal(literals: Sequence[Literal], data_type: DataType, column: str) -> list[LiteralValue]:
    """Apply `coerce_equal` to each literal; long lists that already have the type take a fast path."""
    values = [literal.value for literal in literals]
    kinds = set(map(type, values))
    if kinds == {str} and data_type.is_text and data_type is not DataType.MAP:
        return values
    bits = INTEGER_BITS.get(data_type)
    if kinds == {int} and bits is not None:
        whole = cast(list[int], values)
        if min(whole) >= -(1 << bits - 1) and max(whole) < 1 << bits - 1:
            return values
    return [coerce_equal(literal, data_type, column) for literal in literals]


def coerce_lower(literal: Literal, data_type: DataType, column: str, inclusive: bool) -> tuple[LiteralValue, bool]:
    """Return the lower bound (value, inclusive) that admits exactly the values above the literal."""
    found = coerce(literal, data_type, column)
    return found.value, inclusive if found.side == 0 else found.side < 0


def coerce_upper(literal: Literal, data_type: DataType, column: str, inclusive: bool) -> tuple[LiteralValue, bool]:
    """Return the upper bound (value, inclusive) that admits exactly the values below the literal."""
    found = coerce(literal, data_type, column)
    return found.value, inclusive if found.side == 0 else found.side > 0
