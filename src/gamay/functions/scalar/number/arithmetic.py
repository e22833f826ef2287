"""Arithmetic: DOUBLE on columns (BIG_DECIMAL if an argument is one), LONG among constants and after aggregation.

`mod` of a BIG_DECIMAL is DOUBLE, too.
`x / 0` is an infinity or NaN, except for BIG_DECIMAL, where it is an error; a LONG that does not fit 64 bits is an error,
and so is the negative of the smallest INT or LONG.
`log` is the natural logarithm.
"""

from collections.abc import Callable
from decimal import MAX_PREC, ROUND_HALF_EVEN, Context, Decimal, localcontext
from typing import Any

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.convert import array_of
from gamay.functions.scalar.define import each, scalar
from gamay.functions.scalar.types import arithmetic_type, same_number
from gamay.functions.scalar.whole import difference_overflows, product_overflows, sum_overflows, towards_zero
from gamay.model.types import DataType

DOUBLE, LONG = DataType.DOUBLE, DataType.LONG
_DECIMALS = Context(prec=200)
_ZERO = np.array(Decimal(0), dtype=object)
_ALL_DIGITS = Context(prec=MAX_PREC)  # where no digits are added; Python's default context would round to 28


def _quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """Suppress warnings: infinities, NaN and wrapped integers are valid results here."""

    def run(*args: Any) -> Any:
        with np.errstate(all="ignore"):
            return function(*args)

    return run


def _on_decimals(function: Callable[[Any, Any], Any], name: str) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        with localcontext(_DECIMALS):
            try:
                return function(left, right) + _ZERO  # drops the sign of zero, which BIG_DECIMAL does not have
            except ZeroDivisionError:
                raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}': BIG_DECIMAL division by zero") from None
            except ArithmeticError:
                raise QueryError(
                    ErrorCode.QUERY_EXECUTION,
                    f"Function '{name}': BIG_DECIMAL division by zero, or a number that is infinite or too large",
                ) from None

    return run


def _decimal_divide(left: Any, right: Any) -> Any:
    """Divide with the dividend's scale, rounding half to even."""
    pairs = zip(*np.broadcast_arrays(left, right), strict=True)
    return array_of(
        [(a / b).quantize(Decimal((0, (1,), a.as_tuple().exponent)), rounding=ROUND_HALF_EVEN) for a, b in pairs],
        DataType.BIG_DECIMAL,
    )


