"""Expressions as text: the default names of result columns.

Function names in lower case, arguments joined by commas without spaces, literals in single quotes, names with their case:
`count(*)`, `plus(a,b)`, `times(a,'2')`, `cast(x,'INT')`, `case(less_than(c,'10'),'a','b')`, `percentile(x, 95.0)`.
"""

import uuid
from decimal import Decimal

import numpy as np

from gamay.functions.expression import (
    FILTERED,
    ITEM,
    TEXT_MATCH,
    TEXT_SCORE,
    Call,
    Column,
    Expression,
    Literal,
    LiteralValue,
)
from gamay.model.types import DataType

_SHOWN = {
    "notequals": "not_equals",
    "lessthan": "less_than",
    "lessthanorequal": "less_than_or_equal",
    "greaterthan": "greater_than",
    "greaterthanorequal": "greater_than_or_equal",
    "notin": "not_in",
    "isnull": "is_null",
    "isnotnull": "is_not_null",
    "regexplike": "regexp_like",
    "jsonmatch": "json_match",
    "textmatch": "text_match",
}
_CONFIGURED = {TEXT_MATCH: "textmatch", TEXT_SCORE: "textscore"}
_WINDOW_FUNNELS = frozenset(
    {
        "funnelmaxstep",
        "funnelmatchstep",
        "funnelcompletecount",
        "funnelstepdurationstats",
        "funneleventsfunctioneval",
    }
)
_FIRST_STEP = 3
_USUAL_COMPRESSION = 100
_COMPARISONS = {
    "equals": "=",
    "notequals": "!=",
    "lessthan": "<",
    "lessthanorequal": "<=",
    "greaterthan": ">",
    "greaterthanorequal": ">=",
    "like": "LIKE",
}

_SHOWN_CHARS = 80


def to_text(expression: Expression) -> str:
    """Return the text of an expression, which is also the default name of its result column."""
    if isinstance(expression, Column):
        return expression.name
    if isinstance(expression, Literal):
        return f"'{constant_text(expression)}'"
    if isinstance(expression, Call):
        if expression.name.startswith("percentile") and len(expression.args) > 1:
            return _percentile(expression)
        if expression.name in _WINDOW_FUNNELS and len(expression.args) > _FIRST_STEP:
            return _window_funnel(expression)
        if expression.name == FILTERED:
            return f"{to_text(expression.args[0])} FILTER(WHERE {_filter_text(expression.args[1])})"
        if expression.name in _CONFIGURED:
            return _configured(expression)
        if expression.name == ITEM:
            return to_text(Call("item", expression.args[:2]))
        return f"{_SHOWN.get(expression.name, expression.name)}({','.join(map(to_text, expression.args))})"
    return "*"


def _configured(call: Call) -> str:
    """Return the text without the column's settings, which the user did not write: `text_match(x,'word')`."""
    written = call.args[:-1]
    return to_text(Call(_CONFIGURED[call.name], written if written[-1] != Literal("", DataType.STRING) else written[:-1]))


def _filter_text(condition: Expression) -> str:
    if isinstance(condition, Call) and condition.name == "istrue":  # as every condition that holds
        condition = condition.args[0]
    return condition_text(condition)


def condition_text(condition: Expression) -> str:
    """Return a condition in the form of FILTER clauses: `(y > '5' AND city IN ('a','b') AND less_than(x,y) = 'true')`."""
    if isinstance(condition, Literal):
        return constant_text(condition)
    if not isinstance(condition, Call):
        return f"{to_text(condition)} = 'true'"
    name, args = condition.name, condition.args
    if name in ("and", "or"):
        return f"({f' {name.upper()} '.join(map(condition_text, args))})"
    if name == "not":
        return f"(NOT {condition_text(args[0])})"
    if any(not isinstance(arg, Literal) for arg in args[1:]):
        return f"{to_text(condition)} = 'true'"  # predicates consist of one expression and constants
    if name in _COMPARISONS and len(args) == 2:
        return f"{to_text(args[0])} {_COMPARISONS[name]} {to_text(args[1])}"
    if name in ("in", "notin"):
        return f"{to_text(args[0])} {'IN' if name == 'in' else 'NOT IN'} ({','.join(map(to_text, args[1:]))})"
    if name == "between" and len(args) == 3:
        return f"{to_text(args[0])} BETWEEN {to_text(args[1])} AND {to_text(args[2])}"
    if name in ("isnull", "isnotnull"):
        return f"{to_text(args[0])} IS {'NULL' if name == 'isnull' else 'NOT NULL'}"
    return to_text(condition) if name == "regexplike" else f"{to_text(condition)} = 'true'"


