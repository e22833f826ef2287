"""Rewrites a statement to the query model: folds constants, resolves aliases and ordinals, and checks all rules.

Each pass is a function of the statement; `rewrite` applies them in order.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, replace

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import FILTERED, GROUPING, SYNTAX, Call, Column, Expression, Literal, Star, walk
from gamay.functions.registry import is_aggregate, moment_hint, must_get_scalar
from gamay.functions.text import constant_text, to_text
from gamay.model.types import DataType
from gamay.sql.query import OrderBy, SelectItem
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.slots import Slot
from gamay.sql.translate.expressions import TRUE, canonical
from gamay.sql.translate.fold import Folder
from gamay.sql.translate.linear import linear_form
from gamay.sql.translate.statement import Statement


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A rewritten statement; LIMIT and OFFSET are still literals of the text.

    shown: for each select item the expression as written, whose text is its name (see `named`); None with an alias.
    has_computed: whether constants were computed from literals. ordinals: indexes of the literals used as ordinals.
    """

    statement: Statement
    select: tuple[SelectItem, ...]
    shown: tuple[Expression | None, ...]
    distinct: bool
    has_computed: bool
    ordinals: frozenset[int]


def rewrite(statement: Statement) -> Rewritten:
    """Apply all rewrites and checks; raises QueryError for an invalid query."""
    folder = Folder(volatile=statement.table is None)
    folded = _fold(statement, folder)
    ordinals = _ordinal_slots(folded)
    statement = _resolve_ordinals(statement, _resolve_aliases(folded))
    shown = tuple(None if item.alias is not None else item.expression for item in statement.items)
    statement = _canonical(statement)
    statement = _drop_constant_keys(statement)
    _check_aggregates(statement)
    if statement.table is None:
        _check_constants(statement)
    _check_groupings(statement)
    distinct = statement.distinct
    if distinct:
        _check_distinct(statement)
    else:
        _check_grouping(statement)
        distinct = _selects_keys(statement)
        statement = replace(statement, group_by=()) if distinct else statement
    statement = replace(statement, order_by=_once(statement.order_by))
    return Rewritten(statement, _select_items(statement, shown), shown, distinct, folder.has_computed, ordinals)


def _fold(statement: Statement, folder: Folder) -> Statement:
    where = None if statement.where is None else folder.fold_condition(statement.where)
    having = None if statement.having is None else folder.fold(statement.having)
    return replace(
        statement,
        items=tuple(replace(item, expression=folder.fold(item.expression)) for item in statement.items),
        where=None if where == TRUE else where,
        group_by=tuple(folder.fold(key) for key in statement.group_by),
        having=None if having == TRUE else having,
        order_by=tuple(replace(key, expression=folder.fold(key.expression)) for key in statement.order_by),
    )


def _canonical(statement: Statement) -> Statement:
    having = None if statement.having is None else canonical(statement.having)
    return replace(
        statement,
        items=tuple(replace(item, expression=canonical(item.expression)) for item in statement.items),
        where=None if statement.where is None else canonical(statement.where),
        group_by=tuple(canonical(key) for key in statement.group_by),
        having=having,
        order_by=tuple(replace(key, expression=canonical(key.expression)) for key in statement.order_by),
    )


# -- ordinals and aliases


def _ordinal_slots(statement: Statement) -> frozenset[int]:
    """Return the literals among the keys: integers are ordinals, other constants are dropped; the plan depends on both."""
    keys = (*statement.group_by, *(key.expression for key in statement.order_by))
    return frozenset(key.index for key in keys if isinstance(key, Slot))


def _resolve_ordinals(written: Statement, folded: Statement) -> Statement:
    """Whole numbers of the text are ordinals; what was computed from constants, as in `GROUP BY year(now())`, is none.

    folded: the same keys, in which aliases are resolved; what an ordinal stands for has none.
    """

    def resolve(as_written: Expression, key: Expression, clause: str) -> Expression:
        if not _is_written(as_written) or not isinstance(key, Literal) or type(key.value) is not int:
            return key
        if not 1 <= key.value <= len(folded.items):
            raise _invalid(f"{clause} {key.value} is out of range: the SELECT list has {len(folded.items)} expression(s)")
        expression = folded.items[key.value - 1].expression
        if isinstance(expression, Star):
            raise _invalid(f"{clause} {key.value} refers to *, which stands for all columns; name the column")
        return expression

    groups = zip(written.group_by, folded.group_by, strict=True)
    orders = zip(written.order_by, folded.order_by, strict=True)
    return replace(
        folded,
        group_by=tuple(resolve(as_written, key, "GROUP BY") for as_written, key in groups),
        order_by=tuple(
            replace(key, expression=resolve(as_written.expression, key.expression, "ORDER BY")) for as_written, key in orders
        ),
    )


def _is_written(key: Expression) -> bool:
    """Whether a key is a constant as it stands in the text, with or without a sign."""
    return isinstance(key, Literal) or (isinstance(key, Call) and key.name == "negate" and isinstance(key.args[0], Literal))


