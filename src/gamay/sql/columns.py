"""Which columns the text of an expression reads: for configs that hold transforms and filters."""

from gamay.functions.expression import column_names
from gamay.sql.parser import parse_expression


def columns_of(text: str) -> list[str]:
    """Return the columns that an expression reads. Raises QueryError when it cannot be parsed.

    >>> columns_of("concat(city, upper(state))")
    ['city', 'state']
    """
    return column_names(parse_expression(text))
