"""Which expressions are columns as they are stored, so that nothing is computed of their values."""

from gamay.functions.expression import Column, Expression
from gamay.query.bind.binder import BoundQuery


def column_name(expression: Expression) -> str:
    """Return the name of a column; "", which is none, for what is computed."""
    return expression.name if isinstance(expression, Column) else ""


def is_single_value(expression: Expression, bound: BoundQuery) -> bool:
    """Return whether an expression is a stored column with one value in each row."""
    field = bound.fields.get(column_name(expression))
    return field is not None and field.single_value
