"""Query options: where they come from, and which of two wins. `gamay.sql.options.option_values` knows each of them.

From the strongest to the weakest: `SET key = value;` before the query (the last of equal keys), `OPTION(key=value, …)` at
its end, the request's `queryOptions`, the request's `trace`. Known names are matched without regard to case; unknown ones
are kept, for clients send options of their own. Values are text.
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
            raise QueryError(ErrorCode.SQL_PARSING, f"'{part.strip()}' is no query option; each is written key=value")
        name = option_name(name)
        if options.setdefault(name, value) != value:
            raise QueryError(
                ErrorCode.SQL_PARSING, f"The query option {name} is given twice: '{options[name]}' and '{value}'"
            )
    return tuple(options.items())


def parse_query_options(text: str) -> dict[str, str]:
    """Parse the request field `queryOptions`, `key=value;key2=value2`; raises QueryError for a part that is none.

    Blank parts are skipped and an option repeated with the same value is one: clients send both.

    >>> parse_query_options(";timeoutms=5;timeoutMs=5;skipIndexes=a=range")
    {'timeoutMs': '5', 'skipIndexes': 'a=range'}
    """
    return dict(_parsed(text, ";", equals_in_values=True))


def split_trailing_option(text: str) -> tuple[str, dict[str, str]]:
    """Cut `OPTION(key=value, …)` off the end of a query; quotes around a value, which some clients write, are dropped.

    Comments may stand behind it, and what stands in a comment is none.
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
    """Return a text, as long as before, with blanks for its comments."""
    if "--" not in text and "/*" not in text:
        return text
    return _COMMENT_OR_QUOTED.sub(lambda found: " " * len(found[0]) if found["comment"] else found[0], text)
