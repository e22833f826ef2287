"""Binds a statement to a logical plan: names, groups, windows and clauses in the order in which SQL evaluates them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from sqlglot import exp

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import FILTERED, GROUPING, Call, Column, Expression, Literal, replaced, walk
from gamay.functions.registry import ValueType, must_get_scalar
from gamay.functions.text import to_text
from gamay.model.types import DataType
from gamay.relational.expressions import ExpressionBinder, PendingWindow, aggregates_in
from gamay.relational.names import Catalog, Context, CteDefinition, Relation, Scope
from gamay.relational.plan import (
    SUBQUERY,
    Aggregate,
    Cte,
    Distinct,
    Field,
    Filter,
    Node,
    Plan,
    Project,
    SetOperation,
    Sort,
    SortKey,
    Unnest,
    Values,
    Window,
    WindowCall,
    expressions,
    ids_in,
    nodes_of,
)
from gamay.relational.scores import with_scores
from gamay.relational.shaping import with_names, with_types
from gamay.relational.sources import SourceBinder, split_and
from gamay.relational.typing import (
    LONG,
    ORDERED,
    MistypedError,
    as_condition,
    common_type,
    converted,
    resolved,
    resolved_aggregate,
    resolved_window,
)
from gamay.sql.relational import RelationalStatement
from gamay.sql.translate.grouping import grouping

_LIMIT_MAX = 2147483647


def bind(statement: RelationalStatement, catalog: Catalog, *, null_handling: bool = False) -> Plan:
    """Bind a statement. Raises QueryError, with the position in the text if one is at fault."""
    context = Context(statement.text, statement.literals, catalog, null_handling)
    if statement.described is not None:
        catalog.columns(statement.described)  # raises if the table does not exist or the sender may not use it
    try:
        root = _Binder(context).query(statement.tree, Scope())
    except MistypedError as error:
        raise error.named(context.names) from None
    return Plan(root, context.subqueries, tuple(context.ctes), context.types)


@dataclass(slots=True)
class _Select:
    """One SELECT during binding: expressions as written, over the columns of FROM.

    items: expression and name of each output column; order_by: keys that are outputs are given by position.
    """

    plan: Node
    scope: Scope
    binder: ExpressionBinder
    items: list[tuple[Expression, str]] = field(default_factory=list)
    keys: tuple[Expression, ...] = ()
    sets: tuple[tuple[int, ...], ...] | None = None
    having: Expression | None = None
    qualify: Expression | None = None
    order_by: list[tuple[int | Expression, SortKey]] = field(default_factory=list)
    distinct_on: list[int | Expression] = field(default_factory=list)
    is_distinct: bool = False
    grouped: dict[Expression, Expression] = field(default_factory=dict)


class _Binder:
    """Binder of queries, which may be nested."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def query(self, node: exp.Expr, outer: Scope) -> Node:
        """Bind a SELECT, a set operation, VALUES, or one of these in parentheses."""
        scope = Scope(outer=outer)
        self._ctes(node, scope)
        if isinstance(node, exp.Subquery):
            return self._tail(node, self.query(node.this, scope), scope)
        if isinstance(node, exp.SetOperation):
            return self._tail(node, self._set_operation(node, scope), scope)
        if isinstance(node, exp.Values):
            return self._tail(node, self._values(node, scope), scope)
        if isinstance(node, exp.Select):
            return self._select(node, scope)
        raise self._context.error(node, "expected SELECT, VALUES, or a query in parentheses")

    # -- WITH

    def _ctes(self, node: exp.Expr, scope: Scope) -> None:
        clause = node.args.get("with_")
        if clause is None:
            return
        for cte in clause.expressions:
            name = cte.alias
            if name.lower() in scope.ctes:
                raise self._context.error(cte, f"Duplicate alias in WITH: '{name}'")
            alias = cte.args["alias"]
            columns = [part.name for part in alias.args.get("columns") or ()]
            unique = f"cte{self._context.number()}"
            if clause.args.get("recursive") and isinstance(cte.this, exp.Union) and _names_table(cte.this, name):
                plan = self._recursive(cte.this, name, unique, columns, scope)
                self._context.ctes.append(Cte(unique, plan, recursive=True))
            else:
                plan = self._renamed(self.query(cte.this, scope), columns, cte)
                self._context.ctes.append(Cte(unique, plan))
            if free := _free(plan, self._context):
                self._refuse_correlated(cte, free)
            scope.ctes[name.lower()] = CteDefinition(unique, plan.fields)

    def _recursive(self, node: exp.Expr, name: str, unique: str, columns: Sequence[str], scope: Scope) -> Node:
        """Bind `first UNION [ALL] step`, where the step refers by name to the rows of the previous iteration."""
        first = self._renamed(self.query(node.args["this"], scope), columns, node)
        own = Scope(outer=scope, ctes={name.lower(): CteDefinition(unique, first.fields)})
        step = self.query(node.args["expression"], own)
        self._check_width(node, first, step)
        fields = tuple(self._context.field(each.name, each.type) for each in first.fields)
        step = with_types(self._context, step, [each.type for each in fields])
        return SetOperation("UNION", not node.args.get("distinct"), first, step, fields)

    def _renamed(self, plan: Node, columns: Sequence[str], node: exp.Expr) -> Node:
        if len(columns) > len(plan.fields):
            raise self._context.error(node, f"{len(columns)} columns are named, but the query has {len(plan.fields)}")
        return with_names(self._context, plan, columns) if columns else plan

    def _refuse_correlated(self, node: exp.Expr, free: set[str]) -> None:
        raise self._context.error(
            node, "a query of WITH refers to a column of the outer query; write it as a subquery where it is used"
        )

    # -- set operations and VALUES

    def _set_operation(self, node: exp.Expr, scope: Scope) -> Node:
        kinds: dict[type[exp.Expr], str] = {exp.Union: "UNION", exp.Intersect: "INTERSECT", exp.Except: "EXCEPT"}
        kind = kinds[type(node)]
        left, right = self.query(node.args["this"], scope), self.query(node.args["expression"], scope)
        self._check_width(node, left, right, kind)
        types = [
            common_type([one.type, other.type], f"column {place} of {kind}")
            for place, (one, other) in enumerate(zip(left.fields, right.fields, strict=True), 1)
        ]
        left, right = with_types(self._context, left, types), with_types(self._context, right, types)
        fields = tuple(self._context.field(each.name, to) for each, to in zip(left.fields, types, strict=True))
        return SetOperation(kind, not node.args.get("distinct"), left, right, fields)

    def _check_width(self, node: exp.Expr, left: Node, right: Node, kind: str = "UNION") -> None:
        if len(left.fields) != len(right.fields):
            raise self._context.error(
                node, f"Column count mismatch in {kind}: {len(left.fields)} on the left, {len(right.fields)} on the right"
            )

    def _values(self, node: exp.Expr, scope: Scope) -> Node:
        binder = self._expressions(scope)
        rows, types = [], []
        for part in node.expressions:
            cells = part.expressions if isinstance(part, exp.Tuple) else [part]
            pairs = [resolved(binder.expression(cell), self._context.types) for cell in cells]
            rows.append([cell for cell, _ in pairs])
            types.append([cell_type for _, cell_type in pairs])
        if len({len(row) for row in rows}) != 1:
            raise self._context.error(node, "the rows of VALUES have different numbers of values")
        columns = enumerate(zip(*types, strict=True), 1)
        common = [common_type(column, f"column {place} of VALUES") for place, column in columns]
        constants = tuple(
            tuple(converted(cell, one, to[0]) for cell, one, to in zip(row, row_types, common, strict=True))
            for row, row_types in zip(rows, types, strict=True)
        )
        fields = tuple(self._context.field(f"EXPR${place}", to) for place, to in enumerate(common))
        return Values(fields, constants)

    def _tail(self, node: exp.Expr, plan: Node, scope: Scope) -> Node:
        """Bind ORDER BY and LIMIT after a set operation or parentheses; keys are output columns."""
        order = node.args.get("order")
        keys: list[SortKey] = []
        if order is not None:
            own = Scope([Relation(frozenset(), plan.fields, len(plan.fields))], outer=None)
            binder = self._expressions(own)
            for part in order.expressions:
                key = binder.sort_key(part)
                place = self._ordinal(part.this, key.expression, len(plan.fields), "ORDER BY")
                expression = key.expression if place is None else plan.fields[place].column
                found, _ = resolved(expression, self._context.types)
                keys.append(SortKey(found, key.descending, key.nulls_last))
        return self._limited(node, plan, tuple(keys))

    def _limited(self, node: exp.Expr, plan: Node, keys: tuple[SortKey, ...]) -> Node:
        limit, offset = self._count(node, "limit"), self._count(node, "offset")
        if not keys and limit is None and not offset:
            return plan
        return Sort(plan, keys, limit, offset or 0)

    def _count(self, node: exp.Expr, clause: str) -> int | None:
        found = node.args.get(clause)
        if found is None:
            return None
        if isinstance(found, exp.Fetch):  # with a number it was parsed as LIMIT
            options = found.args.get("limit_options")
            if options is None or options.args["with_ties"] or found.args.get("count") is not None:
                raise self._context.error(node, "FETCH must be FETCH FIRST n ROWS ONLY, or FETCH FIRST ROW ONLY")
            return 1
        written = found.args.get("expression")
        value = self._context.literals[int(written.name)].value if isinstance(written, exp.Literal) else None
        if type(value) is not int:
            raise self._context.error(found, f"{clause.upper()} takes a whole number")
        if value > _LIMIT_MAX:
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                f"Value for '{clause.upper()}' ({value}) exceeds maximum allowed value of {_LIMIT_MAX}",
            )
        return value

    # -- SELECT

    def _select(self, node: exp.Expr, scope: Scope) -> Node:
        plan = SourceBinder(self._context, scope, self.query).bind(node)
        binder = self._expressions(scope)
        for named in node.args.get("windows") or ():
            binder.named_windows[named.name.lower()] = named
        select = _Select(plan, scope, binder)
        where = node.args.get("where")
        if where is not None:
            condition = as_condition(binder.expression(where.this), self._context.types)
            self._refuse_windows(binder.windows, where, "WHERE")
            select.plan = Filter(select.plan, split_and(condition))
        self._items(select, node)
        self._read_clauses(select, node)
        self._group(select, node)
        self._windows(select)
        return with_scores(self._output(select, node), self._context.scores)

    def _items(self, select: _Select, node: exp.Expr) -> None:
        names: set[str] = set()  # in lower case
        for part in node.expressions:
            stars = self._star(select.scope, part)
            if stars is not None:
                for each in stars:
                    name = _unused(each.name, names) if len(select.scope.relations) > 1 else each.name
                    select.items.append((each.column, name))
                    names.add(name.lower())
                continue
            inner = part.this if isinstance(part, exp.Alias) else part
            expression = select.binder.expression(inner)
            plain = inner.name if isinstance(inner, exp.Column) else ""
            name = part.alias if isinstance(part, exp.Alias) else plain or f"EXPR${len(names)}"
            names.add(name.lower())
            select.items.append((expression, name))

    def _star(self, scope: Scope, part: exp.Expr) -> list[Field] | None:
        """Return the columns of `*` or `t.*`; None for another item."""
        star = part.this if isinstance(part, exp.Column) else part
        if isinstance(star, exp.Star):
            self._expressions(scope).refuse_changed_star(star)
        if isinstance(part, exp.Star):
            found = scope.star()
            if not found:
                raise self._context.error(part, "SELECT * needs a table")
            return found
        if not (isinstance(part, exp.Column) and isinstance(part.this, exp.Star)):
            return None
        qualifier = ".".join(piece.name for key in ("catalog", "db", "table") if (piece := part.args.get(key)) is not None)
        relation = scope.relation(qualifier)
        if relation is None:
            raise self._context.error(part, f"no table of this query is called '{qualifier}'")
        return list(relation.shown)

    def _read_clauses(self, select: _Select, node: exp.Expr) -> None:
        """Bind the clauses that may refer to the SELECT list: GROUP BY, HAVING, QUALIFY, ORDER BY, DISTINCT ON."""
        binder = select.binder
        aliases = (
            {
                part.alias.lower(): item[0]
                for part, item in zip(node.expressions, select.items, strict=False)
                if isinstance(part, exp.Alias)
            }
            if len(node.expressions) == len(select.items)
            else {name.lower(): found for found, name in select.items}
        )
        binder.aliases.update(aliases)
        group = node.args.get("group")
        if group is not None:
            select.keys, select.sets = grouping(self._context.text, partial(self._group_key, select), group)
            self._refuse_windows(binder.windows if any(_names_window(key) for key in select.keys) else (), group, "GROUP BY")
        for clause in ("having", "qualify"):
            found = node.args.get(clause)
            if found is not None:
                setattr(select, clause, binder.expression(found.this))
        distinct = node.args.get("distinct")
        select.is_distinct = distinct is not None
        if distinct is not None and distinct.args.get("on") is not None:
            select.distinct_on = [self._output_key(select, part, binder) for part in distinct.args["on"].expressions]
        order = node.args.get("order")
        for part in () if order is None else order.expressions:
            found_key = self._output_key(select, part.this, binder)
            flags = SortKey(Literal(None, DataType.UNKNOWN), bool(part.args.get("desc")), not part.args.get("nulls_first"))
            select.order_by.append((found_key, flags))

    def _group_key(self, select: _Select, node: exp.Expr) -> Expression:
        key = select.binder.expression(node)
        place = self._ordinal(node, key, len(select.items), "GROUP BY")
        return key if place is None else select.items[place][0]

    def _output_key(self, select: _Select, node: exp.Expr, binder: ExpressionBinder) -> int | Expression:
        """Return the position of the output that a key refers to, or its expression."""
        if isinstance(node, exp.Column) and not node.args.get("table"):
            for place, (_, name) in enumerate(select.items):
                if name.lower() == node.name.lower():
                    return place
        expression = binder.expression(node)
        ordinal = self._ordinal(node, expression, len(select.items), "ORDER BY")
        if ordinal is not None:
            return ordinal
        return next((place for place, (item, _) in enumerate(select.items) if item == expression), expression)

    def _ordinal(self, node: exp.Expr, key: Expression, num_items: int, clause: str) -> int | None:
        """Return the position of the output that a whole number of the text means; None for any other key."""
        if not isinstance(node.unnest(), exp.Literal) or not isinstance(key, Literal) or type(key.value) is not int:
            return None
        if not 1 <= key.value <= num_items:
            raise QueryError(
                ErrorCode.QUERY_VALIDATION,
                f"{clause} {key.value} is out of range: the SELECT list has {num_items} expression(s)",
            )
        return key.value - 1

    # -- groups

    def _group(self, select: _Select, node: exp.Expr) -> None:
        windows = [part for window in select.binder.windows for part in _parts(window.call)]
        orders = [key for key, _ in select.order_by if not isinstance(key, int)]
        ons = [key for key in select.distinct_on if not isinstance(key, int)]
        conditions = [each for each in (select.having, select.qualify) if each is not None]
        over = [window.call.call for window in select.binder.windows]
        read = [*(item for item, _ in select.items), *conditions, *orders, *ons, *windows]
        calls = [call for each in read for call in aggregates_in(each)]
        calls += [call for each in over for arg in _arguments(each) for call in aggregates_in(arg)]
        if node.args.get("group") is None and not calls:
            if select.having is not None:
                message = "HAVING needs GROUP BY or an aggregate; use WHERE to filter rows"
                raise self._context.error(node.args["having"], message)
            return
        context = self._context
        keys = [self._single_valued(select, *resolved(key, context.types)) for key in select.keys]
        key_fields = [
            Field(key.name, "", key_type) if isinstance(key, Column) else context.field("", key_type)
            for key, key_type in keys
        ]
        unique = list(dict.fromkeys(calls))
        aggregates = [resolved_aggregate(call, context.types) for call in unique]
        fields = [context.field("", value_type) for _, value_type in aggregates]
        asked = list(dict.fromkeys(call for each in read for call in _groupings(each)))
        if asked and select.sets is None:
            raise self._context.error(
                node,
                "GROUPING() / GROUPING_ID() requires GROUP BY GROUPING SETS / ROLLUP / CUBE; a plain GROUP BY has one set",
            )
        places = tuple(tuple(self._place(select, arg) for arg in call.args) for call in asked)
        asked_fields = [context.field("", LONG) for _ in asked]
        context.names |= {made.id: context.named(call) for made, call in zip(fields, unique, strict=True)}
        select.grouped = {key: made.column for key, made in zip(select.keys, key_fields, strict=True)}
        select.grouped |= {call: made.column for call, made in zip(unique, fields, strict=True)}
        select.grouped |= {call: made.column for call, made in zip(asked, asked_fields, strict=True)}
        seen = {each.id for each in select.plan.fields} - {each.id for each in key_fields}
        select.plan = Aggregate(
            select.plan,
            (*key_fields, *fields, *asked_fields),
            tuple(key for key, _ in keys),
            tuple(call for call, _ in aggregates),
            select.sets or (),
            places,
        )
        self._check_grouped(select, seen)
        if select.having is not None:
            condition = as_condition(replaced(select.having, select.grouped), context.types)
            select.plan = Filter(select.plan, split_and(condition))

    def _single_valued(self, select: _Select, key: Expression, key_type: ValueType) -> tuple[Expression, ValueType]:
        """Unnest a multi-value group key: a row belongs to the group of each of its values, as in a query of one table."""
        data_type, multi_value = key_type
        if not multi_value:
            return key, key_type
        made = self._context.field(self._context.text_of(key), (data_type, False))
        select.plan = Unnest(select.plan, (made,), (key,), with_ordinality=False, keeps_nulls=True)
        return made.column, made.type

    def _place(self, select: _Select, arg: Expression) -> int:
        if arg not in select.keys:
            raise QueryError(
                ErrorCode.QUERY_VALIDATION, f"GROUPING({self._context.text_of(arg)}): its argument must be a key of GROUP BY"
            )
        return select.keys.index(arg)

    def _check_grouped(self, select: _Select, seen: set[str]) -> None:
        """Raise QueryError for columns that are neither keys nor inside an aggregate."""
        orders = [key for key, _ in select.order_by if not isinstance(key, int)]
        ons = [key for key in select.distinct_on if not isinstance(key, int)]
        conditions = [each for each in (select.having, select.qualify) if each is not None]
        calls = [window.call for window in select.binder.windows]
        windows = [part for call in calls for part in (*_parts(call), *_arguments(call.call))]
        for expression in (*(item for item, _ in select.items), *conditions, *orders, *ons, *windows):
            left = replaced(expression, select.grouped)
            loose = self._ids(left) & seen
            if loose:
                for call in walk(left):  # one of them may be an unknown aggregate
                    if isinstance(call, Call) and call.name != SUBQUERY:
                        must_get_scalar(call.name)
                raise QueryError(
                    ErrorCode.QUERY_VALIDATION,
                    f"Expression '{to_text(self._context.names[min(loose)])}' is not being grouped: add it to GROUP BY, "
                    "or wrap it in an aggregate such as ANY_VALUE",
                )

    def _ids(self, expression: Expression) -> set[str]:
        """Return the ids of the columns that an expression refers to, also in its subqueries."""
        found, subqueries = ids_in(expression), self._context.subqueries
        return found.union(*(_free(subqueries[each].plan, self._context) for each in found & subqueries.keys()))

    # -- windows

    def _windows(self, select: _Select) -> None:
        context, grouped = self._context, select.grouped
        added: list[Field] = []
        calls: list[WindowCall] = []
        for window in select.binder.windows:
            written = window.call
            call = Call(written.call.name, tuple(replaced(arg, grouped) for arg in written.call.args))
            call, value_type = resolved_window(call, context.types)
            context.types[window.id] = value_type
            context.names[window.id] = Column(f"{self._context.text_of(call)} OVER (…)")
            added.append(Field(window.id, "", value_type))
            partition_by = tuple(resolved(replaced(key, grouped), context.types)[0] for key in written.partition_by)
            order_by = tuple(
                SortKey(resolved(replaced(key.expression, grouped), context.types)[0], key.descending, key.nulls_last)
                for key in written.order_by
            )
            if written.frame is not None and written.frame.adds_to_key and not _can_add(order_by[0], context.types):
                raise QueryError(
                    ErrorCode.QUERY_VALIDATION,
                    f"{to_text(context.names[window.id])}: RANGE with an offset needs ORDER BY a number or a timestamp",
                )
            calls.append(WindowCall(call, partition_by, order_by, written.frame, written.ignores_nulls))
        if added:
            select.plan = Window(select.plan, tuple(added), tuple(calls))
        if select.qualify is not None:
            if not added:
                raise QueryError(
                    ErrorCode.QUERY_VALIDATION, "QUALIFY needs a window function; use WHERE or HAVING to filter"
                )
            condition = as_condition(replaced(select.qualify, grouped), context.types)
            select.plan = Filter(select.plan, split_and(condition))

    def _refuse_windows(self, windows: Sequence[PendingWindow], node: exp.Expr, clause: str) -> None:
        if windows:
            raise self._context.error(node, f"a window function is not allowed in {clause}; use QUALIFY to filter by one")

    # -- output

    def _output(self, select: _Select, node: exp.Expr) -> Node:
        context, grouped = self._context, select.grouped
        pairs = [resolved(replaced(item, grouped), context.types) for item, _ in select.items]
        fields = [context.field(name, value_type) for (_, name), (_, value_type) in zip(select.items, pairs, strict=True)]
        expressions = [expression for expression, _ in pairs]
        maps = context.map_values
        for made, expression in zip(fields, expressions, strict=True):
            if isinstance(expression, Column) and expression.name in maps:
                maps[made.id] = maps[expression.name]
        num_shown = len(fields)

        def column_of(key: int | Expression) -> Expression:
            if isinstance(key, int):
                return fields[key].column
            if select.is_distinct and not select.distinct_on:
                raise QueryError(
                    ErrorCode.QUERY_VALIDATION,
                    "ORDER BY of SELECT DISTINCT takes expressions of the SELECT list only; "
                    f"Expression '{self._context.text_of(key)}' is not in the select clause",
                )
            expression, value_type = resolved(replaced(key, grouped), context.types)
            if expression in expressions:
                return fields[expressions.index(expression)].column
            fields.append(context.field("", value_type))
            expressions.append(expression)
            return fields[-1].column

        keys = tuple(SortKey(column_of(key), flags.descending, flags.nulls_last) for key, flags in select.order_by)
        on = tuple(column_of(key) for key in select.distinct_on)
        plan: Node = Project(select.plan, tuple(fields), tuple(expressions))
        if select.is_distinct:
            plan = Distinct(plan, on, keys if on else ())
        plan = self._limited(node, plan, keys)
        if len(fields) > num_shown:
            shown = tuple(context.field(each.name, each.type) for each in fields[:num_shown])
            plan = Project(plan, shown, tuple(each.column for each in fields[:num_shown]))
        return plan

    def _expressions(self, scope: Scope) -> ExpressionBinder:
        return ExpressionBinder(
            self._context.text, self._context.literals, context=self._context, scope=scope, subselect=self.query
        )


