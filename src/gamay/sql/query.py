"""The query model: a SELECT before it is bound to a schema."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from gamay.functions.expression import Expression, replaced
from gamay.model.schema.datetime_format import DateTimeFormat
from gamay.sql.relational import RelationalStatement


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One output column: its expression and the name it has in the result.

    shown: the expression as written, whose text is the name (`add(a, b)` for `a + b`); None with an alias, or if the name is
    determined otherwise.
    """

    expression: Expression
    name: str
    shown: Expression | None = None


@dataclass(frozen=True, slots=True)
class OrderBy:
    """One sort key. `nulls_last` None means the default: last when ascending, first when descending."""

    expression: Expression
    descending: bool = False
    nulls_last: bool | None = None


@dataclass(frozen=True, slots=True)
class Gapfill:
    """Fills the gaps in a query's rows: one row for each time bucket and series without one.

    before: a selection from the query's rows, applied first; its columns, else the query's, are filled.
    after: a query over the filled rows, applied last.
    time: position of the time column, in `format`; series: positions of the columns that identify a series.
    start_ms, end_ms: range to fill, end exclusive. bucket_ms: length of a bucket.
    window: number of buckets that an aggregating `after` treats as one. previous: columns that repeat the last value of
    their series; the others are filled with the default of their type.
    order_by: column, whether descending, and whether nulls come last. limit, offset: of filled rows; None without a limit.
    """

    before: "Query | None"
    after: "Query | None"
    time: int
    series: tuple[int, ...]
    previous: tuple[int, ...]
    format: DateTimeFormat
    start_ms: int
    end_ms: int
    bucket_ms: int
    window: int
    order_by: tuple[tuple[int, bool, bool], ...]
    limit: int | None
    offset: int


class Weighed(Hashable, Protocol):
    """A hashable object with a weight. weight: its share of a cache's limit."""

    @property
    def weight(self) -> int: ...


class Shape(NamedTuple):
    """What queries that differ only in the literals of WHERE have in common.

    template: of their text, compared by identity. fixed: the literals elsewhere, as written; for queries without a text,
    everything but the literals of WHERE. limits, log2m: the cluster's settings applied to them. added: the conditions ANDed
    to WHERE afterwards.
    """

    template: Weighed
    fixed: Hashable = None
    limits: Hashable = None
    log2m: int | None = None
    added: tuple[Hashable, ...] = ()

    def plus(self, *added: Hashable) -> "Shape":
        """Return the shape of queries with additional conditions, identified by `added`."""
        return self._replace(added=(*self.added, *added))


@dataclass(slots=True)  # not frozen: one is created for each request, and freezing so many fields would take 2 µs
class Query:
    """A single-table SELECT after rewriting: aliases and ordinals are resolved, and a GROUP BY equal to DISTINCT is one.

    Immutable by convention.

    table: as written, may end in _OFFLINE or _REALTIME; None for a query of literals only.
    where, having: boolean expressions. limit: number of rows (default 10); has_limit: whether it is written; looks_ahead:
    whether the last row only serves to detect that there are more.
    options: by canonical name, values as text.
    gapfill: applied to the final rows.
    asks_broker: whether it contains calls that the broker evaluates first: subqueries (IN_SUBQUERY), reqId('') and the like.
    grouping_sets: of GROUPING SETS, ROLLUP and CUBE: for each set the positions of its keys in `group_by`, ascending; a set
    may occur twice. Empty for a plain GROUP BY.
    relational: the statement of a relational query, for which only the options among the other fields are valid.
    shape: of the query, or None if it shares nothing with others.
    constants: placeholders outside of WHERE -> their values in this query; other queries of the shape have other values.
    varies_only_in_where: whether everything bound for one query of the shape, except WHERE, is valid for the others; not if
    constants elsewhere are computed per query.
    """

    table: str | None
    select: tuple[SelectItem, ...]
    distinct: bool = False
    where: Expression | None = None
    group_by: tuple[Expression, ...] = ()
    having: Expression | None = None
    order_by: tuple[OrderBy, ...] = ()
    limit: int = 10
    offset: int = 0
    options: Mapping[str, str] = field(default_factory=dict)
    explain: bool = False
    grouping_sets: tuple[tuple[int, ...], ...] = ()
    shape: Shape | None = field(default=None, compare=False, repr=False)
    varies_only_in_where: bool = field(default=False, compare=False, repr=False)
    gapfill: Gapfill | None = None
    asks_broker: bool = False
    has_limit: bool = True
    looks_ahead: bool = False
    relational: RelationalStatement | None = None
    constants: Mapping[Expression, Expression] | None = None

    def changed(self, change: Callable[[Expression], Expression]) -> "Query":
        """Return the query with each expression replaced by `change`."""
        return replace(
            self,
            select=tuple([replace(item, expression=change(item.expression)) for item in self.select]),
            where=None if self.where is None else change(self.where),
            group_by=tuple(map(change, self.group_by)),
            having=None if self.having is None else change(self.having),
            order_by=tuple([replace(key, expression=change(key.expression)) for key in self.order_by]),
        )

    @property
    def whole(self) -> "Query":
        """The query with its placeholders replaced by constants."""
        if not self.constants:
            return self
        constants = dict(self.constants)
        behind_where = replace(self, where=None, constants=None)
        return replace(behind_where.changed(lambda expression: replaced(expression, constants)), where=self.where)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that the query reads, as written."""
        if self.relational is not None:
            return self.relational.tables
        return () if self.table is None else (self.table,)
