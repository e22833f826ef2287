"""Errors of the parser, translated into advice."""

from collections.abc import Sequence

from sqlglot.errors import ParseError

from gamay.base.errors import QueryError, nearest
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import Lexeme, TokenKind
from gamay.sql.text.tokens import is_keyword, quoting_hint

_MISSPELT = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "BETWEEN", "LIKE", "DESC", "NULLS LAST")
# keywords of other SQL dialects
_ELSEWHERE = {
    "TOP": "limit the rows at the end, with LIMIT n; send PQL, which has TOP, to /query of a broker as pql",
    "RLIKE": "match regular expressions with REGEXP_LIKE(x, 'pattern')",
    "REGEXP": "match regular expressions with REGEXP_LIKE(x, 'pattern')",
    "SIMILAR": "match regular expressions with REGEXP_LIKE(x, 'pattern')",
    "ROLLUP": "ROLLUP takes a list in parentheses: ROLLUP (a, b)",
    "CUBE": "CUBE takes a list in parentheses: CUBE (a, b)",
    "EXCLUDE": "* stands for all columns; to leave some out, name the others",
    "OPTION": "write options at the end as OPTION(name=value), or first as SET name = value;",
    "TABLESAMPLE": "sampling is not supported; LIMIT n returns the first rows",
}


def explained(text: str, lexemes: Sequence[Lexeme], error: ParseError) -> QueryError:
    """Translate an error of the parser, which knows the token, into advice."""
    detail = error.errors[0] if error.errors else {}
    start = int(detail.get("col") or 0)
    description = str(detail.get("description") or error)
    at = next((lexeme for lexeme in lexemes if lexeme.start >= start), lexemes[-1])
    if "CASE" in description:
        message = "this CASE is not complete; write CASE WHEN condition THEN value ... ELSE value END"
    elif description.startswith(("Expecting", "Expected")):
        message = f"{description[0].lower()}{description[1:]}, found {at.shown}"
    elif "Between" in description:
        message = f"BETWEEN must be x BETWEEN low AND high, found {at.shown}"
    elif description.startswith("Required keyword"):
        message = f"an operand is missing at {at.shown}"
    else:
        message = f"unexpected {at.shown}"
        if not any(lexeme.is_word("FROM") for lexeme in lexemes):
            message += "; FROM is missing"
        message += _word_hint(lexemes, at)
    return syntax_error(text, at.start, message + quoting_hint(at))


def _word_hint(lexemes: Sequence[Lexeme], at: Lexeme) -> str:
    """Return a hint if a word, or the one before it, belongs to another dialect or resembles a keyword of this one."""
    place = next((i for i, lexeme in enumerate(lexemes) if lexeme is at), 0)
    words = [lexeme for lexeme in lexemes[max(0, place - 1) : place + 1] if lexeme.kind is TokenKind.WORD]
    for word in words:
        called = word is at and place + 1 < len(lexemes) and lexemes[place + 1].is_op("(")
        if word.text in _ELSEWHERE and not called:
            return f"; {_ELSEWHERE[word.text]}"
        close = "" if is_keyword(word) else nearest(word.text, _MISSPELT)
        if close:
            return f"; did you mean {close.strip().removeprefix('Did you mean ').removesuffix('?')}"
    return ""
