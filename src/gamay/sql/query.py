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
