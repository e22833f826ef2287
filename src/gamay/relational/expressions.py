"""Expressions of a relational query: columns by id, subqueries, window functions, ordered aggregates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from sqlglot import exp

from gamay.base.errors import QueryError
from gamay.functions.expression import FILTERED, Call, Column, Expression, Literal, column_names, replaced
from gamay.functions.items import WRITTEN, element, of_map
from gamay.functions.registry import condition_positions, is_aggregate
from gamay.functions.scalar.time.time_units import start_of_unit
from gamay.model.index.timestamp_index import INDEXED_TYPES, timestamp_column
from gamay.model.types import DataType
from gamay.query.bind.conditions import parsed_condition
from gamay.query.bind.scope import with_null_defaults
from gamay.relational.names import Context, Scope
from gamay.relational.plan import SUBQUERY, Field, Frame, FrameBound, Node, SortKey, Subquery, WindowCall
from gamay.relational.scores import score_column
from gamay.relational.typing import ORDERED, resolved
from gamay.sql.answers import ASKED
from gamay.sql.gapfill import OF_ONE_TABLE
from gamay.sql.text.slots import Slot, members, with_members
from gamay.sql.text.tokens import FUNCTION_MARK
from gamay.sql.translate.expressions import Translator, row_members

_ITEM_ARGUMENTS = 2
_COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "equals",
    exp.NEQ: "notequals",
    exp.LT: "lessthan",
    exp.LTE: "lessthanorequal",
    exp.GT: "greaterthan",
    exp.GTE: "greaterthanorequal",
}


_SAME_OF_DISTINCT = frozenset({"min", "max", "booland", "boolor"})


@dataclass(frozen=True, slots=True)
class PendingWindow:
    """A window function as written; its id acts as a column until the SELECT is bound."""

    id: str
    call: WindowCall


@dataclass(frozen=True, slots=True)
class ExpressionBinder(Translator):
    """Binder of the expressions of one SELECT.

    subselect: binds a subquery within a scope. aliases: expressions of the SELECT list by name, where they may be used.
    windows: collects the window functions found. named_windows: of the WINDOW clause.
    """

    context: Context = field(kw_only=True)
    scope: Scope = field(kw_only=True)
    subselect: Callable[[exp.Expr, Scope], Node] = field(kw_only=True)
    aliases: dict[str, Expression] = field(default_factory=dict)
    windows: list[PendingWindow] = field(default_factory=list)
    named_windows: dict[str, exp.Expr] = field(default_factory=dict)

    def expression(self, node: exp.Expr) -> Expression:
        """Bind an expression; raises QueryError for one that is invalid here."""
        handler = _HANDLERS.get(type(node))
        if handler is not None:
            return handler(self, node)
        if type(node) in _COMPARED:
            special = self._of_any_or_all(node, _COMPARED[type(node)])
            if special is not None:
                return special
        found = Translator.expression(self, node)
        if not isinstance(found, Call):
            return found
        if found.name == "gapfill":
            raise self.error(node, OF_ONE_TABLE)
        if found.name in ASKED:
            return self.context.catalog.answer(found)
        if found.name == "textscore":
            return score_column(self.context, node, found)
        if found.name == "jsonextractscalar" and self.context.null_handling:
            return with_null_defaults(found)
        return self._item(node, found) if found.name == "item" else self._with_conditions(found)

    def _with_conditions(self, call: Call) -> Call:
        """Return a call with the text conditions of its aggregate bound."""
        args = list(call.args)
        for position in condition_positions(call):
            condition = parsed_condition(call.name, args[position])
            by: dict[Expression, Expression] = {
                Column(name): self._column_of(name.split(".")) for name in column_names(condition)
            }
            args[position] = replaced(condition, by)
        return Call(call.name, tuple(args))

    def _distinct_aggregate(self, node: exp.Expr, name: str, parts: Sequence[exp.Expr]) -> Expression:
        if name in _SAME_OF_DISTINCT and len(parts) == 1 and len(parts[0].expressions) == 1:
            return Call(name, (self.expression(parts[0].expressions[0]),))
        return Translator._distinct_aggregate(self, node, name, parts)

    def error(self, node: exp.Expr, message: str) -> QueryError:
        return self.context.error(node, message)

    def sort_key(self, node: exp.Expr) -> SortKey:
        descending = bool(node.args.get("desc"))
        return SortKey(self.expression(node.this), descending, not node.args.get("nulls_first"))

    # -- names

    def _named(self, node: exp.Expr) -> Expression:
        if isinstance(node.this, exp.Star):
            raise self.error(node, f"{node.args['table'].name}.* is allowed only as an item of the SELECT list")
        parts = [part.name for key in ("catalog", "db", "table") if (part := node.args.get(key)) is not None]
        return self._column_of([*parts, node.name])

    def _column_of(self, parts: Sequence[str]) -> Expression:
        found = self.scope.find(parts)
        if found is not None:
            return found.column
        if len(parts) == 1 and parts[0].lower() in self.aliases:
            return self.aliases[parts[0].lower()]
        derived = self._timestamp_column(parts)
        if derived is not None:
            return derived
        raise self.scope.unknown(parts)

    def _timestamp_column(self, parts: Sequence[str]) -> Expression | None:
        """Return the expression of a timestamp index column, `t."$ts$DAY"`; None for other names."""
        derived = timestamp_column(parts[-1])
        times = None if derived is None else self.scope.find([*parts[:-1], derived.base])
        if derived is None or times is None or times.type[1] or times.type[0] not in INDEXED_TYPES:
            return None
        if any(parts[-1] in schema for schema in self.context.catalog.schemas().values()):
            return None  # it may be a real column of that table
        return start_of_unit(derived.granularity, times.column)

    def _item(self, node: exp.Expr, call: Call) -> Expression:
        """Bind `m['k']` of a map or `a[1]` of an array: NULL if there is no such key or element."""
        if len(call.args) != _ITEM_ARGUMENTS:
            raise self.error(node, WRITTEN)
        column, key = call.args
        null = Literal(None, DataType.UNKNOWN)
        values = self.context.map_values.get(column.name) if isinstance(column, Column) else None
        if values is not None:
            return of_map(column, values, key, null)
        data_type, multi_value = resolved(column, self.context.types)[1]
        if not multi_value:
            raise self.error(node, f"{self.context.text_of(column)} is neither a MAP of a table nor an array: {WRITTEN}")
        found = element(column, data_type, key)
        is_there = Call("greaterthanorequal", (Call("arraylength", (column,)), key))
        from_one = Call("greaterthan", (key, Literal(0, DataType.INT)))
        return Call("case", (Call("and", (from_one, is_there)), found, null))

    def _listed(self, node: exp.Expr) -> Expression:
        """Bind `x IN (…)`: constants, or a subquery."""
        query = node.args.get("query")
        if query is not None:
            return self._compared_with(node.this, query, "IN")
        call = Translator._in(self, node)
        assert isinstance(call, Call)
        return with_members(call)

    def _constant(self, node: exp.Expr) -> Expression:
        found = Translator._literal(self, node)
        if isinstance(found, Literal) and len(members(found)) > 1:
            if isinstance(node.parent, exp.In) and node.arg_key == "expressions":
                return found
            raise self.error(node, "a list in parentheses is not a value")
        return Literal(found.value, found.type) if isinstance(found, Slot) else found

    # -- subqueries

    def _scalar(self, node: exp.Expr) -> Expression:
        plan = self._plan(node)
        if len(plan.fields) != 1:
            raise self.error(node, f"a subquery in an expression must have one column, not {len(plan.fields)}")
        return self._subquery(Subquery("SCALAR", plan), plan.fields[0])

    def _exists(self, node: exp.Expr) -> Expression:
        return self._subquery(Subquery("EXISTS", self._plan(node.this)))

    def _compared_with(self, operand: exp.Expr, query: exp.Expr, kind: str, operator: str = "equals") -> Expression:
        plan = self._plan(query)
        operands = [self.expression(part) for part in row_members(operand)]
        if len(operands) != len(plan.fields):
            raise self.error(operand, f"{kind} compares {len(operands)} value(s) with {len(plan.fields)} column(s)")
        return Call(SUBQUERY, (self._subquery(Subquery(kind, plan, operator)), *operands))

    def _of_any_or_all(self, node: exp.Expr, operator: str) -> Expression | None:
        """Bind `x > ANY (SELECT …)`; None for another comparison."""
        right = node.args["expression"]
        if not isinstance(right, exp.Any | exp.All):
            return None
        return self._compared_with(node.args["this"], right.this, "ANY" if isinstance(right, exp.Any) else "ALL", operator)

    def _plan(self, node: exp.Expr) -> Node:
        while isinstance(node, exp.Subquery | exp.Paren) and not node.args.get("alias"):
            if isinstance(node, exp.Subquery) and any(node.args.get(key) for key in ("order", "limit", "offset", "with_")):
                break
            node = node.this
        return self.subselect(node, self.scope)

    def _subquery(self, subquery: Subquery, of: Field | None = None) -> Column:
        made = self.context.field("", (DataType.BOOLEAN, False) if of is None else of.type)
        self.context.subqueries[made.id] = subquery
        return made.column

    # -- aggregates and windows

    def _ordered(self, node: exp.Expr) -> Expression:
        call = self.expression(node.this)
        if not isinstance(call, Call) or call.name not in ("listagg", "arrayagg"):
            raise self.error(node, "WITHIN GROUP (ORDER BY …) must follow LISTAGG or ARRAYAGG")
        keys: list[Expression] = []
        for part in node.args["expression"].expressions:
            key = self.sort_key(part)
            flags = (Literal(flag, DataType.BOOLEAN) for flag in (key.descending, key.nulls_last))
            keys += (key.expression, *flags)
        return Call(ORDERED, (call, *keys))

    def _windowed(self, node: exp.Expr) -> Expression:
        function, nulls = _null_treatment(node.this)
        call = self.expression(function)
        if isinstance(call, Column):
            raise self.error(node, "window functions cannot be nested")
        if not isinstance(call, Call):
            raise self.error(node, "OVER must follow a function")
        spec = self._window_spec(node)
        partition_by = tuple(self.expression(part) for part in spec.args.get("partition_by") or ())
        order = spec.args.get("order")
        order_by = () if order is None else tuple(self.sort_key(part) for part in order.expressions)
        frame = self._frame(node if node.args.get("spec") is not None else spec)
        if frame is not None and call.name in _WITHOUT_FRAME:
            raise self.error(node, f"{_shown(function)} takes no frame: leave ROWS or RANGE out")
        if nulls is not None and call.name not in _TREATS_NULLS:
            raise self.error(
                node, f"{nulls} NULLS is allowed with {', '.join(_TREATS_NULLS.values())}, not with {_shown(function)}"
            )
        if frame is not None and frame.adds_to_key and len(order_by) != 1:
            raise self.error(node, "RANGE with an offset needs ORDER BY one expression")
        made = WindowCall(call, partition_by, order_by, frame, nulls == "IGNORE")
        for known in self.windows:
            if known.call == made:
                return Column(known.id)
        self.windows.append(PendingWindow(f"w{self.context.number()}", made))
        return Column(self.windows[-1].id)

    def _window_spec(self, node: exp.Expr) -> exp.Expr:
        """Return the window, resolving the name of a WINDOW clause after OVER."""
        alias = node.args.get("alias")
        if alias is None:
            return node
        name = alias.name
        named = self.named_windows.get(name.lower())
        if named is None:
            raise self.error(node, f"no WINDOW is called '{name}' in this query")
        own_order = node.args.get("order")
        base = self._window_spec(named) if named.args.get("alias") is not None else named
        if own_order is None and not node.args.get("partition_by"):
            return base
        return exp.Window(
            partition_by=node.args.get("partition_by") or base.args.get("partition_by"),
            order=own_order or base.args.get("order"),
            spec=node.args.get("spec") or base.args.get("spec"),
        )

    def _frame(self, node: exp.Expr) -> Frame | None:
        spec = node.args.get("spec")
        if spec is None:
            return None
        start = self._bound(spec, "start")
        end = self._bound(spec, "end") if spec.args.get("end") else FrameBound("CURRENT ROW")
        exclude = spec.args.get("exclude")
        if _rank(start) > _rank(end):
            raise self.error(node, "Window frame lower bound can't be greater than upper bound")
        return Frame(str(spec.args["kind"]).upper(), start, end, "" if exclude is None else exclude.name.upper())

    def _bound(self, spec: exp.Expr, which: str) -> FrameBound:
        value, side = spec.args[which], spec.args.get(f"{which}_side")
        if value == "CURRENT ROW":
            return FrameBound("CURRENT ROW")
        side = str(side or "PRECEDING").upper()
        if value == "UNBOUNDED":
            return FrameBound(side)
        offset = self.expression(value)
        number = offset.value if isinstance(offset, Literal) else None
        may_be = int if str(spec.args["kind"]).upper() != "RANGE" else int | float | Decimal
        if isinstance(number, bool) or not isinstance(number, may_be):
            what = "whole number" if may_be is int else "number"
            raise self.error(spec, f"the offset of a frame must be a constant {what}, 0 or more: ROWS 2 PRECEDING")
        return FrameBound(side, offset)


def _null_treatment(function: exp.Expr) -> tuple[exp.Expr, str | None]:
    """Split IGNORE NULLS or RESPECT NULLS, after or within the parentheses, from a window function."""
    kinds: dict[type[exp.Expr], str] = {exp.IgnoreNulls: "IGNORE", exp.RespectNulls: "RESPECT"}
    if type(function) in kinds:
        return function.this, kinds[type(function)]
    args = function.expressions if isinstance(function, exp.Anonymous) else []
    treated = [kinds[type(arg)] for arg in args if type(arg) in kinds]
    if len(treated) != 1:
        return function, None
    plain = [arg.this if type(arg) in kinds else arg for arg in args]
    return exp.Anonymous(this=function.this, expressions=plain), treated[0]


def _shown(function: exp.Expr) -> str:
    """Return the name of a function as written."""
    return function.name.removeprefix(FUNCTION_MARK).upper()


_TREATS_NULLS = {
    "lag": "LAG",
    "lead": "LEAD",
    "firstvalue": "FIRST_VALUE",
    "lastvalue": "LAST_VALUE",
    "nthvalue": "NTH_VALUE",
}
_WITHOUT_FRAME = frozenset({"rownumber", "rank", "denserank", "ntile", "lag", "lead", "percentrank", "cumedist"})
_SIDES = ("PRECEDING", "CURRENT ROW", "FOLLOWING")


def _rank(bound: FrameBound) -> int:
    return _SIDES.index(bound.side)


def aggregates_in(expression: Expression) -> list[Call]:
    """Return the outermost aggregates of an expression."""
    if not isinstance(expression, Call):
        return []
    if expression.name in (FILTERED, ORDERED) or is_aggregate(expression.name):
        return [expression]
    return [call for arg in expression.args for call in aggregates_in(arg)]


_HANDLERS: dict[type[exp.Expr], Callable[[ExpressionBinder, exp.Expr], Expression]] = {
    exp.Column: ExpressionBinder._named,
    exp.Literal: ExpressionBinder._constant,
    exp.In: ExpressionBinder._listed,
    exp.Exists: ExpressionBinder._exists,
    exp.Subquery: ExpressionBinder._scalar,
    exp.Select: ExpressionBinder._scalar,
    exp.Union: ExpressionBinder._scalar,
    exp.Window: ExpressionBinder._windowed,
    exp.WithinGroup: ExpressionBinder._ordered,
}
