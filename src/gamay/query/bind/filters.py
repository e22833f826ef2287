"""Binds a boolean expression to a `Filter`: predicates on plain columns with coerced literals, everything else as `Test`."""

from collections.abc import Callable, Sequence

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate_briefly, result_type
from gamay.functions.expression import LOOKUP, Call, Column, Expression, Literal, column_names, walk
from gamay.functions.registry import scalar_function
from gamay.functions.text import to_text
from gamay.functions.vector import Operand, Scalar
from gamay.model.types import DataType
from gamay.query.bind.literal_predicates import MIRRORED, literal_predicate, union
from gamay.query.bind.one_column import merged_conjunction
from gamay.query.bind.predicate import (
    EVERYTHING,
    NOTHING,
    And,
    Filter,
    In,
    IsNull,
    Match,
    Not,
    Or,
    Test,
    conjunction,
    disjunction,
    negation,
)
from gamay.query.bind.scope import ValueType, reads_keys, with_null_flags, with_null_items
from gamay.query.bind.searches import TEXT_SEARCHES, VECTOR_SEARCHES, text_filter, vector_filter
from gamay.query.columns.constants import repeated
from gamay.query.columns.operations import truth

# functions that match a multi-value row if they match any of its values
_BY_VALUE = ("like", "regexplike")
_NULL_TESTS = ("isnull", "isnotnull")
_COMPARED = (*MIRRORED, "between", "in", "notin")
# whether the condition must be true or false, and whether to negate the result
_TRUTH_TESTS = {
    "istrue": (True, True),
    "isnottrue": (True, False),
    "isfalse": (False, True),
    "isnotfalse": (False, False),
}
_TRUE = Literal(True, DataType.BOOLEAN)


def fold(expression: Expression) -> Expression:
    """Fold calls of literals whose function is deterministic."""
    if not isinstance(expression, Call):
        return expression
    args = tuple(fold(arg) for arg in expression.args)
    folded = expression if args == expression.args else Call(expression.name, args)
    function = scalar_function(folded.name)
    if function is None or not (function.is_deterministic and function.can_fold):
        return folded
    if not args or not all(isinstance(arg, Literal) for arg in args):
        return folded
    result_type(folded, _no_column_type)
    value = evaluate_briefly(folded, _no_column, 1)
    return Literal(value.value, value.type) if isinstance(value, Scalar) else folded


def _no_column(name: str) -> Operand:
    raise KeyError(name)


def _no_column_type(name: str) -> ValueType:
    raise KeyError(name)


