"""Limit pushdown: LIMIT, with its ORDER BY, moves to the sources, to transfer fewer rows.

A single table that supplies all rows applies the limit itself. Where several sources meet, each supplies its first rows, and
the operator remains to choose among them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from gamay.functions.expression import Column, Expression, Literal, replaced
from gamay.relational.leaf import LEAF_LIMIT
from gamay.relational.plan import (
    Join,
    Leaf,
    Node,
    Plan,
    Project,
    Scan,
    SetOperation,
    Sort,
    SortKey,
    ids_in,
    with_children,
    with_plans,
)
from gamay.relational.rules.conditions import is_deterministic
from gamay.relational.rules.leaves import is_exact
from gamay.relational.rules.values import has_value
from gamay.relational.typing import resolved
from gamay.sql.query import OrderBy


def pushed_limits(plan: Plan, *, null_handling: bool) -> Plan:
    """Return the plan with the limits of tables lowered to the rows that LIMIT can use.

    null_handling: whether tables distinguish nulls from default values.
    """
    rule = _Limits(plan, null_handling)
    return with_plans(plan, rule.apply)


class _Limits:
    def __init__(self, plan: Plan, null_handling: bool) -> None:
        self._plan = plan
        self._null_handling = null_handling

    def apply(self, node: Node) -> Node:
        if isinstance(node, Sort):
            keys = tuple(key for key in node.keys if not isinstance(key.expression, Literal))
            whole = self._whole(node.child, keys, node.limit, node.offset)
            if whole is not None:
                return whole
            if node.limit is not None:
                node = replace(node, child=self._first(node.child, keys, node.limit + node.offset))
        return with_children(node, self.apply)

    def _whole(self, node: Node, keys: Sequence[SortKey], limit: int | None, offset: int) -> Node | None:
        """Return a node with exactly the rows wanted, in order; None if it takes more than one source.

        Without a limit, a table's rows are sorted above it, where sorts can spill; groups are in memory anyway.
        """
        match node:
            case Project():
                below = _renamed(keys, _outputs(node))
                child = None if below is None else self._whole(node.child, below, limit, offset)
                return None if child is None else replace(node, child=child)
            case Scan(limit=None) if limit is not None:
                ok = self._can_order({each.id for each in node.fields}, keys)
                order_by = tuple(keys) if self._null_handling else _with_flags(keys)
                return replace(node, order_by=order_by, limit=limit, offset=offset) if ok else None
            case Leaf():
                made: dict[Expression, Expression] = {
                    each.column: item.expression for each, item in zip(node.fields, node.query.select, strict=True)
                }
                if node.query.limit != LEAF_LIMIT or not all(key.expression in made for key in keys):
                    return None
                order = tuple(OrderBy(made[key.expression], key.descending, key.nulls_last) for key in keys)
                most = LEAF_LIMIT if limit is None else limit
                return replace(node, query=replace(node.query, order_by=order, limit=most, offset=offset))
            case _:
                return None

    def _first(self, node: Node, keys: Sequence[SortKey], count: int) -> Node:
        """Return a node with at least the first rows of `node`, and perhaps others."""
        whole = self._whole(node, keys, count, 0)
        if whole is not None:
            return whole
        match node:
            case Project():
                below = _renamed(keys, _outputs(node))
                return node if below is None else replace(node, child=self._first(node.child, below, count))
            case Join(kind="LEFT") if _names(keys) <= {each.id for each in node.left.fields}:
                return replace(node, left=self._first(node.left, keys, count))
            case SetOperation(kind="UNION", all=True):
                return replace(
                    node,
                    left=self._of_branch(node.left, node, keys, count),
                    right=self._of_branch(node.right, node, keys, count),
                )
            case _:
                return node

    def _of_branch(self, branch: Node, union: SetOperation, keys: Sequence[SortKey], count: int) -> Node:
        pairs = list(zip(union.fields, branch.fields, strict=True))
        below = _renamed(keys, {made.column: one.column for made, one in pairs})
        same = all(made.type == one.type for made, one in pairs if made.id in _names(keys))
        return branch if below is None or not same else self._first(branch, below, count)

    def _can_order(self, own: set[str], keys: Sequence[SortKey]) -> bool:
        """Whether the single-table engine sorts in the same order."""
        return all(
            ids_in(key.expression) <= own
            and is_exact(key.expression, self._plan.types)
            and not resolved(key.expression, self._plan.types)[1][1]
            for key in keys
        )


def _with_flags(keys: Sequence[SortKey]) -> tuple[SortKey, ...]:
    """Add keys that put rows without a value where nulls belong, for tables without null handling."""
    found: list[SortKey] = []
    for key in keys:
        condition = has_value(key.expression)
        found += [key] if condition is None else [SortKey(condition, key.nulls_last, True), key]
    return tuple(found)


def _outputs(node: Project) -> dict[Expression, Expression]:
    return {made.column: expression for made, expression in zip(node.fields, node.expressions, strict=True)}


def _renamed(keys: Sequence[SortKey], by: Mapping[Expression, Expression]) -> tuple[SortKey, ...] | None:
    """Translate keys to an operator below; None if they are not deterministic."""
    below = tuple(replace(key, expression=replaced(key.expression, dict(by))) for key in keys)
    computed = (key.expression for key in below if not isinstance(key.expression, Column))
    if not all(is_deterministic(each) for each in computed):
        return None
    return tuple(key for key in below if not isinstance(key.expression, Literal))


def _names(keys: Sequence[SortKey]) -> set[str]:
    return {name for key in keys for name in ids_in(key.expression)}
