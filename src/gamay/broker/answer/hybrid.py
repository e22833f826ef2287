"""A query of a hybrid table as a query of each half, so that each row is read once."""

from collections.abc import Sequence
from dataclasses import replace

from gamay.broker.routes.route import TableRoute
from gamay.cluster.records.time_boundary import TimeBoundary
from gamay.functions.expression import Call, Column, Literal
from gamay.model.types import DataType
from gamay.sql.query import Query


def halves(routes: Sequence[TableRoute], query: Query) -> list[tuple[TableRoute, Query]]:
    """Return what is asked of which routes of a table.

    OFFLINE and REALTIME: the first up to the time boundary, the second behind it. Without a boundary the OFFLINE half has no
    rows, or none that say when they were, and is left out. EXPLAIN shows the OFFLINE half alone.
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
    # its own shape: the same text is asked without a boundary while the table is not hybrid
    shape = None if query.shape is None else query.shape.plus(boundary.column, comparison)
    return replace(query, where=where, shape=shape)
