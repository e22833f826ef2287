"""Prepared statements: what was bound for one query, kept for the others of its shape.

Of the queries of a dashboard only the literals of WHERE change. Everything else of a `BoundQuery` (columns, types,
aggregates, outputs) is bound once for each shape, so that a query of known shape costs only its filter; and what else can be
known of such queries before they come is found out once, too.
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
"""Of the statements of one table, each as heavy as its template."""

LIGHT_ROWS_MAX = 1 << 18
LIGHT_NS_MAX = 2_000_000
# what is worth a thread of its own where long queries have taken the others
SHORT_NS_MAX = 20_000_000
_UNKNOWN_NS = 1 << 62
# The fast path is left alone when so many queries in a row were not answered there, or took long, but for one of so many.
_ATTEMPTS = 8
_PAUSE = 64

_Key: TypeAlias = tuple[Shape | None, frozenset[tuple[str, str]] | None]


class PreparedStatement:
    """All that queries of one shape have in common: they differ in the literals of WHERE alone.

    bound: one of them. took_ns: what the last one took of the processor's time. takes_texts: whether `filter_of` can make
    the filter of a query from the literals of its text.
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
            # a FILTER clause that all aggregates share makes a filter without WHERE
            self.takes_texts = self._filter is not None or (template.where is None and self.bound.filter is EVERYTHING)

    @cached_property
    def lookup(self) -> PreparedLookup | None:
        """What answers those of the queries whose few rows indexes find; None where there are none."""
        return PreparedLookup.of(self.bound)

    @cached_property
    def is_small(self) -> bool:
        """Whether a server that alone has the segments can be sent the filter, and send the rows as they are shown."""
        bound, query = self.bound, self.bound.query
        if query.options or query.explain or query.gapfill is not None or bound.filters or bound.null_handling:
            return False
        if self._filter is not None and not self._filter.fits_wire:
            return False
        return 0 < bound.limit_with_offset <= ROWS_MAX and len(bound.outputs) <= COLUMNS_MAX

    def takes(self, filter_: Filter) -> bool:
        """Whether queries of the shape can have a filter that a broker made of a text."""
        return self._pattern is not None or filter_ is EVERYTHING

    def filter_of(self, sources: Sources) -> Filter | None:
        """Return the filter of a query with these literals, as written; None when they are out of the ordinary."""
        return EVERYTHING if self._filter is None else self._filter.bind(sources)

    def bind(self, query: Query) -> BoundQuery:
        """Bind a query of the shape as `gamay.query.bind.binder.bind` does; raises what it raises."""
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
        """Whether running a query over so many rows takes about as long as handing it to another thread.

        So it is when few rows can match at most, and the last query of the same shape needed little time of the processor:
        on the clock even the smallest takes long while others keep the processor busy.
        """
        return num_docs <= LIGHT_ROWS_MAX and self.took_ns <= LIGHT_NS_MAX

    @property
    def is_short(self) -> bool:
        """Whether the last query of the shape needed little time of the processor."""
        return self.took_ns <= SHORT_NS_MAX

    def is_tried(self) -> bool:
        """Whether the fast path is to be tried for the next query."""
        self._attempts -= 1
        return self._attempts >= 0 or self._attempts % _PAUSE == 0

    def succeeded(self) -> None:
        """Take note that the fast path has answered a query, in little time."""
        self._attempts = _ATTEMPTS


class Statements:
    """The prepared statements of one table and schema, by shape and options; safe to share between threads.

    settings: how the table's columns are searched; a server needs none, for what a broker sends it says so.
    """

    def __init__(self, schema: Schema, settings: SearchSettings = NO_SETTINGS) -> None:
        self._schema = schema
        self._settings = settings
        self._known: RecentlyUsed[_Key, PreparedStatement] = RecentlyUsed(STATEMENTS_WEIGHT_MAX)

    def find(self, shape: Shape, options: Mapping[str, str]) -> PreparedStatement | None:
        """Return the statement of the queries of a shape with these options; None when there was none."""
        return self._known.peek((shape, frozenset(options.items()) if options else None))

    def bind(self, query: Query) -> tuple[PreparedStatement, BoundQuery]:
        """Bind a query as `gamay.query.bind.binder.bind` does, and return its statement, too; raises what that raises."""
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
