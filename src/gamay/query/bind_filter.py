"""From a boolean expression to a `Filter`: predicates on plain columns with coerced literals, everything else as `Test`."""

from collections.abc import Callable

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.expression import Call, Column, Expression, Literal, LiteralValue, column_names, walk
from gamay.functions.registry import scalar_function
from gamay.functions.vector import Operand, Scalar
from gamay.model.types import DataType
from gamay.query.coerce import coerce_equal, coerce_lower, coerce_upper
from gamay.query.predicate import (
    EVERYTHING,
    NOTHING,
    Filter,
    In,
    IsNull,
    Match,
    Range,
    Test,
    conjunction,
    disjunction,
    negation,
)
from gamay.query.scope import ValueType, with_null_flags

_MIRRORED = {
    "equals": "equals",
    "notequals": "notequals",
    "lessthan": "greaterthan",
    "lessthanorequal": "greaterthanorequal",
    "greaterthan": "lessthan",
    "greaterthanorequal": "lessthanorequal",
}
# what matches a multi-value row when it matches any of its values
_BY_VALUE = ("like", "regexplike")
_TRUE = Literal(True, DataType.BOOLEAN)


def fold(expression: Expression) -> Expression:
    """Return the expression with calls of literals computed, where the function is deterministic."""
    if not isinstance(expression, Call):
        return expression
    args = tuple(fold(arg) for arg in expression.args)
    folded = expression if args == expression.args else Call(expression.name, args)
    function = scalar_function(folded.name)
    if function is None or not function.is_deterministic or not args or not all(isinstance(arg, Literal) for arg in args):
        return folded
    value = evaluate(folded, _no_column, 1)
    return Literal(value.value, value.type) if isinstance(value, Scalar) else folded


def _no_column(name: str) -> Operand:
    raise KeyError(name)


class FilterBinder:
    """Binds the filters of one query. `column_type` gives the type of a resolved column."""

    def __init__(self, column_type: Callable[[str], ValueType]) -> None:
        self._column_type = column_type

    def bind(self, expression: Expression) -> Filter:
        """Return the filter of a boolean expression whose columns are resolved; raises QueryError 700."""
        if isinstance(expression, Literal):
            return self._constant(expression)
        if isinstance(expression, Column):
            return self._compare("equals", expression, _TRUE)
        if isinstance(expression, Call):
            return self._call(expression)
        raise QueryError(ErrorCode.QUERY_VALIDATION, "A filter must be a condition, * is none")

    def _constant(self, literal: Literal) -> Filter:
        if literal.type not in (DataType.BOOLEAN, DataType.UNKNOWN):
            raise QueryError(
                ErrorCode.QUERY_VALIDATION, f"A filter must be a condition, {literal.value!r} is a {literal.type.value}"
            )
        return EVERYTHING if literal.value else NOTHING

    def _call(self, call: Call) -> Filter:
        name, args = call.name, call.args
        if name == "and":
            return self._merge_ranges(conjunction([self.bind(arg) for arg in args]))
        if name == "or":
            return self._merge_sets(disjunction([self.bind(arg) for arg in args]))
        if name == "not":
            return negation(self.bind(args[0]))
        if name in ("isnull", "isnotnull") and isinstance(args[0], Column):
            check = IsNull(args[0].name)
            return check if name == "isnull" else negation(check)
        if name == "istrue":
            return self.bind(args[0])
        args = tuple(fold(arg) for arg in args)
        if name in _MIRRORED and len(args) == 2:
            if isinstance(args[0], Literal) and isinstance(args[1], Column):
                name, args = _MIRRORED[name], (args[1], args[0])
            if isinstance(args[0], Column) and isinstance(args[1], Literal):
                return self._compare(name, args[0], args[1])
        if name in ("between", "in", "notin") and isinstance(args[0], Column):
            literals = [arg for arg in args[1:] if isinstance(arg, Literal)]
            if len(literals) == len(args) - 1:
                return self._between(args[0], literals) if name == "between" else self._in(args[0], literals, name == "in")
        return self._test(Call(name, args))

    def _test(self, expression: Call) -> Filter:
        flagged = with_null_flags(expression)
        assert isinstance(flagged, Call)
        expression, columns = flagged, tuple(column_names(flagged))
        if expression.name in _BY_VALUE and isinstance(expression.args[0], Column) and len(columns) == 1:
            result_type(expression, lambda name: (self._column_type(name)[0], False))
            return Match(columns[0], expression)
        data_type, multi_value = result_type(expression, self._column_type)
        if data_type is not DataType.BOOLEAN or multi_value:
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                f"A filter must be a condition, but the result of '{expression.name}' is "
                f"{data_type.value}{'_ARRAY' if multi_value else ''}; compare it with something",
            )
        if len(columns) == 1 and not self._column_type(columns[0])[1] and _is_deterministic(expression):
            return Match(columns[0], expression)
        if columns or not _is_deterministic(expression):
            return Test(expression, columns)
        value = evaluate(expression, _no_column, 1)
        matches = (
            value.value
            if isinstance(value, Scalar)
            else (value.decode() if not hasattr(value, "values") else value).values[0]
        )
        return EVERYTHING if matches else NOTHING

    def _compare(self, name: str, column: Column, literal: Literal) -> Filter:
        data_type, _ = self._column_type(column.name)
        if name in ("equals", "notequals"):
            value = coerce_equal(literal, data_type, column.name)
            equal: Filter = NOTHING if value is None else In(column.name, (value,))
            return equal if name == "equals" else negation(equal)
        inclusive = name.endswith("orequal")
        if name.startswith("less"):
            upper, inclusive = coerce_upper(literal, data_type, column.name, inclusive)
            return Range(column.name, None, upper, False, inclusive)
        lower, inclusive = coerce_lower(literal, data_type, column.name, inclusive)
        return Range(column.name, lower, None, inclusive, False)

    def _between(self, column: Column, literals: list[Literal]) -> Filter:
        data_type, _ = self._column_type(column.name)
        lower, lower_inclusive = coerce_lower(literals[0], data_type, column.name, True)
        upper, upper_inclusive = coerce_upper(literals[1], data_type, column.name, True)
        return _range(Range(column.name, lower, upper, lower_inclusive, upper_inclusive))

    def _in(self, column: Column, literals: list[Literal], positive: bool) -> Filter:
        data_type, _ = self._column_type(column.name)
        values = dict.fromkeys(coerce_equal(literal, data_type, column.name) for literal in literals)
        values.pop(None, None)
        found: Filter = In(column.name, tuple(values)) if values else NOTHING
        return found if positive else negation(found)

    def _merge_ranges(self, filter_: Filter) -> Filter:
        """Intersect the ranges on the same single-value column, so that `x >= 3 AND x < 9` is one test."""
        ranges: dict[str, list[Range]] = {}
        rest: list[Filter] = []
        for part in _parts(filter_):
            if isinstance(part, Range) and not self._column_type(part.column)[1]:
                ranges.setdefault(part.column, []).append(part)
            else:
                rest.append(part)
        if all(len(same) == 1 for same in ranges.values()):
            return filter_
        return conjunction([*(_intersection(same) for same in ranges.values()), *rest])

    def _merge_sets(self, filter_: Filter) -> Filter:
        """Unite the sets on the same column, so that `x = 1 OR x = 2` is one test."""
        sets: dict[str, list[In]] = {}
        rest: list[Filter] = []
        for part in _parts(filter_):
            if isinstance(part, In):
                sets.setdefault(part.column, []).append(part)
            else:
                rest.append(part)
        if all(len(same) == 1 for same in sets.values()):
            return filter_
        return disjunction([*(_union(same) for same in sets.values()), *rest])


