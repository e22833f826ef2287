"""The aggregates of one query, each bound once, and the conditions of FILTER clauses."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.aggregate.nullable import NullSkipping
from gamay.functions.aggregate_spi import Aggregate
from gamay.functions.expression import FILTERED, Call, Column, Expression, Literal, Star, walk
from gamay.functions.registry import aggregate_arguments, bind_aggregate, is_aggregate
from gamay.functions.text import to_text
from gamay.model.types import DataType
from gamay.query.bind.predicate import EVERYTHING, Filter, conjunction, disjunction
from gamay.query.bind.scope import FILTER_PREFIX, ValueType
from gamay.sql.translate.expressions import canonical
from gamay.sql.translate.linear import linear_form


@dataclass(frozen=True, slots=True)
class BoundAggregate:
    """An aggregate of the query, with its argument expressions.

    filter: the column of flags for its FILTER clause, see `BoundQuery.filters`; None for all rows.
    """

    call: Call
    aggregate: Aggregate
    arguments: tuple[Expression, ...]
    filter: Column | None = None


def filter_column(index: int) -> Column:
    """Return the column of flags for the condition of a FILTER clause."""
    return Column(f"{FILTER_PREFIX}{index}")


_LINEAR = frozenset({DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE})
_EXACT_FORMS = {
    ("sum", DataType.INT): "sumint",
    ("sum", DataType.LONG): "sumlong",
    ("min", DataType.LONG): "minlong",
    ("max", DataType.LONG): "maxlong",
    ("min", DataType.STRING): "minstring",
    ("max", DataType.STRING): "maxstring",
}


def with_exact_forms(expression: Expression, type_of: Callable[[Expression], ValueType]) -> Expression:
    """Replace SUM, MIN and MAX of integers and text with the aggregates that keep their types.

    As for the option autoRewriteAggregationType. type_of: returns the type of an argument.
    """
    if not isinstance(expression, Call):
        return expression
    args = tuple(with_exact_forms(arg, type_of) for arg in expression.args)
    if expression.name in ("sum", "min", "max") and len(args) == 1:
        data_type, multi_value = type_of(args[0])
        name = expression.name if multi_value else _EXACT_FORMS.get((expression.name, data_type), expression.name)
        return Call(name, args)
    return expression if args == expression.args else Call(expression.name, args)


def with_linear_forms(expression: Expression, type_of: Callable[[Expression], ValueType]) -> Expression:
    """Replace `sum(a + 1)` with `sum(a) + 1.0 * count(a)`, and so on: the sum of a plain column is faster.

    Only if both are equal, except for rounding, for any rows and for none. type_of: returns the type of a column.
    """
    if not isinstance(expression, Call) or expression.name == FILTERED:
        return expression
    if is_aggregate(expression.name):
        return _from_column(expression, type_of) or expression
    args = tuple([with_linear_forms(arg, type_of) for arg in expression.args])
    return expression if args == expression.args else Call(expression.name, args)


def _from_column(call: Call, type_of: Callable[[Expression], ValueType]) -> Expression | None:
    """Return an aggregate computed from that of its column; None if the results might differ."""
    inner = call.args[0] if len(call.args) == 1 else None
    if not isinstance(inner, Call):
        return None
    if inner.name == "times":  # 2 * a is a * 2
        inner = Call("times", tuple(sorted(inner.args, key=_is_literal)))
    if linear_form(Call(call.name, (inner,))) is None:
        return None
    column, constant = sorted(inner.args, key=_is_literal)
    assert isinstance(constant, Literal)
    data_type, is_multi_value = type_of(column)
    if (
        is_multi_value
        or data_type not in _LINEAR
        or constant.type not in _LINEAR
        or not isinstance(constant.value, int | float)
    ):
        return None
    factor = constant.value if inner.name == "times" else -1 if inner.name == "minus" and inner.args[1] is column else 1
    # the average of no rows, -Infinity, is not the result of any other factor: neither -1 nor 0
    if not math.isfinite(constant.value) or factor == 0 or (call.name == "avg" and factor < 0):
        return None
    number = Literal(float(constant.value), DataType.DOUBLE)
    args = tuple([number if arg is constant else arg for arg in inner.args])
    linear = linear_form(Call(call.name, (Call(inner.name, args),)))
    assert linear is not None
    return canonical(linear)


def _is_literal(expression: Expression) -> bool:
    return isinstance(expression, Literal)


def counting_rows(expression: Expression) -> Expression:
    """Replace every COUNT(x) with COUNT(*), its equivalent without null handling."""
    if not isinstance(expression, Call):
        return expression
    if expression.name == "count":
        return expression if isinstance(expression.args[0], Star) else Call("count", (Star(),))
    args = tuple(counting_rows(arg) for arg in expression.args)
    return expression if args == expression.args else Call(expression.name, args)


def _skipping_nulls(
    call: Call, aggregate: Aggregate, arguments: tuple[Expression, ...], type_of: Callable[[Expression], ValueType]
) -> tuple[Aggregate, tuple[Expression, ...]]:
    """Return an aggregate that skips nulls, and its arguments."""
    if call.name == "count" and not isinstance(call.args[0], Star):
        type_of(call.args[0])
        arguments = call.args
    if not arguments:
        return aggregate, arguments
    # an unknown condition does not hold, but the row may count for another one
    arguments = tuple(Call("istrue", (arg,)) if i in aggregate.traits.conditions else arg for i, arg in enumerate(arguments))
    return NullSkipping(aggregate, is_null_of_nothing(call.name)), arguments


def is_null_of_nothing(name: str) -> bool:
    """Whether an aggregate of no rows is null with null handling; counts are 0."""
    return "count" not in name and name not in ("fasthll", "fasthllmv", "idset", "sum0")


class AggregateBinder:
    """Collector of a query's aggregates.

    type_of: of row expressions. bind_condition: binds a condition to a filter. has_groups: whether there is a GROUP BY.
    """

    def __init__(
        self,
        type_of: Callable[[Expression], ValueType],
        bind_condition: Callable[[Expression], Filter],
        null_handling: bool,
        has_groups: bool,
    ) -> None:
        self.aggregates: list[BoundAggregate] = []
        self._type_of = type_of
        self._bind_condition = bind_condition
        self._null_handling = null_handling
        self._has_groups = has_groups
        self._numbers: dict[Call, int] = {}
        self._filters: dict[Filter, Column] = {}

    def number(self, call: Call) -> int:
        """Return the position of an aggregate, binding it on first use. Raises QueryError."""
        if call not in self._numbers:
            self.aggregates.append(self._bound(call))
            self._numbers[call] = len(self._numbers)
        return self._numbers[call]

    def result_type(self, number: int) -> ValueType:
        """Return the type of an aggregate's result."""
        traits = self.aggregates[number].aggregate.traits
        return traits.result_type, traits.result_is_multi_value

    def _bound(self, call: Call) -> BoundAggregate:
        inner, condition = (call.args[0], self._condition(call.args[1])) if call.name == FILTERED else (call, None)
        assert isinstance(inner, Call)
        arguments = aggregate_arguments(inner)
        for part in (part for arg in inner.args for part in walk(arg)):
            if isinstance(part, Call) and is_aggregate(part.name):
                raise QueryError(ErrorCode.QUERY_VALIDATION, f"An aggregate cannot contain another one: {to_text(inner)}")
        types = [self._type_of(argument) for argument in arguments]
        if any(data_type is DataType.UNKNOWN for data_type, _ in types):
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                f"Aggregate '{inner.name}' has the argument NULL, which has no type; use a column",
            )
        aggregate = bind_aggregate(inner, types)
        if self._has_groups:
            aggregate = aggregate.traits.of_groups or aggregate
        if self._null_handling:
            aggregate, arguments = _skipping_nulls(inner, aggregate, arguments, self._type_of)
        return BoundAggregate(call, aggregate, arguments, condition)

    def _condition(self, expression: Expression) -> Column | None:
        filter_ = self._bind_condition(expression)
        if filter_ == EVERYTHING:
            return None
        return self._filters.setdefault(filter_, filter_column(len(self._filters)))

    def narrowed(
        self, where: Filter, *, only_matching: bool
    ) -> "tuple[Filter, Sequence[BoundAggregate], tuple[Filter, ...]]":
        """Return the filter of the query, its aggregates, and the filters of their FILTER clauses.

        only_matching: whether rows that no aggregate reads can be skipped (they make no group). Then WHERE requires a FILTER
        clause to hold, which indexes may support, and a clause common to all aggregates is dropped.
        """
        filters = tuple(self._filters)
        if not only_matching or not filters or any(aggregate.filter is None for aggregate in self.aggregates):
            return where, self.aggregates, filters
        where = conjunction([where, disjunction(list(filters))])
        if len(filters) > 1:
            return where, self.aggregates, filters
        return where, [replace(aggregate, filter=None) for aggregate in self.aggregates], ()
