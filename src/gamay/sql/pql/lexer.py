"""Splits PQL text into lexemes. Unlike in SQL, a hyphen is part of a name, and both kinds of quotes make strings.

Names are `[A-Za-z_$][A-Za-z0-9_-]*`, or anything between backticks. Numbers may have a sign, and are written `5`, `5.`,
`.5`, `5e3`. Comments are `-- …` and, as in SQL, `/* … */`.
"""

import re

from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import COMMENT, STRING, Lexeme, TokenKind

_DOUBLE_QUOTED = r'"(?:[^"]|"")*+"'
_BACKTICKED = r"`[^`]++`"
_NUMBER = r"[+-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?+(?![\w$])"
_LEXEME = re.compile(
    rf"(?P<space>\s+|{COMMENT})|(?P<string>{STRING}|{_DOUBLE_QUOTED})|(?P<quoted>{_BACKTICKED})|(?P<number>{_NUMBER})"
    r"|(?P<word>[A-Za-z_$][A-Za-z0-9_-]*+)|(?P<op><>|!=|<=|>=|/(?!\*)|[-+*=<>(),.;])"
)


def lex_pql(text: str) -> list[Lexeme]:
    """Split a text into lexemes, the last of kind END; raises QueryError for an invalid character."""
    lexemes: list[Lexeme] = []
    position = 0
    while position < len(text):
        match = _LEXEME.match(text, position)
        if match is None:
            raise syntax_error(text, position, _why_not(text, position))
        group, source = match.lastgroup, match[0]
        if group == "word":
            lexemes.append(Lexeme(TokenKind.WORD, source.upper(), source, position))
        elif group == "string":
            quote = source[0]
            lexemes.append(Lexeme(TokenKind.STRING, source[1:-1].replace(quote * 2, quote), source, position))
        elif group == "quoted":
            lexemes.append(Lexeme(TokenKind.QUOTED, source[1:-1], source, position))
        elif group == "number":
            lexemes.append(Lexeme(TokenKind.NUMBER, source, source, position))
        elif group == "op":
            lexemes.append(Lexeme(TokenKind.OP, source, source, position))
        position = match.end()
    lexemes.append(Lexeme(TokenKind.END, "", "", len(text)))
    return lexemes


def _why_not(text: str, position: int) -> str:
    char = text[position]
    if char in "'\"":
        return f"this string is not closed: {char} is missing (inside a string it is doubled)"
    if char == "`":
        return "this quoted name is not closed or empty: a backtick is missing"
    if text.startswith("/*", position):
        return "this comment is not closed: */ is missing"
    if char.isalnum():
        return "a name in PQL has ASCII letters, digits, _ and - and begins with a letter; quote others with backticks"
    return f"unexpected character {char!r}"
