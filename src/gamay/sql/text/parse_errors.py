"""What the parser complains about, told in words that say what to do."""

from collections.abc import Sequence

from sqlglot.errors import ParseError

from gamay.base.errors import QueryError, nearest
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import Lexeme, TokenKind
from gamay.sql.text.tokens import is_keyword, quoting_hint

_MISSPELT = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "BETWEEN", "LIKE", "DESC", "NULLS LAST")
# words of other dialects of SQL
_ELSEWHERE = {
    "TOP": "the number of rows comes at the end, LIMIT n; PQL, which has TOP, goes to /query of a broker as pql",
    "RLIKE": "regular expressions are matched with REGEXP_LIKE(x, 'pattern')",
    "REGEXP": "regular expressions are matched with REGEXP_LIKE(x, 'pattern')",
    "SIMILAR": "regular expressions are matched with REGEXP_LIKE(x, 'pattern')",
    "ROLLUP": "ROLLUP takes a list in parentheses: ROLLUP (a, b)",
    "CUBE": "CUBE takes a list in parentheses: CUBE (a, b)",
    "EXCLUDE": "* stands for all columns; to leave some out, name the others",
    "OPTION": "options come at the end as OPTION(name=value), or first as SET name = value;",
    "TABLESAMPLE": "rows are not sampled; LIMIT n ends with the first ones",
}


def explained(text: str, lexemes: Sequence[Lexeme], error: ParseError) -> QueryError:
    """Turn the parser's complaint, which knows the token, into one that says what to do."""
    detail = error.errors[0] if error.errors else {}
    start = int(detail.get("col") or 0)
    description = str(detail.get("description") or error)
    at = next((lexeme for lexeme in lexemes if lexeme.start >= start), lexemes[-1])
    if "CASE" in description:
        message = "this CASE is not complete; write CASE WHEN condition THEN value ... ELSE value END"
    elif description.startswith(("Expecting", "Expected")):
        message = f"{description[0].lower()}{description[1:]}, found {at.shown}"
    elif "Between" in description:
        message = f"BETWEEN is written x BETWEEN low AND high, found {at.shown}"
    elif description.startswith("Required keyword"):
        message = f"an operand is missing at {at.shown}"
    else:
        message = f"unexpected {at.shown}"
        if not any(lexeme.is_word("FROM") for lexeme in lexemes):
            message += "; FROM is missing"
        message += _word_hint(lexemes, at)
    return syntax_error(text, at.start, message + quoting_hint(at))


def _word_hint(lexemes: Sequence[Lexeme], at: Lexeme) -> str:
    """Say what is right where a word, or the one before it, is of another dialect or nearly a keyword of this one."""
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
