"""Row-level security: conditions that the broker adds to the queries of principals who may read only some rows of a table.

They are ANDed to WHERE of each query of the table, subqueries included, before it is bound, so that plans, indexes and
servers see an ordinary query with the condition written out.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gamay.base.errors import ErrorCode, GamayError, InvalidConfigError, QueryError
from gamay.broker.routes.route import TableRoute
from gamay.cluster.access.principals import Principal
from gamay.functions.expression import Call, Star, walk
from gamay.functions.registry import is_aggregate
from gamay.model.table.table_name import raw_table_name
from gamay.sql.parser import parse_query
from gamay.sql.query import Query

_AROUND = "SELECT * FROM t WHERE "


def check_row_filters(principals: Iterable[Principal]) -> None:
    """Raise InvalidConfigError for a row filter that is not a condition of WHERE."""
    for principal in principals:
        for table, filters in principal.row_filters.items():
            if not filters:
                raise InvalidConfigError(f"principals.{principal.name}.{table}.rls is empty: it must be a WHERE condition")
            for text in filters:
                what = f"principals.{principal.name}.{table}.rls: '{text}' is not a condition of WHERE"
                hint = "filters are separated by commas, so a filter cannot contain one"
                try:
                    found = _with_filter(text)
                except GamayError as error:
                    raise InvalidConfigError(f"{what} ({hint}): {error}") from error
                if found.where is None or not _is_plain(found):
                    raise InvalidConfigError(f"{what} ({hint})")


def row_filters_of(principal: Principal, routes: Sequence[TableRoute]) -> tuple[str, ...]:
    """Return the conditions that a row of a table must meet to be visible; usually none."""
    if not principal.row_filters or not routes:
        return ()
    return principal.row_filters.get(raw_table_name(routes[0].table), ())


def with_row_filters(query: Query, filters: Sequence[str]) -> Query:
    """Return a query with conditions ANDed to its WHERE.

    They are compiled for each query, since `ago('P1D')` changes with time.
    """
    added = [_with_filter(text) for text in filters]
    wheres = [each.where for each in (query, *added) if each.where is not None]
    asks_broker = query.asks_broker or any(each.asks_broker for each in added)
    return replace(
        query,
        where=wheres[0] if len(wheres) == 1 else Call("and", tuple(wheres)),
        asks_broker=asks_broker,
        # queries of one template have one shape only with the same filters, and while no evaluated function is part of them
        shape=None if query.shape is None or asks_broker else query.shape.plus(*filters),
    )


def check_sees_all_rows(principal: Principal, routes: Sequence[TableRoute]) -> None:
    """Raise QueryError 180 if rows of a table are hidden from a principal whose query could find them."""
    if row_filters_of(principal, routes):
        table = raw_table_name(routes[0].table)
        message = f"{principal.name} may not look up values in table {table}: row-level security hides some of its rows"
        raise QueryError(ErrorCode.ACCESS_DENIED, message)


def without_values(exceptions: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return errors without the values that an expression failed at, which may belong to hidden rows."""
    hidden = "An expression fails for a value of a row; the value is withheld, since row-level security hides some rows"
    error = QueryError(ErrorCode.QUERY_EXECUTION, hidden)
    return [(code, error.client_message() if code == error.code.code else text) for code, text in exceptions]


def _with_filter(text: str) -> Query:
    return parse_query(_AROUND + text)


def _is_plain(query: Query) -> bool:
    """Whether a query has a condition in WHERE and no other clause."""
    rest = (query.group_by, query.having, query.order_by, query.options, query.gapfill, query.grouping_sets, query.offset)
    is_select = [item.expression for item in query.select] == [Star()] and not query.distinct and not query.explain
    has_aggregate = query.where is not None and any(
        isinstance(part, Call) and is_aggregate(part.name) for part in walk(query.where)
    )
    return is_select and not query.has_limit and not any(rest) and not has_aggregate
