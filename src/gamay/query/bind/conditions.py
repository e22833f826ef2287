"""Conditions given as text arguments of an aggregate: `DISTINCTCOUNTTHETASKETCH(x, '', 'day = 1', ...)`."""

from gamay.functions.conditions import parse_condition
from gamay.functions.expression import Call, Expression, Literal
from gamay.functions.registry import condition_positions


def with_conditions(expression: Expression) -> Expression:
    """Parse the text conditions in an expression; raises QueryError for an invalid one."""
    if not isinstance(expression, Call):
        return expression
    args = [with_conditions(arg) for arg in expression.args]
    for position in condition_positions(expression):
        args[position] = parsed_condition(expression.name, args[position])
    return (
        expression if all(a is b for a, b in zip(args, expression.args, strict=True)) else Call(expression.name, tuple(args))
    )


def parsed_condition(name: str, argument: Expression) -> Expression:
    """Parse the text condition of an aggregate with that name; other arguments are returned unchanged."""
    if isinstance(argument, Literal) and isinstance(argument.value, str):
        return parse_condition(name, argument.value)
    return argument
