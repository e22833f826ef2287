"""A query on one table, built step by step and executed when its rows are requested."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from gamay.base.errors import InvalidConfigError, NotFoundError, nearest
from gamay.base.sql_names import quoted
from gamay.client.tables.expression import Expression, col

_ROWS_SHOWN = 20


class Answer(Protocol):
    """The common interface of the results of `Database.sql` and of a `Connection`."""

    def rows(self) -> list[tuple[Any, ...]]: ...

    def to_arrow(self) -> Any: ...

    def to_pandas(self) -> Any: ...

    def to_polars(self) -> Any: ...


Ask = Callable[[str], Answer]
"""Runs SQL. Raises QueryError."""


@dataclass(frozen=True, slots=True)
class _Steps:
    where: tuple[str, ...] = ()
    having: tuple[str, ...] = ()
    groups: tuple[Expression, ...] = ()
    items: tuple[Expression, ...] = ()
    order: tuple[str, ...] = ()
    limit: int | None = None
    offset: int = 0


class Table:
    """A table, or a query on it.

        trips = db.table("trips")
        trips.filter(trips.fare > 5).group_by("city").agg(n=count(), fares=trips.fare.sum()).order_by("-n").to_pandas()

    Every step returns a new object. `sql` is the query; `rows`, `to_arrow`, `to_pandas`, `to_polars` and `execute` run it.
    Without `limit` it returns all rows.
    """

    def __init__(self, ask: Ask, name: str, steps: _Steps | None = None, columns: dict[str, str] | None = None) -> None:
        """ask: runs a query. An unknown table raises NotFoundError later, when its columns are needed."""
        self._ask = ask
        self._name = name
        self._steps = steps or _Steps()
        self._columns = {} if columns is None else columns  # shared by all queries on one table

    # -- columns

    @property
    def columns(self) -> dict[str, str]:
        """The columns of the table with their types, such as `LONG` and `STRING[]`. Raises NotFoundError."""
        if not self._columns:
            for name, kind, _, is_list in self._ask(f"DESCRIBE {table_name(self._name)}").rows():
                self._columns[name] = f"{kind}[]" if is_list else kind
        return self._columns

    def __getitem__(self, name: str) -> Expression:
        """Return a column. Raises NotFoundError."""
        if name not in self.columns:
            hint = nearest(name, self.columns) or f" There are: {', '.join(self.columns)}"
            raise NotFoundError(f"table '{self._name}' has no column '{name}'.{hint}")
        return col(name)

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self[name]
        except NotFoundError as error:
            raise AttributeError(str(error)) from error

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.columns]

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.columns)

    # -- steps

    def filter(self, *conditions: Expression) -> "Table":
        """Keep rows for which all conditions hold; after `agg`, groups."""
        for one in conditions:
            if not isinstance(one, Expression):
                raise InvalidConfigError(f"a condition is an expression such as t.fare > 5, not {one!r}")
        steps = self._steps
        where = tuple(one.sql for one in conditions if not one.is_aggregate)
        having = tuple(one.sql for one in conditions if one.is_aggregate)
        if (steps.limit is not None) and conditions:
            raise InvalidConfigError("filter must come before limit: SQL limits the filtered rows")
        return self._with(where=steps.where + where, having=steps.having + having)

    def select(self, *columns: str | Expression, **named: str | Expression) -> "Table":
        """Select columns or computed expressions: `select("city", euros=t.fare * 0.9)`."""
        if self._steps.items:
            raise InvalidConfigError("the columns are chosen already: select and agg are said once")
        items = (*map(self._expression, columns), *(self._expression(one).as_(name) for name, one in named.items()))
        return self._with(items=items)

    def group_by(self, *keys: str | Expression, **named: str | Expression) -> "Table":
        """Group rows by columns or expressions; `agg` names the aggregates of each group."""
        groups = (*map(self._expression, keys), *(self._expression(one).as_(name) for name, one in named.items()))
        return self._with(groups=self._steps.groups + groups)

    def agg(self, *aggregates: Expression, **named: Expression) -> "Table":
        """Compute aggregates of each group, or of all rows: `agg(n=count(), fares=t.fare.sum())`."""
        if self._steps.items:
            raise InvalidConfigError("the columns are chosen already: select and agg are said once")
        wanted = (*aggregates, *(self._expression(one).as_(name) for name, one in named.items()))
        for one in wanted:
            if not isinstance(one, Expression) or not one.is_aggregate:
                raise InvalidConfigError(f"{one!r} is no aggregate; t.fare.sum() and count() are")
        return self._with(items=self._steps.groups + wanted)

    def order_by(self, *keys: str | Expression) -> "Table":
        """Order by columns of the answer (`"-n"` in descending order) or expressions."""
        order = []
        for key in keys:
            name = key.lstrip("-") if isinstance(key, str) else ""
            expression = key if isinstance(key, Expression) else self._ordering(name)
            descends = expression.is_descending or (isinstance(key, str) and key.startswith("-"))
            order.append(f"{expression.sql}{' DESC' if descends else ''}")
        return self._with(order=tuple(order))

    def limit(self, rows: int, offset: int = 0) -> "Table":
        """Keep the first `rows` rows after skipping `offset`."""
        for number in (rows, offset):
            if isinstance(number, bool) or not isinstance(number, int) or number < 0:
                raise InvalidConfigError(f"a limit is a whole number from 0, not {number!r}")
        return self._with(limit=rows, offset=offset)

    def head(self, rows: int = 5) -> Answer:
        """Return the first rows."""
        return self.limit(rows).execute()

    # -- answers

    @property
    def sql(self) -> str:
        """The SQL of the query."""
        steps = self._steps
        items = ", ".join(map(_item, steps.items or steps.groups)) or "*"
        distinct = "DISTINCT " if steps.groups and not steps.items else ""
        text = f"SELECT {distinct}{items} FROM {table_name(self._name)}"
        if steps.where:
            text += f" WHERE {' AND '.join(steps.where)}"
        if steps.groups and not distinct:
            text += f" GROUP BY {', '.join(one.sql for one in steps.groups)}"
        if steps.having:
            text += f" HAVING {' AND '.join(steps.having)}"
        if steps.order:
            text += f" ORDER BY {', '.join(steps.order)}"
        return (
            text
            + f" LIMIT {_ALL if steps.limit is None else steps.limit}"
            + (f" OFFSET {steps.offset}" if steps.offset else "")
        )

    def execute(self) -> Answer:
        """Run the query. Raises QueryError."""
        return self._ask(self.sql)

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples."""
        return self.execute().rows()

    def to_arrow(self) -> Any:
        """Return the rows as an Arrow table."""
        return self.execute().to_arrow()

    def to_pandas(self) -> Any:
        """Return the rows as a pandas DataFrame."""
        return self.execute().to_pandas()

    def to_polars(self) -> Any:
        """Return the rows as a Polars DataFrame."""
        return self.execute().to_polars()

    def count(self) -> int:
        """Return the number of rows."""
        if self._steps.items or self._steps.groups or self._steps.limit is not None:
            return len(self.rows())
        answer = replace(self._steps, order=(), items=(Expression("COUNT(*)", is_aggregate=True),))
        return int(Table(self._ask, self._name, answer).rows()[0][0])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows())

    def __repr__(self) -> str:
        return f"<query {self.sql}>"

    def _repr_html_(self) -> str:
        """Show the first rows; notebooks call this."""
        shown = self if self._steps.limit is not None else self.limit(_ROWS_SHOWN)
        text: str = shown.execute()._repr_html_()  # type: ignore[attr-defined]
        return text

    def _with(self, **changed: Any) -> "Table":
        return Table(self._ask, self._name, replace(self._steps, **changed), self._columns)

    def _expression(self, given: str | Expression) -> Expression:
        if isinstance(given, Expression):
            return given
        return self[given]

    def _ordering(self, name: str) -> Expression:
        """Resolve a key of ORDER BY: a column of the answer takes precedence over one of the table."""
        if any(item.alias == name for item in self._steps.items):
            return Expression(quoted(name))
        return self[name]


_ALL = 2**31 - 1  # a query without LIMIT returns 10 rows


def table_name(name: str) -> str:
    """Return the name of a table, quoted for SQL."""
    return ".".join(map(quoted, name.split(".")))


def _item(expression: Expression) -> str:
    return expression.sql if expression.alias is None else f"{expression.sql} AS {quoted(expression.alias)}"
