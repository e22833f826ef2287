"""The logical plan of a query: relational operators over columns that have an id each.

An id has one meaning in a plan, so an expression has the same meaning wherever it is moved, and a correlated subquery refers
to columns of the outer query like to its own. Expressions are those of `gamay.functions.expression`, with columns by id; a
subquery appears in one as the column of its id (`Plan.subqueries`), or in a comparison as a call of `SUBQUERY`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import pyarrow as pa

from gamay.functions.expression import Call, Column, Expression, column_names, walk
from gamay.functions.registry import ValueType
from gamay.functions.scalar.table.joined import found_in, value_of
from gamay.query.bind.searches import VECTOR_SEARCHES
from gamay.sql.query import Query

SUBQUERY = "compared(subquery)"
"""The function for `x IN (SELECT …)`: of the column of the subquery's id, and of the values compared with its columns."""
_OF_NEAREST = VECTOR_SEARCHES[:2]


@dataclass(frozen=True, slots=True)
class Field:
    """A column of an operator's output. name: as shown to the user."""

    id: str
    name: str
    type: ValueType

    @property
    def column(self) -> Column:
        return Column(self.id)


@dataclass(frozen=True, slots=True)
class SortKey:
    """A key of an order."""

    expression: Expression
    descending: bool
    nulls_last: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of a table that meet all of `where`; a field's name is that of the column in the table.

    filtered: columns read only by the conditions and the order. order_by, limit, offset: as in `Sort`. computed: (id of a
    field, expression that the table evaluates for it).
    """

    table: str
    fields: tuple[Field, ...]
    where: tuple[Expression, ...] = ()
    filtered: tuple[Field, ...] = ()
    order_by: tuple[SortKey, ...] = ()
    limit: int | None = None
    offset: int = 0
    computed: tuple[tuple[str, Expression], ...] = ()

    @property
    def column_names(self) -> dict[Expression, Expression]:
        """Mapping of its columns to their expressions in the table."""
        computed = dict(self.computed)
        return {each.column: computed.get(each.id, Column(each.name)) for each in (*self.fields, *self.filtered)}

    @property
    def may_lose_rows(self) -> bool:
        """Whether a further condition only removes rows; not with a limit or a nearest-neighbour search."""
        return self.limit is None and not seek_nearest(self.where)


def seek_nearest(conditions: Iterable[Expression]) -> bool:
    """Whether conditions search for nearest neighbours among the rows that meet the others, so that adding one changes
    the result."""
    parts = (part for condition in conditions for part in walk(condition))
    return any(isinstance(part, Call) and part.name in _OF_NEAREST for part in parts)


@dataclass(frozen=True, slots=True)
class Leaf:
    """The answer of a single-table query, column by column; options and shape are set on execution."""

    query: Query
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows passed with the query, column by column. name: as used in the query."""

    name: str
    fields: tuple[Field, ...]
    table: pa.Table = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Values:
    """Constant rows."""

    fields: tuple[Field, ...]
    rows: tuple[tuple[Expression, ...], ...]


