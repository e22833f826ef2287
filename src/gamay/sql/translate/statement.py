"""Parses the clauses of a request: SET, EXPLAIN, and a SELECT with translated expressions, before rewriting."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.parser import Parser

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import Expression, Literal
from gamay.model.types import DataType
from gamay.sql.catalog_statements import catalog_query, is_catalog_statement
from gamay.sql.options.option_values import option_name
from gamay.sql.query import OrderBy
from gamay.sql.relational import RelationalStatement, is_relational, may_begin, parse_tree
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import Lexeme, TokenKind, lex
from gamay.sql.text.parse_errors import explained
from gamay.sql.text.tokens import to_tokens
from gamay.sql.translate.expressions import Translator, position_of
from gamay.sql.translate.grouping import grouping
from gamay.sql.translate.refusals import refused_statement

_SET_OPERATIONS = ("JOIN", "UNION", "INTERSECT", "EXCEPT", "MINUS")
_EXPLAIN_FORMS = (
    ["PLAN"],
    ["PLAN", "WITH", "IMPLEMENTATION"],
    ["PLAN", "WITHOUT", "IMPLEMENTATION"],
    ["IMPLEMENTATION", "PLAN"],
)
_WATCHED = frozenset((*_SET_OPERATIONS, "WITHIN", "FILTER", "SELECT", "OVER", ";"))
_CLAUSES = ("LIMIT", "OFFSET", "FETCH")


@dataclass(frozen=True, slots=True)
class Item:
    """One entry of the SELECT list. start: its position in the text."""

    expression: Expression
    alias: str | None
    start: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A request as written.

    limit, offset: literals, None if not written. set_options: by stored name; the values are literals or words.
    grouping_sets: positions in `group_by` for each set of GROUPING SETS, ROLLUP and CUBE; None for a plain GROUP BY.
    """

    text: str
    table: str | None
    items: tuple[Item, ...]
    distinct: bool
    where: Expression | None
    group_by: tuple[Expression, ...]
    having: Expression | None
    order_by: tuple[OrderBy, ...]
    limit: Literal | None
    offset: Literal | None
    explain: bool
    set_options: dict[str, Literal] = field(default_factory=dict)
    grouping_sets: tuple[tuple[int, ...], ...] | None = None


def parse_statement(text: str, literals: Sequence[Literal], *, relational: bool = False) -> Statement | RelationalStatement:
    """Parse a request without its trailing OPTION; `literals` are those of the text in order.

    relational: parse even a query of one table as a relational one. Raises QueryError.
    """
    return _Reader(text, literals, relational).statement()


def parse_single_expression(
    text: str, literals: Sequence[Literal], qualifiers: frozenset[str] | None = frozenset()
) -> Expression:
    """Parse a text that is one expression; raises QueryError. qualifiers: as in `Translator`."""
    lexemes = lex(text)
    if lexemes[0].kind is TokenKind.END:
        raise syntax_error(text, 0, "the expression is empty")
    _refuse_unsupported(text, lexemes)
    node = _run_parser(text, lexemes, into_select=False)
    return Translator(text, literals, qualifiers).expression(node)


