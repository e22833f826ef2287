"""Compiled queries with slots for their literals, so that compiling a query of known shape costs microseconds."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import TypeAlias

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import compiling
from gamay.functions.expression import Expression, Literal, walk
from gamay.functions.text import literal_text
from gamay.model.types import DataType
from gamay.sql.answers import asks_broker
from gamay.sql.options.hints import hint_options
from gamay.sql.options.row_limits import DEFAULT_LIMIT, LIMIT_MAX, RowLimits, limit_error
from gamay.sql.query import OrderBy, Query, SelectItem, Shape
from gamay.sql.relational import RelationalStatement
from gamay.sql.text.slots import Computed, Lifted, Slot, filler, members, refilled
from gamay.sql.translate.rewrite import Rewritten, named, rewrite
from gamay.sql.translate.statement import Item, Statement, parse_statement

_DIGITS_SHOWN = 40
_WEIGHT_LEAST = 500

Literals: TypeAlias = Sequence[Literal]


@dataclass(frozen=True, slots=True, eq=False)
class Template:
    """A compiled query without its literals.

    ordinals: (index, text) of the literals that the plan depends on. fill: makes the query, without options and shape.
    fill_options: makes the options from SET and hints. table: of FROM. where: the condition with slots. is_plain: whether
    the literals of WHERE, and those elsewhere that `fixed` picks (None picks none), identify a query. weight: in caches, the
    length of the text plus a constant.
    """

    weight: int
    num_literals: int
    ordinals: tuple[tuple[int, str], ...]
    fill: Callable[[Literals], Query]
    fill_options: Callable[[Literals], dict[str, str]] | None
    table: str | None = None
    where: Expression | None = None
    fixed: Callable[[Sequence[str]], Hashable] | None = None
    is_plain: bool = False

    def shape(self, sources: Sequence[str], limits: RowLimits, log2m: int | None = None) -> Shape:
        """Return the shape of a query with these literals, as written. limits, log2m: from the cluster's settings."""
        return Shape(self, None if self.fixed is None else self.fixed(sources), limits, log2m)

    def has_ordinals(self, sources: Sequence[str]) -> bool:
        """Whether these literals, as written, are those that the plan depends on."""
        return all(sources[i] == source for i, source in self.ordinals)

    def fits(self, literals: Literals) -> bool:
        """Whether the template is valid for these literals; numbers beyond 64 bits are checked by compiling again."""
        # a list, since a generator takes longer for few literals
        return len(literals) == self.num_literals and DataType.BIG_DECIMAL not in [literal.type for literal in literals]


def compile_template(text: str, lifted: Lifted, literals: Literals, *, relational: bool = False) -> Template:
    """Parse and check a text, given its distinct literals. relational: see `parse_statement`. Raises QueryError."""
    slots = lifted.slots(literals)
    with compiling():
        statement = parse_statement(text, slots, relational=relational)
        if isinstance(statement, RelationalStatement):
            return _relational(statement, lifted.sources)
        rewritten = rewrite(statement)
    ordinals = tuple((i, lifted.sources[i]) for i in sorted(rewritten.ordinals))
    is_refilled = not (rewritten.has_computed or _has_huge(slots))
    elsewhere = _slots_elsewhere(rewritten) if is_refilled else None
    fill = _filler(rewritten, only_in_where=elsewhere is not None) if is_refilled else _recompiler(statement)
    if not is_refilled or _computes(rewritten.statement.where):
        fill = _compiling(fill)
    asks = asks_broker(_expressions(statement))
    rows = [slot.index for slot in (statement.limit, statement.offset) if isinstance(slot, Slot)]
    fixed = [] if elsewhere is None else sorted({*rows, *rewritten.ordinals, *elsewhere})
    fill_options = _options_filler(statement.set_options, text)
    return Template(
        weight=_WEIGHT_LEAST + len(text),
        num_literals=len(lifted.sources),
        ordinals=ordinals,
        fill=_marked(fill) if asks else fill,
        fill_options=fill_options,
        table=statement.table,
        where=rewritten.statement.where,
        fixed=itemgetter(*fixed) if fixed else None,
        is_plain=elsewhere is not None and not asks and fill_options is None and not statement.explain,
    )