class FilterBinder:
    """Binder of the filters of one query.

    column_type: returns the type of a resolved column. null_handling: whether conditions on nulls are unknown. Rows for
    which a condition is false are found by negating its leaves: each leaf excludes the rows in which its column is null, so
    that neither it nor its negation holds there, and AND and OR need no special case. A missing key of a map is unknown even
    without null handling.
    """

    def __init__(self, column_type: Callable[[str], ValueType], null_handling: bool = False) -> None:
        self._column_type = column_type
        self._null_handling = null_handling

    def bind(self, expression: Expression, wanted: bool = True) -> Filter:
        """Return the filter of the rows for which a boolean expression with resolved columns is true (or false).

        Raises QueryError 700.
        """
        if not wanted and not self._null_handling and not reads_keys(expression):
            return negation(self.bind(expression))
        if isinstance(expression, Literal):
            return NOTHING if expression.value is None else _wanted(self._constant(expression), wanted)
        if isinstance(expression, Column):
            self._check_flag(expression)
            return self._compare("equals" if wanted else "notequals", expression, _TRUE)
        if isinstance(expression, Call):
            return self._call(expression, wanted)
        raise QueryError(ErrorCode.QUERY_VALIDATION, "A filter must be a condition, but * is not one")

    def _constant(self, literal: Literal) -> Filter:
        if literal.type not in (DataType.BOOLEAN, DataType.UNKNOWN):
            raise QueryError(
                ErrorCode.QUERY_VALIDATION, f"A filter must be a condition, {literal.value!r} is a {literal.type.value}"
            )
        return EVERYTHING if literal.value else NOTHING

    def _call(self, call: Call, wanted: bool) -> Filter:
        name, args = call.name, call.args
        if name in ("and", "or") and (name == "and") == wanted:
            both = merged_conjunction([self.bind(arg, wanted) for arg in args], self._is_multi_value)
            return _null_tests_last(both) if self._null_handling else both
        if name in ("and", "or"):
            return self._merge_sets(disjunction([self.bind(arg, wanted) for arg in args]))
        if name == "not" and len(args) == 1:
            return self.bind(args[0], not wanted)
        if name in _NULL_TESTS and len(args) == 1 and isinstance(args[0], Column):
            return _wanted(IsNull(args[0].name), (name == "isnull") == wanted)
        if name in _TRUTH_TESTS and len(args) == 1 and self._is_condition(args[0]):
            truth, positive = _TRUTH_TESTS[name]
            return _wanted(self.bind(args[0], truth), positive == wanted)
        args = tuple(fold(arg) for arg in args)
        if name in MIRRORED and len(args) == 2 and isinstance(args[0], Literal) and isinstance(args[1], Column):
            name, args = MIRRORED[name], (args[1], args[0])
        if args and isinstance(args[0], Column):
            column = args[0].name
            predicate = literal_predicate(name, column, self._column_type(column)[0], args[1:])
            if predicate is None:
                predicate = self._search(Call(name, args), column)
            if predicate is not None:
                return self._known(column, predicate, wanted)
        _check_known(name, args)
        return self._test(Call(name, args), wanted)

    def _search(self, call: Call, column: str) -> Filter | None:
        """Return the predicate of a search that is not evaluated per value; None for other calls."""
        if call.name in VECTOR_SEARCHES:
            return vector_filter(call, self._column_type(column))
        if call.name in TEXT_SEARCHES and self._is_multi_value(column):
            return text_filter(call, column, self._column_type(column)[0])
        return None

    def _is_multi_value(self, column: str) -> bool:
        return self._column_type(column)[1]

    def _is_condition(self, expression: Expression) -> bool:
        """Whether an expression is a valid filter, unlike a number to be compared with 0."""
        return result_type(expression, self._column_type) == (DataType.BOOLEAN, False)

    def _known(self, column: str, filter_: Filter, wanted: bool) -> Filter:
        """Return the filter for rows in which the column is not null and the filter holds (or does not)."""
        filter_ = _wanted(filter_, wanted)
        return conjunction([filter_, negation(IsNull(column))]) if self._null_handling else filter_

    def _test(self, expression: Call, wanted: bool) -> Filter:
        flagged = expression if self._null_handling else with_null_items(with_null_flags(expression))
        assert isinstance(flagged, Call)
        expression, columns = flagged, tuple(column_names(flagged))
        if expression.name in _BY_VALUE and isinstance(expression.args[0], Column) and len(columns) == 1:
            result_type(expression, lambda name: (self._column_type(name)[0], False))
            return self._known(columns[0], Match(columns[0], expression), wanted)
        data_type, multi_value = result_type(expression, self._column_type)
        if data_type is not DataType.BOOLEAN or multi_value:
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                f"A filter must be a condition, but the result of '{expression.name}' is "
                f"{data_type.value}{'_ARRAY' if multi_value else ''}; compare it with something",
            )
        if not wanted:
            expression = Call("not", (expression,))
        # only servers can evaluate lookups, even of a constant or NULL
        looks_up = any(isinstance(part, Call) and part.name == LOOKUP for part in walk(expression))
        is_known = _is_deterministic(expression) and not (looks_up and (self._null_handling or not columns))
        if len(columns) == 1 and not self._column_type(columns[0])[1] and is_known:
            return self._match(columns[0], expression)
        found = None if columns or not is_known else evaluate_briefly(expression, _no_column, 1)
        if found is None:
            return Test(expression, columns)
        return EVERYTHING if _holds(found) else NOTHING

    def _match(self, column: str, expression: Call) -> Filter:
        """Return the filter of an expression over one column; its result for null is evaluated here."""
        match = Match(column, expression)
        if not self._null_handling:
            return match
        data_type, _ = self._column_type(column)
        null = repeated(None, data_type, 1)
        of_null = evaluate_briefly(expression, lambda _: null, 1)
        if of_null is None:
            return Test(expression, (column,))
        if _holds(of_null):
            return disjunction([match, IsNull(column)])
        return conjunction([match, negation(IsNull(column))])

    def _check_flag(self, column: Column) -> None:
        """Raise QueryError for a non-BOOLEAN column used as a condition: its true values are undefined."""
        data_type, _ = self._column_type(column.name)
        if data_type is not DataType.BOOLEAN:
            message = f"A filter must be a condition, but '{column.name}' is {data_type.value}; compare it with something"
            raise QueryError(ErrorCode.QUERY_VALIDATION, message)

    def _compare(self, name: str, column: Column, literal: Literal) -> Filter:
        predicate = literal_predicate(name, column.name, self._column_type(column.name)[0], (literal,))
        assert predicate is not None
        return self._known(column.name, predicate, True)

    def _merge_sets(self, filter_: Filter) -> Filter:
        """Merge the sets on the same column, so that `x = 1 OR x = 2` is one predicate."""
        sets: dict[str, list[In]] = {}
        rest: list[Filter] = []
        for part in _parts(filter_) if isinstance(filter_, Or) else (filter_,):
            found = _set_of(part)
            if found is not None:
                sets.setdefault(found.column, []).append(found)
            else:
                rest.append(part)
        if all(len(same) == 1 for same in sets.values()):
            return filter_
        return disjunction([*(self._known(column, union(same), True) for column, same in sets.items()), *rest])


