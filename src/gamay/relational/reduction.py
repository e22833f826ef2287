"""Semi-join reduction: excluding rows of a table that no join needs, once another table was read.

If rows of one table are kept only with a partner in another, the keys of the smaller one become a condition on the larger:
`l_partkey IN (…)`. Candidates are derived from the plan (`edges_of`), as pairs of columns of scans; the order of reading is
decided during execution (`Reducer`), by estimated numbers of rows.

Rows may be removed from a scan only if all operators up to the join treat rows one by one: filters, projections, inner and
semi joins, the preserved side of an outer join, and groups by that very column. On the source side any operator may lie
between: the values that reach the join are a subset of those read.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from gamay.functions.expression import Call, Column, Expression, walk
from gamay.model.types import DataType
from gamay.relational.keys import KeySet
from gamay.relational.plan import (
    SUBQUERY,
    Aggregate,
    Distinct,
    Filter,
    Join,
    Leaf,
    Node,
    Plan,
    Project,
    Rows,
    Scan,
    Sort,
    Unnest,
    Window,
    children,
    expressions,
    nodes_of,
    roots_of,
)

# with more rows, collecting the distinct keys would take too long (benchmarks.tpch)
ROWS_MAX = 1 << 20
# share of a table's rows; the keys of a larger share exclude too few rows of another
KEPT_MAX = 0.5
# estimated share of a leaf's rows that have one of the keys of another
_KEYS_SHARE = 0.25
INNER_JOINS = ("INNER", "CROSS")
# joins before which a row of the left side may be removed
_KEEPS_LEFT = (*INNER_JOINS, "SEMI", "ANTI", "LEFT")
KEY_TYPES = (DataType.INT, DataType.LONG, DataType.STRING)
_WHOLE = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)


@dataclass(frozen=True, slots=True)
class Edge:
    """A row of a scan is not needed if its `target` is none of the values of `source`; both are column ids."""

    target: str
    source: str


def edges_of(plan: Plan) -> list[Edge]:
    """Return the pairs of columns by which scans of a plan may be reduced."""
    finder = _Finder(plan)
    for root in roots_of(plan):
        finder.walk(root)
    return [edge for edge in dict.fromkeys(finder.edges) if edge.target != edge.source]


class _Finder:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.edges: list[Edge] = []

    def walk(self, node: Node) -> None:
        for child in children(node):
            self.walk(child)
        if isinstance(node, Join):
            self._join(node)
        for expression in expressions(node):
            for part in walk(expression):
                if isinstance(part, Column) and part.name in self._plan.subqueries:
                    for child in children(node):
                        self._correlated(child, self._plan.subqueries[part.name].plan, exists=False)
        if isinstance(node, Filter):
            for condition in node.conditions:
                self._condition(node.child, condition)

    def _join(self, node: Join) -> None:
        if node.kind == "FULL":
            return
        left, right = self._both(node.left), self._both(node.right)
        for condition in node.conditions:
            pair = equal_columns(condition)
            if pair is None:
                continue
            one, other = pair if pair[0] in left[0] else (pair[1], pair[0])
            if one not in left[0] or other not in right[0]:
                continue
            if node.kind in ("INNER", "SEMI", "RIGHT", "CROSS", "ASOF"):
                self._add(left[1].get(one), right[0][other])
            if node.kind in ("INNER", "SEMI", "LEFT", "ANTI", "CROSS", "ASOF", "LEFT ASOF"):
                self._add(right[1].get(other), left[0][one])

    def _condition(self, child: Node, condition: Expression) -> None:
        """Add the edges of IN and EXISTS that are conditions on their own."""
        if isinstance(condition, Column) and condition.name in self._plan.subqueries:
            self._correlated(child, self._plan.subqueries[condition.name].plan, exists=True)
        if not (isinstance(condition, Call) and condition.name == SUBQUERY and isinstance(condition.args[0], Column)):
            return
        subquery = self._plan.subqueries[condition.args[0].name]
        if subquery.kind != "IN":
            return
        outer, found = self._both(child), self._both(subquery.plan)
        for operand, made in zip(condition.args[1:], subquery.plan.fields, strict=True):
            if isinstance(operand, Column) and operand.name in outer[0] and made.id in found[0]:
                self._add(outer[1].get(operand.name), found[0][made.id])
                self._add(found[1].get(made.id), outer[0][operand.name])

    def _correlated(self, child: Node, inner: Node, *, exists: bool) -> None:
        """Add the equalities that correlate a subquery with outer rows. exists: outer rows need a row of the subquery."""
        outer = self._both(child)
        shown = inner
        while isinstance(shown, Project):
            shown = shown.child
        needed = {id(node) for node in joined(shown)} if exists else set()
        for node in nodes_of(inner):
            if not isinstance(node, Filter) and not (isinstance(node, Join) and node.kind in INNER_JOINS):
                continue
            own = self._both(node)
            for condition in node.conditions:
                pair = equal_columns(condition)
                if pair is None:
                    continue
                one, other = pair if pair[0] in outer[0] else (pair[1], pair[0])
                if one in outer[0] and other in own[0]:
                    self._add(own[1].get(other), outer[0][one])
                    if id(node) in needed:
                        self._add(outer[1].get(one), own[0][other])

    def _add(self, target: str | None, source: str) -> None:
        if target is None:
            return
        (one, is_list), (other, are_lists) = self._plan.types[target], self._plan.types[source]
        # DuckDB compares whole numbers with others as doubles, which 2**53 and 2**53 + 1 have in common
        alike = other.is_text if one is DataType.STRING else other in _WHOLE
        if one in KEY_TYPES and alike and not (is_list or are_lists):
            self.edges.append(Edge(target, source))

    def _both(self, node: Node) -> tuple[Mapping[str, str], Mapping[str, str]]:
        """Return two maps from an operator's columns to columns of leaves: those with its values, and those whose rows
        may be removed."""
        match node:
            case Scan():
                own = {each.id: each.id for each in node.fields}
                return own, own if node.may_lose_rows else {}
            case Leaf() | Rows():
                return {each.id: each.id for each in node.fields}, {}
            case Filter():
                return self._both(node.child)
            case Project():
                values, losing = self._both(node.child)
                named = {
                    made.id: expression.name
                    for made, expression in zip(node.fields, node.expressions, strict=True)
                    if isinstance(expression, Column)
                }
                return _through(named, values), _through(named, losing)
            case Aggregate():
                values, losing = self._both(node.child)
                keys = {} if node.sets else dict(zip((each.id for each in node.fields), node.keys, strict=False))
                named = {made: key.name for made, key in keys.items() if isinstance(key, Column)}
                return _through(named, values), _through(named, losing)
            case Join():
                left, right = self._both(node.left), self._both(node.right)
                kept = {
                    **(left[1] if node.kind not in ("RIGHT", "FULL") else {}),
                    **(right[1] if node.kind in ("INNER", "CROSS", "RIGHT") else {}),
                }
                return {**left[0], **right[0]}, kept
            case Distinct() | Window() | Sort() | Unnest():
                return self._both(node.child)[0], {}
            case _:
                return {}, {}


def joined(node: Node) -> Iterator[Node]:
    """Yield the operators of a join tree from which a row may be removed with everything that joins it."""
    yield node
    if isinstance(node, Filter):
        yield from joined(node.child)
    elif isinstance(node, Join) and node.kind in _KEEPS_LEFT and not node.lateral:
        yield from joined(node.left)
        if node.kind in INNER_JOINS:
            yield from joined(node.right)


def _through(named: Mapping[str, str], below: Mapping[str, str]) -> dict[str, str]:
    return {made: below[name] for made, name in named.items() if name in below}


def equal_columns(condition: Expression) -> tuple[str, str] | None:
    """Return the columns that a condition equates; None for another condition."""
    if isinstance(condition, Call) and condition.name == "equals" and len(condition.args) == 2:
        one, other = condition.args
        if isinstance(one, Column) and isinstance(other, Column):
            return one.name, other.name
    return None


class Reducer:
    """Schedule of the leaves of a plan: the order of reading, and the conditions from those read before.

    edges: of the plan. rows_of: estimates the rows of an operator.
    """

    def __init__(
        self, edges: Iterable[Edge], leaves: Mapping[int, Scan | Leaf | Rows], rows_of: Callable[[Node], float]
    ) -> None:
        self._targets = _reached(edges)
        self._leaves = dict(leaves)
        self._sizes = {place: rows_of(leaf) for place, leaf in leaves.items()}
        self._rows_of = rows_of

    def next(self) -> tuple[int, Scan | Leaf | Rows] | None:
        """Return the position and the leaf to read next: the smallest filtered one, else the smallest of all."""
        if not self._leaves:
            return None
        place = min(self._leaves, key=lambda each: (_is_whole(self._leaves[each]), self._sizes[each], each))
        return place, self._leaves.pop(place)

    @property
    def waiting(self) -> list[Scan]:
        """The tables that have not been read."""
        return [leaf for leaf in self._leaves.values() if isinstance(leaf, Scan)]

    def require(self, target: str, keys: KeySet) -> None:
        """Restrict the unread table of a column to rows with one of some keys."""
        for place in self._reading(target):
            self._reduce(place, keys.holds(Column(target)), _KEYS_SHARE)

    def read(self, leaf: Scan | Leaf | Rows, rows: pa.Table, required: str | None = None) -> None:
        """Record the rows of a leaf, and reduce unread ones. required: a column that was passed to `require`."""
        if not self._leaves or _is_whole(leaf) or rows.num_rows > ROWS_MAX:
            return
        kept = 1.0
        if isinstance(leaf, Scan):
            kept = rows.num_rows / max(self._rows_of(replace(leaf, where=(), limit=None)), 1)
            if kept > KEPT_MAX:
                return
        for each in leaf.fields:
            targets = [target for target in self._targets.get(each.id, ()) if target != required]
            waiting = [(place, target) for target in targets for place in self._reading(target)]
            if waiting:
                keys = KeySet.of(rows.column(each.id).drop_null().combine_chunks(), each.type[0])
                for place, target in waiting:
                    self._reduce(place, keys.may_hold(Column(target)), kept)

    def _reading(self, target: str) -> list[int]:
        return [
            place
            for place, leaf in self._leaves.items()
            if isinstance(leaf, Scan) and any(each.id == target for each in leaf.fields)
        ]

    def _reduce(self, place: int, condition: Expression, kept: float) -> None:
        leaf = self._leaves[place]
        assert isinstance(leaf, Scan)
        self._leaves[place] = replace(leaf, where=(*leaf.where, condition))
        self._sizes[place] *= min(kept, _KEYS_SHARE)


def _is_whole(leaf: Scan | Leaf | Rows) -> bool:
    """Whether a leaf reads all rows of a table, or groups of all, which seldom exclude others."""
    if isinstance(leaf, Leaf):
        return leaf.query.where is None and leaf.query.having is None
    return isinstance(leaf, Scan) and not leaf.where and leaf.limit is None


def _reached(edges: Iterable[Edge]) -> dict[str, list[str]]:
    """Return for each source the targets that it reduces, transitively."""
    direct: dict[str, list[str]] = {}
    for edge in edges:
        direct.setdefault(edge.source, []).append(edge.target)
    reached: dict[str, list[str]] = {}
    for source in direct:
        found, pending = dict.fromkeys([source]), [source]
        while pending:
            new = [each for each in direct.get(pending.pop(), ()) if each not in found]
            found.update(dict.fromkeys(new))
            pending += new
        reached[source] = list(found)[1:]
    return reached
