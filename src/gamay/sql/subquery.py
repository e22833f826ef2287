"""IN_SUBQUERY(x, 'SELECT IDSET(y) FROM …'): a query in a literal, answered before the outer query.

Its result replaces it: `IN_SUBQUERY(x, '…')` becomes `inIdSet(x, '<id set>')`. IN_PARTITIONED_SUBQUERY, which looks values
up only within the same partition, gives the same result if both tables are partitioned by x and y, as it requires.
"""

from collections.abc import Callable

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Call, Expression, Literal
from gamay.model.types import DataType
from gamay.sql.query import Query


def answered(call: Call, answer: Callable[[str], str]) -> Expression:
    """Replace IN_SUBQUERY(x, 'query') with a lookup in its result; `answer` runs a query and returns its id set. Raises
    QueryError."""
    text = _text_of(call.args)
    return Call("inidset", (call.args[0], Literal(answer(text), DataType.STRING)))


def check_is_id_set(query: Query) -> None:
    """Raise QueryError unless a subquery selects exactly one IDSET of a table."""
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