def _relational(statement: RelationalStatement, sources: Sequence[str]) -> Template:
    """Return the template of a relational query: its tree, with the literals beside it."""
    explain = statement.explain

    def fill(literals: Literals) -> Query:
        filled = tuple([_plain(refilled(slot, literals)) for slot in statement.literals])
        return Query(None, (), explain=explain, asks_broker=True, relational=replace(statement, literals=filled))

    slots = [slot for slot in (statement.literals[place] for place in statement.files) if isinstance(slot, Slot)]
    named = tuple((slot.index, sources[slot.index]) for slot in slots)
    weight = _WEIGHT_LEAST + len(statement.text)
    return Template(weight, len(sources), named, fill, _options_filler(statement.set_options, statement.text))


def _plain(expression: Expression) -> Literal:
    assert isinstance(expression, Literal)
    return expression


def _expressions(statement: Statement) -> list[Expression]:
    conditions = [condition for condition in (statement.where, statement.having) if condition is not None]
    keys = (*statement.group_by, *(key.expression for key in statement.order_by))
    return [*(item.expression for item in statement.items), *conditions, *keys]


def _computes(where: Expression | None) -> bool:
    return where is not None and any(isinstance(part, Computed) for part in walk(where))


def _compiling(fill: Callable[[Literals], Query]) -> Callable[[Literals], Query]:
    """Limit the time for computing constants in each filling to that of compiling one query."""

    def fill_in_time(literals: Literals) -> Query:
        with compiling():
            return fill(literals)

    return fill_in_time


def _marked(fill: Callable[[Literals], Query]) -> Callable[[Literals], Query]:
    """Mark the queries as ones that the broker completes; the results of its functions determine the final query."""
    return lambda literals: replace(fill(literals), asks_broker=True)


def _has_huge(slots: Sequence[Slot]) -> bool:
    return any(slot.type is DataType.BIG_DECIMAL for slot in slots)


def _recompiler(statement: Statement) -> Callable[[Literals], Query]:
    """Return a filler for a statement with computed constants: insert the literals, then rewrite the statement."""

    def recompile(literals: Literals) -> Query:
        def put(expression: Expression) -> Expression:
            return refilled(expression, literals)

        filled = replace(
            statement,
            items=tuple(Item(put(i.expression), i.alias, i.start) for i in statement.items),
            where=None if statement.where is None else put(statement.where),
            group_by=tuple(put(key) for key in statement.group_by),
            having=None if statement.having is None else put(statement.having),
            order_by=tuple(replace(key, expression=put(key.expression)) for key in statement.order_by),
        )
        rewritten = rewrite(filled)
        _check_numbers(rewritten.statement)
        return _filler(rewritten, only_in_where=False)(literals)

    return recompile


def _check_numbers(statement: Statement) -> None:
    conditions = [c for c in (statement.where, statement.having) if c is not None]
    for expression in (*(item.expression for item in statement.items), *conditions, *statement.group_by):
        check_number_range(expression)


def check_number_range(expression: Expression) -> None:
    """Raise QueryError for an integer literal beyond 64 bits."""
    for part in walk(expression):
        if isinstance(part, Slot) and part.type is DataType.BIG_DECIMAL:
            huge = next(literal for literal in members(part) if literal.type is DataType.BIG_DECIMAL)
            number = _shortened(literal_text(huge.value))
            raise QueryError(
                ErrorCode.SQL_PARSING,
                f"The number {number} does not fit 64 bits; write CAST('{number}' AS BIG_DECIMAL) or {number}.0",
            )


def _filler(rewritten: Rewritten, *, only_in_where: bool) -> Callable[[Literals], Query]:
    statement = rewritten.statement
    constant = statement.table is None
    table, distinct, explain = statement.table, rewritten.distinct, statement.explain
    fill_select = _select_filler(rewritten, constant)
    fill_where, fill_having = _optional(statement.where), _optional(statement.having)
    fill_group_by = _tuple_filler(statement.group_by)
    fill_order_by = _order_filler(statement.order_by)
    limit, offset = statement.limit, statement.offset
    grouping_sets = statement.grouping_sets or ()

    def fill(literals: Literals) -> Query:
        return Query(
            table,
            fill_select(literals),
            distinct,
            fill_where(literals),
            fill_group_by(literals),
            fill_having(literals),
            fill_order_by(literals),
            DEFAULT_LIMIT if limit is None else _row_count(limit, literals, "LIMIT"),
            0 if offset is None else _row_count(offset, literals, "OFFSET"),
            {},
            explain,
            grouping_sets,
            varies_only_in_where=only_in_where,
            has_limit=limit is not None,
        )

    return fill


