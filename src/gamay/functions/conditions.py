"""Conditions that functions take as text, in the syntax of WHERE: those of JSON_MATCH and filterMv.

This package does not depend on SQL; `gamay.sql.parser` registers its parser here when it is imported.
"""

from collections.abc import Callable

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Expression

_parsers: list[Callable[[str], Expression]] = []


def use_parser(parse: Callable[[str], Expression]) -> None:
    """Register the function that parses one expression and raises QueryError."""
    _parsers[:] = [parse]


def parse_condition(function: str, text: str) -> Expression:
    """Return the condition in a text argument of a function; raises QueryError QUERY_VALIDATION if it is invalid."""
    try:
        return _parsers[0](text)
    except QueryError as error:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION, f"Function '{function}': '{text}' is not a condition: {error}"
        ) from error
