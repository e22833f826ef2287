"""Binds FROM: tables, subqueries, joins and unnested arrays, to a plan and the names in scope."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sqlglot import exp

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Call, Expression
from gamay.relational.expressions import ExpressionBinder
from gamay.relational.information_schema import view_columns, view_rows
from gamay.relational.names import Context, Relation, Scope
from gamay.relational.plan import CteRef, Field, Join, Node, Project, Rows, Scan, Unnest, Values, ids_in
from gamay.relational.shaping import with_names
from gamay.relational.typing import INT, as_condition, common_type, converted, resolved

ONE_ROW = Values((), ((),))
_ASOF_OPERATORS = frozenset({"lessthan", "lessthanorequal", "greaterthan", "greaterthanorequal"})


@dataclass(frozen=True, slots=True)
class SourceBinder:
    """Binder of one FROM clause; adds relations to `scope` in order.

    subselect: binds a query within a scope.
    """

    context: Context
    scope: Scope
    subselect: Callable[[exp.Expr, Scope], Node]

    def bind(self, select: exp.Expr) -> Node:
        """Bind FROM with its joins; without FROM, one row without columns."""
        clause = select.args.get("from_")
        if clause is None:
            return ONE_ROW
        plan = self._factor(clause.this)
        for join in (*(select.args.get("joins") or ()), *(select.args.get("laterals") or ())):
            plan = self._join(plan, join)
        return plan

    # -- items of FROM

    def _factor(self, node: exp.Expr) -> Node:
        """Bind a table, a subquery, VALUES, UNNEST, or joins in parentheses."""
        nested = node.args.get("joins")
        plan = self._simple(node)
        for join in nested or ():
            plan = self._join(plan, join)
        return plan

    def _simple(self, node: exp.Expr) -> Node:
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            return self._table(node)
        if isinstance(node, exp.Unnest):
            return self._unnest(None, node)
        if isinstance(node, exp.Lateral):
            return self._lateral(node)
        if isinstance(node, exp.Paren | exp.Subquery) and isinstance(node.this, exp.Table):
            if node.args.get("alias") is not None:
                raise self.context.error(node, "joins in parentheses take no alias")
            return self._factor(node.this)
        if isinstance(node, exp.Subquery | exp.Values | exp.Query):
            return self._subquery(node, self._detached())
        raise self.context.error(node, "expected a table, a subquery, VALUES or UNNEST after FROM")

    def _table(self, node: exp.Expr) -> Node:
        parts = [part.name for part in (node.args.get("catalog"), node.args.get("db"), node.this) if part is not None]
        if len(parts) > 2:
            raise self.context.error(node, "a table name has at most one dot: database.table")
        name = ".".join(parts)
        alias = node.args.get("alias")
        cte = self.scope.cte(name) if len(parts) == 1 else None
        plan: Node
        if cte is not None:
            plan = CteRef(cte.name, tuple(self.context.field(each.name, each.type) for each in cte.fields))
            names = {name}
        elif (shown := view_columns(name)) is not None:
            fields = tuple(self.context.field(column, value_type) for column, value_type in shown.items())
            plan = Values(fields, view_rows(name, self.context.catalog.schemas()))
            names = {name, parts[-1]}
        elif (frame := self.context.catalog.frame(name)) is not None:
            fields = tuple(self.context.field(column, value_type) for column, value_type in frame.columns.items())
            plan = Rows(name, fields, frame.table)
            names = {name}
        else:
            columns = self.context.catalog.columns(name)
            plan = Scan(name, tuple(self.context.field(column, value_type) for column, value_type in columns.items()))
            self.context.of_tables |= {each.id for each in plan.fields}
            maps = self.context.catalog.map_values(name)
            self.context.map_values |= {each.id: maps[each.name] for each in plan.fields if each.name in maps}
            raw = parts[-1].removesuffix("_OFFLINE").removesuffix("_REALTIME")
            names = {name, parts[-1], raw, ".".join([*parts[:-1], raw])}
        return self._called(plan, names, alias)

    def _subquery(self, node: exp.Expr, scope: Scope) -> Node:
        alias = node.args.get("alias")
        inner = node.this if isinstance(node, exp.Subquery) and not _has_tail(node) else node
        return self._called(self.subselect(inner, scope), set(), alias)

    def _called(self, plan: Node, names: set[str], alias: exp.Expr | None) -> Node:
        """Add a relation to the scope, renamed by its alias and the alias's column names, if any."""
        if alias is not None:
            columns = [part.name for part in alias.args.get("columns") or ()]
            shown = [each for each in plan.fields if not each.name.startswith("$")]
            if len(columns) > len(shown):
                raise self.context.error(alias, f"{len(columns)} columns are named, but there are {len(shown)}")
            plan = with_names(self.context, plan, columns) if columns else plan
            if alias.this is not None:
                names = {alias.this.name}
        num_shown = sum(not each.name.startswith("$") for each in plan.fields)
        known = frozenset(name.lower() for name in names)
        taken = next((name for each in self.scope.relations for name in each.names & known), None)
        if taken is not None and alias is not None:
            raise QueryError(ErrorCode.QUERY_VALIDATION, f"Duplicate relation name '{taken}' in FROM clause")
        self.scope.relations.append(Relation(known, plan.fields, num_shown))
        return plan

    def _detached(self) -> Scope:
        """Return the scope of a subquery in FROM, which sees outer queries but not its siblings."""
        return Scope(outer=self.scope.outer, ctes=self.scope.ctes)

    def _lateral(self, node: exp.Expr) -> Node:
        inner = node.this
        if isinstance(inner, exp.Unnest):
            inner = inner.copy()
            inner.set("alias", node.args.get("alias") or inner.args.get("alias"))
            return self._unnest(None, inner)
        query = inner.this if isinstance(inner, exp.Subquery) and not _has_tail(inner) else inner
        return self._called(self.subselect(query, self.scope), set(), node.args.get("alias"))

    def _unnest(self, left: Node | None, node: exp.Expr) -> Node:
        """Unnest arrays of the rows so far, or constant ones."""
        arrays, added = [], []
        alias = node.args.get("alias")
        columns = [] if alias is None else [part.name for part in alias.args.get("columns") or ()]
        if alias is not None and alias.this is not None and not columns:
            columns = [alias.this.name]  # `UNNEST(a) AS x` names the column as well
        offset = node.args.get("offset")
        for place, part in enumerate(node.expressions):
            array, (data_type, _) = resolved(self._expressions().expression(part), self.context.types)
            arrays.append(array)
            name = columns[place] if place < len(columns) else (part.name or f"EXPR${place}")
            added.append(self.context.field(name, (data_type, False)))
        if offset:
            name = columns[len(arrays)] if len(columns) > len(arrays) else "ORDINALITY"
            name = offset.name if isinstance(offset, exp.Identifier) else name
            added.append(self.context.field(name, INT))
        names = frozenset() if alias is None or alias.this is None else frozenset({alias.this.name.lower()})
        self.scope.relations.append(Relation(names, tuple(added), len(added)))
        return Unnest(ONE_ROW if left is None else left, tuple(added), tuple(arrays), bool(offset))

    # -- joins

    def _join(self, left: Node, join: exp.Expr) -> Node:
        if isinstance(join, exp.Lateral):
            return Join("CROSS", left, self._lateral(join), (), lateral=True)
        factor = join.this
        method = (join.args.get("method") or "").upper()
        side, kind = (join.args.get("side") or "").upper(), (join.args.get("kind") or "").upper()
        unnest = _unnest_of(factor)
        if unnest is not None and not side:
            plan = self._unnest(left, unnest)
            conditions = self._conditions(join)
            return plan if not conditions else Join("INNER", plan, ONE_ROW, conditions)
        seen = len(self.scope.relations)
        right = self._factor(factor)
        kind = _kind(method, side, kind, has_condition=bool(join.args.get("on") or join.args.get("using")))
        names = self._shared_names(join, method, seen)
        if names is not None:
            return self._using(kind, left, right, names, seen, join)
        conditions = self._conditions(join)
        if "ASOF" in kind:
            conditions = (*conditions, self._match(join, left, right, conditions))
        lateral = isinstance(factor, exp.Lateral)
        plan = Join(kind, left, right, conditions, lateral)
        if kind in ("SEMI", "ANTI"):
            del self.scope.relations[seen:]
        return plan

    def _conditions(self, join: exp.Expr) -> tuple[Expression, ...]:
        on = join.args.get("on")
        if on is None:
            return ()
        binder = self._expressions()
        condition = binder.expression(on)
        if binder.windows:
            raise self.context.error(on, "a window function is not allowed in ON; use QUALIFY to filter by one")
        return split_and(as_condition(condition, self.context.types))

    def _match(self, join: exp.Expr, left: Node, right: Node, equalities: Sequence[Expression]) -> Expression:
        node = join.args.get("match_condition")
        if node is None:
            raise self.context.error(join, "ASOF JOIN needs MATCH_CONDITION (l.t >= r.t) before ON")
        for condition in equalities:
            if not isinstance(condition, Call) or condition.name != "equals":
                written = self.context.text_of(condition)
                raise self.context.error(join, f"Non-equi conditions are not supported for ASOF join, got: {written}")
        condition, _ = resolved(self._expressions().expression(node), self.context.types)
        sides = ({each.id for each in left.fields}, {each.id for each in right.fields})
        if isinstance(condition, Call) and condition.name in _ASOF_OPERATORS:
            one, other = (ids_in(arg) for arg in condition.args)
            are_lists = any(resolved(arg, self.context.types)[1][1] for arg in condition.args)
            if (
                one
                and other
                and not are_lists
                and any(one <= mine and other <= theirs for mine, theirs in (sides, sides[::-1]))
            ):
                return condition
        raise self.context.error(node, "MATCH_CONDITION must compare a column of each table by >=, >, <= or <")

    def _shared_names(self, join: exp.Expr, method: str, seen: int) -> list[str] | None:
        using = join.args.get("using")
        if using:
            return [part.name for part in using]
        if method != "NATURAL":
            return None
        before = Scope(self.scope.relations[:seen], self.scope.merged, self.scope.hidden)
        lefts = {each.name.lower() for each in before.star()}
        rights = [each.name for relation in self.scope.relations[seen:] for each in relation.shown]
        return [name for name in rights if name.lower() in lefts]

    def _using(self, kind: str, left: Node, right: Node, names: Sequence[str], seen: int, join: exp.Expr) -> Node:
        """Join by columns with the same names, which `*` includes once."""
        before = Scope(self.scope.relations[:seen], dict(self.scope.merged), self.scope.hidden)
        after = Scope(self.scope.relations[seen:])
        conditions: list[Expression] = []
        pairs: list[tuple[str, Field, Field]] = []
        for name in names:
            one, other = before.find([name]), after.find([name])
            if one is None or other is None:
                raise self.context.error(join, f"Column '{name}' of USING is not in both tables of the join")
            conditions.append(resolved(Call("equals", (one.column, other.column)), self.context.types)[0])
            pairs.append((name, one, other))
        plan: Node = Join("INNER" if kind == "CROSS" and pairs else kind, left, right, tuple(conditions))
        if kind in ("SEMI", "ANTI"):
            del self.scope.relations[seen:]
            return plan
        added: list[Field] = []
        columns: list[Expression] = []
        for name, one, other in pairs:
            merged = other if kind == "RIGHT" else one
            if kind == "FULL":
                common = common_type([one.type, other.type], "USING")
                both = (converted(one.column, one.type, common[0]), converted(other.column, other.type, common[0]))
                merged = self.context.field(one.name, common)
                added.append(merged)
                columns.append(Call("coalesce", both))
            self.scope.merged.pop(name.lower(), None)
            self.scope.merged[name.lower()] = merged
            self.scope.hidden |= {one.id, other.id}
        if added:
            plan = Project(plan, (*plan.fields, *added), (*(each.column for each in plan.fields), *columns))
        return plan

    def _expressions(self) -> ExpressionBinder:
        return ExpressionBinder(
            self.context.text, self.context.literals, context=self.context, scope=self.scope, subselect=self.subselect
        )


def split_and(condition: Expression) -> tuple[Expression, ...]:
    """Split a condition into its conjuncts."""
    if isinstance(condition, Call) and condition.name == "and":
        return tuple(part for arg in condition.args for part in split_and(arg))
    return (condition,)


def _has_tail(node: exp.Expr) -> bool:
    """Whether a query in parentheses has clauses after them."""
    return any(node.args.get(key) for key in ("order", "limit", "offset", "with_"))


def _unnest_of(node: exp.Expr) -> exp.Expr | None:
    if isinstance(node, exp.Unnest):
        return node
    if isinstance(node, exp.Lateral) and isinstance(node.this, exp.Unnest):
        inner = node.this.copy()
        inner.set("alias", node.args.get("alias") or inner.args.get("alias"))
        return inner
    return None


def _kind(method: str, side: str, kind: str, *, has_condition: bool) -> str:
    if method == "ASOF":
        return "LEFT ASOF" if side == "LEFT" else "ASOF"
    if kind in ("SEMI", "ANTI"):
        return kind
    if side:
        return side
    return "INNER" if has_condition or method == "NATURAL" else "CROSS"
