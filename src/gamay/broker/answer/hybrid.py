"""Splits a query of a hybrid table at the time boundary, so that each row is read once."""

from collections.abc import Sequence
from dataclasses import replace

from gamay.broker.routes.route import TableRoute
from gamay.cluster.records.time_boundary import TimeBoundary
from gamay.functions.expression import Call, Column, Literal
from gamay.model.types import DataType
from gamay.sql.query import Query


def halves(routes: Sequence[TableRoute], query: Query) -> list[tuple[TableRoute, Query]]:
    """Return the routes of a table to query, each with its query.

    Of two routes, OFFLINE is queried up to the time boundary and REALTIME beyond it. Without a boundary the OFFLINE half has
    no rows, or none with a time, and is left out. EXPLAIN shows the OFFLINE half alone.
    """
    if len(routes) == 1:
        return [(routes[0], query)]
    offline, realtime = routes
    boundary = offline.boundary
    if boundary is None:
        return [(realtime, query)]
    first = (offline, _bounded(query, boundary, "lessthanorequal"))
    return [first] if query.explain else [first, (realtime, _bounded(query, boundary, "greaterthan"))]


def _bounded(query: Query, boundary: TimeBoundary, comparison: str) -> Query:
    literal_type = DataType.STRING if isinstance(boundary.value, str) else DataType.LONG
    test = Call(comparison, (Column(boundary.column), Literal(boundary.value, literal_type)))
    where = test if query.where is None else Call("and", (query.where, test))
    # a separate shape: while the table is not hybrid, the same text is bound without a boundary
    shape = None if query.shape is None else query.shape.plus(boundary.column, comparison)
    return replace(query, where=where, shape=shape)
