"""The query model: what a SELECT says, before it is bound to a schema."""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from gamay.functions.expression import Expression, replaced
from gamay.model.schema.datetime_format import DateTimeFormat
from gamay.sql.relational import RelationalStatement


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One output column: its expression and the name it has in the result.

    shown: what the name is the text of, as written (`add(a, b)`, where the expression is `a + b`); None where an alias was
    given, or the name is settled otherwise.
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
    """What GAPFILL makes of the rows of a query: one row for each time bucket and series that has none.

    before: a selection from the query's rows, done first; its columns, else the query's, are the ones filled.
    after: a query of the filled rows, done last.
    time: the column of times, as `format` writes them; series: the columns whose values name a series (positions).
    start_ms, end_ms: the times to fill, end exclusive. bucket_ms: the length of a bucket.
    window: the number of buckets that an aggregating `after` sees as one. previous: columns that repeat the last value of
    their series; the others are filled with the default of their type.
    order_by: columns, whether they descend, and whether nulls come last. limit, offset: of filled rows; None is no limit.
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
    """Object that caches compare. weight: what it adds to the total that they bound."""

    @property
    def weight(self) -> int: ...


class Shape(NamedTuple):
    """What queries have in common that differ in the literals of WHERE alone.

    template: of their text, compared by identity. fixed: its literals that stand elsewhere, as written; of queries without
    a text all but the literals of WHERE. limits, log2m: the cluster's settings that were put into them. added: what was
    ANDed to WHERE since.
    """

    template: Weighed
    fixed: Hashable = None
    limits: Hashable = None
    log2m: int | None = None
    added: tuple[Hashable, ...] = ()

    def plus(self, *added: Hashable) -> "Shape":
        """Return the shape of the queries with conditions that are known by this."""
        return self._replace(added=(*self.added, *added))


@dataclass(slots=True)  # not frozen: one is made for each request, and with so many fields that would take 2 µs
class Query:
    """A single-table SELECT after rewriting: aliases and ordinals are resolved, a GROUP BY that says no more is DISTINCT.

    Never changed.

    table: as written, may end in _OFFLINE or _REALTIME; None for a query of literals only.
    where, having: boolean expressions. limit: the number of rows wanted (10 when not written); has_limit: it is written;
    looks_ahead: the last row of them is only there to know that there are more.
    options: by canonical name, values as text.
    gapfill: what is done with the rows at the end.
    asks_broker: it holds calls that the broker answers first: subqueries (IN_SUBQUERY), reqId('') and the like.
    grouping_sets: of GROUPING SETS, ROLLUP and CUBE: for each set the positions of its keys in `group_by`, ascending; the
    same set may occur twice. Empty in a plain GROUP BY.
    relational: the statement, where it is more than one SELECT of one table; all else but the options means nothing then.
    shape: see there; None where nothing is known of other queries.
    constants: what stands elsewhere than in WHERE for constants that each query of the shape has others of, and these.
    varies_only_in_where: whether what was made of all but WHERE for one query of the shape serves the others; not so where
    constants elsewhere are computed for each.
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
        """Return the query with each of its expressions changed."""
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
        """The query with its constants in their places."""
        if not self.constants:
            return self
        constants = dict(self.constants)
        behind_where = replace(self, where=None, constants=None)
        return replace(behind_where.changed(lambda expression: replaced(expression, constants)), where=self.where)

    @property
    def tables(self) -> tuple[str, ...]:
        """The names of the tables that it reads, as written."""
        if self.relational is not None:
            return self.relational.tables
        return () if self.table is None else (self.table,)
