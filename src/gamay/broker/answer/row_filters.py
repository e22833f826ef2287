"""Row-level security: conditions that the broker adds to the queries of principals who may not see all rows of a table.

They are ANDed to WHERE of each query of the table before it is bound, also of subqueries, so everything behind that (plans,
indexes, servers) knows only one query, that with the condition written out.
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
    """Raise InvalidConfigError for a row filter that is no condition of WHERE."""
    for principal in principals:
        for table, filters in principal.row_filters.items():
            if not filters:
                raise InvalidConfigError(f"principals.{principal.name}.{table}.rls is empty: it needs a condition of WHERE")
            for text in filters:
                what = f"principals.{principal.name}.{table}.rls: '{text}' is no condition of WHERE"
                hint = "filters are separated by commas, so that none may stand in one"
                try:
                    found = _with_filter(text)
                except GamayError as error:
                    raise InvalidConfigError(f"{what} ({hint}): {error}") from error
                if found.where is None or not _is_plain(found):
                    raise InvalidConfigError(f"{what} ({hint})")


def row_filters_of(principal: Principal, routes: Sequence[TableRoute]) -> tuple[str, ...]:
    """Return the texts of the conditions of which each must hold for a row of a table to be seen; mostly none."""
    if not principal.row_filters or not routes:
        return ()
    return principal.row_filters.get(raw_table_name(routes[0].table), ())


def with_row_filters(query: Query, filters: Sequence[str]) -> Query:
    """Return a query with conditions ANDed to its WHERE.

    They are compiled each time, as the texts of queries are, for `ago('P1D')` is not what it was when the broker started.
    """
    added = [_with_filter(text) for text in filters]
    wheres = [each.where for each in (query, *added) if each.where is not None]
    asks_broker = query.asks_broker or any(each.asks_broker for each in added)
    return replace(
        query,
        where=wheres[0] if len(wheres) == 1 else Call("and", tuple(wheres)),
        asks_broker=asks_broker,
        # queries of one template are alike only where the same is added to them, and no answer changes what that is
        shape=None if query.shape is None or asks_broker else query.shape.plus(*filters),
    )


def check_sees_all_rows(principal: Principal, routes: Sequence[TableRoute]) -> None:
    """Raise QueryError 180 where only some rows of a table are for a principal, and the query would find others."""
    if row_filters_of(principal, routes):
        table = raw_table_name(routes[0].table)
        message = f"{principal.name} may not look values up in table {table}, for a part of its rows is kept away"
        raise QueryError(ErrorCode.ACCESS_DENIED, message)


def without_values(exceptions: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Return errors without the values that an expression failed at: they may be those of rows that are kept away."""
    hidden = "An expression fails at a row; at which value is not told to who may not see all rows"
    error = QueryError(ErrorCode.QUERY_EXECUTION, hidden)
    return [(code, error.client_message() if code == error.code.code else text) for code, text in exceptions]


def _with_filter(text: str) -> Query:
    return parse_query(_AROUND + text)


def _is_plain(query: Query) -> bool:
    """Whether nothing but a condition was written behind WHERE."""
    rest = (query.group_by, query.having, query.order_by, query.options, query.gapfill, query.grouping_sets, query.offset)
    is_select = [item.expression for item in query.select] == [Star()] and not query.distinct and not query.explain
    has_aggregate = query.where is not None and any(
        isinstance(part, Call) and is_aggregate(part.name) for part in walk(query.where)
    )
    return is_select and not query.has_limit and not any(rest) and not has_aggregate
