"""Error messages for people, with the position in the statement underlined."""

import re

from gamay.base.errors import QueryError
from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import lex

_QUOTED = re.compile(r"['`\"]([^'`\"\n]+)['`\"]")


def fault_text(error: BaseException, sql: str = "", where: str = "", *, color: bool = False) -> str:
    """Return an error message. sql: the statement, to underline the position; where: its file and line, as a prefix."""
    text = str(error) or type(error).__name__
    if sql and isinstance(error, QueryError) and "^" not in text:
        text = _underlined(text, sql)
    head = f"{where}: " if where else ""
    label = "\033[1;31mError:\033[0m" if color else "Error:"
    return f"{head}{label} {text}"


def _underlined(text: str, sql: str) -> str:
    """Underline the first name that the message quotes and the statement contains."""
    try:
        lexemes = lex(sql)
    except QueryError:
        return text
    for name in _QUOTED.findall(text):
        wanted = name.lower()
        found = next((one for one in lexemes if one.source and wanted in (one.name.lower(), one.text.lower())), None)
        if found is not None:
            first, _, rest = str(syntax_error(sql, found.start, "")).partition(":\n")
            place, _, caret = rest.rpartition("\n")
            return f"{text}\n{first.removeprefix(', at ')}:\n{place}\n{caret[:-1]}{'^' * _marks(place, caret, found.source)}"
    return text


def _marks(line: str, caret: str, source: str) -> int:
    return max(1, min(len(source.partition("\n")[0]), len(line) - len(caret) + 1))