class _Reader:
    def __init__(self, text: str, literals: Sequence[Literal], relational: bool) -> None:
        self.text = text
        self.literals = literals
        self.relational = relational
        self.lexemes = lex(text)
        self.position = 0

    @property
    def current(self) -> Lexeme:
        return self.lexemes[self.position]

    def next(self) -> Lexeme:
        lexeme = self.current
        self.position += lexeme.kind is not TokenKind.END
        return lexeme

    def expected(self, what: str) -> QueryError:
        return syntax_error(self.text, self.current.start, f"expected {what}, found {self.current.shown}")

    def statement(self) -> Statement | RelationalStatement:
        set_options: dict[str, Literal] = {}
        while self.current.is_word("SET"):
            name, value = self._set()
            set_options[name] = value
        explain, analyzes = self._explain()
        end = self._end()
        lexemes = self.lexemes[self.position : end]
        stop = Lexeme(TokenKind.END, "", "", self.lexemes[end].start)
        asks_catalog = is_catalog_statement([*lexemes, stop])
        relational = asks_catalog or is_relational([*lexemes, stop])
        if not asks_catalog and not (relational and may_begin(self.current)):
            self._check_kind()
        if not relational:
            relational = self.relational or analyzes
        self.position = end
        set_options |= self._trailing_options()
        if asks_catalog:
            query = catalog_query(self.text, [*lexemes, stop], self.literals)
            tree, _ = parse_tree(query.text, query.lexemes)
            return RelationalStatement(query.text, tree, query.literals, explain, set_options, query.described, analyzes)
        if relational:
            tree, files = parse_tree(self.text, [*lexemes, stop])
            literals = tuple(self.literals)
            return RelationalStatement(self.text, tree, literals, explain, set_options, analyzes=analyzes, files=files)
        body, limit, offset = self._tail(lexemes)
        body, nulls_last = _cut_null_orders(self.text, body)
        _refuse_unsupported(self.text, body)
        node = _run_parser(self.text, body, into_select=True)
        statement = self._select(node, limit, offset, explain, set_options)
        order_by = tuple(replace(key, nulls_last=nulls_last.get(i)) for i, key in enumerate(statement.order_by))
        return replace(statement, order_by=order_by)

    def _set(self) -> tuple[str, Literal]:
        self.next()
        parts = [self.next()]
        if not parts[0].is_name and parts[0].kind is not TokenKind.STRING:
            self.position -= 1
            raise self.expected("the name of a query option after SET")
        while self.current.is_op("."):
            self.next()
            parts.append(self.next())
        name = ".".join(part.name if part.is_name else part.text for part in parts)
        if not self.current.is_op("="):
            raise self.expected("= after the name of the option")
        self.next()
        value = self._set_value()
        if self.current.is_op(";"):
            self.next()
        elif self.current.kind is not TokenKind.END and not self.current.is_word("SELECT", "SET", "EXPLAIN"):
            raise self.expected("; and a SELECT statement after the value of the option")
        return option_name(name), value

    def _set_value(self) -> Literal:
        negative = self.current.is_op("-")
        if negative:
            self.next()
        lexeme = self.next()
        if lexeme.kind is TokenKind.NUMBER and negative:
            return Literal(f"-{lexeme.source}", DataType.STRING)
        if lexeme.literal >= 0 and not negative:
            return self.literals[lexeme.literal]
        if lexeme.is_name and not negative:
            return Literal(lexeme.name, DataType.STRING)
        self.position -= lexeme.kind is not TokenKind.END
        raise self.expected("a value for the option")

    def _explain(self) -> tuple[bool, bool]:
        """Parse EXPLAIN; return whether there is one, and whether it is EXPLAIN ANALYZE."""
        if not self.current.is_word("EXPLAIN"):
            return False, False
        self.next()
        if self.current.is_word("ANALYZE"):
            self.next()
            return True, True
        words: list[str] = []
        while self.current.is_word("PLAN", "WITH", "WITHOUT", "IMPLEMENTATION"):
            words.append(self.next().text)
        if words not in _EXPLAIN_FORMS or not self.current.is_word("FOR"):
            raise self.expected("PLAN FOR or ANALYZE after EXPLAIN")
        self.next()
        return True, False

    def _check_kind(self) -> None:
        if self.current.kind is TokenKind.END:
            raise self.expected("a SELECT statement")
        refusal = refused_statement(self.current.text) if self.current.kind is TokenKind.WORD else None
        if refusal is not None:
            raise syntax_error(self.text, self.current.start, refusal)
        if not self.current.is_word("SELECT"):
            raise self.expected("SELECT")

    def _end(self) -> int:
        """Return the index of the lexeme after the statement: the first semicolon, or the END."""
        return next(i for i in range(self.position, len(self.lexemes)) if self._ends(self.lexemes[i]))

    @staticmethod
    def _ends(lexeme: Lexeme) -> bool:
        return lexeme.kind is TokenKind.END or lexeme.is_op(";")

    def _trailing_options(self) -> dict[str, Literal]:
        """Parse the rest after the statement: semicolons, and SET, which is allowed there as well."""
        options: dict[str, Literal] = {}
        while self.current.kind is not TokenKind.END:
            if self.current.is_word("SET"):
                name, value = self._set()
                options[name] = value
            elif self.current.is_op(";"):
                self.next()
            else:
                message = "a request may contain only one statement, besides SET; expected the end"
                raise syntax_error(self.text, self.current.start, message)
        return options

    def _tail(self, lexemes: Sequence[Lexeme]) -> tuple[list[Lexeme], Literal | None, Literal | None]:
        """Cut LIMIT, OFFSET and FETCH off the end; append END to the rest."""
        depth = 0
        body = list(lexemes)
        stop = lexemes[-1].start + len(lexemes[-1].source)
        limit: Literal | None = None
        offset: Literal | None = None
        for i, lexeme in enumerate(lexemes):
            depth += lexeme.is_op("(", "[") - lexeme.is_op(")", "]")
            if depth == 0 and lexeme.is_word(*_CLAUSES) and not (i + 1 < len(lexemes) and lexemes[i + 1].is_op("(", ".")):
                body = list(lexemes[:i])
                tail = _Tail(self.text, [*lexemes[i:], Lexeme(TokenKind.END, "", "", stop)], self.literals)
                limit, offset = tail.read()
                stop = lexeme.start
                break
        return [*body, Lexeme(TokenKind.END, "", "", stop)], limit, offset

    def _select(
        self,
        node: exp.Expr,
        limit: Literal | None,
        offset: Literal | None,
        explain: bool,
        set_options: dict[str, Literal],
    ) -> Statement:
        if node.args.get("joins") or node.args.get("laterals"):
            # without FROM, the parser reads a comma after a condition as one between tables
            joined = (node.args.get("joins") or node.args["laterals"])[0]
            raise syntax_error(self.text, position_of(joined), "unexpected comma: a list of tables must follow FROM")
        table, qualifiers = self._table(node.args.get("from_"))
        translator = Translator(self.text, self.literals, qualifiers)
        items = tuple(self._item(translator, part) for part in node.expressions)
        where, having = node.args.get("where"), node.args.get("having")
        group, order = node.args.get("group"), node.args.get("order")
        group_by, grouping_sets = ((), None) if group is None else grouping(self.text, translator.expression, group)
        return Statement(
            text=self.text,
            table=table,
            items=items,
            distinct=node.args.get("distinct") is not None,
            where=None if where is None else translator.expression(where.this),
            group_by=group_by,
            having=None if having is None else translator.expression(having.this),
            order_by=() if order is None else tuple(_order_key(translator, part) for part in order.expressions),
            limit=limit,
            offset=offset,
            explain=explain,
            set_options=set_options,
            grouping_sets=grouping_sets,
        )

    def _table(self, clause: exp.Expr | None) -> tuple[str | None, frozenset[str]]:
        if clause is None:
            return None, frozenset()
        table = clause.this
        if not isinstance(table, exp.Table) or not isinstance(table.this, exp.Identifier):
            raise syntax_error(self.text, position_of(clause), "expected a table name after FROM")
        written = [part for part in (table.args.get("catalog"), table.args.get("db"), table.this) if part is not None]
        if any(not isinstance(part, exp.Identifier) for part in written):  # `a..b` contains an empty name
            raise syntax_error(self.text, position_of(table), "expected database.table: a name is missing beside a dot")
        parts = [part.name for part in written]
        if len(parts) > 2:
            raise syntax_error(self.text, position_of(table), "a table name has at most one dot: database.table")
        alias = table.args.get("alias")
        if alias is not None and alias.args.get("columns"):
            raise syntax_error(self.text, position_of(alias), f"unexpected '{table.alias.strip()}' after the table name")
        name = ".".join(parts)
        raw = parts[-1].removesuffix("_OFFLINE").removesuffix("_REALTIME")
        names = {name, parts[-1], raw, ".".join([*parts[:-1], raw])}
        return name, frozenset(n.lower() for n in ({table.alias} if table.alias else names))

    def _item(self, translator: Translator, node: exp.Expr) -> Item:
        if isinstance(node, exp.Alias):
            return Item(translator.expression(node.this), node.alias, position_of(node))
        return Item(translator.expression(node), None, position_of(node))


