"""Queries with GAPFILL, the only ones that nest: servers run the innermost query, the others become its `Gapfill`.

    SELECT GAPFILL(time, 'format', 'start', 'end', 'bucket' [, 'window'], FILL(column, 'FILL_PREVIOUS_VALUE'), …,
                   TIMESERIESON(column, …)) AS time, column, … FROM t

Such a query may read from an aggregating query instead of a table, and another query may read from it: at most three levels.
LIMIT applies to filled rows; only the outermost query has a default one.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias, TypeVar

from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError
from gamay.functions.expression import Call, Column, Expression, Literal, Star, walk
from gamay.functions.registry import is_aggregate
from gamay.functions.text import literal_text, to_text
from gamay.model.schema.datetime_format import DateTimeFormat, Granularity
from gamay.sql.options.row_limits import LIMIT_MAX
from gamay.sql.query import Gapfill, OrderBy, Query, SelectItem
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import Lexeme, TokenKind, lex

T = TypeVar("T")
ParseLevel: TypeAlias = Callable[[str, Mapping[str, str] | None], Query]

_MAY_GAPFILL = re.compile(r"\bgapfill\s*\(", re.IGNORECASE)
_LEVELS_MAX = 3
_INNER_TABLE = '"subquery"'
OF_ONE_TABLE = (
    "GAPFILL stands in a query of one table, and what is around it reads nothing but its rows: no joins, windows or sets"
)
_USAGE = (
    "GAPFILL(time, 'format', 'start', 'end', 'bucket' [, 'window'], FILL(column, 'FILL_PREVIOUS_VALUE'), ..., "
    "TIMESERIESON(column, ...))"
)


def parse_gapfill(text: str, options: Mapping[str, str] | None, parse_level: ParseLevel) -> Query | None:
    """Compile a text that may use GAPFILL; None if it does not. Raises QueryError.

    options: those of the request. parse_level: compiles the text of one level.
    """
    if _MAY_GAPFILL.search(text) is None:
        return None
    levels = _split(text)
    queries = [parse_level(level.text, options if i == 0 else None) for i, level in enumerate(levels)]
    found = [i for i, query in enumerate(queries) if _gapfill_items(query)]
    if not found:
        if any(_is_call(part, "gapfill") for query in queries for e in _expressions(query) for part in walk(e)):
            raise _invalid(f"GAPFILL must be an item of the SELECT list, not part of an expression: {_USAGE}")
        return None
    if len(found) > 1:
        raise _invalid("GAPFILL is allowed in only one SELECT list of a query")
    return _Planner(levels, queries, found[0]).plan()


# -- levels of the text


@dataclass(frozen=True, slots=True)
class _Level:
    """One SELECT at its position in the text, everything else blanked out. start: where its subquery, if any, begins."""

    text: str
    start: int
    has_limit: bool


def _split(text: str) -> list[_Level]:
    """Return the levels of the text, outermost first."""
    levels: list[_Level] = []
    rest, start = text, 0
    while True:
        inner = _subquery(rest, lex(rest))
        if inner is None:
            return [*levels, _Level(rest, start, _has_limit(lex(rest)))]
        opening, closing = inner
        if len(levels) + 1 == _LEVELS_MAX:
            raise syntax_error(text, opening, f"queries nest at most {_LEVELS_MAX} deep, and only with GAPFILL")
        blank = _blank(rest[opening : closing + 1])
        outer = rest[:opening] + _INNER_TABLE + blank[len(_INNER_TABLE) :] + rest[closing + 1 :]
        levels.append(_Level(outer, start, _has_limit(lex(outer))))
        rest = _blank(rest[: opening + 1]) + rest[opening + 1 : closing]
        start = opening


def _subquery(text: str, lexemes: Sequence[Lexeme]) -> tuple[int, int] | None:
    """Return the positions of the parentheses of `FROM (SELECT …)`."""
    depth = 0
    opening: int | None = None
    for i, lexeme in enumerate(lexemes):
        if lexeme.is_op("("):
            follows_from = depth == 0 and i > 0 and lexemes[i - 1].is_word("FROM")
            if follows_from and lexemes[i + 1].is_word("SELECT"):
                opening = i
            depth += 1
        elif lexeme.is_op(")"):
            depth -= 1
            if depth == 0 and opening is not None:
                return lexemes[opening].start, lexeme.start
    if opening is not None:
        raise syntax_error(text, lexemes[opening].start, "this parenthesis is not closed")
    return None


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _has_limit(lexemes: Sequence[Lexeme]) -> bool:
    return any(
        (lexeme.is_word("LIMIT") and following.kind is TokenKind.NUMBER)
        or (lexeme.is_word("FETCH") and following.is_word("FIRST", "NEXT"))
        for lexeme, following in pairwise(lexemes)
    )


# -- from levels to the servers' query


def _named(item: SelectItem) -> SelectItem:
    """Return an item; GAPFILL without an alias gets the name of its time expression."""
    call = item.expression
    if not isinstance(call, Call) or call.name != "gapfill" or not call.args or item.shown is None:
        return item
    return SelectItem(call, to_text(call.args[0]), call.args[0])


def _gapfill_items(query: Query) -> list[int]:
    return [i for i, item in enumerate(query.select) if _is_call(item.expression, "gapfill")]


def _is_call(expression: Expression, name: str) -> bool:
    return isinstance(expression, Call) and expression.name == name


def _expressions(query: Query) -> list[Expression]:
    clauses = (query.where, query.having, *query.group_by, *(key.expression for key in query.order_by))
    return [*(item.expression for item in query.select), *(e for e in clauses if e is not None)]


def _aggregates(query: Query) -> bool:
    expressions = [item.expression for item in query.select]
    return any(isinstance(part, Call) and is_aggregate(part.name) for e in expressions for part in walk(e))


class _Planner:
    """Builds the servers' query. queries: of the levels, outermost first; number: index of the level with GAPFILL."""

    def __init__(self, levels: Sequence[_Level], queries: Sequence[Query], number: int) -> None:
        self._levels = levels
        self._queries = queries
        self._number = number
        self._query = replace(queries[number], select=tuple(map(_named, queries[number].select)))

    def plan(self) -> Query:
        query = self._query
        if any(query.relational is not None for query in self._queries):
            raise _invalid(OF_ONE_TABLE)
        if any(query.asks_broker for query in self._queries[:-1]):
            raise _invalid("With GAPFILL, IN_SUBQUERY and functions like reqId('') are allowed in the innermost query only")
        position = self._position()
        call = query.select[position].expression
        assert isinstance(call, Call)
        arguments = _Arguments(call)
        before = self._before(position)
        after = self._queries[self._number - 1] if self._number else None
        series, previous = self._columns(arguments, position)
        start_ms, end_ms = arguments.times()
        bucket_ms, window = arguments.bucket()
        outermost = self._queries[0]
        has_limit = after is None or self._levels[self._number].has_limit
        gapfill = Gapfill(
            before=before,
            after=None if after is None else self._after(after, query.select[position].name),
            time=position,
            series=series,
            previous=previous,
            format=arguments.format,
            start_ms=start_ms,
            end_ms=end_ms,
            bucket_ms=bucket_ms,
            window=window if after is not None and _aggregates(after) else 1,
            order_by=self._order(),
            limit=query.limit if has_limit else None,
            offset=query.offset,
        )
        innermost = self._queries[-1] if before is not None else self._data(position)
        if before is not None and not self._levels[-1].has_limit:
            innermost = replace(innermost, limit=LIMIT_MAX)
        return replace(innermost, options=outermost.options, explain=outermost.explain, shape=None, gapfill=gapfill)

    def _position(self) -> int:
        query = self._query
        positions = _gapfill_items(query)
        if len(positions) > 1:
            raise _invalid("GAPFILL is allowed only once in a SELECT list")
        if query.distinct or query.group_by or _aggregates(query):
            raise _invalid(
                "GAPFILL and aggregates must be in different queries: SELECT GAPFILL(...) FROM (SELECT ... GROUP BY ...), "
                "or SELECT ... FROM (SELECT GAPFILL(...) FROM t) GROUP BY ..."
            )
        if any(isinstance(item.expression, Star) for item in query.select):
            raise _invalid("SELECT * is not allowed with GAPFILL; name the columns")
        return positions[0]

    def _data(self, position: int) -> Query:
        """Return the query with GAPFILL replaced by its first argument; ordering and limits apply to filled rows."""
        items = list(self._query.select)
        call = items[position].expression
        assert isinstance(call, Call)
        items[position] = replace(items[position], expression=call.args[0])
        return replace(
            self._query,
            select=tuple(items),
            order_by=(),
            limit=LIMIT_MAX,
            offset=0,
            explain=False,
            shape=None,
            options=self._queries[0].options,
        )

    def _before(self, position: int) -> Query | None:
        if self._number == len(self._queries) - 1:
            return None
        if self._number < len(self._queries) - 2:
            raise _invalid("The query below GAPFILL must read from a table")
        inner = self._queries[-1]
        if not (inner.group_by or _aggregates(inner)):
            raise _invalid("The query below GAPFILL must aggregate; rows without aggregation need no subquery")
        return self._data(position)

    def _after(self, after: Query, time: str) -> Query:
        if self._number > 1:
            raise _invalid("At most one query may read from the one with GAPFILL")
        after = replace(after, explain=False, shape=None, options=self._queries[0].options)
        if not (after.group_by or _aggregates(after)):
            return after
        keys = [key for key in after.group_by if isinstance(key, Column) and key.name.lower() == time.lower()]
        if not keys:
            raise _invalid(f"GROUP BY over GAPFILL needs the time bucket, here {time}")
        return after if after.order_by else replace(after, order_by=(OrderBy(keys[0]),))

    def _columns(self, arguments: "_Arguments", position: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the positions of the TIMESERIESON columns, and of the columns that FILL repeats."""
        series = tuple(self._selected(column, "TIMESERIESON") for column in arguments.series)
        previous = []
        for column, repeats in arguments.fills:
            filled = self._selected(column, "FILL")
            if filled == position or filled in series:
                raise _invalid(f"FILL of {to_text(column)}: the time and TIMESERIESON columns are not filled")
            if repeats:
                previous.append(filled)
        if position in series:
            raise _invalid("The time of GAPFILL cannot be a TIMESERIESON column")
        return series, tuple(previous)

    def _selected(self, column: Expression, where: str) -> int:
        name = to_text(column).lower()
        for i, item in enumerate(self._query.select):
            if item.expression == column or item.name.lower() == name or to_text(item.expression).lower() == name:
                return i
        raise _invalid(f"{where}({to_text(column)}): the column must be selected as well")

    def _order(self) -> tuple[tuple[int, bool, bool], ...]:
        order = []
        for key in self._query.order_by:
            found = [i for i, item in enumerate(self._query.select) if item.expression == key.expression]
            if not found:
                raise _invalid(f"ORDER BY {to_text(key.expression)}: filled rows can only be ordered by selected columns")
            nulls_last = not key.descending if key.nulls_last is None else key.nulls_last
            order.append((found[0], key.descending, nulls_last))
        return tuple(order)


class _Arguments:
    """The arguments of a GAPFILL call. series: columns of TIMESERIESON; fills: columns, and whether they repeat the last
    value."""

    def __init__(self, call: Call) -> None:
        if len(call.args) <= 5:
            raise _invalid(f"GAPFILL takes more than {len(call.args)} arguments; write {_USAGE}")
        texts = [self._text(arg, i) for i, arg in enumerate(call.args[1:5])]
        self.format = _parsed(DateTimeFormat.parse, texts[0])
        self._start, self._end, self._bucket = texts[1:]
        rest = list(call.args[5:])
        self._window = self._text(rest.pop(0), 4) if isinstance(rest[0], Literal) else None
        self.series: tuple[Expression, ...] = ()
        self.fills: list[tuple[Expression, bool]] = []
        for arg in rest:
            self._read(arg)
        if not self.series:
            raise _invalid("GAPFILL needs TIMESERIESON(column, ...): the columns whose values identify a series")

    def _text(self, arg: Expression, number: int) -> str:
        if not isinstance(arg, Literal):
            what = ("the format of times", "the start", "the end", "the bucket", "the window")[number]
            raise _invalid(f"GAPFILL: {what} must be a constant, not {to_text(arg)}; write {_USAGE}")
        return literal_text(arg.value)

    def _read(self, arg: Expression) -> None:
        if isinstance(arg, Call) and arg.name == "timeserieson" and arg.args:
            if self.series:
                raise _invalid("GAPFILL takes TIMESERIESON only once, with all columns")
            self.series = arg.args
        elif isinstance(arg, Call) and arg.name == "fill" and len(arg.args) == 2 and isinstance(arg.args[1], Literal):
            mode = literal_text(arg.args[1].value).upper()
            if mode not in ("FILL_PREVIOUS_VALUE", "FILL_DEFAULT_VALUE"):
                raise _invalid(f"FILL takes 'FILL_PREVIOUS_VALUE' or 'FILL_DEFAULT_VALUE', not '{mode}'")
            self.fills.append((arg.args[0], mode == "FILL_PREVIOUS_VALUE"))
        else:
            raise _invalid(f"GAPFILL takes FILL(column, 'mode') and TIMESERIESON(column, ...) here, not {to_text(arg)}")

    def times(self) -> tuple[int, int]:
        """Return the start and the end in milliseconds."""
        start_ms, end_ms = (_parsed(self.format.to_millis, text) for text in (self._start, self._end))
        if end_ms < start_ms:
            raise _invalid(f"GAPFILL ends at '{self._end}', before it starts at '{self._start}'")
        return start_ms, end_ms

    def bucket(self) -> tuple[int, int]:
        """Return the length of a bucket in milliseconds, and the number of buckets in a window."""
        bucket_ms = _parsed(Granularity.parse, self._bucket).millis
        if bucket_ms < 1:
            raise _invalid(f"GAPFILL: the bucket '{self._bucket}' is shorter than a millisecond")
        if self._window is None:
            return bucket_ms, 1
        window_ms = _parsed(Granularity.parse, self._window).millis
        if window_ms < bucket_ms or window_ms % bucket_ms:
            raise _invalid(f"GAPFILL: the window '{self._window}' is not a multiple of the bucket '{self._bucket}'")
        return bucket_ms, window_ms // bucket_ms


def _parsed(parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except (InvalidConfigError, ValueError, OverflowError) as error:
        raise _invalid(f"GAPFILL: {error}") from None


def _invalid(message: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, message)
