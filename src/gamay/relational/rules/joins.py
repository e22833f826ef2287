"""Tables that are listed before what joins them come after it, so that no step of a join pairs all rows with all rows.

`FROM day, customer, sales WHERE …` says how days and customers are joined with sales, and nothing of days with customers.
DuckDB orders joins by what it knows of its own tables; of leaves it knows the numbers of rows alone, and may start with the
pairs of all days and customers where that is what the statement has written.
"""

from collections.abc import Iterable, Iterator, Sequence

from gamay.functions.expression import Expression
from gamay.relational.plan import Join, Node, Plan, ids_in, with_children, with_plans
from gamay.relational.rules.conditions import is_deterministic


def connected_joins(plan: Plan) -> Plan:
    """Return the plan with inner joins in an order in which each has a condition, as far as there is one."""

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
    """Yield the inner joins of a tree of them, from the left to the right and from below."""
    if isinstance(node, Join) and node.kind in ("INNER", "CROSS") and not node.lateral:
        yield from _joins(node.left)
        yield from _joins(node.right)
        yield node


def _joined(relations: Sequence[Node], conditions: Sequence[Expression]) -> Node:
    """Return relations joined in the order written, but for those of which no condition tells how yet."""
    inside = {field.id for each in relations for field in each.fields}
    pending = [(condition, ids_in(condition) & inside) for condition in conditions]  # other columns are of a query around
    joined, *left = relations
    while left:
        known = {field.id for field in joined.fields}
        chosen = next((each for each in left if _are_linked(known, each, [ids for _, ids in pending])), left[0])
        left = [each for each in left if each is not chosen]
        known |= {field.id for field in chosen.fields}
        here = tuple(condition for condition, ids in pending if ids <= known)
        pending = [(condition, ids) for condition, ids in pending if not ids <= known]
        joined = Join("INNER" if here else "CROSS", joined, chosen, here)
    return joined


def _are_linked(known: set[str], relation: Node, conditions: Iterable[set[str]]) -> bool:
    """Whether a condition, by the columns that it reads, joins a relation with those of known columns."""
    own = {field.id for field in relation.fields}
    return any(ids & known and ids & own and ids <= known | own for ids in conditions)
