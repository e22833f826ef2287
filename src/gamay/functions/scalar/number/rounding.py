"""Rounding, integer division, and other numeric functions."""

import math
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, localcontext
from typing import Any

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.convert import by_distinct, saturate
from gamay.functions.scalar.define import by_value, const, each, scalar
from gamay.functions.scalar.types import long_or_double
from gamay.functions.scalar.whole import product_overflows
from gamay.model.types import DataType

DOUBLE, LONG, INT = DataType.DOUBLE, DataType.LONG, DataType.INT
_EACH = each(None)  # of the result's type
_WIDE = Context(prec=800)  # enough for the largest double with as many decimal places
_LARGEST_SCALE = 340  # no double has digits beyond


def _on_text(scale: int, rounding: str) -> Callable[[float], float]:
    """Return a function that rounds the decimal text of a number, so that 2.675 with two digits is 2.68."""
    unit = Decimal(1).scaleb(-scale)

    def run(value: float) -> float:
        if not math.isfinite(value):
            return value
        with localcontext(_WIDE):
            return float(Decimal(repr(value)).quantize(unit, rounding=rounding))

    return run


def _to_scale(values: Any, scale: int, half_up: bool) -> Any:
    """Round as on decimal text, without creating it where the result is the same; a zero result has no sign.

    A double that equals m / 10^(scale + 1) for an integer m below 10^15 has those digits as its text: m is rounded.
    Elsewhere the scaled number is far enough from a rounding boundary for its own error not to matter, or the text is
    created.
    """
    values = np.atleast_1d(values)
    if abs(scale) > _LARGEST_SCALE:
        return values if scale > 0 else np.where(np.isfinite(values), 0.0, values)
    on_text = _on_text(scale, ROUND_HALF_UP if half_up else ROUND_DOWN)
    if not 0 <= scale <= 21:  # beyond, powers of ten are not exact doubles
        return by_distinct(values, on_text, DOUBLE) + 0.0
    finer, unit, sizes = 10.0 ** (scale + 1), 10.0**scale, np.abs(values)
    with np.errstate(all="ignore"):
        digits = np.rint(sizes * finer)
        has_digits = (digits < 1e15) & (digits / finer == sizes)
        scaled = sizes * unit + (0.5 if half_up else 0.0)
        certain = (scaled < 1e15) & (np.abs(scaled - np.rint(scaled)) > 4 * np.spacing(scaled))
        kept = np.where(has_digits, np.floor_divide(digits + (5 if half_up else 0), 10), np.floor(scaled)) / unit
    result = np.copysign(kept, values)
    doubtful = ~(has_digits | certain)
    if doubtful.any():
        result[doubtful] = by_distinct(values[doubtful], on_text, DOUBLE)
    return result + 0.0


@scalar("roundDecimal", params=(each(DOUBLE), const(INT)), returns=DOUBLE, optional=1)
def round_decimal(values: Any, scale: int | None = None) -> Any:
    """Without a scale, halves round up (-0.5 becomes 0); with one, away from zero."""
    if scale is None:
        with np.errstate(invalid="ignore"):
            whole = np.floor(values)
            return np.where(np.isfinite(values), whole + (values - whole >= 0.5), values)
    return _to_scale(values, scale, half_up=True)


@scalar("truncate", params=(each(DOUBLE), const(INT)), returns=DOUBLE, optional=1)
def truncate(values: Any, scale: int | None = None) -> Any:
    """Truncation towards zero."""
    if scale is None:
        return np.trunc(values)
    return _to_scale(values, scale, half_up=False)


@scalar("round", params=(each(LONG), each(LONG)), returns=LONG)
def round_to_multiple(values: Any, size: Any) -> Any:
    """`round(t, n)` is the multiple of n at or before t, towards zero: a time bucket."""
    _refuse_zero("round", size)
    return values - np.fmod(values, size)


