"""What was bound for one query, kept for the next of the same shape.

Of the queries of a dashboard only the literals of WHERE change. Everything else of a `BoundQuery` (columns, types,
aggregates, outputs) is bound once for each shape, so that a query of known shape costs only its filter.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from gamay.model.schema import Schema
from gamay.query.bind import BoundQuery, bind, bind_like
from gamay.sql.query import Query

SHAPES_MAX = 1000
_UNKNOWN_NS = 1 << 62


@dataclass(slots=True)
class Shape:
    """What is known of the queries of one shape: one of them, bound, and what the last one took: ns of the processor."""

    bound: BoundQuery
    took_ns: int = _UNKNOWN_NS


@dataclass(slots=True)
class Plan:
    """A bound query, and where to note what it took."""

    bound: BoundQuery
    shape: Shape

    @property
    def took_ns(self) -> int:
        """Processor time of the thread that answered the last query of this shape; very long when there was none."""
        return self.shape.took_ns

    @took_ns.setter
    def took_ns(self, nanoseconds: int) -> None:
        self.shape.took_ns = nanoseconds


class BoundPlans:
    """The bound queries of one table and schema, by shape; safe to share between threads.

    A lost entry is only bound again, so no lock is needed.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._shapes: dict[Hashable, Shape] = {}

    def plan(self, query: Query) -> Plan:
        """Bind a query as `gamay.query.bind.bind` does; raises what it raises."""
        key = (query.shape, query.limit, query.offset, frozenset(query.options.items()) if query.options else None)
        shape = None if query.shape is None else self._shapes.get(key)
        if shape is None:
            shape = Shape(bind(query, self._schema))
            self._keep(key, shape)
            return Plan(shape.bound, shape)
        bound = bind_like(shape.bound, query, self._schema) if query.varies_only_in_where else None
        return Plan(bound or bind(query, self._schema), shape)

    def _keep(self, key: Hashable, shape: Shape) -> None:
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        self._shapes[key] = shape
