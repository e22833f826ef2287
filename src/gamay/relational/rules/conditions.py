"""Predicate pushdown: through projections, joins, groups and set operations, into the tables.

For an OR over several tables, what it implies for one of them is pushed down as well. A condition with a subquery is not
moved: its references to outer columns are not visible in it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gamay.functions.expression import Call, Column, Expression, Literal, replaced, walk
from gamay.functions.registry import ValueType, scalar_function
from gamay.relational.plan import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    Node,
    Plan,
    Project,
    Scan,
    SetOperation,
    Sort,
    Unnest,
    Window,
    ids_in,
    seek_nearest,
    with_plans,
)
from gamay.relational.rules.disjunctions import conjuncts, implied
from gamay.relational.typing import COMPARISONS, NULL, resolved

_COMPARING = COMPARISONS | {"in", "notin", "between"}
# conditions that are null for a null argument, so that a row without a partner fails
_REJECT_NULL = (COMPARISONS | {"in", "between", "like", "regexplike"}) - {"isdistinctfrom", "isnotdistinctfrom"}


def pushed_conditions(plan: Plan) -> Plan:
    """Return the plan with each condition pushed down as far as possible."""
    pushdown = _Pushdown(plan)
    return with_plans(plan, lambda root: pushdown.push(root, ()))


def compares_lists(condition: Expression, types: Mapping[str, ValueType]) -> bool:
    """Whether a condition compares an array with a non-constant, which the single-table engine does not support."""
    for part in walk(condition):
        if isinstance(part, Call) and part.name in _COMPARING:
            compared = [arg for arg in part.args if not isinstance(arg, Literal)]
            if len(compared) > 1 and any(resolved(arg, types)[1][1] for arg in compared):
                return True
    return False


class _Pushdown:
    def __init__(self, plan: Plan) -> None:
        self._subqueries = plan.subqueries.keys()
        self._types = plan.types

    def push(self, node: Node, conditions: Sequence[Expression]) -> Node:
        """Return the node filtered by conditions, pushed down where possible."""
        match node:
            case Filter():
                moving = [part for each in node.conditions if self._moves(each) for part in conjuncts(each)]
                staying = tuple(each for each in node.conditions if not self._moves(each))
                if seek_nearest(node.conditions):
                    child = self.push(node.child, moving)
                    return _filtered(Filter(child, staying) if staying else child, conditions)
                child = self.push(node.child, [*conditions, *moving])
                return Filter(child, staying) if staying else child
            case Scan() if not seek_nearest(node.where):
                asked = [each for each in conditions if not compares_lists(each, self._types)]
                here, above = _split(asked, node.fields)
                above = [*above, *(each for each in conditions if each not in asked)]
                return _filtered(replace(node, where=(*node.where, *here)), above)
            case Project():
                return self._through_project(node, conditions)
            case Join():
                return self._through_join(node, conditions)
            case Aggregate():
                return self._through_groups(node, conditions)
            case Window():
                keys = [set(call.partition_by) for call in node.calls]
                shared = [each for each in node.child.fields if all(each.column in each_keys for each_keys in keys)]
                below, above = _split(conditions, shared)
                return _filtered(replace(node, child=self.push(node.child, below)), above)
            case SetOperation():
                return self._through_set_operation(node, conditions)
            case Distinct() | Sort():
                stops = node.on if isinstance(node, Distinct) else node.limit is not None or node.offset
                child = self.push(node.child, () if stops else conditions)
                return _filtered(replace(node, child=child), conditions if stops else ())
            case Unnest():
                below, above = _split(conditions, node.child.fields)
                return _filtered(replace(node, child=self.push(node.child, below)), above)
            case _:
                return _filtered(node, conditions)

    def _moves(self, condition: Expression) -> bool:
        return ids_in(condition).isdisjoint(self._subqueries) and is_deterministic(condition)

    def _through_project(self, node: Project, conditions: Sequence[Expression]) -> Node:
        """Rewrite conditions on computed columns to conditions on their inputs; tables do not accept NULL."""
        by: dict[Expression, Expression] = {
            made.column: expression
            for made, expression in zip(node.fields, node.expressions, strict=True)
            if self._moves(expression) and expression != NULL
        }
        own = {made.id for made in node.fields}
        below: list[Expression] = []
        above: list[Expression] = []
        for condition in conditions:
            known = all(Column(name) in by for name in ids_in(condition) & own)
            (below if known else above).append(replaced(condition, by) if known else condition)
        return _filtered(replace(node, child=self.push(node.child, below)), above)

    def _through_join(self, node: Join, conditions: Sequence[Expression]) -> Node:
        node = _narrowed(node, conditions)
        on = [part for each in node.conditions if self._moves(each) for part in conjuncts(each)]
        staying = [each for each in node.conditions if not self._moves(each)]
        left: list[Expression] = []
        right: list[Expression] = []
        above: list[Expression] = []
        if node.kind in ("INNER", "CROSS"):
            both: list[Expression] = []
            for condition in (*on, *conditions):
                self._place(condition, node, left, right, both)
            on = both
            for condition in both:
                for side, below in ((node.left, left), (node.right, right)):
                    part = implied(condition, {each.id for each in side.fields})
                    if part is not None:
                        below.append(part)
        else:
            # rows without a partner are output all the same, so only the optional side may lose rows
            kept: list[Expression] = []
            for condition in on:
                into_right = node.kind not in ("RIGHT", "FULL")
                into_left = node.kind in ("RIGHT", "SEMI")
                self._place(condition, node, left if into_left else kept, right if into_right else kept, kept)
            on = kept
            for condition in conditions:
                into_left = node.kind not in ("RIGHT", "FULL")
                into_right = node.kind == "RIGHT"
                self._place(condition, node, left if into_left else above, right if into_right else above, above)
        kind = "INNER" if node.kind == "CROSS" and (on or staying) else node.kind
        made = replace(
            node, kind=kind, left=self.push(node.left, left), right=self.push(node.right, right), conditions=(*on, *staying)
        )
        return _filtered(made, above)

    @staticmethod
    def _place(
        condition: Expression, node: Join, left: list[Expression], right: list[Expression], both: list[Expression]
    ) -> None:
        ids = ids_in(condition)
        if ids <= {each.id for each in node.left.fields}:
            left.append(condition)
        elif ids <= {each.id for each in node.right.fields}:
            right.append(condition)
        else:
            both.append(condition)

    def _through_groups(self, node: Aggregate, conditions: Sequence[Expression]) -> Node:
        keys = [] if node.sets or not node.keys else list(zip(node.fields, node.keys, strict=False))
        by: dict[Expression, Expression] = {made.column: key for made, key in keys if self._moves(key)}
        below: list[Expression] = []
        above: list[Expression] = []
        for condition in conditions:
            moves = bool(by) and all(Column(name) in by for name in ids_in(condition)) and bool(ids_in(condition))
            (below if moves else above).append(replaced(condition, by) if moves else condition)
        return _filtered(replace(node, child=self.push(node.child, below)), above)

    def _through_set_operation(self, node: SetOperation, conditions: Sequence[Expression]) -> Node:
        below, above = _split(conditions, node.fields)
        sides = []
        for side in (node.left, node.right):
            by: dict[Expression, Expression] = {
                made.column: each.column for made, each in zip(node.fields, side.fields, strict=True)
            }
            sides.append(self.push(side, [replaced(condition, by) for condition in below]))
        return _filtered(replace(node, left=sides[0], right=sides[1]), above)


def _narrowed(node: Join, conditions: Sequence[Expression]) -> Join:
    """Narrow an outer join if a condition above it rejects rows without a partner."""
    if node.kind not in ("LEFT", "RIGHT", "FULL"):
        return node
    keeps_left = not any(_rejects(each, node.right.fields) for each in conditions)
    keeps_right = not any(_rejects(each, node.left.fields) for each in conditions)
    # rows of the left without a partner have nulls on the right
    has_left, has_right = node.kind in ("LEFT", "FULL") and keeps_left, node.kind in ("RIGHT", "FULL") and keeps_right
    kind = {(True, True): "FULL", (True, False): "LEFT", (False, True): "RIGHT", (False, False): "INNER"}[
        has_left, has_right
    ]
    return node if kind == node.kind else replace(node, kind=kind)


def _rejects(condition: Expression, fields: Iterable[Field]) -> bool:
    """Whether a condition never holds if all of some columns are null; only simple forms are recognized."""
    if not isinstance(condition, Call) or condition.name not in _REJECT_NULL:
        return False
    ids = {each.id for each in fields}
    args = condition.args[:1] if condition.name == "in" else condition.args  # x IN (NULL, x) holds
    return any(isinstance(arg, Column) and arg.name in ids for arg in args)


def _split(conditions: Iterable[Expression], fields: Iterable[Field]) -> tuple[list[Expression], list[Expression]]:
    """Partition conditions into those that read only some columns, and the others."""
    ids = {each.id for each in fields}
    here: list[Expression] = []
    others: list[Expression] = []
    for condition in conditions:
        (here if ids_in(condition) <= ids else others).append(condition)
    return here, others


def _filtered(node: Node, conditions: Sequence[Expression]) -> Node:
    return Filter(node, tuple(conditions)) if conditions else node


def is_deterministic(expression: Expression) -> bool:
    """Whether an expression of scalar functions has the same value whenever it is evaluated for a row."""
    for part in walk(expression):
        if isinstance(part, Call):
            function = scalar_function(part.name)
            if function is None or not function.is_deterministic:
                return False
    return True
