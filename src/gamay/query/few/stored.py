"""Tests for expressions that are stored columns, whose values need no computation."""

from gamay.functions.expression import Column, Expression
from gamay.query.bind.binder import BoundQuery


def column_name(expression: Expression) -> str:
    """Return the name of a column; "" for any other expression, as no column has that name."""
    return expression.name if isinstance(expression, Column) else ""


def is_single_value(expression: Expression, bound: BoundQuery) -> bool:
    """Return whether an expression is a stored single-value column."""
    field = bound.fields.get(column_name(expression))
    return field is not None and field.single_value
