"""EXPLAIN of a relational query: one operator per line, indented below those that read its rows."""

from collections.abc import Sequence

from gamay.functions.expression import Call, Column, Expression, replaced
from gamay.functions.text import to_text
from gamay.relational.leaf import LEAF_LIMIT, with_leaf_queries
from gamay.relational.plan import (
    SUBQUERY,
    Aggregate,
    CteRef,
    Distinct,
    Field,
    Filter,
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
    StarGroups,
    Unnest,
    Values,
    Window,
    children,
    nodes_of,
    roots_of,
)

_INDENT = "  "


def explained(plan: Plan) -> str:
    """Return the text of a plan: first the query, then its common table expressions and subqueries by name."""
    writer = _Writer(plan)
    parts = ["Execution Plan", *writer.lines(plan.root, 0)]
    for cte in plan.ctes:
        parts += [f"{cte.name}:", *writer.lines(cte.plan, 1)]
    for name, subquery in plan.subqueries.items():
        parts += [f"{writer.subquery_names[name]}: {subquery.kind}", *writer.lines(subquery.plan, 1)]
    return "\n".join(parts)


def leaf_text(plan: Plan, leaf: Scan | Leaf | Rows) -> str:
    """Return the line for a leaf of a plan."""
    return _Writer(plan).head(leaf)


def shown_names(plan: Plan) -> dict[str, str]:
    """Return the names of a plan's columns in its text, by id."""
    names = _Writer(plan).names
    return {each.name: to_text(shown) for each, shown in names.items() if isinstance(each, Column)}


