"""Delegates groups and distinct rows of a single table to the single-table engine.

That engine computes with DOUBLE where relational queries keep integers, so only aggregates for which it has an exact form
are delegated, with keys and arguments without arithmetic.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from gamay.functions.expression import FILTERED, Call, Column, Expression, Literal, Star, replaced, walk
from gamay.functions.registry import ValueType
from gamay.model.types import DataType
from gamay.query.bind.aggregates import is_null_of_nothing
from gamay.relational.functions import whole_form
from gamay.relational.leaf import LEAF_LIMIT, condition_of
from gamay.relational.plan import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Leaf,
    Node,
    Plan,
    Project,
    Scan,
    Unnest,
    ids_in,
    with_children,
    with_plans,
)
from gamay.relational.rules.conditions import compares_lists
from gamay.relational.rules.values import has_value, with_values
from gamay.relational.typing import BOOLEAN, LONG, NULL, ORDERED, converted, resolved
from gamay.sql.query import Query, SelectItem

_WHOLE = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)
_NUMBERS = (*_WHOLE, DataType.DOUBLE)
_COMPARISONS = frozenset({"equals", "notequals", "lessthan", "lessthanorequal", "greaterthan", "greaterthanorequal"})
_INEXACT = frozenset({"divide", "mod", "longdivide", "longmod", "longtoint"})
_OF_DOUBLES = frozenset({"plus", "minus", "times", "cast"})
_EXACT = {"sum": "sumlong", "min": "minlong", "max": "maxlong"}
_OF_TEXT = {"min": "minstring", "max": "maxstring"}
_CHOOSING = frozenset({"percentile", "mode"})
_TYPED = _CHOOSING | {"count", "sum", "min", "max", "avg", "distinctcount", "distinctsum"}


def with_leaf_groups(plan: Plan, *, null_handling: bool) -> Plan:
    """Return the plan with single-table queries in place of their operators."""
    rule = LeafGroups(plan, null_handling)
    return with_plans(plan, rule.apply)


class LeafGroups:
    """Rewriter of aggregations to single-table queries. null_handling: whether these distinguish nulls from default
    values."""

    def __init__(self, plan: Plan, null_handling: bool) -> None:
        self._plan = plan
        self._null_handling = null_handling

    def apply(self, node: Node) -> Node:
        groups = _as_groups(node)
        if groups is not None:
            leaf = self.of(groups)
            if leaf is not None:
                return leaf
        node = with_children(node, self.apply)
        return _with_having(node) if isinstance(node, Filter) else node

    def of(self, node: Aggregate) -> Node | None:
        """Return the query for an aggregation of one table's rows; None if it cannot be delegated."""
        if node.sets or node.groupings:
            return None
        by: dict[Expression, Expression] = {}
        child = node.child
        while isinstance(child, Project | Unnest):
            if isinstance(child, Unnest):
                # that engine adds a row to the group of each of its values, but only for keys, and null counts as one of
                # them
                added: dict[Expression, Expression] = {
                    each.column: array for each, array in zip(child.added, child.arrays, strict=False)
                }
                if child.with_ordinality or len(added) > 1 or any(ids_in(call) & _ids(child) for call in node.aggregates):
                    return None
                if self._null_handling and not child.keeps_nulls:
                    return None
                by = {column: replaced(expression, added) for column, expression in by.items()} | added
                child = child.child
                continue
            made: dict[Expression, Expression] = {
                each.column: expression for each, expression in zip(child.fields, child.expressions, strict=True)
            }
            by = {column: replaced(expression, made) for column, expression in by.items()}
            by |= {column: expression for column, expression in made.items() if column not in by}
            child = child.child
        if not isinstance(child, Scan):
            return None
        keys = [replaced(key, by) for key in node.keys]
        calls = [_call(replaced(call, by)) for call in node.aggregates]
        own = {each.id for each in child.fields}
        if not all(ids_in(each) <= own and is_exact(each, self._plan.types) for each in keys):
            return None
        sent: list[Expression] = []
        for call in calls:
            known = call if self._null_handling else with_values(call)
            exact = None if known is None else self._exact(known, own)
            if exact is None:
                return None
            sent.append(exact)
        return self._query(node, child, keys, sent)

    def _exact(self, call: Call, own: set[str]) -> Call | None:
        """Return an aggregate by which the single-table engine computes the same result; None if there is none."""
        if call.name == FILTERED:
            inner = self._exact(_call(call.args[0]), own)
            ok = inner is not None and ids_in(call.args[1]) <= own and not compares_lists(call.args[1], self._plan.types)
            return Call(FILTERED, (inner, call.args[1])) if ok and inner is not None else None
        if call.name == ORDERED or not ids_in(call) <= own:
            return None
        if any(isinstance(arg, Literal) and arg.is_null for arg in call.args):
            return None  # without null handling that engine counts NULL as a value, and most aggregates do not accept it
        if not all(is_exact(arg, self._plan.types) for arg in call.args):
            return None
        if call.name not in _TYPED or not call.args or isinstance(call.args[0], Star):
            return call
        data_type, multi_value = resolved(call.args[0], self._plan.types)[1]
        if call.name in _CHOOSING:  # there they are DOUBLEs
            return whole_form(call, data_type) if data_type is not DataType.BIG_DECIMAL else None
        if call.name == "distinctsum":  # there it is a DOUBLE, which holds sums of INT
            return call if data_type not in (DataType.LONG, DataType.BIG_DECIMAL) else None
        if multi_value:
            return call if call.name in ("count", "distinctcount") else None
        if call.name in _EXACT and data_type in _WHOLE:
            return Call(_EXACT[call.name], call.args)
        if call.name in _OF_TEXT and data_type.is_text:
            return Call(_OF_TEXT[call.name], call.args)
        is_plain = data_type in (DataType.FLOAT, DataType.DOUBLE) or data_type in _WHOLE
        return call if is_plain or call.name in ("count", "distinctcount") else None

    def _query(self, node: Aggregate, scan: Scan, keys: Sequence[Expression], calls: Sequence[Expression]) -> Node | None:
        """Return the single-table query, with a projection to the columns of the operator."""
        names = scan.column_names
        is_total = not keys
        if not calls and is_total:
            return None
        asked = [replaced(each, names) for each in (*keys, *calls)]
        fields = [Field(f"{each.id}l", each.name, each.type) for each in node.fields]
        asked_keys, own = asked[: len(keys)], fields[len(keys) :]
        flags = {} if self._null_handling else _flags(asked_keys, fields)
        counts = {} if self._null_handling else _counts(asked[len(keys) :], own, is_total=is_total)
        for told, told_type in (*((each, BOOLEAN) for each in flags.values()), *((each, LONG) for each in counts.values())):
            if told not in asked:
                asked.append(told)
                fields.append(Field(f"{node.fields[0].id}n{len(asked)}", "", told_type))
        query = Query(
            scan.table,
            tuple(SelectItem(expression, f"c{place}") for place, expression in enumerate(asked)),
            distinct=not calls,
            where=condition_of(scan.where, names),
            group_by=tuple(dict.fromkeys((*asked_keys, *flags.values()))) if calls else (),
            limit=LEAF_LIMIT,
        )
        types = dict(self._plan.types) | {each.id: each.type for each in fields}
        leaf = Leaf(query, tuple(fields))
        outputs: list[Expression] = []
        for each, made in zip(node.fields, fields, strict=False):
            column: Expression = made.column
            if made.id in flags:
                column = Call("case", (fields[asked.index(flags[made.id])].column, column, NULL))
            if made.id in counts:
                count = fields[asked.index(counts[made.id])]
                column = Call("case", (Call("equals", (count.column, Literal(0, DataType.LONG))), NULL, column))
            outputs.append(converted(column, each.type, each.type[0]))
        self._plan.types.update(types)  # type: ignore[attr-defined]
        return Project(leaf, node.fields, tuple(outputs))