def _order_key(translator: Translator, node: exp.Expr) -> OrderBy:
    return OrderBy(translator.expression(node.this), bool(node.args.get("desc")))


class _Tail:
    """`LIMIT n`, `LIMIT offset, n`, `LIMIT n OFFSET m`, `OFFSET m ROWS`, `FETCH FIRST [n] ROWS ONLY`."""

    def __init__(self, text: str, lexemes: Sequence[Lexeme], literals: Sequence[Literal]) -> None:
        self.text = text
        self.lexemes = lexemes
        self.literals = literals
        self.position = 0
        self.limit: Literal | None = None
        self.offset: Literal | None = None

    def read(self) -> tuple[Literal | None, Literal | None]:
        while (clause := self._take()).kind is not TokenKind.END:
            if clause.is_word("LIMIT") and self.limit is None:
                self.limit = self._number("LIMIT")
                if self._skip(","):
                    self.offset, self.limit = self.limit, self._number("LIMIT")
            elif clause.is_word("OFFSET") and self.offset is None:
                self.offset = self._number("OFFSET")
                self._skip("ROW", "ROWS")
            elif clause.is_word("FETCH") and self.limit is None:
                self._need("FIRST", "NEXT")
                is_one = self.lexemes[self.position].is_word("ROW", "ROWS")
                self.limit = Literal(1, DataType.INT) if is_one else self._number("FETCH FIRST")
                self._need("ROW", "ROWS")
                self._need("ONLY")
            else:
                raise syntax_error(self.text, clause.start, f"unexpected {clause.shown} after LIMIT, which ends a query")
        return self.limit, self.offset

    def _take(self) -> Lexeme:
        lexeme = self.lexemes[self.position]
        self.position += lexeme.kind is not TokenKind.END
        return lexeme

    def _skip(self, *texts: str) -> bool:
        found = self.lexemes[self.position].text in texts and self.lexemes[self.position].kind in (
            TokenKind.WORD,
            TokenKind.OP,
        )
        self.position += found
        return found

    def _need(self, *words: str) -> None:
        lexeme = self.lexemes[self.position]
        if not self._skip(*words):
            raise syntax_error(self.text, lexeme.start, f"expected {' or '.join(words)}, found {lexeme.shown}")

    def _number(self, clause: str) -> Literal:
        lexeme = self._take()
        if lexeme.kind is not TokenKind.NUMBER:
            raise syntax_error(self.text, lexeme.start, f"expected a whole number after {clause}, found {lexeme.shown}")
        return self.literals[lexeme.literal]


