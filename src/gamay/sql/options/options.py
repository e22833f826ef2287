"""Query options: their sources and precedence. `gamay.sql.options.option_values` defines them.

In order of precedence: `SET key = value;` before the query (the last of equal keys), `OPTION(key=value, …)` at its end, the
request's `queryOptions`, the request's `trace`. Known names are matched ignoring case; unknown ones are kept, since clients
send their own options. Values are text.
"""

import re

from gamay.base.errors import ErrorCode, QueryError
from gamay.base.recently_used import remembered
from gamay.sql.options.option_values import option_name
from gamay.sql.text.lexer import COMMENT, NUMBER, QUOTED, STRING

_TRAILING_OPTION = re.compile(rf"(?:\b|{NUMBER})(?P<clause>option\s*\((?P<options>[^()]*)\)\s*;?\s*)\Z", re.IGNORECASE)
_COMMENT_OR_QUOTED = re.compile(rf"(?P<comment>{COMMENT})|{STRING}|{QUOTED}")


@remembered()
def _parsed(text: str, separator: str, *, equals_in_values: bool) -> tuple[tuple[str, str], ...]:
    options: dict[str, str] = {}
    for part in text.split(separator):
        if not part.strip():
            continue
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or ("=" in value and not equals_in_values):
            raise QueryError(ErrorCode.SQL_PARSING, f"'{part.strip()}' is not a query option of the form key=value")
        name = option_name(name)
        if options.setdefault(name, value) != value:
            raise QueryError(
                ErrorCode.SQL_PARSING, f"The query option {name} is given twice: '{options[name]}' and '{value}'"
            )
    return tuple(options.items())


def parse_query_options(text: str) -> dict[str, str]:
    """Parse the request field `queryOptions`, `key=value;key2=value2`; raises QueryError for an invalid part.

    Blank parts are skipped, and an option may be repeated with the same value: clients do both.

    >>> parse_query_options(";timeoutms=5;timeoutMs=5;skipIndexes=a=range")
    {'timeoutMs': '5', 'skipIndexes': 'a=range'}
    """
    return dict(_parsed(text, ";", equals_in_values=True))


def split_trailing_option(text: str) -> tuple[str, dict[str, str]]:
    """Cut `OPTION(key=value, …)` off the end of a query; quotes around values, which some clients write, are removed.

    Comments may follow it; an OPTION within a comment does not count.
    """
    match = _TRAILING_OPTION.search(_without_comments(text)) if "option" in text.lower() else None
    if match is None:
        return text, {}
    return text[: match.start("clause")], {
        name: _unquoted(value) for name, value in _parsed(match["options"], ",", equals_in_values=False)
    }


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == "'" else value


def _without_comments(text: str) -> str:
    """Replace the comments of a text with blanks, keeping its length."""
    if "--" not in text and "/*" not in text:
        return text
    return _COMMENT_OR_QUOTED.sub(lambda found: " " * len(found[0]) if found["comment"] else found[0], text)