class _Writer:
    """Writer of plans; columns have the names that users know, qualified by their table where known."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.subquery_names = {name: f"subquery{number}" for number, name in enumerate(plan.subqueries, 1)}
        self.names: dict[Expression, Expression] = {Column(name): Column(text) for name, text in self.subquery_names.items()}
        for root in roots_of(plan):
            for node in reversed(list(nodes_of(root))):
                self._name(node)

    def _name(self, node: Node) -> None:
        for each in (*node.fields, *node.filtered) if isinstance(node, Scan) else node.fields:
            if each.name:
                text = f"{node.table}.{each.name}" if isinstance(node, Scan) else each.name
                self.names.setdefault(each.column, Column(text))
        if isinstance(node, Leaf):
            for each, item in zip(node.fields, node.query.select, strict=False):
                self.names.setdefault(each.column, Column(to_text(item.expression)))
        if isinstance(node, Project):
            for each, expression in zip(node.fields, node.expressions, strict=True):
                self.names.setdefault(each.column, Column(self.text(expression)))
        if isinstance(node, Aggregate):
            calls = (*node.keys, *node.aggregates)
            for each, expression in zip(node.fields, calls, strict=False):
                self.names.setdefault(each.column, Column(self.text(expression)))
        if isinstance(node, Window):
            for each, window in zip(node.added, node.calls, strict=True):
                self.names.setdefault(each.column, Column(f"{self.text(window.call)} OVER"))

    def text(self, expression: Expression) -> str:
        """Return an expression as a user would write it."""
        named = replaced(expression, self.names)
        if isinstance(named, Call) and named.name == SUBQUERY:
            compared = ", ".join(to_text(arg) for arg in named.args[1:])
            return f"{compared} IN {to_text(named.args[0])}"
        return to_text(named)

    def lines(self, node: Node, depth: int) -> list[str]:
        if isinstance(node, StarGroups):
            return self._star(node, depth)
        below = [line for child in children(node) for line in self.lines(child, depth + 1)]
        return [f"{_INDENT * depth}{self.head(node)}", *below]

    def _star(self, star: StarGroups, depth: int) -> list[str]:
        """Return the lines of the fact table's query, with dimension columns by name, and of the dimension tables."""
        names = star.fact.column_names
        shown: dict[Expression, Expression] = {}
        lines = [f"{_INDENT * depth}StarGroups"]
        for lookup in star.lookups:
            column = self.text(lookup.column)
            held = Call("in", (replaced(lookup.column, names), Column(f"keys of {self.text(lookup.key.column)}")))
            if lookup.found is not None:
                shown[replaced(lookup.found, names)] = held
            for each in lookup.attributes:
                shown[replaced(lookup.value(each), names)] = replaced(each.column, self.names)
            read = ", ".join(self.text(each.column) for each in lookup.attributes)
            condition = f"{column} = {self.text(lookup.key.column)}"
            lines.append(
                f"{_INDENT * (depth + 1)}Lookup(type=[{lookup.kind.lower()}], condition=[{condition}], columns=[{read}])"
            )
            lines += self.lines(lookup.root, depth + 2)
        groups = with_leaf_queries(star.groups, lambda query: query.changed(lambda expression: replaced(expression, shown)))
        return [lines[0], *self.lines(groups, depth + 1), *lines[1:]]

    def head(self, node: Node) -> str:
        match node:
            case Scan():
                where = f", where=[{self._all(node.where)}]" if node.where else ""
                first = "" if node.limit is None else f", {self._first(node)}".replace("keys=[], ", "")
                columns = ", ".join(each.name for each in node.fields)
                return f"Scan(table=[{node.table}], columns=[{columns}]{where}{first})"
            case Rows():
                return f"Rows(name=[{node.name}], columns=[{', '.join(each.name for each in node.fields)}])"
            case Leaf():
                return f"LeafQuery({_query_text(node)})"
            case Filter():
                return f"Filter(condition=[{self._all(node.conditions)}])"
            case Project():
                pairs = zip(node.fields, node.expressions, strict=True)
                return f"Project({', '.join(self._output(made, expression) for made, expression in pairs)})"
            case Aggregate():
                sets = f", sets=[{list(node.sets)}]" if node.sets else ""
                return f"Aggregate(keys=[{self._list(node.keys)}], aggregates=[{self._list(node.aggregates)}]{sets})"
            case Window():
                return f"Window({', '.join(self._over(node))})"
            case Join():
                return f"Join(type=[{node.kind.lower()}], condition=[{self._all(node.conditions)}])"
            case SetOperation():
                return f"{node.kind.title()}(all=[{str(node.all).lower()}])"
            case Sort():
                return f"Sort({self._first(node)})"
            case Distinct():
                return f"Distinct(on=[{self._list(node.on)}])" if node.on else "Distinct"
            case Unnest():
                return f"Unnest(arrays=[{self._list(node.arrays)}])"
            case CteRef():
                return f"Reference({node.name})"
            case Values():
                return f"Values(rows=[{len(node.rows)}])"
            case StarGroups():
                return "StarGroups"

    def _first(self, node: Sort | Scan) -> str:
        """Return the order, limit and offset of an operator."""
        keys = node.keys if isinstance(node, Sort) else node.order_by
        limit = "" if node.limit is None else f", limit=[{node.limit}]"
        offset = f", offset=[{node.offset}]" if node.offset else ""
        return f"keys=[{self._keys(keys)}]{limit}{offset}"

    def _output(self, made: Field, expression: Expression) -> str:
        text = self.text(expression)
        return text if not made.name or text == made.name or text.endswith(f".{made.name}") else f"{made.name}=[{text}]"

    def _list(self, expressions: Sequence[Expression]) -> str:
        return ", ".join(self.text(each) for each in expressions)

    def _all(self, conditions: Sequence[Expression]) -> str:
        return " AND ".join(self.text(each) for each in conditions)

    def _keys(self, keys: Sequence[SortKey]) -> str:
        return ", ".join(f"{self.text(key.expression)} {'DESC' if key.descending else 'ASC'}" for key in keys)

    def _over(self, node: Window) -> list[str]:
        written = []
        for window in node.calls:
            over = f"PARTITION BY [{self._list(window.partition_by)}] ORDER BY [{self._keys(window.order_by)}]"
            written.append(f"{self.text(window.call)} OVER ({over})")
        return written


def _query_text(leaf: Leaf) -> str:
    query = leaf.query
    parts = [f"table=[{query.table}]", f"select=[{', '.join(to_text(item.expression) for item in query.select)}]"]
    parts += [f"where=[{to_text(query.where)}]"] if query.where is not None else []
    parts += [f"having=[{to_text(query.having)}]"] if query.having is not None else []
    parts += [f"group by=[{', '.join(to_text(key) for key in query.group_by)}]"] if query.group_by else []
    order = [f"{to_text(key.expression)} {'DESC' if key.descending else 'ASC'}" for key in query.order_by]
    parts += [f"order by=[{', '.join(order)}]"] if order else []
    parts += [f"limit=[{query.limit}]"] if query.limit != LEAF_LIMIT else []
    parts += [f"offset=[{query.offset}]"] if query.offset else []
    return ", ".join(parts)