def _is_deterministic(expression: Expression) -> bool:
    calls = (part for part in walk(expression) if isinstance(part, Call))
    return all((function := scalar_function(call.name)) is not None and function.is_deterministic for call in calls)


def _parts(filter_: Filter) -> tuple[Filter, ...]:
    return getattr(filter_, "parts", (filter_,))


def _union(sets: list[In]) -> In:
    if len(sets) == 1:
        return sets[0]
    values = tuple(dict.fromkeys(value for one in sets for value in one.values))
    return In(sets[0].column, values)


def _intersection(ranges: list[Range]) -> Filter:
    merged = ranges[0]
    for other in ranges[1:]:
        lower, lower_inclusive = _tighter(
            (merged.lower, merged.lower_inclusive), (other.lower, other.lower_inclusive), upward=True
        )
        upper, upper_inclusive = _tighter(
            (merged.upper, merged.upper_inclusive), (other.upper, other.upper_inclusive), upward=False
        )
        merged = Range(merged.column, lower, upper, lower_inclusive, upper_inclusive)
    return _range(merged)


def _tighter(one: tuple[LiteralValue, bool], other: tuple[LiteralValue, bool], *, upward: bool) -> tuple[LiteralValue, bool]:
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    if one[0] == other[0]:
        return one[0], one[1] and other[1]
    return one if (one[0] > other[0]) == upward else other  # type: ignore[operator]


def _range(filter_: Range) -> Filter:
    """Return the range, or nothing when its bounds exclude every value."""
    lower, upper = filter_.lower, filter_.upper
    if lower is not None and upper is not None:
        if lower > upper or (lower == upper and not (filter_.lower_inclusive and filter_.upper_inclusive)):  # type: ignore[operator]
            return NOTHING
        if lower == upper:
            return In(filter_.column, (lower,))
    return filter_
