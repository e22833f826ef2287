"""Adds the search settings of columns, which only brokers know, to the searches and scores of a query."""

from dataclasses import replace

from gamay.functions.expression import NEAREST, TEXT_MATCH, TEXT_SCORE, WITHIN, Call, Column, Expression, Literal
from gamay.model.schema.schema import Schema
from gamay.model.table.search_settings import SearchSettings
from gamay.model.types import DataType
from gamay.query.bind.scope import Scope
from gamay.sql.query import Query

_NO_OPTIONS = Literal("", DataType.STRING)
_COUNT_DEFAULT = Literal(10, DataType.INT)
_RADIUS_DEFAULT = Literal(0.5, DataType.DOUBLE)
_CONFIGURED = {
    "textmatch": (TEXT_MATCH, _NO_OPTIONS),
    "textscore": (TEXT_SCORE, _NO_OPTIONS),
    "vectorsimilarity": (NEAREST, _COUNT_DEFAULT),
    "vectorsimilarityradius": (WITHIN, _RADIUS_DEFAULT),
}
_OF_TEXTS = ("textmatch", "textscore")
_ARGS_MAX = 3


def with_search_settings(query: Query, schema: Schema, settings: SearchSettings) -> Query:
    """Add the columns' configured search settings to a query. Raises QueryError for an unknown column."""
    scope = Scope(schema, query.table)

    def put(expression: Expression) -> Expression:
        if not isinstance(expression, Call):
            return expression
        args = tuple(put(arg) for arg in expression.args)
        if expression.name in _CONFIGURED and 2 <= len(args) <= _ARGS_MAX and isinstance(args[0], Column):
            column = scope.resolve(args[0].name)
            by_column = settings.text if expression.name in _OF_TEXTS else settings.distance
            if column in by_column:
                name, default = _CONFIGURED[expression.name]
                return Call(
                    name, (*args, *((default,) if len(args) == 2 else ()), Literal(by_column[column], DataType.STRING))
                )
        return expression if args == expression.args else Call(expression.name, args)

    return replace(
        query,
        select=tuple(replace(item, expression=put(item.expression)) for item in query.select),
        where=None if query.where is None else put(query.where),
        group_by=tuple(map(put, query.group_by)),
        having=None if query.having is None else put(query.having),
        order_by=tuple(replace(key, expression=put(key.expression)) for key in query.order_by),
    )
