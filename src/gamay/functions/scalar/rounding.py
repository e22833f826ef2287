"""Rounding, integer division, and other functions between numbers."""

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.scalar.convert import by_distinct, saturate
from gamay.functions.scalar.define import by_value, const, each, scalar
from gamay.functions.scalar.types import whole_number
from gamay.model.types import DataType

DOUBLE, LONG, INT = DataType.DOUBLE, DataType.LONG, DataType.INT
_WIDE = Context(prec=400)


def _rounder(scale: int, rounding: str) -> Callable[[float], float]:
    """Round on the decimal text of a number, so that 2.675 with two digits is 2.68."""
    unit = Decimal(1).scaleb(-scale)

    def run(value: float) -> float:
        if not math.isfinite(value):
            return value
        with localcontext(_WIDE):
            return float(Decimal(repr(value)).quantize(unit, rounding=rounding))

    return run


@scalar("roundDecimal", params=(each(DOUBLE), const(INT)), returns=DOUBLE, optional=1)
def round_decimal(values: Any, scale: int | None = None) -> Any:
    """Without a scale half goes up (-0.5 is 0); with one, away from zero."""
    if scale is None:
        whole = np.floor(values)
        with np.errstate(invalid="ignore"):
            return whole + (values - whole >= 0.5)
    return by_distinct(np.atleast_1d(values), _rounder(scale, ROUND_HALF_UP), DOUBLE)


@scalar("truncate", params=(each(DOUBLE), const(INT)), returns=DOUBLE, optional=1)
def truncate(values: Any, scale: int | None = None) -> Any:
    if scale is None:
        return np.trunc(values)
    return by_distinct(np.atleast_1d(values), _rounder(scale, ROUND_DOWN), DOUBLE)


@scalar("round", params=(each(LONG), each(LONG)), returns=LONG)
def round_to_multiple(values: Any, size: Any) -> Any:
    """`round(t, n)` is the multiple of n at or before t, towards zero: a bucket of time."""
    _refuse_zero("round", size)
    return values - np.fmod(values, size)


def _refuse_zero(name: str, divisor: Any) -> None:
    if np.any(divisor == 0):
        raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}': division by zero")


@scalar("intDiv", params=(each(DOUBLE), each(DOUBLE)), returns=LONG)
def int_div(left: Any, right: Any) -> Any:
    """The floor of the quotient."""
    _refuse_zero("intDiv", right)
    return saturate(np.floor(left / right), np.dtype(np.int64))


@scalar("intDivOrZero", params=(each(DOUBLE), each(DOUBLE)), returns=LONG)
def int_div_or_zero(left: Any, right: Any) -> Any:
    zero = right == 0
    return np.where(zero, 0, saturate(np.floor(left / np.where(zero, 1, right)), np.dtype(np.int64)))


@scalar("moduloOrZero", params=(each(DOUBLE), each(DOUBLE)), returns=DOUBLE)
def modulo_or_zero(left: Any, right: Any) -> Any:
    zero = right == 0
    return np.where(zero, 0.0, np.fmod(left, np.where(zero, 1.0, right)))


@scalar("positiveModulo", params=(each(DOUBLE), each(DOUBLE)), returns=DOUBLE)
def positive_modulo(left: Any, right: Any) -> Any:
    """The remainder shifted into [0, |b|)."""
    with np.errstate(invalid="ignore"):
        return np.mod(left, np.abs(right))


@scalar("gcd", params=(each(LONG), each(LONG)), returns=LONG)
def gcd(left: Any, right: Any) -> Any:
    return np.gcd(left, right)


@scalar("lcm", params=(each(LONG), each(LONG)), returns=LONG)
def lcm(left: Any, right: Any) -> Any:
    return np.lcm(left, right)


@by_value("factorial", params=(INT,), returns=LONG)
def factorial(number: int) -> int:
    if not 0 <= number <= 20:
        raise ValueError("only numbers from 0 to 20 have a factorial of 64 bits")
    return math.factorial(number)


@scalar("widthBucket", params=(each(DOUBLE), each(DOUBLE), each(DOUBLE), each(INT)), returns=INT)
def width_bucket(values: Any, low: Any, high: Any, count: Any) -> Any:
    """Number of the bucket from 1; 0 below `low`, count + 1 from `high` on."""
    _refuse_zero("widthBucket", high - low)
    inside = np.floor((values - low) / (high - low) * count) + 1
    return np.where(values < low, 0, np.where(values >= high, count + 1, inside))


@scalar("isNaN", params=(each(DOUBLE),), returns=INT)
def is_nan(values: Any) -> Any:
    return np.isnan(values)


@scalar("isFinite", params=(each(DOUBLE),), returns=INT)
def is_finite(values: Any) -> Any:
    return np.isfinite(values)


@scalar("isInfinite", params=(each(DOUBLE),), returns=INT)
def is_infinite(values: Any) -> Any:
    return np.isinf(values)


@scalar("ifNotFinite", params=(each(DOUBLE), each(DOUBLE)), returns=DOUBLE)
def if_not_finite(values: Any, default: Any) -> Any:
    return np.where(np.isfinite(values), values, default)


# -- bits

_EACH = each(None)
_WIDTH_MASK = {4: 31, 8: 63}  # Java takes shift counts modulo the width

for _name, _operation in (("bitAnd", np.bitwise_and), ("bitOr", np.bitwise_or), ("bitXor", np.bitwise_xor)):
    scalar(_name, params=(_EACH, _EACH), returns=whole_number)(_operation)


@scalar("bitNot", params=(_EACH,), returns=whole_number)
def bit_not(values: Any) -> Any:
    return ~values


def _shift_count(values: Any, count: Any) -> Any:
    return count & _WIDTH_MASK[values.dtype.itemsize]


@scalar("bitShiftLeft", params=(_EACH, _EACH), returns=whole_number)
def bit_shift_left(values: Any, count: Any) -> Any:
    return np.left_shift(values, _shift_count(values, count))


@scalar("bitShiftRight", params=(_EACH, _EACH), returns=whole_number)
def bit_shift_right(values: Any, count: Any) -> Any:
    return np.right_shift(values, _shift_count(values, count))


@scalar("bitShiftRightUnsigned", "bitShiftRightLogical", params=(_EACH, _EACH), returns=whole_number)
def bit_shift_right_unsigned(values: Any, count: Any) -> Any:
    unsigned = values.astype(f"u{values.dtype.itemsize}")
    return np.right_shift(unsigned, _shift_count(values, count).astype(unsigned.dtype)).astype(values.dtype)


@scalar("bitMask", params=(each(LONG),), returns=LONG)
def bit_mask(position: Any) -> Any:
    inside = (position >= 0) & (position <= 63)
    return np.where(inside, np.left_shift(np.int64(1), np.where(inside, position, 0)), 0)


@scalar("bitExtract", "extractBit", params=(each(LONG), each(LONG)), returns=INT)
def bit_extract(values: Any, position: Any) -> Any:
    inside = (position >= 0) & (position <= 63)
    return np.where(inside, np.right_shift(values, np.where(inside, position, 0)) & 1, 0)


@scalar("bitCount", params=(each(LONG),), returns=INT)
def bit_count(values: Any) -> Any:
    return np.bitwise_count(values.astype(np.uint64))
