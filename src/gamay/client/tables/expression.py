"""Expressions written in Python, as SQL: `(t.fare > 5) & t.city.isin(["Oslo"])`. Values become literals, never SQL."""

from collections.abc import Iterable
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.base.sql_names import quoted
from gamay.client.literals import literal


class Expression:
    """An immutable SQL expression, made by `col`, `count`, `call`, `raw` and operators.

    is_aggregate: whether it contains an aggregate, so that a filter on it applies after grouping.
    """

    __slots__ = ("alias", "is_aggregate", "is_descending", "sql")

    def __init__(
        self, sql: str, *, is_aggregate: bool = False, alias: str | None = None, is_descending: bool = False
    ) -> None:
        self.sql = sql
        self.alias = alias
        self.is_aggregate = is_aggregate
        self.is_descending = is_descending

    def as_(self, name: str) -> "Expression":
        """Return the expression with an alias."""
        return Expression(self.sql, is_aggregate=self.is_aggregate, alias=name)

    def desc(self) -> "Expression":
        """Return the expression as a descending key of `order_by`."""
        return Expression(self.sql, is_aggregate=self.is_aggregate, is_descending=True)

    # -- conditions

    def __eq__(self, other: object) -> "Expression":  # type: ignore[override]
        return self.is_null() if other is None else self._binary("=", other)

    def __ne__(self, other: object) -> "Expression":  # type: ignore[override]
        return self.not_null() if other is None else self._binary("<>", other)

    __hash__ = object.__hash__

    def __lt__(self, other: object) -> "Expression":
        return self._binary("<", other)

    def __le__(self, other: object) -> "Expression":
        return self._binary("<=", other)

    def __gt__(self, other: object) -> "Expression":
        return self._binary(">", other)

    def __ge__(self, other: object) -> "Expression":
        return self._binary(">=", other)

    def __and__(self, other: object) -> "Expression":
        return self._binary("AND", other)

    def __or__(self, other: object) -> "Expression":
        return self._binary("OR", other)

    def __invert__(self) -> "Expression":
        return self._made(f"(NOT {self.sql})")

    def isin(self, values: Iterable[Any]) -> "Expression":
        """Return the condition that the value is among the given ones; false for an empty list."""
        listed = list(values)
        return self._made(f"({self.sql} IN ({literal(listed)}))") if listed else self._made("(1 = 0)")

    def between(self, low: Any, high: Any) -> "Expression":
        """Return the condition that the value lies between two values, inclusively."""
        return self._made(f"({self.sql} BETWEEN {sql_of(low)} AND {sql_of(high)})")

    def like(self, pattern: str) -> "Expression":
        """Return the condition that the value matches a LIKE pattern, case-insensitively."""
        return self._made(f"({self.sql} LIKE {literal(pattern)})")

    def is_null(self) -> "Expression":
        return self._made(f"({self.sql} IS NULL)")

    def not_null(self) -> "Expression":
        return self._made(f"({self.sql} IS NOT NULL)")

    # -- arithmetic

    def __add__(self, other: object) -> "Expression":
        return self._binary("+", other)

    def __radd__(self, other: object) -> "Expression":
        return self._binary("+", other, swapped=True)

    def __sub__(self, other: object) -> "Expression":
        return self._binary("-", other)

    def __rsub__(self, other: object) -> "Expression":
        return self._binary("-", other, swapped=True)

    def __mul__(self, other: object) -> "Expression":
        return self._binary("*", other)

    def __rmul__(self, other: object) -> "Expression":
        return self._binary("*", other, swapped=True)

    def __truediv__(self, other: object) -> "Expression":
        return self._binary("/", other)

    def __rtruediv__(self, other: object) -> "Expression":
        return self._binary("/", other, swapped=True)

    def __neg__(self) -> "Expression":
        return self._made(f"(0 - {self.sql})")

    # -- aggregates

    def sum(self) -> "Expression":
        return self._aggregate("SUM")

    def mean(self) -> "Expression":
        return self._aggregate("AVG")

    def min(self) -> "Expression":
        return self._aggregate("MIN")

    def max(self) -> "Expression":
        return self._aggregate("MAX")

    def count(self) -> "Expression":
        """Return the number of non-null values."""
        return self._aggregate("COUNT")

    def nunique(self) -> "Expression":
        """Return the exact number of distinct values."""
        return self._aggregate("DISTINCTCOUNT")

    def percentile(self, percent: float) -> "Expression":
        """Return the value below which `percent` % of the values are."""
        return Expression(f"PERCENTILE({self.sql}, {literal(percent)})", is_aggregate=True)

    def __bool__(self) -> bool:
        raise InvalidConfigError(
            f"{self.sql} is computed by the database, so Python cannot tell whether it holds: combine conditions with &, | "
            "and ~, each in parentheses, rather than and, or and not"
        )

    def __repr__(self) -> str:
        return f"<{self.sql}>"

    def _binary(self, operator: str, other: object, *, swapped: bool = False) -> "Expression":
        left, right = (sql_of(other), self.sql) if swapped else (self.sql, sql_of(other))
        aggregates = self.is_aggregate or (isinstance(other, Expression) and other.is_aggregate)
        return Expression(f"({left} {operator} {right})", is_aggregate=aggregates)

    def _made(self, sql: str) -> "Expression":
        return Expression(sql, is_aggregate=self.is_aggregate)

    def _aggregate(self, name: str) -> "Expression":
        return Expression(f"{name}({self.sql})", is_aggregate=True)


def col(name: str) -> Expression:
    """Return a column by its name."""
    if not isinstance(name, str) or not name:
        raise InvalidConfigError(f"a column is named by a text, not by {name!r}")
    return Expression(quoted(name), alias=name)


def count() -> Expression:
    """Return the number of rows."""
    return Expression("COUNT(*)", is_aggregate=True)


def call(function: str, *arguments: Any, aggregate: bool = False) -> Expression:
    """Return a function call: `call("dateTrunc", "DAY", t.ts)`. aggregate: whether it is an aggregate.

    Raises InvalidConfigError for an invalid function name.
    """
    if not function.isidentifier():
        raise InvalidConfigError(f"a function is called by its name, such as dateTrunc, not {function!r}")
    aggregates = aggregate or any(isinstance(one, Expression) and one.is_aggregate for one in arguments)
    return Expression(f"{function}({', '.join(map(sql_of, arguments))})", is_aggregate=aggregates)


def raw(sql: str, *, aggregate: bool = False) -> Expression:
    """Return SQL unchanged as an expression; never pass it untrusted input."""
    return Expression(f"({sql})", is_aggregate=aggregate)


def sql_of(value: Any) -> str:
    """Return an expression, or a value as a literal."""
    return value.sql if isinstance(value, Expression) else literal(value)
