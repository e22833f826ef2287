"""Expressions without a value in some rows although all their columns have one: CASE without ELSE, NULLIF.

Without null handling, the single-table engine returns the type's default for such rows, as for null columns. Above the
tables they are null in either case, so a plan that delegates such an expression also delegates the condition: an answer must
not depend on where an expression is evaluated.
"""

from gamay.functions.expression import FILTERED, Call, Column, Expression, Literal, Star, walk
from gamay.functions.registry import scalar_function
from gamay.model.types import DataType

_CASES = frozenset({"case", "casewhen"})
_TRUE = Literal(True, DataType.BOOLEAN)
_FALSE = Literal(False, DataType.BOOLEAN)


def has_value(expression: Expression) -> Expression | None:
    """Return the condition under which an expression has a value if all its columns have one; None if it always has."""
    condition = _has_value(expression)
    return None if condition == _TRUE else condition


def with_values(call: Call) -> Call | None:
    """Restrict an aggregate to rows in which its argument has a value; None if that cannot be expressed."""
    aggregate = call.args[0] if call.name == FILTERED else call
    assert isinstance(aggregate, Call)
    missing = [each for each in aggregate.args if (condition := has_value(each)) is not None]
    if not missing:
        return call
    if any(not isinstance(each, Literal | Star) for each in aggregate.args if each not in missing) or len(missing) > 1:
        return None
    condition = has_value(missing[0])
    assert condition is not None
    args = tuple(_where_it_has_one(each) if each is missing[0] else each for each in aggregate.args)
    if aggregate.name == "count":
        args = (Star(),)
    where = condition if call.name != FILTERED else Call("and", (call.args[1], condition))
    return Call(FILTERED, (Call(aggregate.name, args), where))


def _where_it_has_one(expression: Expression) -> Expression:
    """Return the value of a CASE with one branch, for rows in which it has one."""
    match expression:
        case Call(name=name, args=(_, value, Literal(is_null=True)) | (_, Literal(is_null=True), value)) if name in _CASES:
            return value if any(isinstance(part, Column) for part in walk(value)) else expression
        case _:
            return expression


def _has_value(expression: Expression) -> Expression:
    if isinstance(expression, Literal):
        return _FALSE if expression.is_null else _TRUE
    if not isinstance(expression, Call):
        return _TRUE
    name, args = expression.name, expression.args
    if name in _CASES:
        return _of_case(args)
    if name == "nullif":
        return _all([_has_value(args[0]), Call("isnottrue", (Call("equals", args),))])
    if name in ("coalesce", "least", "greatest"):
        known = [_has_value(each) for each in args]
        return _TRUE if _TRUE in known else known[0] if len(known) == 1 else Call("or", tuple(known))
    function = scalar_function(name)
    if function is None or function.accepts_nulls:
        return _TRUE
    return _all([_has_value(each) for each in args])


def _of_case(args: tuple[Expression, ...]) -> Expression:
    """Return the condition under which the branch taken by a CASE has a value."""
    known = [_has_value(each) for each in (*args[1:-1:2], args[-1])]
    if all(each == known[0] for each in known):
        return known[0]
    if known == [_TRUE, _FALSE]:
        return args[0]
    if known == [_FALSE, _TRUE]:
        return Call("isnottrue", (args[0],))
    pairs = zip(args[:-1:2], known, strict=False)
    return Call("case", (*(part for pair in pairs for part in pair), known[-1]))


def _all(conditions: list[Expression]) -> Expression:
    needed = [each for each in dict.fromkeys(conditions) if each != _TRUE]
    if not needed or _FALSE in needed:
        return _FALSE if needed else _TRUE
    return needed[0] if len(needed) == 1 else Call("and", tuple(needed))
