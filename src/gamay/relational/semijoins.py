"""Elimination of tables that only filter another: once their keys are a condition on the other one, the join is dropped.

`FROM nation n JOIN region r ON n.region = r.id AND r.name = 'ASIA'` becomes `nation` with a condition on `region`, if
nothing else reads a region, and ids are unique, which is known once they have been read.
"""

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace

from gamay.functions.expression import Expression
from gamay.relational.plan import (
    Aggregate,
    Filter,
    Join,
    Node,
    Plan,
    Project,
    Scan,
    expressions,
    ids_in,
    nodes_of,
    roots_of,
    with_children,
    with_plans,
)
from gamay.relational.reduction import INNER_JOINS, KEY_TYPES, equal_columns, joined


@dataclass(frozen=True, slots=True)
class SemiJoin:
    """A table that a plan needs only for one equality of a join: of its `key` with a `target` column.

    without: the plan without this join. It has the same rows if the table's keys are unique, and each row of the target's
    table has one of them.
    """

    key: str
    target: str
    without: Plan


def semi_join_of(plan: Plan, scan: Scan, waiting: Iterable[Scan]) -> SemiJoin | None:
    """Return how a plan can do without a table; None if it cannot. waiting: tables that may get conditions."""
    own = {each.id for each in scan.fields}
    nodes = [node for root in roots_of(plan) for node in nodes_of(root)]
    found = _only_condition(nodes, own)
    pair = None if found is None else equal_columns(found[1])
    if found is None or pair is None or any(own & {each.id for each in root.fields} for root in roots_of(plan)):
        return None
    key, column = pair if pair[0] in own else (pair[1], pair[0])
    target = next((each for each in waiting if each.may_lose_rows and column in {one.id for one in each.fields}), None)
    types = (plan.types[key], plan.types[column])
    if target is None or any(data_type not in KEY_TYPES or multi_value for data_type, multi_value in types):
        return None
    if not _count(nodes, target) == _count(nodes, scan) == 1:
        return None
    for node in nodes:
        if isinstance(node, Project | Aggregate):
            within = list(joined(node.child))
            if any(each is found[0] for each in within) and _count(within, target) == _count(within, scan) == 1:
                removed = _removed(node.child, own, found[1])
                if not any(_is_of(each, own) for each in nodes_of(removed)):
                    return SemiJoin(key, column, _with(plan, node, replace(node, child=removed)))
    return None


def _only_condition(nodes: Iterable[Node], own: Set[str]) -> tuple[Node, Expression] | None:
    """Return the only condition that reads some columns, with its operator; None if anything else reads them."""
    reading = [
        (node, expression)
        for node in nodes
        if not _is_of(node, own)
        for expression in expressions(node)
        if not own.isdisjoint(ids_in(expression))
    ]
    if len(reading) != 1:
        return None
    node = reading[0][0]
    return reading[0] if isinstance(node, Filter) or (isinstance(node, Join) and node.kind in INNER_JOINS) else None


def _count(nodes: Iterable[Node], scan: Scan) -> int:
    own = {each.id for each in scan.fields}
    return sum(_is_of(node, own) for node in nodes)


def _is_of(node: Node, ids: Set[str]) -> bool:
    """Whether an operator is the scan of some columns."""
    return isinstance(node, Scan) and any(each.id in ids for each in node.fields)


def _removed(node: Node, own: Set[str], condition: Expression) -> Node:
    """Return a tree without a condition, and without the table of some columns if it is one side of an inner join."""
    if isinstance(node, Filter):
        rest = tuple(each for each in node.conditions if each != condition)
        child = _removed(node.child, own, condition)
        return Filter(child, rest) if rest else child
    if not isinstance(node, Join):
        return node
    rest = tuple(each for each in node.conditions if each != condition)
    if node.kind in INNER_JOINS and (_is_of(node.left, own) or _is_of(node.right, own)):
        other = _removed(node.right if _is_of(node.left, own) else node.left, own, condition)
        return Filter(other, rest) if rest else other
    return replace(
        node, left=_removed(node.left, own, condition), right=_removed(node.right, own, condition), conditions=rest
    )


def _with(plan: Plan, old: Node, new: Node) -> Plan:
    return with_plans(plan, lambda root: _replaced(root, old, new))


def _replaced(node: Node, old: Node, new: Node) -> Node:
    return new if node is old else with_children(node, lambda child: _replaced(child, old, new))
