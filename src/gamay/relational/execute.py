"""Executes a statement: bind, optimize, ask the leaves, run the operators above them in DuckDB."""

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from gamay.base.errors import QueryError
from gamay.functions.expression import Column, Literal, walk
from gamay.model.schema.schema import Schema
from gamay.model.types import DataType
from gamay.query.answer.response import ResultTable, wire_type
from gamay.query.stats import QueryStats
from gamay.relational.binder import bind
from gamay.relational.bounds import NO_BOUNDS, Bounds, Watch
from gamay.relational.deadline_watch import Deadline
from gamay.relational.dimensions import DimensionReader, FunctionGuard
from gamay.relational.engine import Engine
from gamay.relational.explain import leaf_text, shown_names
from gamay.relational.functions import Calls, decimal_type
from gamay.relational.keys import KeySet
from gamay.relational.leaf import ARROW_TYPES, query_of, to_arrow, vector_of
from gamay.relational.names import Catalog
from gamay.relational.plan import (
    Field,
    Leaf,
    Node,
    Plan,
    Project,
    Rows,
    Scan,
    Sort,
    expressions,
    nodes_of,
    roots_of,
    with_root,
)
from gamay.relational.plans.cache import PlanCache
from gamay.relational.profile import EngineRun, LeafRun, Profile
from gamay.relational.reduction import Reducer, edges_of
from gamay.relational.render import render
from gamay.relational.rules import optimized
from gamay.relational.rules.limits import pushed_limits
from gamay.relational.rules.stars import SizeOf, with_stars
from gamay.relational.semijoins import semi_join_of
from gamay.relational.stars import with_known_stars
from gamay.sql.options.row_limits import LIMIT_MAX, STANDARD_LIMITS, RowLimits
from gamay.sql.query import Query
from gamay.sql.relational import RelationalStatement
from gamay.sql.text.errors import nested_too_deeply

AskLeaf: TypeAlias = Callable[[Query], tuple[ResultTable, QueryStats]]
"""Answers a query of one table, and returns its statistics; raises QueryError."""
SchemaOf: TypeAlias = Callable[[str], Schema]

# estimated selectivity of a condition on a table
_CONDITION_SHARE = 0.2
# maximum rows of a table that is turned into a condition on another one
_SEMI_JOIN_ROWS = 1 << 18
# types of result columns that are not those of their values: Pinot's multi-stage engine has no type for JSON
_RESULT_TYPES = {DataType.JSON: DataType.STRING}


@dataclass(frozen=True, slots=True)
class Prepared:
    """A statement ready for execution. watch: records kinds of dropped rows."""

    plan: Plan
    size_of: SizeOf
    bounds: Bounds
    watch: Watch
    null_handling: bool


@dataclass(frozen=True, slots=True)
class ExecutionContext:
    """The resources for executing a statement.

    schema_of: returns the schema of a typed dimension table; raises QueryError. memory_bytes: for joins, groups and sorts
    above the leaves. clock: seconds. profile: filled during execution. scans: rows of the scans read so far, by query; a
    statement often reads the same rows twice.
    """

    ask: AskLeaf
    schema_of: SchemaOf
    engine: Engine
    memory_bytes: int
    deadline: Deadline
    clock: Callable[[], float]
    profile: Profile
    scans: dict[Hashable, pa.Table] = field(default_factory=dict)

    @property
    def dimensions(self) -> DimensionReader:
        """Reader of the tables of lookUp."""
        return DimensionReader(self.schema_of, lambda query: self.ask(query)[0])


