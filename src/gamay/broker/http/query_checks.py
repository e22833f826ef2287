"""Static checks of a query: its syntax, and its fingerprint."""

import hashlib
import re
from typing import Any

from gamay.base.errors import QueryError
from gamay.sql.insert import is_insert, parse_insert
from gamay.sql.options.options import split_trailing_option
from gamay.sql.parser import parse_query
from gamay.sql.text.slots import lift_literals

_MARKS = re.compile("\0[snl]")
_SPACES = re.compile(r"\s+")
# enough to tell queries apart, and short enough for a metric label
_HASH_DIGITS = 16


def syntax_report(sql: str) -> dict[str, Any]:
    """Return whether a text is a valid statement, its type, and the syntax error; tables are not looked up."""
    is_dml = is_insert(sql)
    try:
        if is_dml:
            parse_insert(sql)
        else:
            parse_query(sql)
    except QueryError as error:
        return {"valid": False, "sqlType": None, "errorMessage": error.client_message()}
    return {"valid": True, "sqlType": "DML" if is_dml else "DQL", "errorMessage": None}


def fingerprint(sql: str) -> dict[str, str]:
    """Return a query with `?` for each constant, and the hash of that; options and white space are ignored.

    Raises QueryError for an invalid query.
    """
    parse_query(sql)
    body, _ = split_trailing_option(sql)
    text = _SPACES.sub(" ", _MARKS.sub("?", lift_literals(body).key)).strip().removesuffix(";").rstrip()
    return {"queryHash": hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS], "fingerprint": text}