def _fold(name: str, double: Callable[[Any, Any], Any], decimal: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    on_doubles, on_decimals = _quiet(double), _on_decimals(decimal, name)

    def run(*args: Any) -> Any:
        step = on_decimals if any(arg.dtype == object for arg in args) else on_doubles
        total = args[0]
        for arg in args[1:]:
            total = step(total, arg)
        return total

    return run


_EACH = each(None)  # of the result's type
_names: tuple[str, ...]
for _names, _double, _decimal, _variadic in (
    (("plus", "add"), np.add, np.add, True),
    (("minus", "sub"), np.subtract, np.subtract, False),
    (("times", "mult"), np.multiply, np.multiply, True),
):
    scalar(*_names, params=(_EACH, _EACH), returns=arithmetic_type, variadic=_variadic)(_fold(_names[0], _double, _decimal))


@scalar("mod", params=(each(DOUBLE), each(DOUBLE)), returns=DOUBLE)
def mod(left: Any, right: Any) -> Any:
    """The remainder of doubles, with the sign of the dividend."""
    return _quiet(np.fmod)(left, right)


@scalar("divide", "div", params=(_EACH, _EACH, _EACH), returns=arithmetic_type, optional=1)
def divide(left: Any, right: Any, default: Any = None) -> Any:
    """`divide(a, b, default)` returns the default if b is 0."""
    if default is None:
        return _fold("divide", np.divide, _decimal_divide)(left, right)
    one = np.array(Decimal(1), dtype=object) if right.dtype == object else 1.0
    safe = np.where(right == 0, one, right)
    return np.where(right == 0, default, _fold("divide", np.divide, _decimal_divide)(left, safe))


def _divided_exactly(name: str, step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        if np.any(right == 0):
            raise QueryError(ErrorCode.QUERY_EXECUTION, f"Function '{name}': division of whole numbers by zero")
        return step(left, right)

    return run


def _long_quotient(left: Any, right: Any) -> Any:
    """Return the quotient, truncated."""
    if np.any((left == np.iinfo(np.int64).min) & (right == -1)):
        raise QueryError(
            ErrorCode.QUERY_EXECUTION, "Function 'divide': the result does not fit 64 bits; cast an argument to DOUBLE"
        )
    return towards_zero(left, right)


def _exact(
    name: str, step: Callable[[Any, Any], Any], overflows: Callable[[Any, Any, Any], Any]
) -> Callable[[Any, Any], Any]:
    def run(left: Any, right: Any) -> Any:
        result = step(left, right)
        if np.any(overflows(left, right, result)):
            raise QueryError(
                ErrorCode.QUERY_EXECUTION,
                f"Function '{name}': the result does not fit 64 bits; cast an argument to DOUBLE or BIG_DECIMAL",
            )
        return result

    return run


for _name, _whole, _variadic in (
    ("longplus", _exact("longplus", np.add, sum_overflows), True),
    ("longminus", _exact("longminus", np.subtract, difference_overflows), False),
    ("longtimes", _exact("longtimes", np.multiply, product_overflows), True),
    ("longdivide", _divided_exactly("divide", _long_quotient), False),
    ("longmod", _divided_exactly("mod", np.fmod), False),
):
    scalar(_name, params=(each(LONG), each(LONG)), returns=LONG, variadic=_variadic)(_fold(_name, _whole, _whole))


@scalar("longToInt", params=(each(LONG),), returns=DataType.INT)
def long_to_int(values: Any) -> Any:
    """Convert to INT; raises QueryError for a number out of range."""
    info = np.iinfo(np.int32)
    if np.any((values < info.min) | (values > info.max)):
        raise QueryError(
            ErrorCode.QUERY_EXECUTION, "Function 'longToInt': a result does not fit INT; cast an argument to LONG"
        )
    return values.astype(np.int32)


_LEAST = {
    4: (-(2**31), "INT", "LONG"),
    8: (-(2**63), "LONG", "DOUBLE or BIG_DECIMAL"),
}  # by width: the least number, its type, a wider one


def _check_twin(name: str, values: Any) -> None:
    """Refuse the least integer of a type, whose negative the type cannot represent."""
    if values.dtype.kind != "i":
        return
    least, name_of_type, wider = _LEAST[values.dtype.itemsize]
    if np.any(values == least):
        raise QueryError(
            ErrorCode.QUERY_EXECUTION,
            f"Function '{name}': the result for {least}, the smallest {name_of_type}, does not fit {name_of_type}; "
            f"cast the argument to {wider}",
        )


@scalar("negate", params=(_EACH,), returns=same_number)
def negate(values: Any) -> Any:
    _check_twin("negate", values)
    with localcontext(_ALL_DIGITS):
        return -values


@scalar("abs", params=(_EACH,), returns=same_number)
def absolute(values: Any) -> Any:
    _check_twin("abs", values)
    with localcontext(_ALL_DIGITS):
        return np.abs(values)


def _power(base: Any, exponent: Any) -> Any:
    """Raise to a power as Java does: 1 to the power of NaN or an infinity is NaN, and so is NaN to any power but 0."""
    result = np.power(base, exponent)
    if not np.isfinite(exponent).all():
        result = np.where((np.abs(base) == 1) & ~np.isfinite(exponent), np.nan, result)
    if np.isneginf(base).any():
        result = np.where(np.isneginf(base) & (exponent == 0.5), np.inf, result)  # NumPy computes a square root for one 0.5
    return result


def _cot(values: Any) -> Any:
    return 1 / np.tan(values)


def _sigmoid(values: Any) -> Any:
    return 1 / (1 + np.exp(-values))


for _names, _function in (
    (("ceil", "ceiling"), np.ceil),
    (("floor",), np.floor),
    (("exp",), np.exp),
    (("exp2",), np.exp2),
    (("exp10",), lambda x: np.power(10.0, x)),
    (("ln", "log"), np.log),
    (("log2",), np.log2),
    (("log10",), np.log10),
    (("log1p",), np.log1p),
    (("sqrt",), np.sqrt),
    (("cbrt",), np.cbrt),
    (("sign",), np.sign),
    (("sigmoid",), _sigmoid),
    (("sin",), np.sin),
    (("cos",), np.cos),
    (("tan",), np.tan),
    (("cot",), _cot),
    (("asin",), np.arcsin),
    (("acos",), np.arccos),
    (("atan",), np.arctan),
    (("sinh",), np.sinh),
    (("cosh",), np.cosh),
    (("tanh",), np.tanh),
    (("asinh",), np.arcsinh),
    (("acosh",), np.arccosh),
    (("atanh",), np.arctanh),
    (("degrees",), np.degrees),
    (("radians",), np.radians),
):
    scalar(*_names, params=(each(DOUBLE),), returns=DOUBLE)(_quiet(_function))

for _names, _binary in ((("power", "pow"), _power), (("hypot",), np.hypot), (("atan2",), np.arctan2)):
    scalar(*_names, params=(each(DOUBLE), each(DOUBLE)), returns=DOUBLE)(_quiet(_binary))


@scalar("pi", params=(), returns=DOUBLE)
def pi() -> float:
    return float(np.pi)


@scalar("e", "euler", params=(), returns=DOUBLE)
def euler() -> float:
    return float(np.e)
