"""Inlines dimension tables that were read as constants into the query of the fact table; see
`gamay.relational.rules.stars`."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.expression import Expression, Literal, replaced
from gamay.functions.scalar.table.joined import encoded
from gamay.model.types import DataType
from gamay.relational.keys import KeySet
from gamay.relational.leaf import with_leaf_queries
from gamay.relational.plan import Node, Plan, Project, StarGroups, with_children, with_plans, with_root
from gamay.sql.query import Query

Run: TypeAlias = Callable[[Plan], pa.Table]
"""Runs a plan; columns are named by the ids of its fields."""

_ROWS_MAX = 1 << 20


def with_known_stars(plan: Plan, run: Run) -> Plan:
    """Return a plan whose star joins are replaced by fact table queries, with the dimension tables read and inlined."""

    def apply(node: Node) -> Node:
        return _known(node, plan, run, apply) if isinstance(node, StarGroups) else with_children(node, apply)

    root = apply(plan.root)
    return with_plans(with_root(plan, root), lambda each: each if each is root else apply(each))


def _known(star: StarGroups, plan: Plan, run: Run, apply: Callable[[Node], Node]) -> Node:
    constants: dict[Expression, Expression] = {}
    conditions: dict[Expression, Expression] = {}
    for lookup in star.lookups:
        wanted = (lookup.key, *(each for each in lookup.attributes if each != lookup.key))
        root = Project(lookup.root, wanted, tuple(each.column for each in wanted))
        rows = run(with_root(plan, root))
        if rows.column(lookup.key.id).null_count:
            rows = rows.filter(pc.is_valid(rows.column(lookup.key.id)))
        keys = _plain(rows.column(lookup.key.id))
        known = KeySet.of(keys, lookup.key.type[0])
        if rows.num_rows > _ROWS_MAX or (known.number < rows.num_rows and lookup.kind != "SEMI"):
            return apply(star.whole)
        constants |= {
            Literal(each.id.encode(), DataType.BYTES): Literal(encoded(keys, _plain(rows.column(each.id))), DataType.BYTES)
            for each in lookup.attributes
        }
        if lookup.found is not None:
            conditions[lookup.found] = known.holds(lookup.column)
    names = star.fact.column_names
    held = {replaced(one, names): replaced(other, names) for one, other in conditions.items()}

    def with_constants(query: Query) -> Query:
        where = None if query.where is None else replaced(query.where, held | constants)
        return replace(query, where=where, constants=constants)

    return with_leaf_queries(star.groups, with_constants)


def _plain(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
