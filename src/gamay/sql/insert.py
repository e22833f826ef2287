"""`INSERT INTO [database.]table FROM FILE 'uri' [, FILE 'uri' …]`: loads files into a table.

Settings come from SET before or after it, or from one OPTION at its end; SET takes precedence.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gamay.base.errors import QueryError
from gamay.sql.options.options import split_trailing_option
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import BEFORE_STATEMENT, Lexeme, TokenKind, lex

_BEGIN = re.compile(rf"{BEFORE_STATEMENT}insert\s")


@dataclass(frozen=True, slots=True)
class InsertFromFiles:
    """The statement. uris: of the files, in order. settings: from SET and OPTION, with names as written."""

    table: str
    uris: tuple[str, ...]
    settings: dict[str, str] = field(default_factory=dict)


def is_insert(text: str) -> bool:
    """Whether a text is such a statement, judging by its beginning.

    >>> is_insert("SET taskName = 'mine'; INSERT INTO t FROM FILE 's3://in/'"), is_insert("SELECT 'insert into'")
    (True, False)
    """
    return _BEGIN.match(text) is not None


def parse_insert(text: str) -> InsertFromFiles:
    """Parse the statement; raises QueryError with the position of an error.

    >>> parse_insert("SET a = 1; INSERT INTO t FROM FILE 's3://in/' OPTION(a=2, b=3)").settings
    {'a': '1', 'b': '3'}
    """
    statement, options = split_trailing_option(text)
    insert = _Reader(text, lex(statement)).statement()
    return replace(insert, settings={**options, **insert.settings}) if options else insert


class _Reader:
    def __init__(self, text: str, lexemes: Sequence[Lexeme]) -> None:
        self._text = text
        self._lexemes = lexemes
        self._position = 0

    def statement(self) -> InsertFromFiles:
        settings = self._settings()
        self._words("INSERT")
        self._words("INTO")
        table = self._name("the name of a table")
        self._words("FROM")
        uris = [self._file()]
        while self._skip(","):
            uris.append(self._file())
        self._skip(";")
        settings |= self._settings()
        if self._current.kind is not TokenKind.END:
            raise self._expected("the end: a request holds one statement, beside SET")
        return InsertFromFiles(table, tuple(uris), settings)

    def _settings(self) -> dict[str, str]:
        found: dict[str, str] = {}
        while self._current.is_word("SET"):
            self._next()
            if self._current.kind is TokenKind.STRING:
                name = self._next().text
            else:
                name = self._name("the name of a setting after SET")
            if not self._skip("="):
                raise self._expected("= after the name of the setting")
            value = self._next()
            if value.kind is TokenKind.STRING:
                found[name] = value.text
            elif value.kind is TokenKind.NUMBER or value.is_name:
                found[name] = value.source if value.kind is TokenKind.NUMBER else value.name
            else:
                self._position -= value.kind is not TokenKind.END
                raise self._expected("a value for the setting")
            self._skip(";")
        return found

    def _file(self) -> str:
        self._words("FILE", "ARCHIVE")
        if self._current.kind is not TokenKind.STRING:
            raise self._expected("the URI of a file or folder, as in FILE 's3://bucket/in/'")
        return self._next().text

    def _name(self, what: str) -> str:
        parts = []
        while True:
            if not self._current.is_name:
                raise self._expected(what)
            parts.append(self._next().name)
            if not self._skip("."):
                return ".".join(parts)

    def _words(self, *words: str) -> None:
        if not self._current.is_word(*words):
            raise self._expected(" or ".join(words))
        self._next()

    def _skip(self, op: str) -> bool:
        found = self._current.is_op(op)
        self._position += found
        return found

    @property
    def _current(self) -> Lexeme:
        return self._lexemes[self._position]

    def _next(self) -> Lexeme:
        lexeme = self._current
        self._position += lexeme.kind is not TokenKind.END
        return lexeme

    def _expected(self, what: str) -> QueryError:
        return syntax_error(self._text, self._current.start, f"expected {what}, found {self._current.shown}")