def _shortened(number: str) -> str:
    return number if len(number) <= _DIGITS_SHOWN else f"{number[:_DIGITS_SHOWN]}…"


def _row_count(slot: Literal, literals: Literals, clause: str) -> int:
    value = literals[slot.index].value if isinstance(slot, Slot) else slot.value
    if type(value) is not int:
        raise QueryError(
            ErrorCode.SQL_PARSING,
            f"Value for '{clause}' ({_shortened(literal_text(value))}) must be a whole number up to {LIMIT_MAX}",
        )
    if value > LIMIT_MAX:
        raise limit_error(value, clause, LIMIT_MAX)
    return value


def _constant(value: Expression | None) -> Callable[[Literals], Expression | None]:
    return lambda literals: value


def _behind_where(rewritten: Rewritten) -> list[Expression]:
    """Return all expressions except WHERE."""
    statement = rewritten.statement
    having = [] if statement.having is None else [statement.having]
    keys = [key.expression for key in statement.order_by]
    return [*(item.expression for item in rewritten.select), *statement.group_by, *having, *keys]


def _slots_elsewhere(rewritten: Rewritten) -> set[int] | None:
    """Return the indexes of the literals outside of WHERE; None if some constants there are computed."""
    parts = [part for expression in _behind_where(rewritten) for part in walk(expression)]
    if any(isinstance(part, Computed) for part in parts):
        return None
    return {part.index for part in parts if isinstance(part, Slot)}


def _optional(expression: Expression | None) -> Callable[[Literals], Expression | None]:
    if expression is None:
        return _constant(None)
    fill = filler(expression)
    return _constant(expression) if fill is None else fill


def _tuple_filler(expressions: Sequence[Expression]) -> Callable[[Literals], tuple[Expression, ...]]:
    fillers = [(e, filler(e)) for e in expressions]
    if all(fill is None for _, fill in fillers):
        plain = tuple(expressions)
        return lambda literals: plain
    return lambda literals: tuple([e if fill is None else fill(literals) for e, fill in fillers])


def _order_filler(keys: Sequence[OrderBy]) -> Callable[[Literals], tuple[OrderBy, ...]]:
    fillers = [(key, filler(key.expression)) for key in keys]
    if all(fill is None for _, fill in fillers):
        plain = tuple(keys)
        return lambda literals: plain
    return lambda literals: tuple(
        [k if fill is None else OrderBy(fill(literals), k.descending, k.nulls_last) for k, fill in fillers]
    )


def _select_filler(rewritten: Rewritten, constant: bool) -> Callable[[Literals], tuple[SelectItem, ...]]:
    parts = [
        (item, filler(item.expression), written, None if written is None else filler(written))
        for item, written in zip(rewritten.select, rewritten.shown, strict=True)
    ]
    if all(fill is None for _, fill, _, _ in parts):
        return lambda literals: rewritten.select

    def fill_select(literals: Literals) -> tuple[SelectItem, ...]:
        items = []
        for item, fill, written, fill_written in parts:
            if fill is None:
                items.append(item)
            elif fill_written is None:
                items.append(SelectItem(fill(literals), item.name))
            else:
                expression = fill(literals)
                shown = expression if written is item.expression else fill_written(literals)
                items.append(named(expression, shown, constant))
        return tuple(items)

    return fill_select


def _options_filler(options: Mapping[str, Literal], text: str) -> Callable[[Literals], dict[str, str]] | None:
    """Return a function that makes the options of SET and hints, where hints take precedence; None without any."""
    hints = hint_options(text)
    if not (options or hints):
        return None

    def fill(literals: Literals) -> dict[str, str]:
        found = {
            name: literal_text((literals[value.index] if isinstance(value, Slot) else value).value)
            for name, value in options.items()
        }
        return found | hints

    return fill
