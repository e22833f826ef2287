"""Star joins: groups over a fact table joined with small dimension tables become a query of the fact table alone.

`SELECT d.name, SUM(f.x) FROM f JOIN d ON f.k = d.k WHERE d.kind = 'a' GROUP BY d.name` reads the few rows of d, and queries
f for `SUM(x)` by `name of k`, where k is one of d's keys: its columns become expressions of the key, which are evaluated
once for each entry of the key's dictionary. No row of f leaves its server, and none is joined.

This requires unique keys, which are checked once the dimension tables have been read; if they are not unique, the original
aggregation is executed (`gamay.relational.stars`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from gamay.functions.expression import Call, Column, Expression, replaced
from gamay.functions.registry import ValueType
from gamay.model.types import DataType
from gamay.relational.plan import (
    SUBQUERY,
    Aggregate,
    Cte,
    CteRef,
    Field,
    Filter,
    Join,
    Lookup,
    Node,
    Plan,
    Project,
    Scan,
    StarGroups,
    expressions,
    ids_in,
    nodes_of,
    with_children,
)
from gamay.relational.rules.conditions import is_deterministic
from gamay.relational.rules.leaves import LeafGroups

SizeOf: TypeAlias = Callable[[Node], float]
"""Estimates the number of rows of an operator."""

SMALL_ROWS = 1 << 17
"""Approximate limit on the rows of all dimension tables together."""

_WHOLE = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)
_VALUES = (*_WHOLE, DataType.FLOAT, DataType.DOUBLE, DataType.BOOLEAN, DataType.STRING)


def with_stars(plan: Plan, size_of: SizeOf, *, null_handling: bool) -> Plan:
    """Return the plan with star joins marked as such."""
    rule = _Stars(plan, size_of, LeafGroups(plan, null_handling), null_handling=null_handling)

    def of_cte(cte: Cte) -> Cte:
        return cte if cte.recursive else replace(cte, plan=rule.apply(cte.plan))

    subqueries = {name: replace(each, plan=rule.apply(each.plan)) for name, each in plan.subqueries.items()}
    return replace(plan, root=rule.apply(plan.root), subqueries=subqueries, ctes=[of_cte(each) for each in plan.ctes])


@dataclass(slots=True)
class _Joined:
    """The relations joined with the fact table.

    by: expressions of the columns of projections between the joins. beside: right sides of SEMI and LEFT joins, with their
    kinds.
    """

    fact: Scan
    relations: list[Node] = field(default_factory=list)
    conditions: list[Expression] = field(default_factory=list)
    by: dict[Expression, Expression] = field(default_factory=dict)
    beside: list[tuple[str, Node, tuple[Expression, ...]]] = field(default_factory=list)


class _Stars:
    def __init__(self, plan: Plan, size_of: SizeOf, groups: LeafGroups, *, null_handling: bool) -> None:
        self._plan = plan
        self._size_of = size_of
        self._groups = groups
        self._kinds = ("INNER", "CROSS", "SEMI", "LEFT") if null_handling else ("INNER", "CROSS", "SEMI")

    def apply(self, node: Node) -> Node:
        star = self._star(node) if isinstance(node, Aggregate) and not node.sets and not node.groupings else None
        return with_children(node, self.apply) if star is None else star

    def _star(self, node: Aggregate) -> StarGroups | None:
        facts = list(self._facts(node.child))
        if not facts:
            return None
        joined = _Joined(max(facts, key=self._size_of))
        self._flatten(node.child, joined)
        found = self._lookups(joined)
        if found is None:
            return None
        own_conditions, lookups = found
        fact = joined.fact
        by: dict[Expression, Expression] = {}
        for lookup in lookups:
            if lookup.kind != "LEFT":
                by[lookup.key.column] = lookup.column
            by |= {each.column: lookup.value(each) for each in _attributes(lookup)}
        keys = tuple(replaced(replaced(key, joined.by), by) for key in node.keys)
        calls = tuple(_call(replaced(replaced(call, joined.by), by)) for call in node.aggregates)
        read = {name for each in (*node.keys, *node.aggregates) for name in ids_in(replaced(each, joined.by))}
        held = tuple(lookup.found for lookup in lookups if lookup.found is not None)
        scan = replace(fact, where=(*fact.where, *own_conditions, *held))
        groups = self._groups.of(Aggregate(scan, node.fields, keys, calls))
        if groups is None:
            return None
        kept = tuple(
            replace(lookup, attributes=tuple(each for each in _attributes(lookup) if each.id in read)) for lookup in lookups
        )
        return StarGroups(node, groups, kept, fact)

    def _facts(self, node: Node) -> Iterator[Scan]:
        """Yield the candidate fact tables of a join tree: each of its rows has at most one row of them."""
        match node:
            case Scan() if node.may_lose_rows:
                yield node
            case Join(lateral=False) if node.kind in self._kinds:
                yield from self._facts(node.left)
                if node.kind in ("INNER", "CROSS"):
                    yield from self._facts(node.right)
            case Project() | Filter():
                yield from self._facts(node.child)

    def _flatten(self, node: Node, into: _Joined) -> None:
        match node:
            case Join(kind="INNER" | "CROSS", lateral=False):
                self._flatten(node.left, into)
                self._flatten(node.right, into)
                into.conditions += [replaced(each, into.by) for each in node.conditions]
            case _ if not any(each is into.fact for each in nodes_of(node)):
                into.relations.append(node)
            case Join(lateral=False) if node.kind in self._kinds:
                self._flatten(node.left, into)
                into.beside.append((node.kind, node.right, tuple(replaced(each, into.by) for each in node.conditions)))
            case Project() if all(is_deterministic(each) for each in node.expressions if not isinstance(each, Column)):
                self._flatten(node.child, into)
                pairs = zip(node.fields, node.expressions, strict=True)
                into.by |= {made.column: replaced(expression, into.by) for made, expression in pairs}
            case Filter():
                self._flatten(node.child, into)
                for condition in (replaced(each, into.by) for each in node.conditions):
                    chosen = self._chosen(condition)
                    if chosen is None:
                        into.conditions.append(condition)
                    else:
                        into.beside.append(("SEMI", *chosen))
            case _:
                into.relations.append(node)

    def _chosen(self, condition: Expression) -> tuple[Node, tuple[Expression, ...]] | None:
        """Return `x IN (SELECT …)` as the right side and conditions of a SEMI join; None for another condition."""
        if not (isinstance(condition, Call) and condition.name == SUBQUERY and isinstance(condition.args[0], Column)):
            return None
        subquery = self._plan.subqueries[condition.args[0].name]
        if subquery.kind != "IN":
            return None
        pairs = zip(condition.args[1:], subquery.plan.fields, strict=True)
        return subquery.plan, tuple(Call("equals", (operand, each.column)) for operand, each in pairs)

    def _lookups(self, joined: _Joined) -> tuple[list[Expression], list[Lookup]] | None:
        """Return conditions on the fact table alone, and the dimension tables; None if it is not a star join."""
        fact = joined.fact
        dimensions = [each for each in joined.relations if each is not fact]
        if not dimensions and not joined.beside:
            return None
        small = sum(self._size_of(each) for each in (*dimensions, *(right for _, right, _ in joined.beside)))
        if small > min(SMALL_ROWS, self._size_of(fact) / 2):
            return None
        own = {each.id for each in fact.fields}
        conditions = [each for each in joined.conditions if not ids_in(each) <= own]
        own_conditions = [each for each in joined.conditions if ids_in(each) <= own]
        lookups: list[Lookup] = []
        for members in _components(dimensions, conditions, own):
            lookup = self._lookup(members, conditions, own)
            if lookup is None:
                return None
            lookups.append(lookup)
        for kind, right, on in joined.beside:
            link = _link(on, own, {each.id: each for each in right.fields}, self._plan.types)
            if link is None:
                return None
            lookups.append(Lookup(right, link[1], link[0], kind))
        # conditions on the nullable side of a LEFT join are evaluated above it
        ids = {each.id for lookup in lookups if lookup.kind != "LEFT" for each in lookup.root.fields} | own
        used = {name for each in joined.conditions for name in ids_in(each)} | {
            name for each in fact.where for name in ids_in(each)
        }
        filtered = {each.id for each in fact.filtered}
        if not used <= ids | filtered or any(_reads_others(lookup.root, self._plan) for lookup in lookups):
            return None
        return own_conditions, lookups

    def _lookup(self, members: Sequence[Node], conditions: Sequence[Expression], own: set[str]) -> Lookup | None:
        """Return relations that are joined with each other, with their only link to the fact table."""
        fields = {each.id: each for member in members for each in member.fields}
        within = [each for each in conditions if ids_in(each) <= fields.keys()]
        links = [each for each in conditions if not ids_in(each) <= fields.keys() and not ids_in(each).isdisjoint(fields)]
        link = _link(links, own, fields, self._plan.types)
        if link is None:
            return None
        root = members[0]
        for member in members[1:]:
            root = Join("CROSS", root, member, ())
        return Lookup(Filter(root, tuple(within)) if within else root, link[1], link[0], "INNER")


def _link(
    conditions: Sequence[Expression], own: set[str], fields: Mapping[str, Field], types: Mapping[str, ValueType]
) -> tuple[Column, Field] | None:
    """Return the columns of the fact and the dimension table that a single condition equates."""
    if len(conditions) != 1:
        return None
    condition = conditions[0]
    if not (isinstance(condition, Call) and condition.name == "equals"):
        return None
    one, other = condition.args
    if isinstance(one, Column) and one.name in fields:
        one, other = other, one
    if not (isinstance(one, Column) and isinstance(other, Column) and one.name in own and other.name in fields):
        return None
    (left, left_multi), (right, right_multi) = types[one.name], types[other.name]
    same = (left in _WHOLE and right in _WHOLE) or left is right is DataType.STRING
    return (one, fields[other.name]) if same and not (left_multi or right_multi) else None


def _components(nodes: Sequence[Node], conditions: Sequence[Expression], own: set[str]) -> list[list[Node]]:
    """Partition operators into groups connected by conditions that do not read the fact table."""
    groups = [[node] for node in nodes]
    for condition in conditions:
        ids = ids_in(condition)
        if not ids.isdisjoint(own):
            continue
        touched = [group for group in groups if any(not ids.isdisjoint(_ids(node)) for node in group)]
        others = [group for group in groups if group not in touched]
        groups = [*others, [node for group in touched for node in group]] if touched else groups
    return groups


def _ids(node: Node) -> set[str]:
    return {each.id for each in node.fields}


def _reads_others(root: Node, plan: Plan) -> bool:
    """Whether an operator refers to columns that it does not have, contains subqueries, or is part of a recursion."""
    own: set[str] = set()
    named: set[str] = set()
    recursive = {cte.name for cte in plan.ctes if cte.recursive}
    for node in nodes_of(root):
        own |= _ids(node) | ({each.id for each in node.filtered} if isinstance(node, Scan) else set())
        named |= {name for each in expressions(node) for name in ids_in(each)}
        if isinstance(node, CteRef) and node.name in recursive:
            return True
    return not named <= own


def _attributes(lookup: Lookup) -> list[Field]:
    """Return the columns of a dimension table that can be looked up; in an inner join its key is the fact table's column."""
    fields = () if lookup.kind == "SEMI" else lookup.root.fields
    own = () if lookup.kind == "LEFT" else (lookup.key.id,)
    return [each for each in fields if each.id not in own and each.type[0] in _VALUES and not each.type[1]]


def _call(expression: Expression) -> Call:
    assert isinstance(expression, Call)
    return expression
