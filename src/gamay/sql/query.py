"""The query model: what a SELECT says, before it is bound to a schema."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from gamay.functions.expression import Expression


@dataclass(frozen=True, slots=True)
class SelectItem:
    """One output column: its expression and the name it has in the result (alias, or the expression's text)."""

    expression: Expression
    name: str


@dataclass(frozen=True, slots=True)
class OrderBy:
    """One sort key. `nulls_last` None means the default: last when ascending, first when descending."""

    expression: Expression
    descending: bool = False
    nulls_last: bool | None = None


@dataclass(frozen=True, slots=True)
class Query:
    """A single-table SELECT after rewriting: aliases and ordinals are resolved, GROUP BY without aggregates is DISTINCT.

    table: as written, may end in _OFFLINE or _REALTIME; None for a query of literals only.
    where, having: boolean expressions. limit: the number of rows wanted (10 when not written).
    options: by canonical name, values as text.
    shape: the same object for queries of one template, which differ in nothing but literals; None where that is not known.
    varies_only_in_where: the literals that may differ stand in WHERE (beside LIMIT, OFFSET and options), so that what was
    made of the rest for one query of the shape serves the others.
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
    shape: object | None = field(default=None, compare=False, repr=False)
    varies_only_in_where: bool = field(default=False, compare=False, repr=False)
