"""A statement to its answer: bind, optimize, ask the leaves, let DuckDB do what is above them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias

import pyarrow as pa

from gamay.base.errors import QueryError
from gamay.functions.expression import Column
from gamay.model.types import DataType
from gamay.query.response import ResultTable, wire_type
from gamay.relational.binder import bind
from gamay.relational.bounds import NO_BOUNDS, Bounds
from gamay.relational.engine import Deadline, Engine
from gamay.relational.functions import Calls
from gamay.relational.leaf import query_of, to_arrow, vector_of
from gamay.relational.names import Catalog
from gamay.relational.plan import Field, Leaf, Node, Plan, Project, Scan, Sort, nodes_of, roots_of
from gamay.relational.reduction import Reducer, edges_of
from gamay.relational.render import Rendered, render
from gamay.relational.rules import optimized
from gamay.sql.query import Query
from gamay.sql.relational import RelationalStatement
from gamay.sql.row_limits import LIMIT_MAX, STANDARD_LIMITS, RowLimits

AskLeaf: TypeAlias = Callable[[Query], ResultTable]
"""Answers a query of one table; raises QueryError."""

SizeOf: TypeAlias = Callable[[str], int]
"""Returns how many rows a table has."""

# of the rows of a table, what a condition on it may leave
_CONDITION_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement that can be executed. tables: that it reads, each once, as written."""

    plan: Plan
    rendered: Rendered
    calls: Calls

    @property
    def tables(self) -> tuple[str, ...]:
        return tables_of(self.plan)


def prepare(
    statement: RelationalStatement,
    catalog: Catalog,
    limits: RowLimits = STANDARD_LIMITS,
    bounds: Bounds = NO_BOUNDS,
    *,
    null_handling: bool,
) -> Prepared:
    """Plan a statement. limits: what its LIMIT may be, and how many rows it gives at most. Raises QueryError."""
    bound = bind(statement, catalog)
    plan = optimized(replace(bound, root=_limited(bound.root, limits)), null_handling=null_handling)
    calls = Calls()
    return Prepared(plan, render(plan, calls, bounds), calls)


def _limited(root: Node, limits: RowLimits) -> Node:
    """Return a query that gives no more rows than any query may."""
    if limits.most == LIMIT_MAX:
        return root
    node = root
    while isinstance(node, Project):
        node = node.child
    written = node.limit if isinstance(node, Sort) else None
    return Sort(root, (), limits.most if written is None else limits.allowed(written, "LIMIT"))


def execute(
    prepared: Prepared, ask: AskLeaf, size_of: SizeOf, engine: Engine, memory_bytes: int, deadline: Deadline
) -> ResultTable:
    """Return the answer. memory_bytes: what joins, groups and sorts above the leaves may take. Raises QueryError."""
    tables: dict[str, pa.Table] = {}
    leaves = dict(enumerate(prepared.rendered.leaves))
    sizes = {place: _size(leaf, size_of) for place, leaf in leaves.items()}
    reducer = Reducer(edges_of(prepared.plan) if len(leaves) > 1 else (), leaves, sizes)
    while (found := reducer.next()) is not None:
        place, leaf = found
        query = leaf.query if isinstance(leaf, Leaf) else query_of(leaf)
        rows = tables[f"leaf{place}"] = to_arrow(ask(query), leaf.fields)
        reducer.read(leaf, rows)
        deadline.check()
    fields = prepared.plan.root.fields
    copied = _copied(prepared.plan)
    if copied is not None:
        return _result(tables["leaf0"].select(copied).rename_columns([each.id for each in fields]), fields)
    try:
        answer = engine.run(prepared.rendered.sql, tables, prepared.calls.functions.values(), memory_bytes, deadline)
    except QueryError:
        if prepared.calls.watch.exceeded is not None:  # DuckDB passes on no more than its text
            raise prepared.calls.watch.exceeded from None
        raise
    return _result(answer, fields)


def _copied(plan: Plan) -> list[str] | None:
    """Return which columns of its only leaf a plan gives, where it does no more than that."""
    if plan.ctes or plan.subqueries:
        return None
    node, ids = plan.root, [each.id for each in plan.root.fields]
    while isinstance(node, Project):
        made = {each.id: expression for each, expression in zip(node.fields, node.expressions, strict=True)}
        below = [made[each] for each in ids]
        ids = [each.name for each in below if isinstance(each, Column)]
        if len(ids) < len(below):
            return None
        node = node.child
    return ids if isinstance(node, Scan | Leaf) else None


def _size(leaf: Scan | Leaf, size_of: SizeOf) -> float:
    """Return about how many rows a leaf gives."""
    table = leaf.query.table if isinstance(leaf, Leaf) else leaf.table
    rows = float(size_of(table or ""))
    if isinstance(leaf, Leaf):
        return rows * _CONDITION_SHARE if leaf.query.group_by or leaf.query.distinct else 1.0
    return rows * _CONDITION_SHARE ** min(len(leaf.where), 3)


def tables_of(plan: Plan) -> tuple[str, ...]:
    """Return the names of the tables that a plan reads, as written, each once."""
    names: dict[str, None] = {}
    for root in roots_of(plan):
        for node in nodes_of(root):
            if isinstance(node, Scan):
                names[node.table] = None
            elif isinstance(node, Leaf) and node.query.table is not None:
                names[node.query.table] = None
    return tuple(names)


def _result(found: pa.Table, fields: tuple[Field, ...]) -> ResultTable:
    columns = tuple(vector_of(found.column(each.id), *each.type) for each in fields)
    types = tuple(_wire_type(each) for each in fields)
    return ResultTable(tuple(each.name for each in fields), types, columns)


def _wire_type(field: Field) -> str:
    data_type, multi_value = field.type
    return wire_type(DataType.STRING if data_type is DataType.UNKNOWN else data_type, multi_value)
