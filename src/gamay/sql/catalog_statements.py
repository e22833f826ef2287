"""SHOW TABLES, SHOW COLUMNS and DESCRIBE as queries of `information_schema`; `TABLE t` as `SELECT * FROM t`.

| statement                              | result                                         |
| -------------------------------------- | ---------------------------------------------- |
| `SHOW TABLES [FROM db] [LIKE 'a%']`    | the tables that the sender may query           |
| `SHOW DATABASES`, `SHOW SCHEMAS`       | their databases                                |
| `DESCRIBE t`, `DESC t`, `SHOW COLUMNS FROM t` | the columns of a table, in the order of `*` |
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gamay.functions.expression import Literal
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import BEFORE_STATEMENT, SPACE, Lexeme, TokenKind, lex
from gamay.sql.text.slots import lift_literals, without_slots

_DEFINITION = re.compile(rf"{BEFORE_STATEMENT}(?:create|drop|show(?:\s|/\*|--){SPACE}(?:create|materialized))\b")
_TABLES = (
    "SELECT CASE WHEN table_schema = 'default' THEN table_name ELSE table_schema || '.' || table_name END AS table_name "
    "FROM information_schema.tables"
)
_DATABASES = "SELECT DISTINCT table_schema AS database_name FROM information_schema.tables ORDER BY 1"
_COLUMNS = (
    "SELECT column_name, data_type, field_type, is_multi_value FROM information_schema.columns "
    "WHERE (CASE WHEN table_schema = 'default' THEN table_name ELSE table_schema || '.' || table_name END) = {name} "
    "ORDER BY ordinal_position"
)


@dataclass(frozen=True, slots=True)
class CatalogQuery:
    """The query for a catalog statement.

    lexemes: up to END. literals: of the text, then of the query. described: a table that must exist.
    """

    text: str
    lexemes: Sequence[Lexeme]
    literals: tuple[Literal, ...]
    described: str | None = None


def is_definition(text: str) -> bool:
    """Whether a text is DDL, or shows the definition of a table or view; neither is a query.

    >>> is_definition("SET a = 1; DROP TABLE t"), is_definition("SHOW TABLES"), is_definition("SHOW CREATE TABLE t")
    (True, False, True)
    """
    return _DEFINITION.match(text) is not None


def is_catalog_statement(lexemes: Sequence[Lexeme]) -> bool:
    """Whether a statement, `lexemes` up to END, is a catalog statement; other forms of `SHOW` are not."""
    second = lexemes[min(1, len(lexemes) - 1)]
    if lexemes[0].is_word("SHOW"):
        return second.is_word("TABLES", "COLUMNS", "DATABASES", "SCHEMAS")
    return lexemes[0].is_word("DESCRIBE", "DESC")


def catalog_query(text: str, lexemes: Sequence[Lexeme], literals: Sequence[Literal]) -> CatalogQuery:
    """Return the query for a catalog statement. Raises QueryError with the position in the text."""
    reader = _Reader(text, lexemes)
    first = reader.take()
    subject = reader.take().text if first.is_word("SHOW") else "COLUMNS"
    if subject in ("DATABASES", "SCHEMAS"):
        reader.end()
        return _query(_DATABASES, literals)
    if subject == "COLUMNS":
        if first.is_word("SHOW"):
            reader.need("FROM", "IN")
        else:
            reader.skip("TABLE")
        name = reader.name()
        reader.end()
        return replace(_query(_COLUMNS.format(name=_quoted(name.removeprefix("default."))), literals), described=name)
    database = reader.name() if reader.skip("FROM", "IN") else None
    pattern = reader.pattern() if reader.skip("LIKE") else None
    reader.end()
    conditions = [] if database is None else [f"table_schema = {_quoted(database)}"]
    conditions += [] if pattern is None else [f"table_name LIKE {_quoted('')}"]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    return _query(f"{_TABLES}{where} ORDER BY 1", literals, pattern)


def _query(text: str, literals: Sequence[Literal], pattern: Lexeme | None = None) -> CatalogQuery:
    """Return the query for a text with its own literals, numbered after those of the request.

    pattern: the literal of the request that replaces the empty one.
    """
    lifted = lift_literals(text)
    own = [without_slots(slot) for slot in lifted.slots(lifted.literals())]
    lexemes = [
        each if each.literal < 0 else replace(each, literal=len(literals) + each.literal)
        if pattern is None or each.source != "''" else pattern
        for each in lex(text)
    ]  # fmt: skip
    return CatalogQuery(text, lexemes, (*literals, *(each for each in own if isinstance(each, Literal))))


def _quoted(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


class _Reader:
    def __init__(self, text: str, lexemes: Sequence[Lexeme]) -> None:
        self._text = text
        self._lexemes = lexemes
        self._position = 0

    def take(self) -> Lexeme:
        lexeme = self._lexemes[self._position]
        self._position += lexeme.kind is not TokenKind.END
        return lexeme

    def skip(self, *words: str) -> bool:
        found = self._lexemes[self._position].is_word(*words)
        self._position += found
        return found

    def need(self, *words: str) -> None:
        if not self.skip(*words):
            raise self._expected(" or ".join(words))

    def name(self) -> str:
        """Read `t` or `db.t`."""
        parts = [self._part()]
        while self._lexemes[self._position].is_op("."):
            self._position += 1
            parts.append(self._part())
        return ".".join(parts)

    def pattern(self) -> Lexeme:
        if self._lexemes[self._position].kind is not TokenKind.STRING:
            raise self._expected("a pattern in quotes after LIKE")
        return self.take()

    def end(self) -> None:
        if self._lexemes[self._position].kind is not TokenKind.END:
            raise self._expected("the end of the statement")

    def _part(self) -> str:
        if not self._lexemes[self._position].is_name:
            raise self._expected("a name")
        return self.take().name

    def _expected(self, what: str) -> Exception:
        lexeme = self._lexemes[self._position]
        return syntax_error(self._text, lexeme.start, f"expected {what}, found {lexeme.shown}")
