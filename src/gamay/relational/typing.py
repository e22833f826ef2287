"""Types of relational expressions, and implicit conversions.

Unlike in a single-table query, where arithmetic is DOUBLE, integers stay integers: INT with INT is INT, with LONG it is
LONG, a quotient is truncated, and overflow is an error.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from functools import partial

import numpy as np

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arguments import arguments, check_count
from gamay.functions.evaluate import evaluate_constant
from gamay.functions.expression import FILTERED, FUNNEL_PARTS, Call, Column, Expression, Literal, Star, replaced, walk
from gamay.functions.registry import (
    ValueType,
    aggregate_arguments,
    bind_aggregate,
    is_aggregate,
    must_get_scalar,
    scalar_function,
)
from gamay.functions.text import to_text
from gamay.model.types import DataType
from gamay.query.bind.searches import VECTOR_SEARCHES
from gamay.relational.parameters import computed
from gamay.relational.plan import SUBQUERY

BOOLEAN: ValueType = (DataType.BOOLEAN, False)
INT: ValueType = (DataType.INT, False)
LONG: ValueType = (DataType.LONG, False)
DOUBLE: ValueType = (DataType.DOUBLE, False)
STRING: ValueType = (DataType.STRING, False)
UNKNOWN: ValueType = (DataType.UNKNOWN, False)
ORDERED = "ordered(within group)"
"""The function for `agg(x) WITHIN GROUP (ORDER BY y DESC)`: of the aggregate, then for each key the expression, whether
it is descending and whether nulls come last, as literals. Queries cannot name it."""

_DISTINCT = frozenset({"isdistinctfrom", "isnotdistinctfrom"})
COMPARISONS = _DISTINCT | {"equals", "notequals", "lessthan", "lessthanorequal", "greaterthan", "greaterthanorequal"}
NULL = Literal(None, DataType.UNKNOWN)
WHOLE_ARITHMETIC = {"plus": "longplus", "minus": "longminus", "times": "longtimes", "mod": "longmod", "divide": "longdivide"}
_EACH_COMPARED: dict[str, tuple[tuple[str, ...], str]] = {
    "in": (("equals",), "or"),
    "notin": (("notequals",), "and"),
    "between": (("greaterthanorequal", "lessthanorequal"), "and"),
}
_CONNECTORS = frozenset({"and", "or", "not"})
_CONDITIONS = frozenset({"isnull", "isnotnull", "istrue", "isnottrue", "isfalse", "isnotfalse"})
_CASES = frozenset({"case", "casewhen"})
_SAME = frozenset({"coalesce", "greatest", "least", "nullif"})
_KEEPS = frozenset({"abs", "ceil", "ceiling", "floor", "negate", "truncate"})
_WIDTH = {DataType.INT: 0, DataType.LONG: 1, DataType.FLOAT: 2, DataType.DOUBLE: 3, DataType.BIG_DECIMAL: 4}
_WHOLE = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)
_FLOAT_MAX = float(np.finfo(np.float32).max)
_DIGITS_OF_CONSTANTS = 20  # maximum digits of a BIG_DECIMAL; longer constants are compared as DOUBLE

WINDOW_FUNCTIONS = frozenset(
    {
        *("rownumber", "rank", "denserank", "percentrank", "cumedist", "ntile"),
        *("lag", "lead", "firstvalue", "lastvalue", "nthvalue"),
    }
)

Types = Mapping[str, ValueType]


def resolved(expression: Expression, types: Types) -> tuple[Expression, ValueType]:
    """Return an expression with all implicit conversions made explicit, and its type. Raises QueryError 700."""
    if isinstance(expression, Literal):
        return expression, (DataType.UNKNOWN if expression.is_null else expression.type, False)
    if isinstance(expression, Column):
        if expression.name not in types:  # clpMatch adds it to its argument
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                "clpMatch reads further columns of its table, so it is supported in queries of one table only",
            )
        return expression, types[expression.name]
    if isinstance(expression, Star):
        raise _invalid("* is not an expression; it is allowed only in SELECT and COUNT(*)")
    if is_aggregate(expression.name) or expression.name in (FILTERED, ORDERED):
        raise _invalid("The aggregate {} is not allowed here", expression)
    if expression.name in VECTOR_SEARCHES:  # the table reads their arguments as written
        return expression, BOOLEAN
    args, arg_types = _resolved_args(expression.args, types)
    call, value_type = _resolved_call(Call(expression.name, tuple(args)), arg_types)
    return folded(call) if isinstance(call, Call) else call, value_type


def resolved_aggregate(call: Call, types: Types) -> tuple[Call, ValueType]:
    """Return an aggregate with its arguments converted, and its type. Raises QueryError 700."""
    if call.name == FILTERED:
        assert isinstance(call.args[0], Call)
        aggregate, value_type = resolved_aggregate(call.args[0], types)
        return Call(FILTERED, (aggregate, as_condition(call.args[1], types))), value_type
    if call.name == ORDERED:
        assert isinstance(call.args[0], Call)
        aggregate, value_type = resolved_aggregate(call.args[0], types)
        rest = [resolved(arg, types)[0] for arg in call.args[1:]]
        return Call(ORDERED, (aggregate, *rest)), value_type
    args: list[Expression] = []
    arg_types: dict[Expression, ValueType] = {}
    for arg in call.args:
        if isinstance(arg, Star):
            args.append(arg)
            continue
        if isinstance(arg, Call) and arg.name in FUNNEL_PARTS:
            inner, inner_types = _resolved_args(arg.args, types)
            args.append(Call(arg.name, tuple(inner)))
            arg_types |= zip(inner, inner_types, strict=True)
            continue
        one, arg_type = resolved(arg, types)
        args.append(one)
        arg_types[one] = arg_type
    first = next(iter(arg_types.values()), UNKNOWN)
    if call.name == "listagg" and args and not first[1]:  # only this engine converts values to text
        args[0] = converted(args[0], first, DataType.STRING)
        arg_types[args[0]] = first = STRING
    call = Call(call.name, tuple(args))
    if call.name in _OF_NULLS and len(args) == 1 and (first == UNKNOWN or args[0] == NULL):
        name, value_type = _OF_NULLS[call.name]
        return Call(name, tuple(args)), value_type
    exact = _EXACT.get(call.name)
    if exact is not None and not first[1]:
        wanted = 2 if call.name.startswith("covar") else 1
        if len(args) != wanted:
            raise _invalid(f"{call.name.upper()} takes {arguments(wanted, wanted)}, not {len(args)}")
        if call.name in _OF_NUMBERS:
            call = _of_numbers(call, [arg_types[arg] for arg in args if arg in arg_types])
            first = (_AS_NUMBERS.get(first[0], first[0]), False)
        return call, exact(call, first)
    with _with_names(call):
        found = bind_aggregate(call, [arg_types[arg] for arg in aggregate_arguments(call)])
    return call, _of_argument(call.name, first, (found.traits.result_type, found.traits.result_is_multi_value))


def _of_argument(name: str, first: ValueType, otherwise: ValueType) -> ValueType:
    """Return the type of an aggregate: that of its argument where a single-table query would return DOUBLE."""
    if name.startswith("distinctcount") and otherwise == INT:
        return LONG
    if (first[0] not in _WIDTH and first[0] is not DataType.TIMESTAMP) or otherwise != DOUBLE:
        return otherwise
    element = (first[0], False)
    if name in ("percentile", "mode") or (first[1] and name in ("min", "max")):
        return element
    return _summed(Call(name, ()), (_AS_NUMBERS.get(first[0], first[0]), False)) if first[1] and name == "sum" else otherwise


def resolved_window(call: Call, types: Types) -> tuple[Call, ValueType]:
    """Return a window function with its arguments converted, and its type. Raises QueryError 700."""
    if call.name not in WINDOW_FUNCTIONS:
        if not is_aggregate(call.name):
            must_get_scalar(call.name)
            raise _invalid(
                f"{call.name.upper()} is not a window function: OVER must follow an aggregate or ROW_NUMBER, RANK, LAG …"
            )
        return resolved_aggregate(call, types)
    args, arg_types = _resolved_args(call.args, types)
    low, high = _WINDOW_ARGS.get(call.name, (0, 0))
    if not low <= len(args) <= high:
        raise _invalid(f"{call.name.upper()} takes {arguments(low, high)}, not {len(args)}")
    if call.name in ("percentrank", "cumedist"):
        return call, DOUBLE
    if call.name == "ntile" and not _is_positive(args[0]):
        raise _invalid("NTILE takes a constant whole number greater than 0, not {}", args[0])
    if not args or call.name == "ntile":
        return Call(call.name, tuple(args)), LONG
    if call.name in ("lag", "lead"):
        for place, what in ((1, "Second operand (offset)"), (2, "Third operand (default value)")):
            if len(args) > place and not isinstance(args[place], Literal):
                raise _invalid(f"{what} of {call.name.upper()} function must be a literal")
        if len(args) == 3:
            args[2] = converted(args[2], arg_types[2], arg_types[0][0])
    return Call(call.name, tuple(args)), arg_types[0]


def _is_positive(expression: Expression) -> bool:
    value = expression.value if isinstance(expression, Literal) else None
    return type(value) is int and value > 0


_WINDOW_ARGS = {
    "ntile": (1, 1),
    "lag": (1, 3),
    "lead": (1, 3),
    "firstvalue": (1, 1),
    "lastvalue": (1, 1),
    "nthvalue": (2, 2),
}


def as_condition(expression: Expression, types: Types) -> Expression:
    """Return a resolved condition; raises QueryError 700 for an expression that is not one."""
    condition, (data_type, multi_value) = resolved(expression, types)
    if data_type not in (DataType.BOOLEAN, DataType.UNKNOWN) or multi_value:
        if data_type.is_numeric and not multi_value:
            return Call("notequals", (condition, Literal(0, DataType.INT)))
        raise _invalid(f"{{}} is not a condition: it is {type_name((data_type, multi_value))}, not BOOLEAN", expression)
    return condition


def common_type(types: Sequence[ValueType], what: str) -> ValueType:
    """Return the common type of some values. Raises QueryError 700."""
    known = [each for each in dict.fromkeys(types) if each[0] is not DataType.UNKNOWN]
    if len(known) <= 1:
        return known[0] if known else UNKNOWN
    if len({multi_value for _, multi_value in known}) == 1:
        multi_value = known[0][1]
        kinds = [data_type for data_type, _ in known]
        if all(kind in _WIDTH for kind in kinds):
            widest = max(kinds, key=_WIDTH.__getitem__)
            if widest is DataType.FLOAT and DataType.LONG in kinds:
                widest = DataType.DOUBLE
            return widest, multi_value
        if all(kind is DataType.TIMESTAMP or kind in (DataType.INT, DataType.LONG) for kind in kinds):
            return DataType.LONG, multi_value
        if all(kind.is_text or kind in _WIDTH or kind in (DataType.BOOLEAN, DataType.TIMESTAMP) for kind in kinds) and any(
            kind.is_text for kind in kinds
        ):
            return DataType.STRING, multi_value
        if all(kind.is_binary for kind in kinds):
            return DataType.BYTES, multi_value
    raise _invalid(f"{what} has values without a common type: {', '.join(type_name(each) for each in known)}")


def converted(expression: Expression, source: ValueType, to: DataType) -> Expression:
    """Convert an expression to another type; constants are converted immediately. Raises QueryError 700."""
    if source == UNKNOWN:
        return NULL
    if source[0] is to or (source[0].is_text and to is DataType.STRING):
        return expression
    if isinstance(expression, Literal) and source[0] is DataType.INT and to is DataType.LONG:
        return computed(lambda constant: Literal(constant.value, DataType.LONG), expression)
    return folded(Call("cast", (expression, Literal(to.value, DataType.STRING))))


def folded(call: Call) -> Expression:
    """Fold a call of constants, if its function allows. Raises QueryError 720."""
    constants = [arg for arg in call.args if isinstance(arg, Literal)]
    if len(constants) < len(call.args) or call.name in _CASES or call.name == SUBQUERY:
        return call
    function = must_get_scalar(call.name)
    if not (function.can_fold and function.is_deterministic):
        return call
    return computed(lambda *args: _evaluated(Call(call.name, args)), *constants)


def _evaluated(call: Call) -> Expression:
    try:
        return evaluate_constant(call)
    except QueryError as error:
        if error.code is not ErrorCode.QUERY_EXECUTION:
            raise
        raise QueryError(ErrorCode.QUERY_PLANNING, str(error)) from error


def type_name(value_type: ValueType) -> str:
    """Return the name of a type as in results."""
    return f"{value_type[0].value}_ARRAY" if value_type[1] else value_type[0].value


def _resolved_args(args: Sequence[Expression], types: Types) -> tuple[list[Expression], list[ValueType]]:
    pairs = [resolved(arg, types) for arg in args]
    return [arg for arg, _ in pairs], [arg_type for _, arg_type in pairs]


def _unknown(args: Sequence[Expression], types: Sequence[ValueType]) -> list[bool]:
    """Return for each value whether it is NULL in every row."""
    return [arg == NULL or value_type == UNKNOWN for arg, value_type in zip(args, types, strict=True)]


def _resolved_call(call: Call, types: list[ValueType]) -> tuple[Expression, ValueType]:
    name = call.name
    if name == "cast" and len(types) > 2 and call.args[1] == _DECIMAL:
        call, types = Call(name, (call.args[0], _decimal(call.args[2:]))), types[:2]
    function = scalar_function(name)
    if function is not None and name != SUBQUERY:
        check_count(function.name, len(types), function.min_args, function.max_args)
    if name in _CONNECTORS:
        args = [_condition(arg, arg_type) for arg, arg_type in zip(call.args, types, strict=True)]
        return (_negated(args[0]) if name == "not" else Call(name, tuple(args))), BOOLEAN
    if name in _CONDITIONS:
        return call, BOOLEAN
    if name == SUBQUERY:  # both sides are converted to one type when it is rendered
        return call, BOOLEAN
    if name in COMPARISONS:
        return _compared(call, types), BOOLEAN
    if name in ("in", "notin", "between"):
        return _among(call, types), BOOLEAN
    if name in WHOLE_ARITHMETIC:
        return _arithmetic(call, types)
    if name in _CASES:
        return _case(call, types)
    if name in _SAME:
        common = common_type(types, name.upper())
        if name == "nullif":
            return call.args[0] if any(_unknown(call.args, types)) else call, types[0]
        args = [converted(arg, arg_type, common[0]) for arg, arg_type in zip(call.args, types, strict=True)]
        return Call(name, tuple(args)), common
    if name in _KEEPS and types[0][0] in _WIDTH and not types[0][1]:
        return call, types[0]
    function = must_get_scalar(name)
    with _with_names(call):
        return call, function.result_type(call, types)


_DECIMAL = Literal(DataType.BIG_DECIMAL.value, DataType.STRING)


def _decimal(digits: Sequence[Expression]) -> Literal:
    """Return the name of the type for DECIMAL(precision) or DECIMAL(precision, scale)."""
    given = [each.value for each in digits if isinstance(each, Literal)]
    precision, scale = [*given, 0, 0][:2]
    is_counted = len(given) == len(digits) <= 2
    if not (is_counted and isinstance(precision, int) and isinstance(scale, int) and precision >= scale):
        raise _invalid("DECIMAL takes the number of digits, and of digits after the point, as in DECIMAL(10, 2)")
    types = ((10, DataType.INT), (38, DataType.LONG)) if scale == 0 else ((30, DataType.DOUBLE),)
    found = next((data_type for most, data_type in types if precision <= most), DataType.BIG_DECIMAL)
    return Literal(found.value, DataType.STRING)


def _condition(arg: Expression, arg_type: ValueType) -> Expression:
    if arg_type[0] in (DataType.BOOLEAN, DataType.UNKNOWN) and not arg_type[1]:
        return arg
    raise _invalid(f"{{}} is not a condition: it is {type_name(arg_type)}, not BOOLEAN", arg)


def _negated(condition: Expression) -> Expression:
    """Return the negation of a condition. Tables without null handling treat unknown as false, so NOT is never above a
    NULL."""
    if isinstance(condition, Call) and condition.name in _CONNECTORS and any(part == NULL for part in walk(condition)):
        if condition.name == "not":
            return condition.args[0]
        return Call("and" if condition.name == "or" else "or", tuple(_negated(arg) for arg in condition.args))
    return condition if condition == NULL else Call("not", (condition,))


def _compared(call: Call, types: list[ValueType]) -> Expression:
    """Convert the sides of a comparison to one type; a list is compared value by value, and a comparison with NULL is
    NULL."""
    (left, right), (left_type, right_type) = call.args, types
    unknown = _unknown(call.args, types)
    if any(unknown) and call.name in _DISTINCT:
        return Call("isnotnull" if call.name == "isdistinctfrom" else "isnull", (right if unknown[0] else left,))
    if any(unknown):
        return NULL
    to = _comparable(left_type[0], right_type[0])
    if to is None or (left_type[1] and right_type[1]):
        raise _invalid(
            f"Cannot compare {{}}, which is {type_name(left_type)}, with {{}}, which is {type_name(right_type)}", left, right
        )
    if to is DataType.UNKNOWN:
        return Call(call.name, (_at_home(left, left_type, right_type[0]), _at_home(right, right_type, left_type[0])))
    return Call(call.name, (converted(left, left_type, to), converted(right, right_type, to)))


def _at_home(constant: Expression, own: ValueType, other: DataType) -> Expression:
    """Convert a DOUBLE constant compared with numbers of another type to that type, so that none of them is rounded."""
    return (
        computed(partial(_double_at_home, other), constant) if isinstance(constant, Literal) and own == DOUBLE else constant
    )


def _double_at_home(other: DataType, constant: Literal) -> Literal:
    value = constant.value
    if not isinstance(value, float):
        return constant
    if other is DataType.FLOAT and abs(value) <= _FLOAT_MAX:
        return Literal(float(np.float32(value)), DataType.FLOAT)
    if other in (DataType.INT, DataType.LONG) and value.is_integer() and -(2.0**63) <= value < 2.0**63:
        return Literal(int(value), DataType.LONG)
    if other is DataType.BIG_DECIMAL and math.isfinite(value):
        exact = Decimal(repr(value))
        _, digits, exponent = exact.as_tuple()
        if isinstance(exponent, int) and max(len(digits) + exponent, 0) + max(-exponent, 0) <= _DIGITS_OF_CONSTANTS:
            return Literal(exact, DataType.BIG_DECIMAL)
    return constant


def _may_equal(constant: Expression, value_type: DataType) -> bool:
    """Whether a value of a type can equal a constant: no integer equals 2.5."""
    if value_type not in _WHOLE or not isinstance(constant, Literal) or constant.type is not DataType.DOUBLE:
        return True
    return not isinstance(constant.value, float) or constant.value.is_integer()


def compared_type(left: ValueType, right: ValueType, what: str) -> DataType:
    """Return the type in which single values are compared; UNKNOWN if no conversion is needed. Raises QueryError 700."""
    to = None if left[1] or right[1] else _comparable(left[0], right[0])
    if to is None:
        raise _invalid(f"{what} cannot compare {type_name(left)} with {type_name(right)}; unnest arrays first")
    return to


def _comparable(left: DataType, right: DataType) -> DataType | None:
    """Return the type in which values of two types are compared; UNKNOWN if no conversion is needed, None if they cannot
    be."""
    if left is right or DataType.UNKNOWN in (left, right) or (left in _WIDTH and right in _WIDTH):
        return DataType.UNKNOWN
    if (left.is_text and right.is_text) or (left.is_binary and right.is_binary):
        return DataType.UNKNOWN
    for one, other in ((left, right), (right, left)):
        if one.is_text and (other in _WIDTH or other in (DataType.BOOLEAN, DataType.TIMESTAMP) or other.is_binary):
            return other
        if one is DataType.BOOLEAN and other in _WIDTH:
            return DataType.BOOLEAN
        if one is DataType.TIMESTAMP and other in _WIDTH:
            return DataType.UNKNOWN
    return None


def _among(call: Call, types: list[ValueType]) -> Expression:
    """Convert the values of IN or BETWEEN to the type of the first argument."""
    known = [place for place, is_null in enumerate(_unknown(call.args, types)) if not is_null]
    if any(multi_value for _, multi_value in types[1:]):
        return _one_by_one(call, types)
    if len(known) < len(call.args):  # if no known value decides, the answer is unknown
        if call.name == "between":
            return _one_by_one(call, types)
        if len(known) < 2 or known[0] != 0:
            return NULL
        found = _among(Call(call.name, tuple(call.args[place] for place in known)), [types[place] for place in known])
        return Call("or" if call.name == "in" else "and", (found, NULL))
    equal = [place for place, arg in enumerate(call.args) if place == 0 or _may_equal(arg, types[0][0])]
    if call.name != "between" and 1 < len(equal) < len(call.args):
        return _among(Call(call.name, tuple(call.args[place] for place in equal)), [types[place] for place in equal])
    wanted = {_comparable(types[0][0], data_type) for data_type, _ in types[1:]}
    if len({types[0][0] if to is DataType.UNKNOWN else to for to in wanted}) > 1:  # no single type for all
        return _one_by_one(call, types)
    args = [call.args[0]]
    for arg, arg_type in zip(call.args[1:], types[1:], strict=True):
        to = _comparable(types[0][0], arg_type[0])
        if to is None:
            raise _invalid(
                f"Cannot compare {{}}, which is {type_name(types[0])}, with {{}}, which is {type_name(arg_type)}",
                call.args[0],
                arg,
            )
        if to is not DataType.UNKNOWN and to is not types[0][0]:
            args[0] = converted(call.args[0], types[0], to)
        kept = to is DataType.UNKNOWN
        args.append(_at_home(arg, arg_type, types[0][0]) if kept else converted(arg, arg_type, to))
    return Call(call.name, tuple(args))


def _one_by_one(call: Call, types: list[ValueType]) -> Call:
    """Expand IN or BETWEEN into comparisons."""
    names, connector = _EACH_COMPARED[call.name]
    each = zip(names * len(types), call.args[1:], types[1:], strict=False)
    return Call(connector, tuple(_compared(Call(name, (call.args[0], arg)), [types[0], of]) for name, arg, of in each))


def _arithmetic(call: Call, types: list[ValueType]) -> tuple[Expression, ValueType]:
    name = call.name
    args = list(call.args)
    if len(args) < 2 or any(multi_value for _, multi_value in types):
        return call, must_get_scalar(name).result_type(call, types)
    kinds = [data_type for data_type, _ in types]
    for place, kind in enumerate(kinds):
        if kind.is_text:
            other = next((each for each in kinds if each in _WIDTH), DataType.DOUBLE)
            args[place] = converted(args[place], types[place], other)
            kinds[place] = other
        elif kind not in _WIDTH and kind not in (DataType.TIMESTAMP, DataType.UNKNOWN):
            raise _invalid(f"{{}} needs numbers, but {{}} is {kind.value}", call, args[place])
    if any(_unknown(args, types)):
        known = [(DataType.LONG if kind is DataType.TIMESTAMP else kind, False) for kind in kinds]
        return NULL, common_type(known, name)
    call = Call(name, tuple(args))
    if all(kind in _WHOLE for kind in kinds):
        if name == "divide" and len(args) != 2:
            return call, DOUBLE
        is_int = all(kind is DataType.INT for kind in kinds) or (name == "mod" and kinds[-1] is DataType.INT)
        whole = folded(Call(WHOLE_ARITHMETIC[name], tuple(args)))
        return (_as_int(whole, call), INT) if is_int else (whole, LONG)
    if all(kind in (DataType.INT, DataType.FLOAT) for kind in kinds) and name != "mod":
        return call, (DataType.FLOAT, False)
    return call, DOUBLE


def _as_int(whole: Expression, call: Call) -> Expression:
    """Convert the result of a call of INTs, computed as LONG, to INT. Raises QueryError 720."""
    if not isinstance(whole, Literal):
        return Call("longtoint", (whole,))

    def as_int(number: Literal) -> Literal:
        assert isinstance(number.value, int)
        if not -(1 << 31) <= number.value < 1 << 31:
            raise QueryError(
                ErrorCode.QUERY_PLANNING,
                f"{to_text(call)} is {number.value}, which does not fit INT; cast an argument to LONG",
            )
        return Literal(number.value, DataType.INT)

    return computed(as_int, whole)


def _case(call: Call, types: list[ValueType]) -> tuple[Expression, ValueType]:
    args = list(call.args)
    if len(args) < 3 or len(args) % 2 == 0:
        raise _invalid(f"{call.name.upper()} takes pairs of a condition and a value, then the value for all other rows")
    values = [*range(1, len(args) - 1, 2), len(args) - 1]
    common = common_type([types[place] for place in values], "CASE")
    for place in range(0, len(args) - 1, 2):
        args[place] = _condition(args[place], types[place])
    for place in values:
        args[place] = converted(args[place], types[place], common[0])
    return _of_constants(Call(call.name, tuple(args))), common


def _of_constants(case: Call) -> Expression:
    """Remove the branches of a CASE that constants show are never taken."""
    kept: list[Expression] = []
    for condition, value in zip(case.args[:-1:2], case.args[1::2], strict=True):
        if isinstance(condition, Literal) and condition.value is True:
            return Call(case.name, (*kept, value)) if kept else value
        if not isinstance(condition, Literal):
            kept += condition, value
    return Call(case.name, (*kept, case.args[-1])) if kept else case.args[-1]


def _of_numbers(call: Call, types: list[ValueType]) -> Call:
    """Convert the arguments of a numeric aggregate: a BOOLEAN is 0 or 1, a TIMESTAMP its milliseconds."""
    args = list(call.args)
    for place, (arg, (kind, multi_value)) in enumerate(zip(args, types, strict=False)):
        if multi_value or (kind not in _WIDTH and kind not in _AS_NUMBERS):
            raise _invalid(f"{{}} needs numbers, but {{}} is {type_name(types[place])}", call, arg)
        args[place] = converted(arg, types[place], _AS_NUMBERS.get(kind, kind))
    return Call(call.name, tuple(args))


_AS_NUMBERS = {
    DataType.BOOLEAN: DataType.INT,
    DataType.TIMESTAMP: DataType.LONG,
    DataType.UNKNOWN: DataType.UNKNOWN,
}
_OF_NUMBERS = frozenset(
    {
        *("sum", "avg", "distinctsum", "distinctavg", "covarpop", "covarsamp"),
        *("stddevpop", "stddevsamp", "varpop", "varsamp"),
    }
)


_OF_NULLS = {"distinctcount": ("count", LONG), "booland": ("min", BOOLEAN), "boolor": ("min", BOOLEAN)}
"""The functions and types of aggregates over NULLs only, which lack an argument type."""


def _summed(call: Call, first: ValueType) -> ValueType:
    return LONG if first[0] in (DataType.INT, DataType.LONG) else first


def _averaged(call: Call, first: ValueType) -> ValueType:
    return first if first[0] is DataType.BIG_DECIMAL else DOUBLE


def _least(call: Call, first: ValueType) -> ValueType:
    return first


def _always(value_type: ValueType) -> Callable[[Call, ValueType], ValueType]:
    return lambda call, first: value_type


_EXACT: dict[str, Callable[[Call, ValueType], ValueType]] = {
    "count": _always(LONG),
    "sum": _summed,
    "min": _least,
    "max": _least,
    "avg": _averaged,
    "distinctcount": _always(LONG),
    "distinctsum": _summed,
    "distinctavg": _always(DOUBLE),
    "anyvalue": _least,
    **{name: _always(DOUBLE) for name in ("stddevpop", "stddevsamp", "varpop", "varsamp", "covarpop", "covarsamp")},
}


class MistypedError(QueryError):
    """A type error in an expression. template: the message, with a `{}` for each of `expressions`."""

    def __init__(self, template: str, expressions: tuple[Expression, ...]) -> None:
        self._template, self._expressions = template, expressions
        super().__init__(ErrorCode.QUERY_VALIDATION, template.format(*map(to_text, expressions)))

    def named(self, names: Mapping[str, Expression]) -> "MistypedError":
        """Return the error with the names of columns instead of their ids."""
        by: dict[Expression, Expression] = {Column(made): name for made, name in names.items()}
        return MistypedError(self._template, tuple(replaced(each, by) for each in self._expressions))


@contextmanager
def _with_names(call: Call) -> Iterator[None]:
    """Replace the column ids in errors about a call with placeholders for their names (`MistypedError.named`)."""
    try:
        yield
    except QueryError as error:
        ids = {part.name: part for part in walk(call) if isinstance(part, Column)}
        if error.code is not ErrorCode.QUERY_VALIDATION or not ids:
            raise
        pieces = re.split(rf"\b({'|'.join(map(re.escape, ids))})\b", str(error))
        template = "{}".join(piece.replace("{", "{{").replace("}", "}}") for piece in pieces[::2])
        raise MistypedError(template, tuple(ids[name] for name in pieces[1::2])) from error


def _invalid(template: str, *expressions: Expression) -> QueryError:
    return MistypedError(template, expressions)