def _null_tests_last(filter_: Filter) -> Filter:
    """Order a conjunction as in `gamay.query.bind.rebind`: predicates on values come first."""
    if not isinstance(filter_, And):
        return filter_
    tests = [part for part in filter_.parts if isinstance(part, Not) and isinstance(part.part, IsNull)]
    return And((*(part for part in filter_.parts if part not in tests), *tests)) if tests else filter_


def _check_known(name: str, args: Sequence[Expression]) -> None:
    """Raise QueryError for a comparison of an expression with NULL, as for columns."""
    nulls = [isinstance(arg, Literal) and arg.value is None for arg in args]
    if name not in _COMPARED or not any(nulls) or all(isinstance(arg, Literal) for arg in args):
        return
    compared = next(arg for arg in args if not isinstance(arg, Literal))
    message = f"{to_text(compared)} is compared with NULL, which matches nothing; write IS NULL"
    raise QueryError(ErrorCode.QUERY_VALIDATION, message)


def _is_deterministic(expression: Expression) -> bool:
    calls = (part for part in walk(expression) if isinstance(part, Call))
    return all((function := scalar_function(call.name)) is not None and function.is_deterministic for call in calls)


def _wanted(filter_: Filter, wanted: bool) -> Filter:
    return filter_ if wanted else negation(filter_)


def _holds(value: Operand) -> bool:
    """Whether a condition evaluated for one row is true."""
    return bool(truth(value, 1)[0])


def _set_of(filter_: Filter) -> In | None:
    """Return the set of a filter that is only a set (apart from a null check), else None."""
    if isinstance(filter_, And) and len(filter_.parts) == 2 and isinstance(filter_.parts[0], In):
        filter_, known = filter_.parts
        return filter_ if isinstance(filter_, In) and known == negation(IsNull(filter_.column)) else None
    return filter_ if isinstance(filter_, In) else None


def _parts(filter_: Filter) -> tuple[Filter, ...]:
    return getattr(filter_, "parts", (filter_,))
