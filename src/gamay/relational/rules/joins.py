"""Join reordering: tables follow those that connect them, so that no step of a join is a cross product.

`FROM day, customer, sales WHERE …` joins days and customers with sales, but not days with customers. DuckDB orders joins by
the statistics of its own tables; of leaves it knows only the numbers of rows, and may start with the cross product of days
and customers if the statement is written so.
"""

from collections.abc import Iterator, Sequence

from gamay.functions.expression import Expression
from gamay.relational.plan import Join, Node, Plan, ids_in, with_children, with_plans
from gamay.relational.rules.conditions import is_deterministic


def connected_joins(plan: Plan) -> Plan:
    """Return the plan with inner joins reordered so that each has a condition, as far as possible."""

    def moves(condition: Expression) -> bool:
        return ids_in(condition).isdisjoint(plan.subqueries) and is_deterministic(condition)

    def connected(node: Node) -> Node:
        joins = list(_joins(node))
        if all(join.conditions for join in joins) or not all(moves(each) for join in joins for each in join.conditions):
            return with_children(node, connected)
        relations = [side for join in joins for side in (join.left, join.right) if not any(side is each for each in joins)]
        conditions = [each for join in joins for each in join.conditions]
        return _joined([connected(each) for each in relations], conditions)

    return with_plans(plan, connected)


def _joins(node: Node) -> Iterator[Join]:
    """Yield the inner joins of a tree, left to right and bottom-up."""
    if isinstance(node, Join) and node.kind in ("INNER", "CROSS") and not node.lateral:
        yield from _joins(node.left)
        yield from _joins(node.right)
        yield node


def _joined(relations: Sequence[Node], conditions: Sequence[Expression]) -> Node:
    """Join relations in the order written, but defer those that no condition connects yet."""
    place_of = {field.id: place for place, each in enumerate(relations) for field in each.fields}
    # positions of the relations that each condition reads; other columns belong to an outer query
    pending = [(each, {place_of[name] for name in ids_in(each) if name in place_of}) for each in conditions]
    joined, known, left = relations[0], {0}, set(range(1, len(relations)))
    while left:
        missing = [places - known for _, places in pending if places & known]
        linked = [place for places in missing if len(places) == 1 for place in places]
        chosen = min(linked or left)
        known.add(chosen)
        left.remove(chosen)
        here = tuple(condition for condition, places in pending if places <= known)
        pending = [(condition, places) for condition, places in pending if not places <= known]
        joined = Join("INNER" if here else "CROSS", joined, relations[chosen], here)
    return joined