@dataclass(frozen=True, slots=True)
class CteRef:
    """The rows of a common table expression; its columns have separate ids here, in the order of the definition."""

    name: str
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Filter:
    """The rows that meet all conditions."""

    child: "Node"
    conditions: tuple[Expression, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.child.fields


@dataclass(frozen=True, slots=True)
class Project:
    """Computes one column per expression."""

    child: "Node"
    fields: tuple[Field, ...]
    expressions: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Groups: the fields are the keys, then the aggregates, then the results of GROUPING calls.

    sets: of GROUPING SETS, as positions in `keys`; empty for a plain GROUP BY. groupings: positions in `keys`, for each
    GROUPING call.
    """

    child: "Node"
    fields: tuple[Field, ...]
    keys: tuple[Expression, ...]
    aggregates: tuple[Call, ...]
    sets: tuple[tuple[int, ...], ...] = ()
    groupings: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """A dimension table, or a join of several, with one key per row, which is equal to a column of the fact table.

    attributes: fields of the root that are read. kind: INNER, LEFT, or SEMI, where only the keys matter, which may repeat.
    """

    root: "Node"
    key: Field
    column: Column
    kind: str
    attributes: tuple[Field, ...] = ()

    def value(self, attribute: Field) -> Call:
        """Return the placeholder of an attribute in the fact table's query, with its id instead of its values."""
        return value_of(attribute.id.encode(), attribute.type[0], self.column, or_null=self.kind == "LEFT")

    @property
    def found(self) -> Call | None:
        """Placeholder of the condition that the key has a row, likewise; None for LEFT, which has no such condition."""
        return None if self.kind == "LEFT" else found_in(self.key.id.encode(), self.column)


@dataclass(frozen=True, slots=True)
class StarGroups:
    """An aggregation of a fact table joined with dimension tables: `whole` is the original.

    groups: an equivalent plan that queries the fact table alone. Its constants for the lookups are placeholders, the ids of
    their fields: see `gamay.functions.scalar.table.joined`.
    """

    whole: Aggregate
    groups: "Node"
    lookups: tuple[Lookup, ...]
    fact: Scan

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.whole.fields


@dataclass(frozen=True, slots=True)
class Frame:
    """The rows around the current one that a window function sees.

    unit: ROWS, RANGE or GROUPS. start, end: `UNBOUNDED PRECEDING`, `CURRENT ROW`, …, or None with an offset: then a side
    and an expression. exclude: `CURRENT ROW`, `GROUP`, `TIES`, or empty.
    """

    unit: str
    start: "FrameBound"
    end: "FrameBound"
    exclude: str = ""

    @property
    def adds_to_key(self) -> bool:
        """Whether offsets are added to the value of the only sort key, rather than counting rows."""
        return self.unit == "RANGE" and (self.start.offset is not None or self.end.offset is not None)


@dataclass(frozen=True, slots=True)
class FrameBound:
    """A bound of a frame. side: PRECEDING, FOLLOWING or CURRENT ROW; offset: None for UNBOUNDED."""

    side: str
    offset: Expression | None = None


@dataclass(frozen=True, slots=True)
class WindowCall:
    """A window function. call: may have a FILTER clause. ignores_nulls: IGNORE NULLS."""

    call: Call
    partition_by: tuple[Expression, ...]
    order_by: tuple[SortKey, ...]
    frame: Frame | None
    ignores_nulls: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """The child's rows with an additional column per window function: `added`."""

    child: "Node"
    added: tuple[Field, ...]
    calls: tuple[WindowCall, ...]

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.child.fields, *self.added)


@dataclass(frozen=True, slots=True)
class Join:
    """Pairs of rows. kind: INNER, LEFT, RIGHT, FULL, CROSS, SEMI, ANTI; ASOF or LEFT ASOF.

    conditions: all must hold. lateral: the right side reads columns of the left one.
    """

    kind: str
    left: "Node"
    right: "Node"
    conditions: tuple[Expression, ...]
    lateral: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.left.fields if self.kind in ("SEMI", "ANTI") else (*self.left.fields, *self.right.fields)


@dataclass(frozen=True, slots=True)
class SetOperation:
    """UNION, INTERSECT or EXCEPT of two children, by position; both already have the types of the fields."""

    kind: str
    all: bool
    left: "Node"
    right: "Node"
    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True)
class Distinct:
    """Distinct rows; with `on`, the first row, by the order, of each combination of those values."""

    child: "Node"
    on: tuple[Expression, ...] = ()
    order_by: tuple[SortKey, ...] = ()

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.child.fields


@dataclass(frozen=True, slots=True)
class Sort:
    """The child's rows in order: `limit` of them (None for all) after the first `offset`."""

    child: "Node"
    keys: tuple[SortKey, ...]
    limit: int | None = None
    offset: int = 0

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.child.fields


@dataclass(frozen=True, slots=True)
class Unnest:
    """A row per element of the arrays, which are unnested side by side; `added` are the elements, then the ordinality.

    keeps_nulls: a null array has one element, null, as group keys do; otherwise its row is dropped.
    """

    child: "Node"
    added: tuple[Field, ...]
    arrays: tuple[Expression, ...]
    with_ordinality: bool
    keeps_nulls: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        return (*self.child.fields, *self.added)


Node: TypeAlias = (
    Scan
    | Leaf
    | Rows
    | Values
    | CteRef
    | Filter
    | Project
    | Aggregate
    | StarGroups
    | Window
    | Join
    | SetOperation
    | Distinct
    | Sort
    | Unnest
)


