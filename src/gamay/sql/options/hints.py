"""Hints of the multi-stage engine: `/*+ joinOptions(max_rows_in_join='10'), aggOptions(…) */`, as query options."""

import re

from gamay.sql.text.lexer import COMMENT, QUOTED, STRING

_HINTS = re.compile(rf"(?P<hints>/\*\+(?:[^*]|\*(?!/))*+\*/)|{COMMENT}|{STRING}|{QUOTED}")
_HINT = re.compile(r"(?P<name>\w+)\s*\((?P<keys>[^()]*)\)")
_KEY = re.compile(r"(?P<key>\w+)\s*=\s*'(?P<value>[^']*)'")

_OPTIONS = {
    "joinOptions.max_rows_in_join": "maxRowsInJoin",
    "joinOptions.join_overflow_mode": "joinOverflowMode",
    "windowOptions.max_rows_in_window": "maxRowsInWindow",
    "windowOptions.window_overflow_mode": "windowOverflowMode",
    "aggOptions.num_groups_limit": "numGroupsLimit",
    "aggOptions.error_on_num_groups_limit": "errorOnNumGroupsLimit",
}


def hint_options(text: str) -> dict[str, str]:
    """Return what the hints of a query say, as options; a hint that is no option is called `hint.key`.

    >>> hint_options("SELECT /*+ joinOptions(max_rows_in_join='10', join_strategy='hash') */ 1")
    {'maxRowsInJoin': '10', 'joinOptions.join_strategy': 'hash'}
    """
    found: dict[str, str] = {}
    for match in _HINTS.finditer(text) if "/*+" in text else ():
        for hint in _HINT.finditer(match["hints"] or ""):
            for key in _KEY.finditer(hint["keys"]):
                name = f"{hint['name']}.{key['key']}"
                found[_OPTIONS.get(name, name)] = key["value"]
    return found
