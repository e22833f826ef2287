"""Compiles PQL, the query language that preceded SQL, to the query model.

    SELECT [TOP n] * | item [AS alias], … FROM table
    then in any order, each at most once: WHERE | GROUP BY | HAVING | ORDER BY | TOP n | LIMIT [offset,] n | OPTION(k = v, …)

OPTION may be repeated. A query is a selection, an aggregation, or a grouping of aggregates. TOP limits groups and LIMIT the
rows of selections; both default to 10. Columns beside aggregates are ignored, and so are aliases.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from gamay.functions.expression import Column, Expression, Star
from gamay.functions.text import to_text
from gamay.sql.options.option_values import check_options, option_name
from gamay.sql.options.row_limits import LIMIT_MAX, STANDARD_LIMITS, RowLimits, limit_error
from gamay.sql.pql.expression import KEYWORDS, ExpressionReader, Role, Term
from gamay.sql.pql.lexer import lex_pql
from gamay.sql.query import OrderBy, Query, SelectItem
from gamay.sql.text.lexer import Lexeme, TokenKind
from gamay.sql.translate.fold import Folder

_DIGITS_SHOWN = 40


class PqlKind(Enum):
    """The kind of a PQL query, which determines the form of the answer."""

    SELECTION = "selection"
    AGGREGATION = "aggregation"
    GROUP_BY = "group by"


@dataclass(frozen=True, slots=True)
class PqlQuery:
    """A PQL query as executed, with the data needed to format its answer.

    query: selects the columns of a selection, else the group keys and then the aggregates.
    functions: names of the aggregates in the answer (`sum_runs`). group_columns: names of the keys.
    top: number of groups for each aggregate.
    one_order: whether groups have a single order, that of the query, for all aggregates (option groupByMode=sql).
    is_sql_shaped: whether the answer has SQL's form (option responseFormat=sql).
    """

    query: Query
    kind: PqlKind
    functions: tuple[str, ...]
    group_columns: tuple[str, ...]
    top: int
    one_order: bool
    is_sql_shaped: bool


def parse_pql(text: str, options: Mapping[str, str] | None = None, limits: RowLimits = STANDARD_LIMITS) -> PqlQuery:
    """Compile a PQL text; OPTION in the text overrides `options` of the request. limits: for LIMIT and TOP.

    Raises QueryError: SQL_PARSING with the position for a syntax error or an invalid option.
    """
    return _ClauseReader(text, limits).query(options or {})


class _ClauseReader(ExpressionReader):
    def __init__(self, text: str, limits: RowLimits) -> None:
        super().__init__(text, lex_pql(text))
        self._limits = limits
        self._where: Expression | None = None
        self._having: Expression | None = None
        self._keys: list[Term] = []
        self._order_by: list[tuple[Term, bool]] = []
        self._top: int | None = None
        self._limit: int | None = None
        self._offset = 0
        self._options: dict[str, str] = {}
        self._clauses: dict[str, int] = {}

    def query(self, options: Mapping[str, str]) -> PqlQuery:
        if not self.current.is_word("SELECT"):
            raise self.expected("SELECT")
        self.next()
        if self.current.is_word("TOP"):
            self._clause()
        items = self._items()
        if not self.skip_word("FROM"):
            raise self.expected("FROM after the columns")
        table = self._table()
        while self.current.is_word(*_CLAUSES):
            self._clause()
        self.skip_op(";")
        if self.current.kind is not TokenKind.END:
            raise self.expected("WHERE, GROUP BY, HAVING, ORDER BY, TOP, LIMIT, OPTION or the end")
        merged = {**options, **self._options}
        check_options(merged)
        return self._assembled(table, items, merged)

    # -- clauses

    def _items(self) -> list[Term]:
        if self.current.is_word("DISTINCT"):
            raise self.error(self.current.start, "PQL has no DISTINCT; group by the columns, or use SQL")
        items: list[Term] = []
        while not items or self.skip_op(","):
            if self.current.is_op("*"):
                items.append(Term(Star(), "*", Role.VALUE, self.next().start))
                continue
            term = self.expression(quoted_is_column=True)
            if term.role is Role.CONSTANT:
                raise self.error(term.start, "select a column or a function, not a constant")
            if self.skip_word("AS"):
                if not self._is_name(self.current) and self.current.kind is not TokenKind.STRING:
                    raise self.expected("an alias after AS")
                self.next()
            items.append(term)
        return items

    def _is_name(self, lexeme: Lexeme) -> bool:
        return lexeme.kind is TokenKind.QUOTED or (lexeme.kind is TokenKind.WORD and lexeme.text not in KEYWORDS)

    def _table(self) -> str:
        lexeme = self.current
        if not self._is_name(lexeme) and lexeme.kind is not TokenKind.STRING:
            raise self.expected("the name of a table after FROM")
        self.next()
        while self.skip_op("."):
            # the name before the first dot is the table's, as in the original PQL
            if not self._is_name(self.current) and self.current.kind is not TokenKind.STRING:
                raise self.expected("a name after the dot")
            self.next()
        return lexeme.source if lexeme.kind is TokenKind.WORD else lexeme.text

    def _clause(self) -> None:
        lexeme = self.next()
        name = lexeme.text
        if name in self._clauses and name != "OPTION":
            raise self.error(lexeme.start, f"{name} occurs twice")
        self._clauses[name] = lexeme.start
        if name in ("GROUP", "ORDER") and not self.skip_word("BY"):
            raise self.expected(f"BY after {name}")
        if name == "WHERE":
            self._where = self.where()
        elif name == "HAVING":
            self._having = self.having()
        elif name == "GROUP":
            self._keys = self._list()
        elif name == "ORDER":
            self._read_order()
        elif name == "TOP":
            self._top = self._number("TOP")
        elif name == "LIMIT":
            self._limit = self._number("LIMIT")
            if self.skip_op(","):
                self._offset, self._limit = self._limit, self._number("LIMIT")
        else:
            self._option()

    def _list(self) -> list[Term]:
        terms: list[Term] = []
        while not terms or self.skip_op(","):
            term = self.expression(quoted_is_column=True)
            if term.role is not Role.VALUE:
                raise self.error(term.start, f"GROUP BY takes columns and functions of them, but this is {term.role.value}")
            terms.append(term)
        return terms

    def _read_order(self) -> None:
        while not self._order_by or self.skip_op(","):
            term = self.expression(quoted_is_column=True)
            if term.role is Role.CONSTANT:
                raise self.error(term.start, "ORDER BY takes columns, but this is a constant")
            descending = self.current.is_word("DESC")
            self.skip_word("ASC", "DESC")
            self._order_by.append((term, descending))

    def _number(self, clause: str) -> int:
        lexeme = self.current
        if lexeme.kind is not TokenKind.NUMBER or not lexeme.text.lstrip("+").isdigit():
            raise self.expected(f"a whole number after {clause}")
        self.next()
        digits = lexeme.text.lstrip("+0") or "0"
        if len(digits) > len(str(LIMIT_MAX)) or int(digits) > LIMIT_MAX:
            raise limit_error(digits if len(digits) <= _DIGITS_SHOWN else f"{digits[:_DIGITS_SHOWN]}…", clause, LIMIT_MAX)
        return self._limits.allowed(int(digits), clause)

    def _option(self) -> None:
        self.need_op("(", "after OPTION")
        first = True
        while first or self.skip_op(","):
            first = False
            name = self.next()
            if not name.is_name and name.kind is not TokenKind.STRING:
                self.position -= name.kind is not TokenKind.END
                raise self.expected("the name of a query option")
            self.need_op("=", "after the name of the option")
            value = self.next()
            if not value.is_name and value.kind not in (TokenKind.STRING, TokenKind.NUMBER):
                self.position -= value.kind is not TokenKind.END
                raise self.expected("a value for the option")
            self._options[option_name(_plain(name))] = _plain(value)
        self.need_op(")", "after the options")

    # -- the query model

    def _assembled(self, table: str, items: Sequence[Term], options: dict[str, str]) -> PqlQuery:
        aggregates = [item for item in items if item.role is Role.AGGREGATE]
        is_sql_shaped = options.get("responseFormat", "").lower() == "sql"
        one_order = is_sql_shaped or options.get("groupByMode", "").lower() == "sql"
        if not aggregates:
            query = self._selection(table, items, options)
            return PqlQuery(query, PqlKind.SELECTION, (), (), 0, one_order, is_sql_shaped)
        functions = tuple(term.text for term in aggregates)
        if not self._keys:
            if self._having is not None:
                raise self.error(self._clauses["HAVING"], "HAVING filters groups; GROUP BY is missing")
            select = _select_items(aggregates)
            query = Query(table, select, where=self._row_filter(), limit=1, options=options)
            return PqlQuery(query, PqlKind.AGGREGATION, functions, (), 0, one_order, is_sql_shaped)
        columns = tuple(term.text for term in self._keys)
        query, top = self._grouping(table, aggregates, options, one_order)
        return PqlQuery(query, PqlKind.GROUP_BY, functions, columns, top, one_order, is_sql_shaped)

    def _selection(self, table: str, items: Sequence[Term], options: dict[str, str]) -> Query:
        for clause, advice in (("GROUP", "GROUP BY needs an aggregate in SELECT"), ("HAVING", "HAVING filters groups")):
            if clause in self._clauses:
                raise self.error(self._clauses[clause], f"{advice}; without one this is a selection of rows")
        for term, _ in self._order_by:
            if term.role is Role.AGGREGATE:
                raise self.error(term.start, "a selection cannot be ordered by an aggregate")
        select = tuple(SelectItem(_folded(item.expression), item.text) for item in items)
        order_by = tuple(OrderBy(_folded(term.expression), descending) for term, descending in self._order_by)
        limit = self._limits.absent if self._limit is None else self._limit
        return Query(
            table, select, where=self._row_filter(), order_by=order_by, limit=limit, offset=self._offset, options=options
        )

    def _grouping(
        self, table: str, aggregates: Sequence[Term], options: dict[str, str], one_order: bool
    ) -> tuple[Query, int]:
        """Return the query, and the number of groups for each aggregate.

        A single aggregate orders the groups; for several, each with its own order, all groups are requested.
        """
        keys = tuple(_folded(term.expression) for term in self._keys)
        wanted = self._limit if one_order and self._top is None else self._top
        top = self._limits.absent if wanted is None else wanted
        by_value = (OrderBy(_folded(aggregates[0].expression), descending=True),)
        order_by: tuple[OrderBy, ...] = ()
        if one_order and self._order_by:
            order_by = tuple(OrderBy(_folded(term.expression), descending) for term, descending in self._order_by)
        elif one_order or len(aggregates) == 1:
            order_by = by_value
        query = Query(
            table,
            (*(SelectItem(key, to_text(key)) for key in keys), *_select_items(aggregates)),
            where=self._row_filter(),
            group_by=keys,
            having=None if self._having is None else _folded(self._having),
            order_by=order_by,
            limit=top if order_by else LIMIT_MAX,
            options=options,
        )
        return query, top

    def _row_filter(self) -> Expression | None:
        return None if self._where is None else _folded(self._where)


_CLAUSES = ("WHERE", "GROUP", "HAVING", "ORDER", "TOP", "LIMIT", "OPTION")


def _select_items(aggregates: Sequence[Term]) -> tuple[SelectItem, ...]:
    return tuple(SelectItem(_folded(term.expression), to_text(term.expression)) for term in aggregates)


def _folded(expression: Expression) -> Expression:
    return expression if isinstance(expression, Column | Star) else Folder().fold(expression)


def _plain(lexeme: Lexeme) -> str:
    return lexeme.source if lexeme.kind is TokenKind.WORD else lexeme.text
