"""Rewrites of queries configured in their table config, without changes to clients.

`query.expressionOverrideMap`: an expression is replaced by a column that holds its values. `query.useApproximateFunction`:
distinct counts and percentiles use sketches above a number of values.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeAlias

from gamay.base.errors import InvalidConfigError, QueryError
from gamay.functions.expression import Call, Expression, Literal, replaced
from gamay.functions.text import to_text
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression
from gamay.sql.query import Query, SelectItem

Overrides: TypeAlias = Mapping[Expression, Expression]
"""Written expression -> its replacement."""

_PERCENTILE = re.compile(r"percentile(\d*)(?:mv)?")


def read_overrides(texts: Mapping[str, str]) -> dict[Expression, Expression]:
    """Parse the map of a table config. Raises InvalidConfigError for an invalid expression."""
    found = {}
    for written, meant in texts.items():
        try:
            found[parse_expression(written)] = parse_expression(meant)
        except QueryError as error:
            raise InvalidConfigError(f"query.expressionOverrideMap, '{written}': {error.client_message()}") from error
    return found


def overridden(query: Query, overrides: Overrides) -> Query:
    """Apply overrides to a query; result columns without an alias are named by the replacement."""
    return _changed(query, lambda expression: replaced(expression, dict(overrides)))


def approximated(query: Query) -> Query:
    """Make DISTINCTCOUNT and PERCENTILE approximate beyond few values; columns are named as in `overridden`."""
    return _changed(query, _approximate)


def _approximate(expression: Expression) -> Expression:
    if not isinstance(expression, Call):
        return expression
    args = tuple(map(_approximate, expression.args))
    if expression.name in ("distinctcount", "distinctcountmv"):
        return Call("distinctcountsmarthll", args)
    if found := _PERCENTILE.fullmatch(expression.name):
        return Call("percentilesmarttdigest", (*args, Literal(int(found[1]), DataType.INT)) if found[1] else args)
    return expression if args == expression.args else Call(expression.name, args)


def _changed(query: Query, meant: Callable[[Expression], Expression]) -> Query:
    return replace(
        query,
        select=tuple(_item(item, meant(item.expression)) for item in query.select),
        where=None if query.where is None else meant(query.where),
        group_by=tuple(map(meant, query.group_by)),
        having=None if query.having is None else meant(query.having),
        order_by=tuple(replace(key, expression=meant(key.expression)) for key in query.order_by),
        shape=None,  # the text does not determine the replacement
    )


def _item(item: SelectItem, meant: Expression) -> SelectItem:
    if meant == item.expression:
        return item
    is_named_by_text = item.shown is not None or item.name == to_text(item.expression)
    return SelectItem(meant, to_text(meant), meant) if is_named_by_text else replace(item, expression=meant)
