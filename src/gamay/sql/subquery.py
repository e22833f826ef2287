"""IN_SUBQUERY(x, 'SELECT IDSET(y) FROM …'): a query inside a literal, answered before the query around it.

What the inner query answers takes its place: `IN_SUBQUERY(x, '…')` becomes `inIdSet(x, '<id set>')`.
IN_PARTITIONED_SUBQUERY, which looks values up only among those of the same partition, gives the same answer wherever the
partitions of both tables are those of x and y, as they must be.
"""

from collections.abc import Callable

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Call, Expression, Literal
from gamay.model.types import DataType
from gamay.sql.query import Query


def answered(call: Call, answer: Callable[[str], str]) -> Expression:
    """Return IN_SUBQUERY(x, 'query') with its answer; `answer` returns the id set of a query, as text. Raises QueryError."""
    text = _text_of(call.args)
    return Call("inidset", (call.args[0], Literal(answer(text), DataType.STRING)))


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
