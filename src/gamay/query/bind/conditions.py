"""Conditions that a query gives as texts inside an aggregate: `DISTINCTCOUNTTHETASKETCH(x, '', 'day = 1', ...)`."""

from gamay.functions.conditions import parse_condition
from gamay.functions.expression import Call, Expression, Literal
from gamay.functions.registry import condition_positions


def with_conditions(expression: Expression) -> Expression:
    """Return the expression with the texts of conditions parsed; raises QueryError for one that is none."""
    if not isinstance(expression, Call):
        return expression
    args = [with_conditions(arg) for arg in expression.args]
    for position in condition_positions(expression):
        args[position] = parsed_condition(expression.name, args[position])
    return (
        expression if all(a is b for a, b in zip(args, expression.args, strict=True)) else Call(expression.name, tuple(args))
    )


def parsed_condition(name: str, argument: Expression) -> Expression:
    """Return what the text of a condition says, an argument of an aggregate of that name; what is no text stays as it is."""
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        return parse_condition(name, argument.value)
    return argument
