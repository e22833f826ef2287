"""Query options that come with a request, in addition to those in the SQL."""

import logging
from collections.abc import Container, Mapping, Sequence
from typing import Any

from gamay.base.errors import ErrorCode, InvalidConfigError, QueryError, nearest
from gamay.model.schema.schema import Schema
from gamay.sql.options.option_values import NO_EFFECT, NULLS_ON, SKIP_INDEXES, skipped_indexes, unknown_options
from gamay.sql.options.options import parse_query_options

_log = logging.getLogger(__name__)
DEFAULT_TIMEOUT_MS = 10_000


def keyword_options(options: Mapping[str, Any], *, null_handling: bool) -> Mapping[str, str]:
    """Return the options of an embedded query, given as Python values. null_handling: the default of that option.

    Raises InvalidConfigError for an unknown option: keywords are case-sensitive.
    """
    default = NULLS_ON if null_handling else {}
    if not options:
        return default
    if unknown := unknown_options(options):
        raise InvalidConfigError(f"there is no query option {unknown[0]}")
    return {**default, **{name: str(value) for name, value in options.items()}}


def request_options(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a request's JSON body: `queryOptions`, then `trace`. Raises QueryError 150."""
    text = body.get("queryOptions") or ""
    if not isinstance(text, str):
        raise QueryError(ErrorCode.SQL_PARSING, "Invalid queryOptions: it must be a string like 'k=v;k2=v2'")
    options = parse_query_options(text)
    if str(body.get("trace", "false")).lower() == "true":
        options.setdefault("trace", "true")
    return options


def without_limit(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body of a query sent to /query, Pinot's multi-stage endpoint: without LIMIT it returns all rows."""
    options = body.get("queryOptions") or ""
    if not isinstance(options, str) or any(
        part.partition("=")[0].strip().lower() == "usemultistageengine" for part in options.split(";")
    ):
        return body
    return {**body, "queryOptions": f"{options};useMultistageEngine=true"}


def option_warnings(mode: str, options: Mapping[str, str], sent: Container[str]) -> tuple[str, ...]:
    """Return a warning for each option of a query that has no effect or is unknown.

    mode: NONE; WARN, which also logs them; or REJECT, which raises QueryError 150 for unknown options in the query's text.
    sent: the options that came beside the text.
    """
    unknown = unknown_options(name for name in options if name not in sent)
    if unknown and mode == "REJECT":
        raise QueryError(ErrorCode.SQL_PARSING, f"Unknown query option {' '.join(unknown)}")
    warnings = [f"The query option '{name}' has no effect" for name in sorted(NO_EFFECT.intersection(options))]
    warnings += [f"Unknown query option {name}" for name in unknown_options(options)]
    if mode == "WARN":
        for sentence in warnings:
            _log.warning("%s", sentence)
    return tuple(warnings)


def skipping_warnings(options: Mapping[str, str], table: str, schemas: Sequence[Schema]) -> list[str]:
    """Return a sentence for each column in `skipIndexes` that a table does not have.

    schemas: those of the table's halves. Names that begin with $ are exempt: indexes derive such columns.
    """
    known = {name for schema in schemas for name in schema.column_names}
    return [
        f"The query option '{SKIP_INDEXES}' names '{column}', which is not a column of {table}.{nearest(column, known)}"
        for column in skipped_indexes(options)
        if column not in known and not column.startswith("$")
    ]


def timeout_ms(options: Mapping[str, str], table_timeout_ms: int | None) -> int:
    """Return the timeout of a query: its option, else the table's limit, else 10 s. Raises QueryError 150."""
    text = options.get("timeoutMs")
    if text is None:
        return table_timeout_ms or DEFAULT_TIMEOUT_MS
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value <= 0:
        raise QueryError(
            ErrorCode.SQL_PARSING, f"Invalid query option timeoutMs='{text}': it must be a positive whole number"
        )
    return value