def _flags(keys: Sequence[Expression], fields: Sequence[Field]) -> dict[str, Expression]:
    """Return, by column id, the conditions that keys that may lack a value have one."""
    found = ((each.id, has_value(key)) for key, each in zip(keys, fields, strict=False))
    return {made: condition for made, condition in found if condition is not None}


def _counts(calls: Sequence[Expression], fields: Sequence[Field], *, is_total: bool) -> dict[str, Call]:
    """Return, by column id, the row counts of aggregates that may have no rows; they are null then."""
    counts: dict[str, Call] = {}
    rows = Call("count", (Star(),))
    for call, each in zip(calls, fields, strict=True):
        assert isinstance(call, Call)
        filtered = call.name == FILTERED
        inner = call.args[0] if filtered else call
        if isinstance(inner, Call) and not is_null_of_nothing(inner.name):
            continue
        if filtered:
            counts[each.id] = Call(FILTERED, (rows, call.args[1]))
        elif is_total:
            counts[each.id] = rows
    return counts


def _as_groups(node: Node) -> Aggregate | None:
    """Return an operator as an aggregation: DISTINCT becomes groups without aggregates."""
    if isinstance(node, Distinct) and not node.on and not any(each.type[1] for each in node.fields):
        return Aggregate(node.child, node.fields, tuple(each.column for each in node.fields), ())
    return node if isinstance(node, Aggregate) else None


def _with_having(node: Filter) -> Node:
    """Move the numeric comparisons of a filter above grouped leaf queries into HAVING."""
    project = node.child
    if not (isinstance(project, Project) and isinstance(project.child, Leaf) and project.child.query.group_by):
        return node
    leaf = project.child
    made = {each.column: item.expression for each, item in zip(leaf.fields, leaf.query.select, strict=True)}
    by: dict[Expression, Expression] = {
        each.column: made[expression]
        for each, expression in zip(project.fields, project.expressions, strict=True)
        if isinstance(expression, Column) and each.type[0] in _NUMBERS
    }
    moving = [each for each in node.conditions if _compares(each, by)]
    query = replace(leaf.query, having=condition_of(moving, by))
    child = replace(project, child=replace(leaf, query=query))
    staying = tuple(each for each in node.conditions if each not in moving)
    return Filter(child, staying) if staying else child


def _compares(condition: Expression, columns: Container[Expression]) -> bool:
    """Whether a condition compares one of some columns with a number."""
    if not (isinstance(condition, Call) and condition.name in _COMPARISONS):
        return False
    one, other = condition.args
    return one in columns and isinstance(other, Literal) and other.type in _NUMBERS


def _ids(node: Unnest) -> set[str]:
    return {each.id for each in node.added}


def _call(expression: Expression) -> Call:
    assert isinstance(expression, Call)
    return expression


def is_exact(expression: Expression, types: Mapping[str, ValueType]) -> bool:
    """Whether the single-table engine computes the same value. types: of columns.

    It does, except for quotients, sums and products of FLOAT, which are DOUBLE there, and INT, which may overflow.
    """
    for part in walk(expression):
        if not isinstance(part, Call):
            continue
        if part.name in _INEXACT or (part.name in _OF_DOUBLES and resolved(part, types)[1] != (DataType.DOUBLE, False)):
            return False
    return not compares_lists(expression, types)
