"""Prepared statements: the binding of one query, cached for others of the same shape.

The queries of a dashboard differ only in the literals of WHERE. Everything else of a `BoundQuery` (columns, types,
aggregates, outputs) is bound once for each shape, so that a query of known shape costs only its filter. Whatever else can be
precomputed for such queries is computed once, too.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias

from gamay.base.recently_used import RecentlyUsed
from gamay.model.schema.schema import Schema
from gamay.model.table.search_settings import NO_SETTINGS, SearchSettings
from gamay.query.bind.binder import BoundQuery, bind, bind_like, where_pattern
from gamay.query.bind.predicate import EVERYTHING, Filter
from gamay.query.bind.search_settings import with_search_settings
from gamay.query.few.rows import ROWS_MAX
from gamay.query.prepared.filters import PreparedFilter, Sources
from gamay.query.prepared.lookup import COLUMNS_MAX, PreparedLookup
from gamay.sql.query import Query, Shape
from gamay.sql.template import Template

STATEMENTS_WEIGHT_MAX = 1 << 20
"""The statements of one table; each has the weight of its template."""

LIGHT_ROWS_MAX = 1 << 18
LIGHT_NS_MAX = 2_000_000
# queries of up to this time get a separate thread while long queries occupy the others
SHORT_NS_MAX = 20_000_000
_UNKNOWN_NS = 1 << 62
# After this many consecutive queries that the fast path could not answer quickly, it is tried for one query in `_PAUSE`
# only.
_ATTEMPTS = 8
_PAUSE = 64

_Key: TypeAlias = tuple[Shape | None, frozenset[tuple[str, str]] | None]


class PreparedStatement:
    """The common parts of queries of one shape, which differ only in the literals of WHERE.

    bound: one of them. took_ns: the processor time of the last one. takes_texts: whether `filter_of` can create the filter
    of a query from the literals of its text.
    """

    def __init__(self, bound: BoundQuery, schema: Schema) -> None:
        self.bound = bound
        self.took_ns = _UNKNOWN_NS
        self.takes_texts = False
        self._schema = schema
        self._pattern = where_pattern(bound, schema)
        self._filter: PreparedFilter | None = None
        self._attempts = _ATTEMPTS
        if isinstance(bound.query.shape, Shape):
            self._read_texts(bound.query.shape)

    def _read_texts(self, shape: Shape) -> None:
        template = shape.template
        if isinstance(template, Template) and template.is_plain and not shape.added:
            self._filter = PreparedFilter.of(template.where, self._pattern)
            # a FILTER clause shared by all aggregates creates a filter without WHERE
            self.takes_texts = self._filter is not None or (template.where is None and self.bound.filter is EVERYTHING)

    @cached_property
    def lookup(self) -> PreparedLookup | None:
        """The short path for those queries whose few rows indexes find; None if there is none."""
        return PreparedLookup.of(self.bound)

    @cached_property
    def is_small(self) -> bool:
        """Whether a server that has all the segments can receive the filter, and return the rows in their final form."""
        bound, query = self.bound, self.bound.query
        if query.options or query.explain or query.gapfill is not None or bound.filters or bound.null_handling:
            return False
        if self._filter is not None and not self._filter.fits_wire:
            return False
        return 0 < bound.limit_with_offset <= ROWS_MAX and len(bound.outputs) <= COLUMNS_MAX

    def takes(self, filter_: Filter) -> bool:
        """Whether queries of the shape can have a filter that a broker created from a text."""
        return self._pattern is not None or filter_ is EVERYTHING

    def filter_of(self, sources: Sources) -> Filter | None:
        """Return the filter of a query with these literals, as written; None if they are unusual."""
        return EVERYTHING if self._filter is None else self._filter.bind(sources)

    def bind(self, query: Query) -> BoundQuery:
        """Bind a query of the shape like `gamay.query.bind.binder.bind`; raises the same errors."""
        if not query.varies_only_in_where:
            return bind(query, self._schema)
        filter_: Filter | None = None
        if query.where is None:
            filter_ = self.bound.filter
        elif self._pattern is not None:
            filter_ = self._pattern.bind(query.where)
        if filter_ is not None:
            found: BoundQuery | None = self.bound.with_filter(query, filter_)
        else:
            found = bind_like(self.bound, query, self._schema)
        if found is None:
            return bind(query, self._schema)
        return found.with_constants() if query.constants else found

    def is_light(self, num_docs: int) -> bool:
        """Whether running a query over that many rows takes about as long as passing it to another thread.

        That is so if few rows can match, and the last query of the same shape needed little processor time. Elapsed time
        would not do, as even the smallest query takes long while others keep the processor busy.
        """
        return num_docs <= LIGHT_ROWS_MAX and self.took_ns <= LIGHT_NS_MAX

    @property
    def is_short(self) -> bool:
        """Whether the last query of the shape needed little processor time."""
        return self.took_ns <= SHORT_NS_MAX

    def is_tried(self) -> bool:
        """Whether to try the fast path for the next query."""
        self._attempts -= 1
        return self._attempts >= 0 or self._attempts % _PAUSE == 0

    def succeeded(self) -> None:
        """Record that the fast path answered a query quickly."""
        self._attempts = _ATTEMPTS


class Statements:
    """The prepared statements of one table and schema, by shape and options; thread-safe.

    settings: search settings of the table's columns; a server needs none, as queries from brokers contain them.
    """

    def __init__(self, schema: Schema, settings: SearchSettings = NO_SETTINGS) -> None:
        self._schema = schema
        self._settings = settings
        self._known: RecentlyUsed[_Key, PreparedStatement] = RecentlyUsed(STATEMENTS_WEIGHT_MAX)

    def find(self, shape: Shape, options: Mapping[str, str]) -> PreparedStatement | None:
        """Return the statement of the queries of a shape with these options; None if there is none."""
        return self._known.peek((shape, frozenset(options.items()) if options else None))

    def bind(self, query: Query) -> tuple[PreparedStatement, BoundQuery]:
        """Bind a query like `gamay.query.bind.binder.bind`, and also return its statement; raises the same errors."""
        if self._settings:
            query = with_search_settings(query, self._schema, self._settings)
        key = query.shape, frozenset(query.options.items()) if query.options else None
        statement = None if query.shape is None else self._known.get(key)
        if statement is not None:
            return statement, statement.bind(query)
        without = query if query.shape is None or not query.constants else replace(query, constants=None)
        statement = PreparedStatement(bind(without, self._schema), self._schema)
        if query.shape is not None:
            self._known.put(key, statement, query.shape.template.weight)
        return statement, statement.bound if without is query else statement.bind(query)
