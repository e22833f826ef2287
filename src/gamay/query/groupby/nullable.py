"""Null handling without cost for segments without nulls: their aggregates do not look for nulls.

plain_calls(calls, probe) -> the calls as this segment needs them
nullable_partials(partials, calls, plain, seen) -> partials as the query's aggregates expect them
"""

from collections.abc import Sequence
from dataclasses import dataclass

from gamay.base.arrays import Array
from gamay.functions.aggregate.nullable import NullablePartial, NullSkipping
from gamay.functions.aggregate.totals.numeric import COUNT_ROWS
from gamay.functions.aggregate_spi import Aggregate, Partial
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.vector import Scalar
from gamay.query.groupby.states import Evaluate
from gamay.query.groupby.table import AggregateCall

# functions that never return null for non-null arguments
_TOTAL = frozenset(
    {
        *("plus", "minus", "times", "divide", "negate", "abs", "cast", "floor", "ceil", "sign"),
        *("equals", "notequals", "lessthan", "lessthanorequal", "greaterthan", "greaterthanorequal", "and", "or", "not"),
        *("case", "between", "in", "upper", "lower", "length", "concat", "datetrunc"),
    }
)
_KNOWN_MAX = 1000
_known: dict[tuple[int, tuple[bool, ...]], tuple[Sequence[AggregateCall], tuple[AggregateCall, ...]]] = {}


@dataclass(frozen=True, slots=True)
class _PlainCall:
    aggregate: Aggregate
    arguments: tuple[Expression, ...]
    filter: Column | None = None


def plain_calls(calls: Sequence[AggregateCall], probe: Evaluate) -> Sequence[AggregateCall]:
    """Return the calls, without the null wrapper where no argument can be null in this segment.

    probe: evaluates on no rows, which shows whether a column has nulls. Calls with a FILTER keep the wrapper, which knows
    the groups without filtered rows.
    """
    plain = tuple([_is_plain(call, probe) for call in calls])
    if not any(plain):
        return calls
    # return the same tuple for the next segment and the next query of the shape, so that its states are planned only once
    known = _known.get((id(calls), plain))
    if known is None:
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        made = tuple([of_no_nulls(call) if is_plain else call for call, is_plain in zip(calls, plain, strict=True)])
        known = _known[id(calls), plain] = calls, made
    return known[1]


def of_no_nulls(call: AggregateCall) -> AggregateCall:
    """Return a call for at least one row, in which no argument is null."""
    aggregate = call.aggregate
    if not isinstance(aggregate, NullSkipping):
        return call
    return _PlainCall(aggregate.inner, () if aggregate.inner == COUNT_ROWS else call.arguments, call.filter)


def _is_plain(call: AggregateCall, probe: Evaluate) -> bool:
    """Whether a call has a wrapper that it does not need."""
    is_wrapped = isinstance(call.aggregate, NullSkipping) and call.filter is None
    return is_wrapped and all(_is_never_null(argument, probe) for argument in call.arguments)


def _is_never_null(expression: Expression, probe: Evaluate) -> bool:
    if isinstance(expression, Literal):
        return expression.value is not None
    if isinstance(expression, Column):
        operand = probe(expression)
        return isinstance(operand, Scalar) or operand.nulls is None
    return (
        isinstance(expression, Call)
        and expression.name in _TOTAL
        and all(_is_never_null(arg, probe) for arg in expression.args)
    )


def nullable_partials(
    partials: Sequence[Partial], calls: Sequence[AggregateCall], plain: Sequence[AggregateCall], seen: Array
) -> tuple[Partial, ...]:
    """Return the partials of `plain` as those of `calls`; seen: bool, whether each group has a row."""
    return tuple(
        partial if call.aggregate is run.aggregate else NullablePartial(partial, seen)
        for partial, call, run in zip(partials, calls, plain, strict=True)
    )
