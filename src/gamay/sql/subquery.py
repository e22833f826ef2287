"""IN_SUBQUERY(x, 'SELECT IDSET(y) FROM …'): a query inside a literal, answered before the query around it.

What the inner query answers takes its place: `IN_SUBQUERY(x, '…')` becomes `inIdSet(x, '<id set>')`.
IN_PARTITIONED_SUBQUERY, which looks values up only among those of the same partition, gives the same answer wherever the
partitions of both tables are those of x and y, as they must be.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Call, Expression, Literal, walk
from gamay.model.types import DataType
from gamay.sql.query import Query

_FUNCTIONS = ("insubquery", "inpartitionedsubquery")


def has_subquery(expressions: Iterable[Expression]) -> bool:
    """Tell whether one of the expressions holds a query of its own."""
    return any(isinstance(part, Call) and part.name in _FUNCTIONS for e in expressions for part in walk(e))


def with_subqueries_answered(query: Query, answer: Callable[[str], str]) -> Query:
    """Return the query with the answers of its subqueries in it; `answer` returns the id set of one, as text.

    Raises QueryError for a call that is not IN_SUBQUERY(x, 'query').
    """
    known: dict[str, str] = {}

    def put(expression: Expression) -> Expression:
        if not isinstance(expression, Call):
            return expression
        args = tuple(put(arg) for arg in expression.args)
        if expression.name not in _FUNCTIONS:
            return Call(expression.name, args)
        text = _text_of(args)
        if text not in known:
            known[text] = answer(text)
        return Call("inidset", (args[0], Literal(known[text], DataType.STRING)))

    return replace(
        query,
        select=tuple(replace(item, expression=put(item.expression)) for item in query.select),
        where=None if query.where is None else put(query.where),
        group_by=tuple(put(key) for key in query.group_by),
        having=None if query.having is None else put(query.having),
        order_by=tuple(replace(key, expression=put(key.expression)) for key in query.order_by),
        has_subquery=False,
    )


def check_is_id_set(query: Query) -> None:
    """Raise QueryError unless a subquery selects an IDSET of a table and nothing else."""
    items = [item.expression for item in query.select]
    is_one = len(items) == 1 and isinstance(items[0], Call) and items[0].name in ("idset", "idsetmv")
    if not is_one or query.group_by or query.table is None or query.explain or query.gapfill is not None:
        raise QueryError(
            ErrorCode.QUERY_VALIDATION,
            "a subquery of IN_SUBQUERY must look like SELECT IDSET(column) FROM table WHERE ...",
        )


def _text_of(args: tuple[Expression, ...]) -> str:
    if len(args) == 2 and isinstance(args[1], Literal) and isinstance(args[1].value, str):
        return args[1].value
    raise QueryError(
        ErrorCode.QUERY_VALIDATION,
        "IN_SUBQUERY takes an expression and a query in quotes: IN_SUBQUERY(x, 'SELECT IDSET(y) FROM t') = 1",
    )
