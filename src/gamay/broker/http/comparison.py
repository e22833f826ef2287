"""`/query/compare`: a query with the semantics of Pinot's single-stage and of its multi-stage engine.

Gamay has one engine, so the answers differ only in what `useMultistageEngine` changes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gamay.base.errors import InvalidConfigError

_OPTION = "useMultistageEngine"


def compared_bodies(body: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split a request to compare into its two queries. Raises InvalidConfigError."""
    pair = [body.get("sql")] * 2 if "sql" in body else [body.get("sqlV1"), body.get("sqlV2")]
    if not all(isinstance(sql, str) for sql in pair):
        raise InvalidConfigError("Payload is missing the query string field 'sql' or 'sqlV1' and 'sqlV2'")
    options = body.get("queryOptions") or ""
    if not isinstance(options, str):
        raise InvalidConfigError("Invalid queryOptions: it must be a string like 'k=v;k2=v2'")
    parts = [part for part in options.split(";") if part.partition("=")[0].strip().lower() != _OPTION.lower()]
    single, multi = (
        {**body, "sql": sql, "queryOptions": ";".join([*parts, f"{_OPTION}={value}"])}
        for sql, value in zip(pair, ("false", "true"), strict=True)
    )
    return single, multi


def comparison(single: bytes, multi: bytes) -> dict[str, Any]:
    """Return both responses, and a list of their differences."""
    return {
        "v1Response": orjson.Fragment(single),
        "v2Response": orjson.Fragment(multi),
        "comparisonAnalysis": _differences(orjson.loads(single), orjson.loads(multi)),
    }


def _differences(single: Mapping[str, Any], multi: Mapping[str, Any]) -> list[str]:
    if not all("exceptions" in each for each in (single, multi)):
        return ["A query was rejected"]
    if failed := [name for name, each in (("v1", single), ("v2", multi)) if each["exceptions"]]:
        return [f"The query failed in {' and '.join(failed)}"]
    tables: list[Any] = [each.get("resultTable") for each in (single, multi)]
    if None in tables:
        return [] if tables[0] == tables[1] else ["One of the answers has no resultTable"]
    schemas, rows = [table["dataSchema"] for table in tables], [table["rows"] for table in tables]
    found = [
        f"The {what} differ: {_shown(schemas[0][key])} in v1, {_shown(schemas[1][key])} in v2"
        for what, key in (("names of columns", "columnNames"), ("types of columns", "columnDataTypes"))
        if schemas[0][key] != schemas[1][key]
    ]
    if len(rows[0]) != len(rows[1]):
        found.append(f"The numbers of rows differ: {len(rows[0])} in v1, {len(rows[1])} in v2")
    elif rows[0] != rows[1]:
        is_order = sorted(map(orjson.dumps, rows[0])) == sorted(map(orjson.dumps, rows[1]))
        found.append("The rows are the same in another order" if is_order else "The rows differ")
    return found


def _shown(values: Sequence[str]) -> str:
    return f"[{', '.join(values)}]"