def prepare(
    statement: RelationalStatement,
    catalog: Catalog,
    limits: RowLimits = STANDARD_LIMITS,
    bounds: Bounds = NO_BOUNDS,
    *,
    null_handling: bool,
    plans: PlanCache | None = None,
) -> Prepared:
    """Plan a statement. limits: for its LIMIT and its number of rows. Raises QueryError.

    plans: cache of plans, or None.
    """

    def make(tables: Catalog, literals: tuple[Literal, ...]) -> Plan:
        try:
            bound = bind(replace(statement, literals=literals), tables, null_handling=null_handling)
            plan = optimized(replace(bound, root=_limited(bound.root, limits)), null_handling=null_handling)
            return with_stars(plan, partial(_size, table_rows=tables.size), null_handling=null_handling)
        except RecursionError:
            raise nested_too_deeply() from None

    if plans is None:
        plan = make(catalog, statement.literals)
    else:
        plan = plans.plan(statement, (statement.text, statement.described, limits, null_handling), catalog, make)
    return Prepared(plan, partial(_size, table_rows=catalog.size), bounds, Watch(), null_handling)


def _limited(root: Node, limits: RowLimits) -> Node:
    """Limit a query to the maximum number of rows."""
    if limits.most == LIMIT_MAX:
        return root
    node = root
    while isinstance(node, Project):
        node = node.child
    written = node.limit if isinstance(node, Sort) else None
    return Sort(root, (), limits.most if written is None else limits.allowed(written, "LIMIT"))


def execute(prepared: Prepared, context: ExecutionContext) -> ResultTable:
    """Run a prepared statement. Raises QueryError."""
    if _is_empty(prepared.plan.root):
        return _no_rows(prepared.plan.root.fields)
    try:
        answer = _run(prepared.plan, prepared, context)
    except QueryError:
        if prepared.watch.exceeded is not None:  # DuckDB passes on only the text of the error
            raise prepared.watch.exceeded from None
        raise
    return _result(answer, prepared.plan.root.fields)


def _run(plan: Plan, prepared: Prepared, context: ExecutionContext) -> pa.Table:
    """Return the rows of a plan, with columns named by the ids of its fields."""
    known = with_known_stars(plan, lambda part: _run(part, prepared, context))
    plan = pushed_limits(known, null_handling=prepared.null_handling)
    plan, read = _read(plan, prepared, context)
    copied = _copied(plan)
    if copied is not None:
        return read[copied[0]].select(copied).rename_columns([each.id for each in plan.root.fields])
    guard = FunctionGuard(context.deadline.check, context.dimensions.tables_of(plan))
    calls = Calls(prepared.watch, decimal_type(_types(read), _decimals(plan)), guard)
    rendered = render(plan, calls, prepared.bounds)
    tables = {f"leaf{place}": read[leaf.fields[0].id] for place, leaf in enumerate(rendered.leaves)}
    begun_s, profile = context.clock(), context.profile
    found, operators = context.engine.run(
        rendered.sql, tables, calls.functions.values(), context.memory_bytes, context.deadline
    )
    names = shown_names(plan) if profile.analyzes else {}
    profile.runs.append(EngineRun(found.num_rows, 1000 * (context.clock() - begun_s), operators, names))
    return found


def _types(read: Mapping[str, pa.Table]) -> Iterator[pa.DataType]:
    for table in read.values():
        yield from table.schema.types


def _decimals(plan: Plan) -> Iterator[Decimal]:
    """Yield the BIG_DECIMAL constants of a plan."""
    for root in roots_of(plan):
        for node in nodes_of(root):
            for expression in expressions(node):
                for part in walk(expression):
                    if isinstance(part, Literal) and isinstance(part.value, Decimal):
                        yield part.value


def _read(plan: Plan, prepared: Prepared, context: ExecutionContext) -> tuple[Plan, dict[str, pa.Table]]:
    """Read the leaves; return the plan without those that became conditions, and the rows of each column id."""
    leaves = [node for root in roots_of(with_root(plan, plan.root)) for node in nodes_of(root)]
    by_place = {place: each for place, each in enumerate(leaves) if isinstance(each, Scan | Leaf | Rows)}
    reducer = Reducer(edges_of(plan) if len(by_place) > 1 else (), by_place, prepared.size_of)
    read: dict[str, pa.Table] = {}
    whole = plan
    while (found := reducer.next()) is not None:
        leaf = found[1]
        rows = _rows(leaf, whole, context)
        read |= dict.fromkeys((each.id for each in leaf.fields), rows)
        required = None
        if isinstance(leaf, Scan) and rows.num_rows <= _SEMI_JOIN_ROWS and not prepared.bounds:
            semi_join = semi_join_of(plan, leaf, reducer.waiting)
            if semi_join is not None:
                values = rows.column(semi_join.key).drop_null().combine_chunks()
                keys = KeySet.of(values, plan.types[semi_join.key][0])
                if keys.number == len(values):
                    plan, required = semi_join.without, semi_join.target
                    reducer.require(required, keys)
        reducer.read(leaf, rows, required)
        context.deadline.check()
    return plan, read


