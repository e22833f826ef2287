"""Column pruning: columns that are not read are neither computed nor fetched from tables."""

from collections.abc import Iterable
from dataclasses import replace

from gamay.model.types import DataType
from gamay.relational.plan import (
    Aggregate,
    Distinct,
    Field,
    Join,
    Node,
    Plan,
    Project,
    Scan,
    SetOperation,
    expressions,
    ids_in,
    nodes_of,
    roots_of,
    with_children,
    with_plans,
)

_CHEAPEST = (DataType.BOOLEAN, DataType.INT, DataType.FLOAT, DataType.LONG, DataType.DOUBLE, DataType.TIMESTAMP)


def pruned_columns(plan: Plan) -> Plan:
    """Return the plan without columns that neither the result nor another operator reads."""
    always = _named_elsewhere(plan)

    def prune(node: Node, needed: set[str]) -> Node:
        named = {name for expression in expressions(node) for name in ids_in(expression)}
        match node:
            case Scan():
                kept = tuple(each for each in node.fields if each.id in needed) or (_cheapest(node.fields),)
                filtered = tuple(each for each in node.fields if each.id in named and each not in kept)
                return replace(node, fields=kept, filtered=filtered)
            case Project():
                pairs = [
                    (made, expression)
                    for made, expression in zip(node.fields, node.expressions, strict=True)
                    if made.id in needed
                ] or [(node.fields[0], node.expressions[0])]
                read = {name for _, expression in pairs for name in ids_in(expression)} | always
                return Project(
                    prune(node.child, read), tuple(made for made, _ in pairs), tuple(expression for _, expression in pairs)
                )
            case Join():
                below = needed | named
                return replace(node, left=prune(node.left, below), right=prune(node.right, below))
            case SetOperation():
                return replace(node, left=whole(node.left), right=whole(node.right))
            case Aggregate():
                return replace(node, child=prune(node.child, named | always))
            case Distinct():
                return replace(node, child=prune(node.child, {each.id for each in node.child.fields} | named | always))
            case _:
                return with_children(node, lambda child: prune(child, needed | named))

    def whole(node: Node) -> Node:
        return prune(node, {each.id for each in node.fields} | always)

    rows_only = {id(each.plan) for each in plan.subqueries.values() if each.kind == "EXISTS"}
    return with_plans(plan, lambda root: prune(_unprojected(root), always) if id(root) in rows_only else whole(root))


def _unprojected(node: Node) -> Node:
    """Return an operator with as many rows, below its projections."""
    while isinstance(node, Project):
        node = node.child
    return node


def _named_elsewhere(plan: Plan) -> set[str]:
    """Return the ids of outer columns that subqueries and laterals refer to."""
    roots = [each.plan for each in plan.subqueries.values()]
    for top in roots_of(plan):
        roots += [node.right for node in nodes_of(top) if isinstance(node, Join) and node.lateral]
    found: set[str] = set()
    for root in roots:
        own = {each.id for node in nodes_of(root) for each in node.fields}
        found |= {name for node in nodes_of(root) for each in expressions(node) for name in ids_in(each)} - own
    return found


def _cheapest(fields: Iterable[Field]) -> Field:
    """Return a column that is cheap to read, for operators that only count rows."""
    ranks = {data_type: rank for rank, data_type in enumerate(_CHEAPEST)}
    return min(fields, key=lambda each: (each.name.startswith("$"), each.type[1], ranks.get(each.type[0], len(ranks))))
