"""Calls that the broker evaluates before a query is bound: subqueries, the tables of lookUp, and functions of a query about
itself.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace

from gamay.functions.expression import Call, Expression, walk
from gamay.sql.query import Query

SUBQUERIES = ("insubquery", "inpartitionedsubquery")
LOOKUPS = ("lookup",)
_ABOUT_QUERY = ("reqid", "cid", "brokerid", "queryengine", "starttime", "endtime", "stageid", "workerid", "sleep")
ASKED = frozenset({*SUBQUERIES, *LOOKUPS, *_ABOUT_QUERY})


def asks_broker(expressions: Iterable[Expression]) -> bool:
    """Whether one of the expressions contains a call that the broker evaluates."""
    return any(isinstance(part, Call) and part.name in ASKED for e in expressions for part in walk(e))


def with_answers(query: Query, answer: Callable[[Call], Expression]) -> Query:
    """Replace the calls that the broker evaluates with the results of `answer`, which is called once for equal calls."""
    known: dict[Call, Expression] = {}

    def put(expression: Expression) -> Expression:
        if not isinstance(expression, Call):
            return expression
        args = tuple(put(arg) for arg in expression.args)
        call = Call(expression.name, args)
        if call.name not in ASKED:
            return call
        if call not in known:
            known[call] = answer(call)
        return known[call]

    return replace(
        query,
        select=tuple(replace(item, expression=put(item.expression)) for item in query.select),
        where=None if query.where is None else put(query.where),
        group_by=tuple(put(key) for key in query.group_by),
        having=None if query.having is None else put(query.having),
        order_by=tuple(replace(key, expression=put(key.expression)) for key in query.order_by),
        asks_broker=False,
    )
