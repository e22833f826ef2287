"""What can be said of a query without asking it: whether it can be read, and which others are the same but for constants."""

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
# enough to tell queries apart, and short enough to be a label of a metric
_HASH_DIGITS = 16


def syntax_report(sql: str) -> dict[str, Any]:
    """Return whether a text is a statement, of which sort, and what is wrong with it; tables are not looked up."""
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
    """Return a query with `?` for each constant, and a hash of that; options and white space do not count.

    Raises QueryError for what is no query.
    """
    parse_query(sql)
    body, _ = split_trailing_option(sql)
    text = _SPACES.sub(" ", _MARKS.sub("?", lift_literals(body).key)).strip().removesuffix(";").rstrip()
    return {"queryHash": hashlib.sha256(text.encode()).hexdigest()[:_HASH_DIGITS], "fingerprint": text}
