"""Hints of the multi-stage engine: `/*+ joinOptions(max_rows_in_join='10'), aggOptions(…) */`, as query options."""

import re
from collections.abc import Iterator

from gamay.sql.text.errors import syntax_error
from gamay.sql.text.lexer import COMMENT, QUOTED, STRING

_HINTS = re.compile(rf"/\*\+(?P<hints>(?:[^*]|\*(?!/))*+)\*/|{COMMENT}|{STRING}|{QUOTED}")
_HINT = re.compile(r"(?P<name>\w+)\s*(?:\((?P<keys>(?:[^()']|'[^']*')*)\)\s*)?(?:,\s*|\Z|(?=\w))")
_KEY = re.compile(r"(?P<key>\w+)\s*=\s*'(?P<value>[^']*)'\s*(?:,\s*|\Z)")
_LIST = re.compile(r"(?:\s*(?:\w+|'[^']*')\s*(?:,|\Z))+")
_FORM = "a hint is written name(key='value', …)"

_OPTIONS = {
    "joinOptions.max_rows_in_join": "maxRowsInJoin",
    "joinOptions.join_overflow_mode": "joinOverflowMode",
    "windowOptions.max_rows_in_window": "maxRowsInWindow",
    "windowOptions.window_overflow_mode": "windowOverflowMode",
    "aggOptions.num_groups_limit": "numGroupsLimit",
    "aggOptions.error_on_num_groups_limit": "errorOnNumGroupsLimit",
}


def hint_options(text: str) -> dict[str, str]:
    """Return the hints of a query as options; a hint without an equivalent option is named `hint.key`, or `hint`.

    Raises QueryError 150 for a malformed hint.

    >>> hint_options("SELECT /*+ joinOptions(max_rows_in_join='10', join_strategy='hash') */ 1")
    {'maxRowsInJoin': '10', 'joinOptions.join_strategy': 'hash'}
    """
    found: dict[str, str] = {}
    for match in _HINTS.finditer(text) if "/*+" in text else ():
        for hint in _matches(_HINT, match["hints"] or "", text, match.start("hints")):
            keys = hint["keys"]
            if keys is None or _LIST.fullmatch(keys) is not None:
                found[hint["name"]] = ""
                continue
            for key in _matches(_KEY, keys, text, match.start("hints") + hint.start("keys")):
                name = f"{hint['name']}.{key['key']}"
                found[_OPTIONS.get(name, name)] = key["value"]
    return found


def _matches(pattern: re.Pattern[str], part: str, text: str, start: int) -> Iterator[re.Match[str]]:
    """Yield the matches that make up a part of a text, which begins at `start`. Raises QueryError for anything else."""
    position, end = len(part) - len(part.lstrip()), len(part.rstrip())
    while position < end:
        match = pattern.match(part, position)
        if match is None:
            raise syntax_error(text, start + position, _FORM)
        yield match
        position = match.end()
