"""Query options: where they come from, and which of two wins. `gamay.sql.option_values` knows each of them.

From the strongest to the weakest: `SET key = value;` before the query (the last of equal keys), `OPTION(key=value, …)` at
its end, the request's `queryOptions`, the request's `trace`. Known names are matched without regard to case; unknown ones
are kept, for clients send options of their own. Values are text.
"""

import re
from functools import lru_cache

from gamay.base.errors import ErrorCode, QueryError
from gamay.sql.option_values import option_name

_TRAILING_OPTION = re.compile(r"\boption\s*\(([^()]*)\)\s*;?\s*\Z", re.IGNORECASE)
_COMMENT_AT_END = re.compile(r"--[^\n]*\Z")


@lru_cache(maxsize=256)
def _parsed(text: str, separator: str) -> tuple[tuple[str, str], ...]:
    options: dict[str, str] = {}
    for part in text.split(separator):
        if not part.strip():
            continue
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not name or "=" in value:
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

    >>> parse_query_options(";timeoutms=5;timeoutMs=5")
    {'timeoutMs': '5'}
    """
    return dict(_parsed(text, ";"))


def split_trailing_option(text: str) -> tuple[str, dict[str, str]]:
    """Cut `OPTION(key=value, …)` off the end of a query; quotes around a value, which some clients write, are dropped."""
    match = _TRAILING_OPTION.search(text) if "option" in text.lower() else None
    if match is None or _in_comment(text[: match.start()]):
        return text, {}
    return text[: match.start()], {name: _unquoted(value) for name, value in _parsed(match[1], ",")}


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == "'" else value


def _in_comment(before: str) -> bool:
    return _COMMENT_AT_END.search(before) is not None or before.rfind("/*") > before.rfind("*/")