def _resolve_aliases(statement: Statement) -> Statement:
    aliases: dict[str, Expression] = {}
    for item in statement.items:
        if item.alias is None:
            continue
        if item.alias in aliases:
            raise syntax_error(statement.text, item.start, f"the alias '{item.alias}' is given twice")
        aliases[item.alias] = item.expression
    if not aliases:
        return statement
    having = statement.having
    selected = {item.expression for item in statement.items}
    return replace(
        statement,
        group_by=tuple(_substitute(key, aliases, selected) for key in statement.group_by),
        having=None if having is None else _substitute(having, aliases, selected),
        order_by=tuple(
            replace(key, expression=_substitute(key.expression, aliases, selected)) for key in statement.order_by
        ),
    )


def _substitute(expression: Expression, aliases: Mapping[str, Expression], selected: Container[Expression]) -> Expression:
    """Replace aliases by their expressions.

    Not inside aggregates, where a name can only be a column, nor in repeated SELECT expressions, where it is one:
    `SELECT UPPER(city) AS city … GROUP BY UPPER(city)`.
    """
    if isinstance(expression, Column):
        return aliases.get(expression.name, expression)
    if expression in selected:
        return expression
    if isinstance(expression, Call) and not is_aggregate(expression.name):
        return Call(expression.name, tuple(_substitute(arg, aliases, selected) for arg in expression.args))
    return expression


def _drop_constant_keys(statement: Statement) -> Statement:
    """Drop constant keys, which have no effect, except the last one of GROUP BY, which yields no group for no rows."""
    group_by: tuple[Expression, ...] = tuple(dict.fromkeys(k for k in statement.group_by if not isinstance(k, Literal)))
    if statement.grouping_sets is not None:
        statement = _renumbered(statement, group_by, statement.grouping_sets)
        group_by = statement.group_by
    return replace(
        statement,
        group_by=group_by or statement.group_by[:1],
        order_by=tuple(key for key in statement.order_by if not isinstance(key.expression, Literal)),
    )


def _renumbered(statement: Statement, group_by: tuple[Expression, ...], sets: tuple[tuple[int, ...], ...]) -> Statement:
    """Adjust grouping sets to the remaining keys; the empty set alone equals no GROUP BY."""
    place = {key: i for i, key in enumerate(group_by)}
    written = [place.get(key) for key in statement.group_by]
    left = tuple(tuple(sorted({i for position in part if (i := written[position]) is not None})) for part in sets)
    if not group_by and len(left) > 1:
        raise _invalid("The grouping sets name no column to group by")
    return replace(statement, group_by=group_by, grouping_sets=left if group_by else None)


def _once(keys: Iterable[OrderBy]) -> tuple[OrderBy, ...]:
    """Keep the first sort key of each expression."""
    first: dict[Expression, OrderBy] = {}
    for key in keys:
        first.setdefault(key.expression, key)
    return tuple(first.values())


# -- rules


def _aggregates(expressions: Iterable[Expression]) -> list[Call]:
    return [part for e in expressions for part in walk(e) if isinstance(part, Call) and is_aggregate(part.name)]


def _outputs(statement: Statement) -> list[Expression]:
    """Return all expressions evaluated after grouping."""
    having = () if statement.having is None else (statement.having,)
    return [*(item.expression for item in statement.items), *having, *(key.expression for key in statement.order_by)]


def _check_aggregates(statement: Statement) -> None:
    for clause, expressions in (
        ("WHERE; filter groups with HAVING", [statement.where] if statement.where is not None else []),
        ("GROUP BY", statement.group_by),
    ):
        for call in _aggregates(expressions):
            raise _invalid(f"The aggregate {to_text(call)} is not allowed in {clause}")
    for call in _aggregates(_outputs(statement)):
        filtered = call.name == FILTERED
        for inner in _aggregates(call.args[1:] if filtered else call.args):
            place = "FILTER, which selects rows before they are aggregated" if filtered else f"the aggregate {to_text(call)}"
            raise _invalid(f"The aggregate {to_text(inner)} is not allowed inside {place}")


def _check_groupings(statement: Statement) -> None:
    """Check the positions of GROUPING(…), and that queries with grouping sets aggregate."""
    rows = [*statement.group_by, *([] if statement.where is None else [statement.where])]
    for place, expressions in (("row", rows), ("result", _outputs(statement))):
        for part in (part for expression in expressions for part in walk(expression)):
            if isinstance(part, Call) and part.name in GROUPING and (place == "row" or not statement.group_by):
                raise _invalid(
                    f"{to_text(part)} tells rolled-up keys apart; it needs GROUP BY, and is not allowed in it or in WHERE"
                )
    if statement.grouping_sets is not None and not _aggregates(_outputs(statement)):
        raise _invalid("GROUPING SETS, ROLLUP and CUBE need an aggregate in the SELECT list, as in count(*)")