@dataclass(frozen=True, slots=True)
class Subquery:
    """A subquery in an expression.

    kind: SCALAR; EXISTS; IN, ANY or ALL, which compare values with the fields of the plan, the latter two by `operator`. It
    may refer to columns of the outer query.
    """

    kind: str
    plan: Node
    operator: str = "equals"


@dataclass(frozen=True, slots=True)
class Cte:
    """A common table expression; a recursive one refers to itself."""

    name: str
    plan: Node
    recursive: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole query. subqueries: by id. ctes: in order of dependency. types: of every id."""

    root: Node
    subqueries: Mapping[str, Subquery] = field(default_factory=dict)
    ctes: Sequence[Cte] = ()
    types: Mapping[str, ValueType] = field(default_factory=dict)


def children(node: Node) -> tuple[Node, ...]:
    """Return the operators whose rows an operator reads."""
    if isinstance(node, Join | SetOperation):
        return node.left, node.right
    if isinstance(node, Scan | Leaf | Rows | Values | CteRef):
        return ()
    if isinstance(node, StarGroups):
        return (node.whole,)
    return (node.child,)


def with_children(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return an operator with each of its children changed; the same object if none changes."""
    match node:
        case Join() | SetOperation():
            left, right = change(node.left), change(node.right)
            return node if left is node.left and right is node.right else replace(node, left=left, right=right)
        case Scan() | Leaf() | Rows() | Values() | CteRef() | StarGroups():
            return node
        case _:
            child = change(node.child)
            return node if child is node.child else replace(node, child=child)


def with_plans(plan: Plan, change: Callable[[Node], Node]) -> Plan:
    """Return a plan with its root, subqueries and common table expressions changed."""
    if not plan.subqueries and not plan.ctes:
        return Plan(change(plan.root), types=plan.types)
    return replace(
        plan,
        root=change(plan.root),
        subqueries={name: replace(each, plan=change(each.plan)) for name, each in plan.subqueries.items()},
        ctes=[replace(each, plan=change(each.plan)) for each in plan.ctes],
    )


def with_root(plan: Plan, root: Node) -> Plan:
    """Return a plan with another root, and the subqueries and common table expressions that it uses."""
    if not plan.subqueries and not plan.ctes:
        return Plan(root, types=plan.types)
    subqueries: dict[str, Subquery] = {}
    ctes: dict[str, Cte] = {}
    by_name = {each.name: each for each in plan.ctes}
    pending = [root]
    while pending:
        for node in nodes_of(pending.pop()):
            if isinstance(node, CteRef) and node.name not in ctes:
                ctes[node.name] = by_name[node.name]
                pending.append(by_name[node.name].plan)
            for name in (name for each in expressions(node) for name in ids_in(each)):
                if name in plan.subqueries and name not in subqueries:
                    subqueries[name] = plan.subqueries[name]
                    pending.append(subqueries[name].plan)
    return replace(plan, root=root, subqueries=subqueries, ctes=[each for each in plan.ctes if each.name in ctes])


def roots_of(plan: Plan) -> list[Node]:
    """Return the roots of the query, its subqueries and its common table expressions."""
    return [plan.root, *(each.plan for each in plan.subqueries.values()), *(each.plan for each in plan.ctes)]


def expressions(node: Node) -> Iterator[Expression]:
    """Yield the expressions of an operator, without its children's."""
    match node:
        case Scan(where=conditions, order_by=keys):
            yield from conditions
            yield from (key.expression for key in keys)
        case Filter(conditions=conditions) | Join(conditions=conditions):
            yield from conditions
        case Values(rows=rows):
            for row in rows:
                yield from row
        case Project(expressions=items) | Unnest(arrays=items):
            yield from items
        case Aggregate(keys=keys, aggregates=aggregates):
            yield from keys
            yield from aggregates
        case Window(calls=calls):
            for window in calls:
                yield window.call
                yield from window.partition_by
                yield from (key.expression for key in window.order_by)
        case Distinct(on=on, order_by=keys):
            yield from on
            yield from (key.expression for key in keys)
        case Sort(keys=keys):
            yield from (key.expression for key in keys)


def nodes_of(node: Node) -> Iterator[Node]:
    """Yield an operator and those below it, parents first."""
    yield node
    for child in children(node):
        yield from nodes_of(child)


def ids_in(expression: Expression) -> set[str]:
    """Return the ids of the columns and subqueries that an expression refers to."""
    return set(column_names(expression))