def constant_text(literal: Literal) -> str:
    """Return a constant as text without quotes, as `literal_text`, but FLOAT and UUID in the form of their types.

    >>> constant_text(Literal(1.100000023841858, DataType.FLOAT))
    '1.1'
    """
    value = literal.value
    if literal.type is DataType.FLOAT and isinstance(value, float):
        return java_float_text(np.float32(value))
    if literal.type is DataType.UUID and isinstance(value, bytes):
        return str(uuid.UUID(bytes=value))
    return literal_text(value)


def literal_text(value: LiteralValue) -> str:
    """Return a constant as text without quotes: numbers as Java prints them, bytes in hexadecimal."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double_text(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return format(value, "f")
    return "null" if value is None else str(value)


def shown_value(value: LiteralValue) -> str:
    """Return a value for error messages: texts, and bytes in hexadecimal, are quoted; long ones are truncated."""
    if not isinstance(value, str | bytes):
        return repr(value)
    text = value.hex() if isinstance(value, bytes) else value
    return repr(text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}...")


def java_double_text(value: float) -> str:
    """Return a double as Java's Double.toString prints it: shortest digits, an exponent outside [1e-3, 1e7).

    >>> [java_double_text(v) for v in (100.0, 1e10, 1.5e-7, float("inf"), float("nan"))]
    ['100.0', '1.0E10', '1.5E-7', 'Infinity', 'NaN']
    """
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return _java_text(value, repr(value))


def java_float_text(value: np.float32) -> str:
    """Return a single-precision number as Java's Float.toString prints it.

    >>> java_float_text(np.float32(0.1))
    '0.1'
    """
    if not np.isfinite(value):
        return java_double_text(float(value))
    return _java_text(float(value), str(value))


def _java_text(value: float, shortest: str) -> str:
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        text = format(Decimal(shortest), "f")
        return text if "." in text else f"{text}.0"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    power = int(exponent) + len(digits) - 1
    return f"{'-' if sign else ''}{shown[0]}.{shown[1:] or '0'}E{power}"


def _window_funnel(call: Call) -> str:
    """Return `funnelmaxstep(1000)  (ts, a,b)`: the window, the time and the steps, without further arguments."""
    time, window, count = call.args[:_FIRST_STEP]
    end = _FIRST_STEP + count.value if isinstance(count, Literal) and isinstance(count.value, int) else None
    steps = call.args[_FIRST_STEP:end]
    shown = literal_text(window.value) if isinstance(window, Literal) else to_text(window)
    return f"{call.name}({shown})  ({to_text(time)}, {','.join(map(to_text, steps))})"


def _percentile(call: Call) -> str:
    """Return `percentile(x, 95.0)`: the parameters of percentiles follow a space, the percentile is a double.

    The compression of t-digests is shown if it is not the default.
    """
    args = call.args
    if "tdigest" in call.name and len(args) > 2 and isinstance(args[2], Literal) and args[2].value == _USUAL_COMPRESSION:
        args = args[:2]
    parts = [to_text(args[0])]
    for i, arg in enumerate(args[1:]):
        if isinstance(arg, Literal):
            number = i == 0 and isinstance(arg.value, int) and not isinstance(arg.value, bool)
            parts.append(literal_text(float(arg.value) if number and isinstance(arg.value, int) else arg.value))
        else:
            parts.append(to_text(arg))
    return f"{call.name}({', '.join(parts)})"