def _check_constants(statement: Statement) -> None:
    if statement.where is not None or statement.group_by or statement.having is not None or statement.order_by:
        raise _invalid("A query without FROM can only have a SELECT list")
    for item in statement.items:
        needs_rows = _aggregates([item.expression]) or any(isinstance(p, Column | Star) for p in walk(item.expression))
        if needs_rows:
            hint = "".join([moment_hint(part.name) for part in walk(item.expression) if isinstance(part, Column)][:1])
            raise _invalid(f"{to_text(item.expression)} needs a table: FROM is missing{'.' if hint else ''}{hint}")


def _check_distinct(statement: Statement) -> None:
    if statement.group_by:
        raise _invalid("DISTINCT and GROUP BY cannot be combined; remove DISTINCT")
    if statement.having is not None:
        raise _invalid("HAVING filters groups; with DISTINCT use WHERE")
    for item in statement.items:
        if isinstance(item.expression, Star):
            raise _invalid("SELECT DISTINCT * is not supported; name the columns")
    for call in _aggregates(_outputs(statement)):
        raise _invalid(f"DISTINCT cannot be combined with the aggregate {to_text(call)}; aggregates need GROUP BY")
    _check_ordered_by_selected(statement)


def _check_ordered_by_selected(statement: Statement) -> None:
    selected = {_folded_case(item.expression) for item in statement.items}
    for key in statement.order_by:
        if _folded_case(key.expression) not in selected:
            raise _invalid(f"ORDER BY {to_text(key.expression)} is not in the SELECT list, which DISTINCT requires")


def _selects_keys(statement: Statement) -> bool:
    """Whether a GROUP BY equals DISTINCT: the SELECT list is exactly its keys, and includes all sort keys.

    HAVING selects groups and is not like WHERE: a row with a list belongs to the groups of all its values, also filtered
    ones.
    """
    if not statement.group_by or statement.having is not None or _aggregates(_outputs(statement)):
        return False
    selected = {_folded_case(item.expression) for item in statement.items if not isinstance(item.expression, Literal)}
    grouped = {_folded_case(key) for key in statement.group_by if not isinstance(key, Literal)}
    return selected == grouped and all(_folded_case(key.expression) in selected for key in statement.order_by)


def _check_grouping(statement: Statement) -> None:
    """Check that expressions evaluated after grouping depend on group keys and aggregates only.

    Without GROUP BY there is one row, so its order does not matter.
    """
    if not statement.group_by and not _aggregates(_outputs(statement)):
        if statement.having is not None:
            raise _invalid("HAVING needs GROUP BY or an aggregate; filter rows with WHERE")
        return
    keys = {_folded_case(key) for key in statement.group_by}
    for expression in _outputs(statement if statement.group_by else replace(statement, order_by=())):
        loose = _first_ungrouped(expression, keys)
        if loose is None:
            continue
        _check_functions(expression)
        if isinstance(loose, Star):
            beside = "GROUP BY" if statement.group_by else "an aggregate"
            raise _invalid(f"* cannot be combined with {beside}; name the columns, and group by them")
        if not statement.group_by:
            shown = to_text(loose)
            raise _invalid(f"{shown} is selected with an aggregate but without GROUP BY; add GROUP BY {shown}")
        message = f"{to_text(loose)} is neither in GROUP BY nor inside an aggregate"
        if expression is statement.having:
            message += ", which HAVING requires; move it into one of them, or the condition into WHERE, which filters rows"
        raise _invalid(message)


def _check_functions(expression: Expression) -> None:
    """Raise QueryError for an unknown function: it may be a misspelt aggregate, whose argument need not be a key."""
    for part in walk(expression):
        if isinstance(part, Call) and part.name not in SYNTAX and not is_aggregate(part.name):
            must_get_scalar(part.name)


def _first_ungrouped(expression: Expression, keys: set[Expression]) -> Expression | None:
    if isinstance(expression, Literal) or _folded_case(expression) in keys:
        return None
    if not isinstance(expression, Call):
        return expression
    if is_aggregate(expression.name):
        return None
    return next((found for arg in expression.args if (found := _first_ungrouped(arg, keys)) is not None), None)


def _folded_case(expression: Expression) -> Expression:
    """Return an expression with column names in lower case, since they are matched ignoring case."""
    if isinstance(expression, Column):
        return Column(expression.name.lower())
    if isinstance(expression, Call):
        return Call(expression.name, tuple(_folded_case(arg) for arg in expression.args))
    return expression


def _select_items(statement: Statement, shown: Iterable[Expression | None]) -> tuple[SelectItem, ...]:
    constant = statement.table is None
    return tuple(
        SelectItem(item.expression, item.alias or "") if written is None else named(item.expression, written, constant)
        for item, written in zip(statement.items, shown, strict=True)
    )


def named(expression: Expression, written: Expression, constant: bool) -> SelectItem:
    """Return the item of an expression without alias, given the expression as `written`; constant: in a query without a
    table."""
    if constant and isinstance(written, Literal) and written.type is not DataType.STRING:
        return SelectItem(expression, constant_text(written))
    shown = linear_form(written) or written
    return SelectItem(expression, to_text(shown), shown)


def _invalid(message: str) -> QueryError:
    return QueryError(ErrorCode.SQL_PARSING, message)
