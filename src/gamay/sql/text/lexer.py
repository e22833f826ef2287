"""Splits text into lexemes: words, quoted names, literals and operators, by the lexical rules of the dialect.

`"x"` is a name and `'x'` a string, in which the quote is doubled to escape it; `AS 'x'` is an alias, not a literal. A name
may begin with a digit or `$`, but in `5AND` a keyword follows a number; comments are `-- …` and `/* … */`. Case is
preserved. Literals are numbered in order of appearance, exactly as by `gamay.sql.text.slots.lift_literals`.
"""

import re
from dataclasses import dataclass
from enum import Enum

from gamay.sql.text import reading_time
from gamay.sql.text.errors import syntax_error

# letters, digits, `_`, `$` and non-ASCII, written as a complement: a range up to U+10FFFF takes long to compile
WORD_CHAR = r"[^\x00-#%-/:-@\[-^`{-\x7f]"
_WORD_CHAR_OR_POINT = r"[^\x00-#%-\-/:-@\[-^`{-\x7f]"
# a word right after digits makes a name (`1st`), unless it may follow a number: `LIMIT 5OFFSET 2`
_FOLLOWS_NUMBER = (
    "AND|OR|NOT|IN|BETWEEN|LIKE|IS|WHEN|THEN|ELSE|END|AS|ASC|DESC|FROM|WHERE|GROUP|HAVING|ORDER|LIMIT|OFFSET|FETCH|OPTION"
)
_AFTER_NUMBER = rf"(?:[eE][+-]?[0-9]++)?+(?!(?={WORD_CHAR})(?!(?i:{_FOLLOWS_NUMBER})(?!{WORD_CHAR})))"
NUMBER = rf"(?<!{_WORD_CHAR_OR_POINT})(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++){_AFTER_NUMBER}"
# The same with the first character in front: if all alternatives of a pattern begin with a character, a search skips to its
# next occurrence, which takes a fifth of the time.
NUMBER_BY_START = "|".join(
    [
        *(rf"{digit}(?<!{_WORD_CHAR_OR_POINT}{digit})[0-9]*+(?:\.[0-9]*+)?+{_AFTER_NUMBER}" for digit in "0123456789"),
        rf"\.(?<!{_WORD_CHAR_OR_POINT}\.)[0-9]++{_AFTER_NUMBER}",
    ]
)
STRING = r"'(?:[^']|'')*+'"
QUOTED = r'"(?:[^"]|"")*+"'
COMMENT = r"--[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/"
SPACE = rf"(?:\s|{COMMENT})*+"
BEFORE_STATEMENT = rf"(?i){SPACE}(?:set\s(?:{STRING}|[^;'])*+;{SPACE})*+"
"""What may precede the first word of a statement: SET, comments, space."""

_LEXEME = re.compile(
    rf"(?P<space>\s+|{COMMENT})|(?P<string>{STRING})|(?P<quoted>{QUOTED})|(?P<number>{NUMBER})"
    rf"|(?P<word>{WORD_CHAR}+)|(?P<op><>|!=|<=|>=|\|\||/(?!\*)|(?<=[uU])&(?=')|[-+*%=<>(),.;\[\]])"
)
# a long list of constants after IN, from that word on: one lexeme and one literal, so that 100,000 constants are no special
# case
_LISTED = rf"(?:-\s*)?(?:{STRING}|{NUMBER})"
IN_LIST = rf"(?<!{WORD_CHAR})[iI][nN]\s*\(\s*{_LISTED}(?:\s*,\s*{_LISTED}){{31,}}+(?=\s*\))"
IN_LISTS_FROM = 128
"""Minimum length of a text with such a list; shorter texts are not searched for one."""
_IN_LIST = re.compile(IN_LIST)
_LEXEMES_MAX = 100_000
_NAME_MAX = 1024
_SHOWN_MAX = 60