def _parts(window: WindowCall) -> list[Expression]:
    return [*window.partition_by, *(key.expression for key in window.order_by)]


def _arguments(call: Call) -> Sequence[Expression]:
    """Return the expressions that a window function reads: arguments, FILTER and ORDER BY."""
    inner = call.args[0] if call.name in (FILTERED, ORDERED) else None
    return (*inner.args, *call.args[1:]) if isinstance(inner, Call) else call.args


def _can_add(key: SortKey, types: Mapping[str, ValueType]) -> bool:
    data_type, multi_value = resolved(key.expression, types)[1]
    return not multi_value and (data_type.is_numeric or data_type is DataType.TIMESTAMP)


def _groupings(expression: Expression) -> list[Call]:
    if not isinstance(expression, Call):
        return []
    if expression.name in GROUPING:
        return [expression]
    return [call for arg in expression.args for call in _groupings(arg)]


def _names_window(expression: Expression) -> bool:
    return any(name.startswith("w") for name in ids_in(expression))


def _names_table(node: exp.Expr, name: str) -> bool:
    return any(table.name.lower() == name.lower() for table in node.find_all(exp.Table))


def _unused(name: str, names: set[str]) -> str:
    """Return a name not yet taken: `x`, `x0`, `x1`, …; `names` are in lower case."""
    if name.lower() not in names:
        return name
    number = 0
    while f"{name}{number}".lower() in names:
        number += 1
    return f"{name}{number}"


def _free(plan: Node, context: Context) -> set[str]:
    """Return the ids that a plan refers to but does not define."""
    made: set[str] = set(context.subqueries)
    named: set[str] = set()
    pending = [plan]
    done: set[int] = set()
    while pending:
        for node in nodes_of(pending.pop()):
            made |= {each.id for each in node.fields}
            for expression in expressions(node):
                ids = ids_in(expression)
                named |= ids
                for found in ids & context.subqueries.keys():
                    if id(context.subqueries[found]) not in done:
                        done.add(id(context.subqueries[found]))
                        pending.append(context.subqueries[found].plan)
    return named - made
