"""The columns and volatile functions in the text of an expression, for configs with transforms and filters."""

from gamay.functions.expression import Call, column_names, walk
from gamay.functions.registry import scalar_function
from gamay.sql.parser import parse_expression, parse_unfolded

# Constant within a query, but servers would evaluate them at different times.
_OF_THE_MOMENT = ("now", "ago", "agomv")


def columns_of(text: str) -> list[str]:
    """Return the columns that an expression reads. Raises QueryError when it cannot be parsed.

    >>> columns_of("concat(city, upper(state))")
    ['city', 'state']
    """
    return list(column_names(parse_expression(text)))


def volatile_functions(text: str) -> list[str]:
    """Return the functions of an expression that depend on the time or on randomness. Raises QueryError like `columns_of`.

    >>> volatile_functions("plus(score, now())")
    ['now']
    """
    names = [part.name for part in walk(parse_unfolded(text)) if isinstance(part, Call)]
    functions = {name: scalar_function(name) for name in names}
    return [
        name
        for name, function in functions.items()
        if name in _OF_THE_MOMENT or (function is not None and not function.is_deterministic)
    ]
