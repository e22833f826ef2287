"""What was bound for one query, kept for the next of the same shape.

Of the queries of a dashboard only the literals of WHERE change. Everything else of a `BoundQuery` (columns, types,
aggregates, outputs) is bound once for each shape, so that a query of known shape costs only its filter.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from gamay.model.schema.schema import Schema
from gamay.model.table.search_settings import NO_SETTINGS, SearchSettings
from gamay.query.bind.binder import BoundQuery, bind, bind_like, where_pattern
from gamay.query.bind.rebind import WherePattern
from gamay.query.bind.search_settings import with_search_settings
from gamay.sql.query import Query

SHAPES_MAX = 1000
_UNKNOWN_NS = 1 << 62
_LESSONS_MAX = 16

LIGHT_ROWS_MAX = 1 << 18
LIGHT_NS_MAX = 2_000_000


@dataclass(slots=True)
class Shape:
    """What is known of the queries of one shape.

    bound: one of them; pattern: of their WHERE; took_ns: what the last one took of the processor's time. lessons: how often
    a broker may still find out how to answer the next ones in fewer steps, or that it cannot: more than once where literals
    elsewhere than in WHERE differ.
    """

    bound: BoundQuery
    pattern: WherePattern | None = None
    took_ns: int = _UNKNOWN_NS
    lessons: int = 1


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

    def is_light(self, num_docs: int) -> bool:
        """Whether running it over so many rows takes about as long as handing it to another thread.

        So it is when few rows can match at most, and the last query of the same shape needed little time of the processor:
        on the clock even the smallest takes long while others keep the processor busy.
        """
        return num_docs <= LIGHT_ROWS_MAX and self.shape.took_ns <= LIGHT_NS_MAX


class BoundPlans:
    """The bound queries of one table and schema, by shape; safe to share between threads.

    settings: how the table's columns are searched; a server needs none, for what a broker sends it says so.
    A lost entry is only bound again, so no lock is needed.
    """

    def __init__(self, schema: Schema, settings: SearchSettings = NO_SETTINGS) -> None:
        self._schema = schema
        self._settings = settings
        self._shapes: dict[Hashable, Shape] = {}

    def plan(self, query: Query) -> Plan:
        """Bind a query as `gamay.query.bind.binder.bind` does; raises what it raises."""
        if self._settings:
            query = with_search_settings(query, self._schema, self._settings)
        key = (query.shape, query.limit, query.offset, frozenset(query.options.items()) if query.options else None)
        shape = None if query.shape is None else self._shapes.get(key)
        if shape is None:
            bound = bind(query, self._schema)
            lessons = 1 if query.varies_only_in_where else _LESSONS_MAX
            shape = Shape(bound, where_pattern(bound, self._schema), lessons=lessons)
            self._keep(key, shape)
            return Plan(bound, shape)
        return Plan(self._bind_again(query, shape), shape)

    def _bind_again(self, query: Query, shape: Shape) -> BoundQuery:
        if not query.varies_only_in_where:
            return bind(query, self._schema)
        filter_ = None if shape.pattern is None else shape.pattern.bind(query.where)
        if filter_ is not None:
            return shape.bound.with_filter(query, filter_)
        return bind_like(shape.bound, query, self._schema) or bind(query, self._schema)

    def _keep(self, key: Hashable, shape: Shape) -> None:
        if len(self._shapes) >= SHAPES_MAX:
            self._shapes.clear()
        self._shapes[key] = shape
