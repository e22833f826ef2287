"""The expression tree shared by queries, ingestion transforms and filters.

Nodes are immutable and hashable, so that equal expressions are found by comparison and used as dictionary keys.
Function names are canonical: lower case without underscores (`DATE_TRUNC` is `datetrunc`); operators are functions
(`plus`, `minus`, `times`, `divide`, `mod`, `equals`, `notequals`, `lessthan`, `lessthanorequal`, `greaterthan`,
`greaterthanorequal`, `between`, `in`, `notin`, `like`, `regexplike`, `isnull`, `isnotnull`, `and`, `or`, `not`,
`case`, `cast`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TypeAlias

from gamay.model.types import DataType

LiteralValue: TypeAlias = int | float | str | bool | bytes | Decimal | None

FILTERED = "filter(where)"
"""The function that `agg(x) FILTER (WHERE condition)` is: `Call(FILTERED, (agg(x), condition))`. No query can name it."""

LOOKUP = "lookup(dimension)"
"""The function that lookUp is once the broker knows the table: of the typed name of the table, the column, its type,
whether that is multi-value, and the key. No query can name it."""
FUNNEL_PARTS = ("steps", "correlateby", "settings")
"""What FUNNELCOUNT has its arguments in; no functions."""

TEXT_MATCH = "textmatch(configured)"
"""The function that TEXT_MATCH is where the column's text index config says how: its options (perhaps '') and those
settings, as JSON, are the last two arguments. No query can name it."""

TEXT_SCORE = "textscore(configured)"
"""The function that textScore is in the same way."""

TEXT_PART = "textmatch(part)"
"""The function that a word or phrase of TEXT_MATCH is: the second argument is its place in the query, the others are those
of TEXT_MATCH. No query can name it."""

NEAREST = "vectorsimilarity(configured)"
WITHIN = "vectorsimilarityradius(configured)"
"""The functions that VECTOR_SIMILARITY and VECTOR_SIMILARITY_RADIUS are where the column's vector index config names a
distance, which is the last argument. No query can name them."""

ITEM = "item(typed)"
"""The function that `m['k']` is once the column is known: of the MAP, the key, the name of the type of its values, and what
a row has that lacks the key. No query can name it."""

GROUPING = ("grouping", "groupingid")
"""The names of GROUPING(a, b, …), which tells for a row of the result which of its keys are rolled up."""

SYNTAX = frozenset({FILTERED, *GROUPING})
"""Calls that are part of a query's syntax; the registry of functions does not have them."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column by name, as spelled in the schema once the query is bound."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant. `value` is int, float, str, bool, bytes or Decimal as `type` says; None is NULL of UNKNOWN.

    Equal are those that nothing tells apart: 1.5 and 1.50 are two BIG_DECIMALs, 0.0 and -0.0 two DOUBLEs, NaN is one.
    """

    value: LiteralValue
    type: DataType

    @property
    def is_null(self) -> bool:
        """Whether it is NULL, of whichever type."""
        return self.value is None

    @property
    def is_nan(self) -> bool:
        """Whether it is not a number, which does not equal itself."""
        return self.value != self.value

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__ or not isinstance(other, Literal):
            return NotImplemented
        if self.type is not other.type or (self.value != other.value and not (self.is_nan and other.is_nan)):
            return False
        return not isinstance(self.value, float | Decimal) or str(self.value) == str(other.value)

    def __hash__(self) -> int:
        value = self.value
        return hash((value if value == value else "NaN", self.type))


@dataclass(frozen=True, slots=True)
class Call:
    """A function of arguments, scalar or aggregate: the registry knows which.

    `case` has the arguments condition 1, value 1, condition 2, value 2, …, else (always present, NULL if not written).
    `count(*)` is `Call("count", (Star(),))`.
    """

    name: str
    args: tuple["Expression", ...]
    _column_names: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def column_names(self) -> tuple[str, ...]:
        """Return what the function of that name does; found out once, as a query asks for it in many places."""
        names = self._column_names
        if names is None:
            names = tuple(dict.fromkeys(name for arg in self.args for name in column_names(arg)))
            object.__setattr__(self, "_column_names", names)
        return names


@dataclass(frozen=True, slots=True)
class Star:
    """`*` in `SELECT *` and `COUNT(*)`."""


Expression: TypeAlias = Column | Literal | Call | Star


def walk(expression: Expression) -> Iterator[Expression]:
    """Yield the expression and all its parts, parents first."""
    yield expression
    if isinstance(expression, Call):
        for arg in expression.args:
            if isinstance(arg, Call):
                yield from walk(arg)
            else:
                yield arg


def replaced(expression: Expression, by: dict[Expression, Expression]) -> Expression:
    """Return an expression with parts of it, outermost first, in place of others."""
    if not by:
        return expression
    kinds = set(map(type, by))
    return _replaced(expression, by, any(issubclass(kind, Literal) for kind in kinds), Call in kinds)


def _replaced(expression: Expression, by: dict[Expression, Expression], literals: bool, calls: bool) -> Expression:
    """Do what `replaced` says. literals, calls: whether such are replaced; lists may be long, and calls deep, to hash."""
    if isinstance(expression, Call):
        found = by.get(expression) if calls else None
        if found is not None:
            return found
        return Call(expression.name, tuple([_replaced(arg, by, literals, calls) for arg in expression.args]))
    return expression if not literals and isinstance(expression, Literal) else by.get(expression, expression)


def column_names(expression: Expression) -> tuple[str, ...]:
    """Return the names of the columns that an expression reads, each once, in order of appearance."""
    if isinstance(expression, Call):
        return expression.column_names()
    return (expression.name,) if isinstance(expression, Column) else ()