class TokenKind(Enum):
    """The kind of a lexeme."""

    WORD = "word"
    QUOTED = "quoted"
    STRING = "string"
    NUMBER = "number"
    LIST = "list"
    OP = "op"
    END = "end"


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A piece of the text at `start`.

    text: a word in upper case; a quoted name (also `'x'` after AS) or string without its quotes; an operator; empty for a
    list of literals, and at the end. source: as written. literal: index of the literal (a list counts as one), -1 for other
    lexemes.
    """

    kind: TokenKind
    text: str
    source: str
    start: int
    literal: int = -1

    def is_word(self, *words: str) -> bool:
        return self.kind is TokenKind.WORD and self.text in words

    def is_op(self, *ops: str) -> bool:
        return self.kind is TokenKind.OP and self.text in ops

    @property
    def is_name(self) -> bool:
        return self.kind is TokenKind.WORD or self.kind is TokenKind.QUOTED

    @property
    def name(self) -> str:
        """The name with its case, without quotes."""
        return self.source if self.kind is TokenKind.WORD else self.text

    @property
    def shown(self) -> str:
        """How messages show it."""
        if self.kind is TokenKind.END:
            return "the end of the query"
        return f"`{self.source}`" if len(self.source) <= _SHOWN_MAX else f"`{self.source[:_SHOWN_MAX]}…`"


def lex(text: str) -> list[Lexeme]:
    """Split a text into lexemes, the last of kind END; raises QueryError for an invalid character."""
    lexemes: list[Lexeme] = []
    position = 0
    literals = 0
    while position < len(text):
        reading_time.check()
        match = _LEXEME.match(text, position)
        if match is None:
            raise syntax_error(text, position, _why_not(text, position))
        group = match.lastgroup
        source = match[0]
        if group == "word":
            _check_length(text, position, source)
            lexemes.append(Lexeme(TokenKind.WORD, source.upper(), source, position))
            listed = _IN_LIST.match(text, position) if len(source) == 2 and len(text) >= IN_LISTS_FROM else None
            if listed is not None:
                match = listed
                opening = text.index("(", position)
                lexemes.append(Lexeme(TokenKind.OP, "(", "(", opening))
                lexemes.append(Lexeme(TokenKind.LIST, "", text[opening + 1 : listed.end()], opening + 1, literals))
                literals += 1
        elif group == "op":
            lexemes.append(Lexeme(TokenKind.OP, source, source, position))
        elif group == "quoted" or (group == "string" and lexemes and lexemes[-1].is_word("AS")):
            lexemes.append(Lexeme(TokenKind.QUOTED, _name(text, position, source), source, position))
        elif group != "space":
            kind, value = (TokenKind.STRING, unquote(source)) if group == "string" else (TokenKind.NUMBER, source)
            lexemes.append(Lexeme(kind, value, source, position, literals))
            literals += 1
        position = match.end()
        if len(lexemes) > _LEXEMES_MAX:
            message = f"the query has more than {_LEXEMES_MAX:,} words and signs; IN (…) takes any number of constants"
            raise syntax_error(text, position, message)
    lexemes.append(Lexeme(TokenKind.END, "", "", len(text)))
    return lexemes


def unquote(source: str) -> str:
    """Return the characters of a string literal or quoted name.

    >>> unquote("'it''s'")
    "it's"
    """
    return source[1:-1].replace(source[0] * 2, source[0])


def _name(text: str, position: int, source: str) -> str:
    name = unquote(source)
    if not name:
        hint = "; strings are written in single quotes" if source[0] == '"' else ""
        raise syntax_error(text, position, f"a quoted name must not be empty{hint}")
    _check_length(text, position, name)
    return name


def _check_length(text: str, position: int, name: str) -> None:
    if len(name) > _NAME_MAX:
        raise syntax_error(text, position, f"a name has at most {_NAME_MAX} characters, this one has {len(name)}")


def _why_not(text: str, position: int) -> str:
    char = text[position]
    if char == "'":
        return "this string is not closed: a single quote is missing (inside a string it is doubled)"
    if char == '"':
        return "this quoted name is not closed: a double quote is missing (inside a name it is doubled)"
    if text.startswith("/*", position):
        return "this comment is not closed: */ is missing"
    if char == "`":
        return 'quote names with double quotes ("name"), not with backticks'
    if text.startswith("::", position):
        return "write CAST(x AS type) instead of ::"
    if char in "?:@":
        return f"unexpected character {char!r}: this looks like a parameter without a value"
    return f"unexpected character {char!r}"
