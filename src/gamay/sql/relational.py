"""Relational queries, which are more than one SELECT of one table: joins, subqueries, windows, set operations, VALUES.

`gamay.relational` defines their semantics; this module recognizes them and builds sqlglot's tree. Precedence and clause
structure are sqlglot's; functions, types and literals are passed to the tree as in `gamay.sql.text.tokens`, so that an
expression has the same meaning in both kinds of queries.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import Dialect, exp
from sqlglot.errors import ParseError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import TokenType

from gamay.functions.expression import Literal
from gamay.model.types import DataType
from gamay.sql.text.errors import nested_too_deeply, syntax_error
from gamay.sql.text.lexer import Lexeme, TokenKind
from gamay.sql.text.parse_errors import explained
from gamay.sql.text.tokens import CONSTANT_MARK, FUNCTION_MARK, KEYWORDS, TokenConverter

INFORMATION_SCHEMA = "information_schema"

_SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_BEGINNINGS = ("WITH", "VALUES", "TABLE")
_ENDS_FROM = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FETCH", "QUALIFY", "WINDOW", *_SET_OPERATIONS)

_KEYWORDS = {
    **KEYWORDS,
    "ALL": TokenType.ALL,
    "ANTI": TokenType.ANTI,
    "ANY": TokenType.ANY,
    "ASOF": TokenType.ASOF,
    "CROSS": TokenType.CROSS,
    "EXCEPT": TokenType.EXCEPT,
    "EXISTS": TokenType.EXISTS,
    "FETCH": TokenType.FETCH,
    "FULL": TokenType.FULL,
    "INNER": TokenType.INNER,
    "INTERSECT": TokenType.INTERSECT,
    "INTERVAL": TokenType.INTERVAL,
    "JOIN": TokenType.JOIN,
    "LATERAL": TokenType.LATERAL,
    "LEFT": TokenType.LEFT,
    "LIMIT": TokenType.LIMIT,
    "MATCH_CONDITION": TokenType.MATCH_CONDITION,
    "MINUS": TokenType.EXCEPT,
    "NATURAL": TokenType.NATURAL,
    "OFFSET": TokenType.OFFSET,
    "ON": TokenType.ON,
    "ORDINALITY": TokenType.ORDINALITY,
    "OUTER": TokenType.OUTER,
    "OVER": TokenType.OVER,
    "PARTITION": TokenType.PARTITION_BY,
    "QUALIFY": TokenType.QUALIFY,
    "RANGE": TokenType.RANGE,
    "RECURSIVE": TokenType.RECURSIVE,
    "RIGHT": TokenType.RIGHT,
    "ROWS": TokenType.ROWS,
    "SEMI": TokenType.SEMI,
    "SOME": TokenType.SOME,
    "TABLE": TokenType.FROM,  # TABLE t is SELECT * FROM t
    "UNION": TokenType.UNION,
    "UNNEST": TokenType.UNNEST,
    "USING": TokenType.USING,
    "VALUES": TokenType.VALUES,
    "WINDOW": TokenType.WINDOW,
    "WITH": TokenType.WITH,
}
_PREFIX_TYPES = {"DATE": DataType.TIMESTAMP, "TIMESTAMP": DataType.TIMESTAMP, "X": DataType.BYTES}
# words that are also names of functions: left('abc', 1)
_ALSO_FUNCTIONS = frozenset({"LEFT", "RIGHT"})
# keywords only before these words; elsewhere they may be names
_ONLY_BEFORE: dict[str, tuple[str, ...]] = {
    "ANTI": ("JOIN",),
    "SEMI": ("JOIN",),
    "ASOF": ("JOIN", "LEFT"),
    "PARTITION": ("BY",),
    "NATURAL": ("JOIN", "LEFT", "RIGHT", "FULL", "INNER"),
    "RANGE": ("BETWEEN", "UNBOUNDED", "CURRENT", "INTERVAL"),
    "ROWS": ("BETWEEN", "UNBOUNDED", "CURRENT"),
}
# words that are neither names nor keywords of the parser, which recognizes them where it expects them
_SOFT = frozenset(
    {
        *("WITHIN", "NULLS", "FIRST", "LAST", "UNBOUNDED", "CURRENT", "ROW", "PRECEDING", "FOLLOWING", "GROUPS", "EXCLUDE"),
        *("GROUP", "IGNORE", "RESPECT", "ORDINALITY", "ONLY", "NEXT", "TIES", "NO", "OTHERS", "MATERIALIZED"),
    }
)
_BEGIN_WINDOW = ("PARTITION", "ORDER", "ROWS", "RANGE", "GROUPS")
_BEFORE_ALIAS = frozenset(
    {
        *(TokenType.ALIAS, TokenType.WITH, TokenType.RECURSIVE, TokenType.R_PAREN),
        *(TokenType.IDENTIFIER, TokenType.VAR, TokenType.ORDINALITY),
    }
)
_BEGIN_CLAUSE = frozenset(
    {*_SET_OPERATIONS, "JOIN", "ON", "USING", "LIMIT", "OFFSET", "FETCH", "QUALIFY", "WINDOW", "OVER", "PARTITION", "WITH"}
)


@dataclass(slots=True)
class Cost:
    """Processor time of the latest statement among those that differ only in literals; None before one finished."""

    took_ns: int | None = None


@dataclass(frozen=True, slots=True)
class RelationalStatement:
    """A relational request, as written.

    tree: sqlglot's, with literals as indexes into `literals`. text: for positions in errors. set_options: as in
    `gamay.sql.translate.statement.Statement`. described: a table that must exist, although no rows of it are read. analyzes:
    whether it is EXPLAIN ANALYZE. files: the literals that are names of files, as in `FROM 'x.parquet'`. cost: shared by all
    statements of a text that differ only in literals.
    """

    text: str
    tree: exp.Query
    literals: tuple[Literal, ...]
    explain: bool = False
    set_options: Mapping[str, Literal] = field(default_factory=dict)
    described: str | None = None
    analyzes: bool = False
    files: tuple[int, ...] = ()
    cost: Cost = field(default_factory=Cost, compare=False)

    @property
    def tables(self) -> tuple[str, ...]:
        """The distinct names of the tables that the statement reads, as written, without those of WITH."""
        own = {cte.alias.lower() for cte in self.tree.find_all(exp.CTE)}
        names: dict[str, None] = {}
        for table in self.tree.find_all(exp.Table):
            name = ".".join(part.name for part in table.parts)
            if name.lower() not in own and not name.lower().startswith(f"{INFORMATION_SCHEMA}."):
                names[name] = None
        return tuple(names)


class _Dialect(Dialect):
    # nulls come last when ascending and first when descending, by default
    NULL_ORDERING = "nulls_are_large"


def may_begin(lexeme: Lexeme) -> bool:
    """Whether a relational statement may begin with a lexeme."""
    return lexeme.is_word("SELECT", *_BEGINNINGS) or lexeme.is_op("(")


def is_relational(lexemes: Sequence[Lexeme]) -> bool:
    """Whether a statement, `lexemes` up to END, is relational."""
    if lexemes[0].is_word(*_BEGINNINGS) or lexemes[0].is_op("("):
        return True
    depth, in_from = 0, False
    for place, lexeme in enumerate(lexemes[:-1]):
        following = lexemes[place + 1]
        if lexeme.kind is TokenKind.OP:
            depth += (lexeme.text in "([") - (lexeme.text in ")]")
            if depth == 0 and in_from and lexeme.text == ",":
                return True
            continue
        if lexeme.kind is not TokenKind.WORD or (place and lexemes[place - 1].is_op(".")):
            continue
        begins_from = depth == 0 and lexeme.text == "FROM" and not lexemes[place - 1].is_word("DISTINCT")
        if begins_from and (following.is_op("(") or following.is_word("UNNEST", "LATERAL", "INFORMATION_SCHEMA")):
            return True
        if begins_from and following.kind is TokenKind.STRING:
            return True
        if depth == 0:
            in_from = begins_from or (in_from and lexeme.text not in _ENDS_FROM)
        if _tells(lexeme, following, place, lexemes) or (lexeme.text == "QUALIFY" and in_from and following.is_name):
            return True
    return False


def _tells(word: Lexeme, following: Lexeme, place: int, lexemes: Sequence[Lexeme]) -> bool:
    """Whether a word occurs only in relational queries."""
    called = following.is_op("(")
    if word.text == "SELECT":
        return place > 0
    if word.text in ("JOIN", *_SET_OPERATIONS):
        return not called or following.kind is TokenKind.WORD or lexemes[place + 2].is_word("SELECT", *_BEGINNINGS)
    if word.text == "OVER":
        return (called or following.is_name) and lexemes[place - 1].is_op(")")
    if word.text == "NULLS":  # lag(x) IGNORE NULLS OVER (…)
        return lexemes[place - 1].is_word("IGNORE", "RESPECT") and following.is_word("OVER")
    if word.text == "WITHIN":
        return following.is_word("GROUP")
    return word.text == "DISTINCT" and following.is_word("ON")


def parse_tree(text: str, lexemes: Sequence[Lexeme]) -> tuple[exp.Query, tuple[int, ...]]:
    """Parse a statement, `lexemes` up to END; return the tree and the literals that name files. Raises QueryError."""
    converter = _RelationalTokens(text, _with_limits(text, lexemes))
    tokens = converter.run()
    try:
        nodes = Parser(dialect=_Dialect()).parse(tokens, text)
    except ParseError as error:
        raise explained(text, lexemes, error) from None
    except RecursionError:
        raise nested_too_deeply() from None
    node = nodes[0]
    if len(nodes) != 1 or not isinstance(node, exp.Query | exp.Values):
        raise syntax_error(text, lexemes[0].start, "expected one SELECT statement")
    return node, tuple(converter.files)  # type: ignore[return-value]


def _with_limits(text: str, lexemes: Sequence[Lexeme]) -> list[Lexeme]:
    """Replace each `FETCH FIRST n ROWS ONLY` with `LIMIT n`, and each `OFFSET n ROWS` with `OFFSET n`.

    `FETCH FIRST ROW ONLY` becomes `FETCH ROW ONLY`, which the parser accepts.
    """
    found: list[Lexeme] = []
    for lexeme in lexemes:
        found.append(lexeme)
        match found:
            case [*_, fetch, rows] if fetch.is_word("FETCH") and rows.is_word("ROW", "ROWS"):
                raise syntax_error(text, rows.start, f"expected FIRST or NEXT after FETCH, found {rows.shown}")
            case [*_, fetch, first, rows, only] if (
                fetch.is_word("FETCH") and first.is_word("FIRST", "NEXT") and rows.is_word("ROW", "ROWS")
            ) and only.is_word("ONLY"):
                found[-3:] = [replace(rows, text="ROW"), only]
            case [*_, fetch, first, number, rows, only] if (
                fetch.is_word("FETCH") and first.is_word("FIRST", "NEXT") and number.kind is TokenKind.NUMBER
            ) and (rows.is_word("ROW", "ROWS") and only.is_word("ONLY")):
                found[-5:] = [replace(fetch, text="LIMIT"), number]
            case [*_, offset, number, rows] if (
                offset.is_word("OFFSET") and number.kind is TokenKind.NUMBER and rows.is_word("ROW", "ROWS")
            ):
                found.pop()
    return found


class _RelationalTokens(TokenConverter):
    """Converter for relational statements: more words are keywords, and aliases may have a list of columns."""

    keywords = _KEYWORDS

    def __init__(self, text: str, lexemes: Sequence[Lexeme]) -> None:
        super().__init__(text, lexemes)
        self.files: list[int] = []

    def _prefixed(self, prefix: Lexeme, text: Lexeme) -> None:
        """Convert `DATE '…'` and `TIMESTAMP '…'` to timestamps, and `X'…'` to BYTES."""
        to = _PREFIX_TYPES.get(prefix.text)
        if to is None:
            return
        self._emit(TokenType.IDENTIFIER, f"{FUNCTION_MARK}cast", prefix)
        self._emit(TokenType.L_PAREN, "(", prefix)
        self._literal(text)
        self._emit(TokenType.COMMA, ",", text)
        self._emit(TokenType.STRING, CONSTANT_MARK + to.value, text)
        self._emit(TokenType.R_PAREN, ")", text)
        self.position += 1

    def limit_type(self, name: str, precision: Sequence[Lexeme]) -> None:
        """Emit the digits of a DECIMAL, which determine its type."""
        for number in precision if name == DataType.BIG_DECIMAL.value else ():
            self._emit(TokenType.COMMA, ",", number)
            self._literal(number)

    def _names_file(self, lexeme: Lexeme) -> bool:
        return lexeme.kind is TokenKind.STRING

    def _literal(self, lexeme: Lexeme) -> None:
        """Emit a literal; a string in place of a table is the name of a file."""
        before = [token.token_type for token in self.tokens[-2:]]
        of_table = before[-1:] in ([TokenType.FROM], [TokenType.JOIN]) and before[0] is not TokenType.DISTINCT
        if lexeme.kind is TokenKind.STRING and of_table:  # not in IS DISTINCT FROM
            self.files.append(lexeme.literal)
            self._emit(TokenType.IDENTIFIER, lexeme.text, lexeme)
        else:
            super()._literal(lexeme)

    def is_keyword_here(self, lexeme: Lexeme, following: Lexeme) -> bool:
        if lexeme.text not in _KEYWORDS or (lexeme.text in KEYWORDS and lexeme.text != "GROUP"):
            return lexeme.text in KEYWORDS
        previous = self.lexemes[self.position - 2] if self.position > 1 else None
        if lexeme.text == "TABLE":
            begins = previous is None or previous.is_op("(") or previous.is_word("ALL", "DISTINCT", *_SET_OPERATIONS)
            return begins and following.is_name
        if lexeme.text == "GROUP":
            return following.is_word("BY")
        if lexeme.text == "INTERVAL":
            return super().is_keyword_here(lexeme, following)
        if lexeme.text == "ORDINALITY":
            return previous is not None and previous.is_word("WITH")
        if lexeme.text in _ALSO_FUNCTIONS and following.is_op("("):
            return False
        needed = _ONLY_BEFORE.get(lexeme.text)
        if needed is not None:
            is_frame = lexeme.text in ("ROWS", "RANGE") and following.literal >= 0
            return following.is_word(*needed) or is_frame
        if lexeme.text == "ALL" and previous is not None and previous.is_op("(", ","):
            return False
        return not (lexeme.text in ("ANY", "SOME") and not following.is_op("("))

    def begin_keyword(self, lexeme: Lexeme, following: Lexeme) -> None:
        if lexeme.text == "PARTITION":
            self.position += 1
        if lexeme.text == "LEFT" and following.is_word("ASOF"):  # the parser expects ASOF LEFT
            self._emit(TokenType.ASOF, "ASOF", following)
            self.position += 1
        if lexeme.text == "TABLE":
            self._emit(TokenType.SELECT, "SELECT", lexeme)
            self._emit(TokenType.STAR, "*", lexeme)
        if lexeme.text in _BEGIN_CLAUSE:
            self.begin_clause()

    def is_call(self, lexeme: Lexeme, following: Lexeme) -> bool:
        """Whether a name before a parenthesis is a function; after another name or a parenthesis it is an alias with
        columns."""
        if lexeme.kind is TokenKind.WORD and lexeme.text in _SOFT and lexeme.text != "ROW":
            return False
        previous = self.tokens[-1].token_type if self.tokens else None
        if previous in _BEFORE_ALIAS:
            return previous is TokenType.R_PAREN and lexeme.is_word("FILTER")
        return not self._names_query(previous)

    def _check_operand(self, lexeme: Lexeme, following: Lexeme) -> None:
        if not (lexeme.is_op("(") and following.is_word(*_BEGIN_WINDOW)):
            super()._check_operand(lexeme, following)

    def _names_query(self, previous: TokenType | None) -> bool:
        """Whether this is the next `x (a, b) AS (…` of a WITH clause."""
        if previous is not TokenType.COMMA:
            return False
        depth = 0
        for place in range(self.position, len(self.lexemes) - 2):
            lexeme = self.lexemes[place]
            depth += lexeme.is_op("(") - lexeme.is_op(")")
            if depth == 0:
                return self.lexemes[place + 1].is_word("AS") and self.lexemes[place + 2].is_op("(")
        return False

    def name_type(self, lexeme: Lexeme) -> TokenType:
        return TokenType.VAR if lexeme.kind is TokenKind.WORD and lexeme.text in _SOFT else TokenType.IDENTIFIER
