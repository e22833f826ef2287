"""Cluster-wide defaults for sketches: log2m of HyperLogLog."""

from dataclasses import replace

from gamay.functions.expression import Call, Expression, Literal
from gamay.model.types import DataType
from gamay.sql.query import Gapfill, Query

_HYPERLOGLOG = frozenset({"distinctcounthll", "distinctcounthllmv", "distinctcountrawhll", "distinctcountrawhllmv"})


def with_log2m(query: Query, log2m: int) -> Query:
    """Add `log2m` to each DISTINCTCOUNTHLL and DISTINCTCOUNTRAWHLL without one.

    Result columns keep their names.
    """
    select = tuple(replace(item, expression=_put(item.expression, log2m)) for item in query.select)
    having = None if query.having is None else _put(query.having, log2m)
    order_by = tuple(replace(key, expression=_put(key.expression, log2m)) for key in query.order_by)
    gapfill = None if query.gapfill is None else _put_around(query.gapfill, log2m)
    shape = None if query.shape is None else query.shape._replace(log2m=log2m)
    return replace(query, select=select, having=having, order_by=order_by, gapfill=gapfill, shape=shape)


def _put_around(gapfill: Gapfill, log2m: int) -> Gapfill:
    """Apply it to the query over the filled rows; the one before GAPFILL only selects."""
    return gapfill if gapfill.after is None else replace(gapfill, after=with_log2m(gapfill.after, log2m))


def _put(expression: Expression, log2m: int) -> Expression:
    if not isinstance(expression, Call):
        return expression
    args = tuple(_put(arg, log2m) for arg in expression.args)
    if expression.name in _HYPERLOGLOG and len(args) == 1:
        args = (*args, Literal(log2m, DataType.INT))
    return expression if args == expression.args else Call(expression.name, args)