def _refuse_zero(name: str, divisor: Any) -> None:
    if np.any(divisor == 0):
        raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}': division by zero")


@scalar("intDiv", params=(each(DOUBLE), each(DOUBLE)), returns=LONG)
def int_div(left: Any, right: Any) -> Any:
    """The floor of the quotient of doubles; an infinite one becomes the largest or smallest LONG, NaN (0 / 0) becomes 0."""
    with np.errstate(all="ignore"):
        return saturate(np.floor(left / right), np.dtype(np.int64))


@scalar("intDivOrZero", params=(each(DOUBLE), each(DOUBLE)), returns=LONG)
def int_div_or_zero(left: Any, right: Any) -> Any:
    zero = right == 0
    with np.errstate(invalid="ignore", over="ignore"):
        quotient = np.floor(left / np.where(zero, 1, right))
    return np.where(zero, 0, saturate(quotient, np.dtype(np.int64)))


@scalar("moduloOrZero", params=(_EACH, _EACH), returns=long_or_double)
def modulo_or_zero(left: Any, right: Any) -> Any:
    """The remainder with the sign of the dividend, 0 if the divisor is 0."""
    zero = right == 0
    with np.errstate(invalid="ignore"):
        return np.where(zero, 0, np.fmod(left, np.where(zero, 1, right)))


@scalar("positiveModulo", params=(_EACH, _EACH), returns=long_or_double)
def positive_modulo(left: Any, right: Any) -> Any:
    """The remainder shifted into [0, |b|)."""
    if right.dtype.kind == "i":
        _refuse_zero("positiveModulo", right)
        with np.errstate(over="ignore"):  # the smallest LONG has no positive counterpart, and needs none
            remainder = np.fmod(left, right)
            return np.where(remainder < 0, remainder + np.abs(right), remainder)
    with np.errstate(invalid="ignore"):
        return np.mod(left, np.abs(right))


def _fitting(name: str, result: Any, fits: Any) -> Any:
    if not np.all(fits):
        raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}': the result does not fit 64 bits")
    return result


@scalar("gcd", params=(each(LONG), each(LONG)), returns=LONG)
def gcd(left: Any, right: Any) -> Any:
    """The greatest common divisor."""
    result = np.gcd(left, right)
    return _fitting("gcd", result, result >= 0)


@scalar("lcm", params=(each(LONG), each(LONG)), returns=LONG)
def lcm(left: Any, right: Any) -> Any:
    """The least common multiple."""
    with np.errstate(over="ignore"):
        divisor, size = np.gcd(left, right), np.abs(right)
        steps = np.abs(left // np.where(divisor == 0, 1, divisor))
        result = steps * size
        fits = (divisor >= 0) & (steps >= 0) & (size >= 0) & (result >= 0) & ~product_overflows(steps, size, result)
    zero = (left == 0) | (right == 0)
    return _fitting("lcm", np.where(zero, 0, result), fits | zero)


@by_value("factorial", params=(INT,), returns=LONG)
def factorial(number: int) -> int:
    if not 0 <= number <= 20:
        raise ValueError("the argument must be from 0 to 20, for the result to fit 64 bits")
    return math.factorial(number)


@scalar("widthBucket", params=(each(DOUBLE), each(DOUBLE), each(DOUBLE), each(INT)), returns=INT)
def width_bucket(values: Any, low: Any, high: Any, count: Any) -> Any:
    """The number of the bucket from 1; 0 below `low`, count + 1 from `high` on."""
    _refuse_zero("widthBucket", high - low)
    if np.any(count <= 0):
        raise QueryError(ErrorCode.QUERY_EXECUTION, "Function 'widthBucket': the number of buckets must be greater than 0")
    with np.errstate(invalid="ignore"):
        inside = np.minimum(np.floor((values - low) / (high - low) * count) + 1, count)
    above = (values >= high) | np.isnan(values)  # NaN is the greatest number
    return np.where(above, count + 1, np.where(values < low, 0, inside))


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
