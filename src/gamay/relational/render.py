"""Renders a plan as SQL for DuckDB: columns are named by id, leaves are tables `leaf<n>`, subqueries are inlined.

DuckDB orders joins, decorrelates subqueries and spills; the semantics of functions are Gamay's: a few are native
(`gamay.relational.functions` has those with equal results), all others are evaluated by Gamay.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gamay.base.sql_names import quoted
from gamay.functions.expression import FILTERED, Call, Column, Expression, Literal, Star
from gamay.functions.registry import ValueType, aggregate_arguments
from gamay.model.types import DataType
from gamay.relational.bounds import GROUPS, JOIN, WINDOW, Bounds
from gamay.relational.functions import AGGREGATES, COMPARED, Calls, literal_sql, native
from gamay.relational.plan import (
    SUBQUERY,
    Aggregate,
    CteRef,
    Distinct,
    Field,
    Filter,
    Frame,
    FrameBound,
    Join,
    Leaf,
    Node,
    Plan,
    Project,
    Rows,
    Scan,
    SetOperation,
    Sort,
    SortKey,
    Subquery,
    Unnest,
    Values,
    Window,
    WindowCall,
)
from gamay.relational.typing import NULL, ORDERED, compared_type, converted, resolved

_ASOF = {"lessthan": "<", "lessthanorequal": "<=", "greaterthan": ">", "greaterthanorequal": ">="}
# joins with no more rows than their left side
_UNBOUNDED = ("SEMI", "ANTI", "ASOF", "LEFT ASOF")
_WINDOW_NAMES = {
    "rownumber": "row_number",
    "denserank": "dense_rank",
    "percentrank": "percent_rank",
    "cumedist": "cume_dist",
    "firstvalue": "first_value",
    "lastvalue": "last_value",
    "nthvalue": "nth_value",
}


@dataclass(slots=True)
class Rendered:
    """SQL text, the leaves it reads in order, and the functions it calls that DuckDB does not have."""

    sql: str
    leaves: list[Scan | Leaf | Rows] = field(default_factory=list)


def render(plan: Plan, calls: Calls, bounds: Bounds) -> Rendered:
    """Render a plan as SQL; functions that Gamay must evaluate, or limits to enforce, are added to `calls`."""
    renderer = _Renderer(plan, calls, bounds)
    return Rendered(renderer.statement(), renderer.leaves)


class _Renderer:
    def __init__(self, plan: Plan, calls: Calls, bounds: Bounds) -> None:
        self._plan = plan
        self._calls = calls
        self._bounds = bounds
        self.leaves: list[Scan | Leaf | Rows] = []
        self._used_ctes: set[str] = set()

    def statement(self) -> str:
        body = self._node(self._plan.root)
        written: dict[str, str] = {}
        by_name = {each.name: each for each in self._plan.ctes}
        pending = sorted(self._used_ctes)
        while pending:
            name = pending.pop()
            if name in written:
                continue
            written[name] = self._node(by_name[name].plan)
            pending += sorted(self._used_ctes - written.keys())
        if not written:
            return body
        parts = []
        for each in self._plan.ctes:
            if each.name in written:
                columns = ", ".join(quoted(made.id) for made in each.plan.fields)
                parts.append(f"{quoted(each.name)} ({columns}) AS ({written[each.name]})")
        word = "WITH RECURSIVE" if any(each.recursive for each in self._plan.ctes) else "WITH"
        return f"{word} {', '.join(parts)} {body}"

    # -- operators

    def _node(self, node: Node) -> str:
        return _NODES[type(node)](self, node)

    def _from(self, node: Node) -> str:
        """Return the operand of FROM."""
        if isinstance(node, Scan | Leaf | Rows):
            return self._leaf_name(node)
        return f"({self._node(node)})"

    def _bounded(self, kind: str, fields: Sequence[Field], source: str) -> str:
        """Return a query of an operand of FROM, with the row limit enforced, if there is one."""
        columns = self._columns(fields)
        bound = self._bounds.get(kind)
        if bound is None:
            return f"SELECT {columns} FROM {source}"
        numbered = f"SELECT *, row_number() OVER () AS n FROM (SELECT {columns} FROM {source} LIMIT {bound.most + 1})"
        return f"SELECT {columns} FROM ({numbered}) WHERE {self._calls.bounded(kind, bound)}(n)"

    def _leaf_name(self, node: Scan | Leaf | Rows) -> str:
        self.leaves.append(node)
        return f"leaf{len(self.leaves) - 1}"

    def _leaf(self, node: Scan | Leaf | Rows) -> str:
        return f"SELECT {self._columns(node.fields)} FROM {self._leaf_name(node)}"

    def _columns(self, fields: Sequence[Field]) -> str:
        return ", ".join(quoted(each.id) for each in fields) or "1 AS one"

    def _values(self, node: Values) -> str:
        if not node.fields:
            return "SELECT 1 AS one"
        if not node.rows:
            nulls = ", ".join(f"CAST(NULL AS {self._calls.sql_type(made.type)}) AS {made.id}" for made in node.fields)
            return f"SELECT {nulls} WHERE FALSE"
        rows = ", ".join(
            f"({', '.join(self._typed(cell, made.type) for cell, made in zip(row, node.fields, strict=True))})"
            for row in node.rows
        )
        return f"SELECT * FROM (VALUES {rows}) AS v({self._columns(node.fields)})"

    def _typed(self, expression: Expression, value_type: ValueType) -> str:
        return f"CAST({self.expression(expression)} AS {self._calls.sql_type(value_type)})"

    def _cte(self, node: CteRef) -> str:
        self._used_ctes.add(node.name)
        cte = next(each for each in self._plan.ctes if each.name == node.name)
        made = cte.plan.fields
        columns = ", ".join(f"{quoted(one.id)} AS {quoted(other.id)}" for one, other in zip(made, node.fields, strict=True))
        return f"SELECT {columns} FROM {quoted(node.name)}"

    def _filter(self, node: Filter) -> str:
        return f"SELECT * FROM {self._from(node.child)} WHERE {self._conditions(node.conditions)}"

    def _conditions(self, conditions: Sequence[Expression]) -> str:
        return " AND ".join(f"({self.expression(each)})" for each in conditions) or "TRUE"

    def _project(self, node: Project) -> str:
        items = ", ".join(
            f"{self._typed(value, made.type) if value == NULL else self.expression(value)} AS {quoted(made.id)}"
            for made, value in zip(node.fields, node.expressions, strict=True)
        )
        return f"SELECT {items} FROM {self._from(node.child)}"

    def _aggregate(self, node: Aggregate) -> str:
        num_keys = len(node.keys)
        # an integer alone would be a position in the SELECT list
        keys = [
            self._typed(key, made.type) if isinstance(key, Literal) else self.expression(key)
            for key, made in zip(node.keys, node.fields, strict=False)
        ]
        items = [f"{key} AS {quoted(made.id)}" for key, made in zip(keys, node.fields, strict=False)]
        made = node.fields[num_keys:]
        items += [
            f"{self.aggregate(call, each)} AS {quoted(each.id)}" for call, each in zip(node.aggregates, made, strict=False)
        ]
        asked = node.fields[num_keys + len(node.aggregates) :]
        for places, each in zip(node.groupings, asked, strict=True):
            items.append(f"GROUPING({', '.join(keys[place] for place in places)}) AS {quoted(each.id)}")
        source = self._from(node.child)
        if node.sets:
            sets = ", ".join(f"({', '.join(keys[place] for place in one)})" for one in node.sets)
            return self._groups(node, f"SELECT {', '.join(items)} FROM {source} GROUP BY GROUPING SETS ({sets})")
        if not keys:
            return f"SELECT {', '.join(items)} FROM {source}"
        by_place = ", ".join(str(place + 1) for place in range(num_keys))
        return self._groups(node, f"SELECT {', '.join(items)} FROM {source} GROUP BY {by_place}")

    def _groups(self, node: Aggregate, groups: str) -> str:
        return self._bounded(GROUPS, node.fields, f"({groups})") if GROUPS in self._bounds else groups

    def _window(self, node: Window) -> str:
        items = ", ".join(
            f"{self._window_call(call, made)} AS {quoted(made.id)}"
            for call, made in zip(node.calls, node.added, strict=True)
        )
        source = self._from(node.child)
        if WINDOW in self._bounds:
            source = f"({self._bounded(WINDOW, node.child.fields, source)})"
        return f"SELECT *, {items} FROM {source}"

    def _window_call(self, window: WindowCall, made: Field) -> str:
        call = window.call
        parts = []
        if window.partition_by:
            parts.append(f"PARTITION BY {', '.join(self.expression(key) for key in window.partition_by)}")
        if window.order_by:
            parts.append(f"ORDER BY {self._order(window.order_by)}")
        if window.frame is not None:
            parts.append(self._frame(window.frame))
        over = f" OVER ({' '.join(parts)})"
        if call.name in AGGREGATES or call.name in (FILTERED, ORDERED):
            return self.aggregate(call, made, over)
        name = _WINDOW_NAMES.get(call.name, call.name)
        if call.name in _WINDOW_NAMES or call.name in ("rank", "ntile", "lag", "lead"):
            args = ", ".join(self.expression(arg) for arg in call.args)
            nulls = " IGNORE NULLS" if window.ignores_nulls else ""
            return f"CAST({name}({args}{nulls}){over} AS {self._calls.sql_type(made.type)})"
        return self.aggregate(call, made, over)

    def _frame(self, frame: Frame) -> str:
        exclude = f" EXCLUDE {frame.exclude}" if frame.exclude else ""
        return f"{frame.unit} BETWEEN {self._bound(frame.start)} AND {self._bound(frame.end)}{exclude}"

    def _bound(self, bound: FrameBound) -> str:
        if bound.side == "CURRENT ROW":
            return bound.side
        return f"{'UNBOUNDED' if bound.offset is None else self.expression(bound.offset)} {bound.side}"

    def _join(self, node: Join) -> str:
        left, right = self._from(node.left), self._from(node.right)
        if JOIN in self._bounds and not node.lateral:
            right = f"({self._bounded(JOIN, node.right.fields, right)})"
        joined = self._joined(node, left, right)
        has_bound = JOIN in self._bounds and node.kind not in _UNBOUNDED
        return self._bounded(JOIN, node.fields, f"({joined})") if has_bound else joined

    def _joined(self, node: Join, left: str, right: str) -> str:
        if node.kind in ("ASOF", "LEFT ASOF"):
            return self._asof(node, left, right)
        if node.kind == "CROSS":
            return f"SELECT * FROM {left} AS l{self._next()} CROSS JOIN {right} AS r{self._next()}"
        condition = self._conditions(node.conditions)
        lateral = "LATERAL " if node.lateral else ""
        return f"SELECT * FROM {left} AS l{self._next()} {node.kind} JOIN {lateral}{right} AS r{self._next()} ON {condition}"

    def _next(self) -> int:
        self._number = getattr(self, "_number", 0) + 1
        return self._number

    def _asof(self, node: Join, left: str, right: str) -> str:
        """Render an ASOF join; DuckDB finds its inequality among the conditions, which must name the left side first."""
        kind = "ASOF LEFT JOIN" if node.kind == "LEFT ASOF" else "ASOF JOIN"
        return f"SELECT * FROM {left} {kind} {right} ON {self._conditions(node.conditions)}"

    def _set_operation(self, node: SetOperation) -> str:
        word = f"{node.kind} ALL" if node.all else node.kind
        left = self._renamed(node.left, node.fields)
        right = self._renamed(node.right, node.fields)
        return f"(SELECT {left}) {word} (SELECT {right})"

    def _renamed(self, node: Node, fields: Sequence[Field]) -> str:
        columns = ", ".join(
            f"CAST({quoted(one.id)} AS {self._calls.sql_type(other.type)}) AS {quoted(other.id)}"
            for one, other in zip(node.fields, fields, strict=True)
        )
        return f"{columns} FROM {self._from(node)}"

    def _distinct(self, node: Distinct) -> str:
        source = self._from(node.child)
        if not node.on:
            return f"SELECT DISTINCT {self._columns(node.fields)} FROM {source}"
        on = ", ".join(self.expression(each) for each in node.on)
        order = f" ORDER BY {self._order(node.order_by)}" if node.order_by else ""
        return f"SELECT DISTINCT ON ({on}) {self._columns(node.fields)} FROM {source}{order}"

    def _sort(self, node: Sort) -> str:
        order = f" ORDER BY {self._order(node.keys)}" if node.keys else ""
        limit = "" if node.limit is None else f" LIMIT {node.limit}"
        offset = f" OFFSET {node.offset}" if node.offset else ""
        return f"SELECT * FROM {self._from(node.child)}{order}{limit}{offset}"

    def _order(self, keys: Sequence[SortKey]) -> str:
        return ", ".join(
            f"{self.expression(key.expression)} {'DESC' if key.descending else 'ASC'} "
            f"NULLS {'LAST' if key.nulls_last else 'FIRST'}"
            for key in keys
        )

    def _unnest(self, node: Unnest) -> str:
        arrays = [self._as_list(each) for each in node.arrays]
        if node.keeps_nulls:
            arrays = [f"coalesce({array}, [NULL])" for array in arrays]
        items = [f"unnest({array}) AS {quoted(made.id)}" for array, made in zip(arrays, node.added, strict=False)]
        if node.with_ordinality:
            longest = f"greatest({', '.join(f'len({array})' for array in arrays)}, 0)"
            items.append(f"CAST(unnest(range(1, {longest} + 1)) AS INTEGER) AS {quoted(node.added[-1].id)}")
        own = "*, " if node.child.fields else ""
        return f"SELECT {own}{', '.join(items)} FROM {self._from(node.child)}"

    def _as_list(self, expression: Expression) -> str:
        is_list = self._type(expression)[1]
        written = self.expression(expression)
        return written if is_list else f"[{written}]"

    # -- expressions

    def _type(self, expression: Expression) -> ValueType:
        return resolved(expression, self._plan.types)[1]

    def expression(self, expression: Expression) -> str:
        """Return a resolved expression as SQL."""
        if isinstance(expression, Literal):
            return literal_sql(expression, self._calls.decimals)
        if isinstance(expression, Column):
            subquery = self._plan.subqueries.get(expression.name)
            return quoted(expression.name) if subquery is None else self._subquery(subquery)
        assert isinstance(expression, Call)
        if expression.name == SUBQUERY:
            return self._compared(expression)
        types = [self._type(arg) for arg in expression.args]
        call = expression

        def own() -> str:
            return self._calls.written(call, types, self._type(call), self.expression)

        return native(call, types, self.expression, own) or own()

    def _subquery(self, subquery: Subquery) -> str:
        if subquery.kind == "EXISTS":
            return f"EXISTS ({self._node(subquery.plan)})"
        return f"({self._node(subquery.plan)})"

    def _compared(self, call: Call) -> str:
        column = call.args[0]
        assert isinstance(column, Column)
        subquery = self._plan.subqueries[column.name]
        operands: list[str] = []
        columns: list[Expression] = []
        for arg, each in zip(call.args[1:], subquery.plan.fields, strict=True):
            own = self._type(arg)
            to = compared_type(own, each.type, f"{subquery.kind} (SELECT …)")
            kept = to is DataType.UNKNOWN
            operands.append(self.expression(arg if kept else converted(arg, own, to)))
            columns.append(each.column if kept else converted(each.column, each.type, to))
        left = operands[0] if len(operands) == 1 else f"({', '.join(operands)})"
        body = self._node(subquery.plan)
        if columns != [each.column for each in subquery.plan.fields]:
            body = f"SELECT {', '.join(self.expression(each) for each in columns)} FROM ({body})"
        if subquery.kind == "IN":
            return f"({left} IN ({body}))"
        return f"({left} {COMPARED[subquery.operator]} {subquery.kind} ({body}))"

    def aggregate(self, call: Call, made: Field, over: str = "") -> str:
        """Render an aggregate as SQL, with its FILTER, ORDER BY and OVER clauses."""
        condition, order = "", ""
        result_type = made.type
        if call.name == FILTERED:
            condition = f" FILTER (WHERE {self.expression(call.args[1])})"
            call = call.args[0]  # type: ignore[assignment]
        if call.name == ORDERED:
            keys = call.args[1:]
            parts = [
                SortKey(keys[place], bool(_value(keys[place + 1])), bool(_value(keys[place + 2])))
                for place in range(0, len(keys), 3)
            ]
            order = f" ORDER BY {self._order(parts)}"
            call = call.args[0]  # type: ignore[assignment]
        write: Callable[..., str] | None = AGGREGATES.get(call.name)
        read = [arg for arg in call.args if not isinstance(arg, Star)]
        if write is not None and (call.name == "count" or not any(self._type(arg)[1] for arg in read)):
            args = ["*" if isinstance(arg, Star) else self.expression(arg) for arg in call.args]
            if call.name == "avg" and result_type[0] is DataType.BIG_DECIMAL:
                return self._calls.decimal_average(f"sum({args[0]}){condition}{over}", f"count({args[0]}){condition}{over}")
            return f"CAST({write(args, order)}{condition}{over} AS {self._calls.sql_type(result_type)})"
        types = [(arg, self._type(arg)) for arg in aggregate_arguments(call)]
        return self._calls.aggregate(call, types, result_type, self.expression, condition, over)


def _value(expression: Expression) -> object:
    return expression.value if isinstance(expression, Literal) else None


_NODES: dict[type, Callable[..., str]] = {
    Scan: _Renderer._leaf,
    Leaf: _Renderer._leaf,
    Rows: _Renderer._leaf,
    Values: _Renderer._values,
    CteRef: _Renderer._cte,
    Filter: _Renderer._filter,
    Project: _Renderer._project,
    Aggregate: _Renderer._aggregate,
    Window: _Renderer._window,
    Join: _Renderer._join,
    SetOperation: _Renderer._set_operation,
    Distinct: _Renderer._distinct,
    Sort: _Renderer._sort,
    Unnest: _Renderer._unnest,
}