def _cut_null_orders(text: str, lexemes: Sequence[Lexeme]) -> tuple[list[Lexeme], dict[int, bool]]:
    """Take NULLS FIRST and NULLS LAST out of ORDER BY; the parser does not distinguish an explicit one from its default.

    Returns the other lexemes, and for each sort key with one (by position) whether nulls come last.
    """
    kept: list[Lexeme] = []
    nulls_last: dict[int, bool] = {}
    depth, key = 0, -1
    skip = False
    for lexeme, following in pairwise([*lexemes, lexemes[-1]]):
        if skip:
            skip = False
            if not following.is_op(",") and following.kind is not TokenKind.END:
                raise syntax_error(
                    text, following.start, f"expected a comma after NULLS {lexeme.text}, found {following.shown}"
                )
            continue
        depth += lexeme.is_op("(", "[") - lexeme.is_op(")", "]")
        if depth == 0 and lexeme.is_word("ORDER") and following.is_word("BY"):
            key = 0
        elif depth == 0 and key >= 0 and lexeme.is_op(","):
            key += 1
        elif depth == 0 and key >= 0 and lexeme.is_word("NULLS") and following.is_word("FIRST", "LAST"):
            nulls_last[key] = following.text == "LAST"
            skip = True
            continue
        kept.append(lexeme)
    return kept, nulls_last


def _refuse_unsupported(text: str, lexemes: Sequence[Lexeme]) -> None:
    """Reject unsupported syntax, such as a second table, before the parser misinterprets it."""
    for i, lexeme in enumerate(lexemes):
        if lexeme.literal < 0 and lexeme.text not in _WATCHED:
            continue
        following = lexemes[i + 1] if i + 1 < len(lexemes) else None
        called = following is not None and following.is_op("(")
        after_parenthesis = i > 0 and lexemes[i - 1].is_op(")")
        if lexeme.is_op(";"):
            raise syntax_error(text, lexeme.start, "only SET may precede the one statement of a request; expected the end")
        if lexeme.is_word("WITHIN") and after_parenthesis:
            raise syntax_error(text, lexeme.start, "WITHIN GROUP after an aggregate is not supported")
        if lexeme.is_word("FILTER") and after_parenthesis and called and not lexemes[i + 2].is_word("WHERE"):
            raise syntax_error(text, lexemes[i + 2].start, f"expected WHERE after FILTER (, found {lexemes[i + 2].shown}")
        if lexeme.literal >= 0 and following is not None and following.literal >= 0:
            raise syntax_error(text, following.start, f"unexpected {following.shown}")
        if (
            (lexeme.is_word("SELECT") and i > 0)
            or (lexeme.is_word(*_SET_OPERATIONS) and not called)
            or (lexeme.is_word("OVER") and called and after_parenthesis)
        ):
            message = f"{lexeme.text} is not supported in an expression that is evaluated per row"
            raise syntax_error(text, lexeme.start, message)


def _run_parser(text: str, lexemes: Sequence[Lexeme], *, into_select: bool) -> exp.Expr:
    tokens = to_tokens(text, lexemes)
    try:
        nodes = Parser().parse(tokens, text)
    except ParseError as error:
        raise explained(text, lexemes, error) from None
    except RecursionError:
        raise QueryError(
            ErrorCode.SQL_PARSING, "The query is nested too deeply; parentheses or CASE within one another"
        ) from None
    node = nodes[0]
    if len(nodes) != 1 or node is None or isinstance(node, exp.Select) is not into_select:
        raise syntax_error(
            text, lexemes[0].start, "expected one SELECT statement" if into_select else "expected an expression"
        )
    return node
