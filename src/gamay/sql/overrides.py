"""Expressions that queries of a table mean by others: `query.expressionOverrideMap` of a table config.

A column that holds what an expression computes is read in its place, without the clients' queries being changed.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

from gamay.base.errors import InvalidConfigError, QueryError
from gamay.functions.expression import Expression, replaced
from gamay.functions.text import to_text
from gamay.sql.parser import parse_expression
from gamay.sql.query import Query, SelectItem

Overrides: TypeAlias = Mapping[Expression, Expression]
"""What is meant, by what is written."""


def read_overrides(texts: Mapping[str, str]) -> dict[Expression, Expression]:
    """Read the map of a table config. Raises InvalidConfigError for a text that is no expression."""
    found = {}
    for written, meant in texts.items():
        try:
            found[parse_expression(written)] = parse_expression(meant)
        except QueryError as error:
            raise InvalidConfigError(f"query.expressionOverrideMap, '{written}': {error.client_message()}") from error
    return found


def overridden(query: Query, overrides: Overrides) -> Query:
    """Return a query with what is meant in place of what is written; result columns without an alias are named by it."""

    def meant(expression: Expression) -> Expression:
        return replaced(expression, dict(overrides))

    return replace(
        query,
        select=tuple(_item(item, meant(item.expression)) for item in query.select),
        where=None if query.where is None else meant(query.where),
        group_by=tuple(map(meant, query.group_by)),
        having=None if query.having is None else meant(query.having),
        order_by=tuple(replace(key, expression=meant(key.expression)) for key in query.order_by),
        shape=None,  # the text does not tell what is meant
    )


def _item(item: SelectItem, meant: Expression) -> SelectItem:
    if meant == item.expression:
        return item
    is_named_by_text = item.shown is not None or item.name == to_text(item.expression)
    return SelectItem(meant, to_text(meant), meant) if is_named_by_text else replace(item, expression=meant)