def _rows(leaf: Scan | Leaf | Rows, plan: Plan, context: ExecutionContext) -> pa.Table:
    """Return the rows of a leaf, with columns named by the ids of its fields."""
    begun_s, stats = context.clock(), None
    if isinstance(leaf, Rows):
        name = leaf.name
        rows = leaf.table.select([each.name for each in leaf.fields]).rename_columns([each.id for each in leaf.fields])
        groups = False
    else:
        query = leaf.query if isinstance(leaf, Leaf) else query_of(leaf)
        name, groups = query.table or "", bool(query.group_by) or query.distinct
        shared = _shared(query) if isinstance(leaf, Scan) else None
        known = context.scans.get(shared)
        if known is None:
            found, stats = context.ask(query)
            known = to_arrow(found, leaf.fields)
        if shared is not None:
            context.scans[shared] = known
        rows = known.rename_columns([each.id for each in leaf.fields])
    text = leaf_text(plan, leaf) if context.profile.analyzes else ""
    took_ms = 1000 * (context.clock() - begun_s)
    context.profile.leaves.append(LeafRun(text, frozenset(rows.column_names), name, rows.num_rows, took_ms, groups, stats))
    return rows


def _shared(query: Query) -> Hashable:
    """Return the key under which scans with the same rows are shared."""
    return (
        query.table,
        tuple(item.expression for item in query.select),
        query.where,
        query.order_by,
        query.limit,
        query.offset,
    )


def _copied(plan: Plan) -> list[str] | None:
    """Return the columns of its only leaf that a plan outputs, or None if it does anything else."""
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
    return ids if isinstance(node, Scan | Leaf | Rows) else None


def _size(root: Node, *, table_rows: Callable[[str], int]) -> float:
    """Estimate the number of rows that an operator's tables yield."""
    rows = 0.0
    for node in nodes_of(root):
        if isinstance(node, Leaf):
            of_table = float(table_rows(node.query.table or ""))
            rows += of_table * _CONDITION_SHARE if node.query.group_by or node.query.distinct else 1.0
        elif isinstance(node, Scan):
            kept = float(table_rows(node.table)) * _CONDITION_SHARE ** min(len(node.where), 3)
            rows += kept if node.limit is None else min(kept, node.limit)
        elif isinstance(node, Rows):
            rows += node.table.num_rows
    return rows


def _is_empty(root: Node) -> bool:
    """Whether the outermost LIMIT is 0, by which clients ask for the columns of an answer: nothing is read then."""
    node = root
    while isinstance(node, Project):
        node = node.child
    return isinstance(node, Sort) and node.limit == 0


def _no_rows(fields: tuple[Field, ...]) -> ResultTable:
    elements = [(ARROW_TYPES.get(each.type[0], pa.string()), each.type[1]) for each in fields]
    arrays = [pa.array([], pa.list_(element) if is_list else element) for element, is_list in elements]
    return _result(pa.Table.from_arrays(arrays, names=[each.id for each in fields]), fields)


def _result(found: pa.Table, fields: tuple[Field, ...]) -> ResultTable:
    types = [
        (_RESULT_TYPES.get(data_type, data_type), multi_value) for data_type, multi_value in (each.type for each in fields)
    ]
    columns = tuple(vector_of(found.column(each.id), *shown) for each, shown in zip(fields, types, strict=True))
    return ResultTable(tuple(each.name for each in fields), tuple(wire_type(*shown) for shown in types), columns)
