"""The expression tree shared by queries, ingestion transforms and filters.

Nodes are immutable and hashable, so that equal expressions can be compared and used as dictionary keys.
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
"""The function for `agg(x) FILTER (WHERE condition)`: `Call(FILTERED, (agg(x), condition))`. Queries cannot name it."""

LOOKUP = "lookup(dimension)"
"""lookUp, once the broker has resolved the table. Arguments: the typed name of the table, the column, its type, whether it
is multi-value, and the key. Queries cannot name it."""
FUNNEL_PARTS = ("steps", "correlateby", "settings")
"""The pseudo-functions that hold the arguments of FUNNELCOUNT."""

TEXT_MATCH = "textmatch(configured)"
"""TEXT_MATCH with the settings of the column's text index config: its options (perhaps '') and those settings, as JSON, are
the last two arguments. Queries cannot name it."""

TEXT_SCORE = "textscore(configured)"
"""textScore with the settings of the column's text index config, as `TEXT_MATCH`."""

TEXT_PART = "textmatch(part)"
"""A word or phrase of TEXT_MATCH: the second argument is its position in the query, the others are those of TEXT_MATCH.
Queries cannot name it."""

NEAREST = "vectorsimilarity(configured)"
WITHIN = "vectorsimilarityradius(configured)"
"""VECTOR_SIMILARITY and VECTOR_SIMILARITY_RADIUS with the distance that the column's vector index config names, as the last
argument. Queries cannot name them."""

ITEM = "item(typed)"
"""`m['k']`, once the column is known. Arguments: the MAP, the key, the name of the type of its values, and the result for
rows without the key. Queries cannot name it."""

GROUPING = ("grouping", "groupingid")
"""The names of GROUPING(a, b, …), which returns which keys of a result row are rolled up."""

SYNTAX = frozenset({FILTERED, *GROUPING})
"""Calls that are part of a query's syntax, which the function registry does not contain."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column by name, spelled as in the schema once the query is bound."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    """A constant. `value` is int, float, str, bool, bytes or Decimal according to `type`; None is NULL of type UNKNOWN.

    Literals are equal only if indistinguishable: 1.5 and 1.50 are different BIG_DECIMALs, 0.0 and -0.0 different DOUBLEs;
    NaN equals itself.
    """

    value: LiteralValue
    type: DataType

    @property
    def is_null(self) -> bool:
        """Whether it is NULL, of any type."""
        return self.value is None

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__ or not isinstance(other, Literal):
            return NotImplemented
        if self.type is not other.type:
            return False
        if isinstance(self.value, float | Decimal):
            return str(self.value) == str(other.value)
        return bool(self.value == other.value)

    def __hash__(self) -> int:
        value = self.value
        return hash((value if value == value else "NaN", self.type))


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function, scalar or aggregate according to the registry.

    `case` has the arguments condition 1, value 1, condition 2, value 2, …, else (always present, NULL if not written).
    `count(*)` is `Call("count", (Star(),))`.
    """

    name: str
    args: tuple["Expression", ...]
    _column_names: tuple[str, ...] | None = field(default=None, init=False, repr=False, compare=False)

    def column_names(self) -> tuple[str, ...]:
        """Return the result of the function `column_names` for this call; cached, as a query needs it in many places."""
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
    """Return an expression with parts replaced, outermost first."""
    if not by:
        return expression
    kinds = set(map(type, by))
    return _replaced(expression, by, any(issubclass(kind, Literal) for kind in kinds), Call in kinds)


def _replaced(expression: Expression, by: dict[Expression, Expression], literals: bool, calls: bool) -> Expression:
    """Implement `replaced`. literals, calls: whether `by` has any; skips hashing long lists and deep calls in vain."""
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
