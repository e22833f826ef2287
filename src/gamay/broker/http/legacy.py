"""Answers to PQL: requests with `pql`, and the three shapes of their responses.

    aggregation   {"aggregationResults": [{"function": "count_star", "value": "17"}], …}
    group by      {"aggregationResults": [
                      {"groupByResult": [{"value": "10", "group": ["AA"]}, …], "function": …, "groupByColumns": ["Carrier"]}
                  ], …}
    selection     {"selectionResults": {"columns": […], "results": [[…]]}, "aggregationResults": [], …}

The fields of the first releases come first, in their order, followed by those of later releases.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from gamay.base import guard
from gamay.base.errors import ErrorCode, QueryError
from gamay.broker.answer.options import request_options
from gamay.broker.answer.pending import PendingQuery
from gamay.broker.answer.runner import QueryRunner
from gamay.broker.http.legacy_format import aggregate_texts, group_texts, selection_texts
from gamay.cluster.access.principals import ANYONE, Principal
from gamay.functions.vector import Vector
from gamay.query.answer.response import OBJECT_BYTES, BrokerResponse, ResultTable, encode
from gamay.query.answer.values import json_values
from gamay.query.columns.operations import take_rows
from gamay.query.columns.order import sort_array, top_rows
from gamay.sql.options.option_values import flag
from gamay.sql.options.options import parse_query_options
from gamay.sql.options.row_limits import RowLimits
from gamay.sql.pql.parser import PqlKind, PqlQuery, parse_pql
from gamay.sql.query import Query

_HTTP_STATUSES = {code.code: code.http_status for code in ErrorCode}

__all__ = ["begin_pql", "pql_text", "to_legacy_json"]


def pql_text(body: Mapping[str, Any]) -> str | None:
    """Return the PQL of a request: `pql` of a body, `pql` or `bql` of a URL; None without one."""
    text = body.get("pql", body.get("bql"))
    return text if isinstance(text, str) else None


@dataclass(frozen=True, slots=True)
class BegunPql:
    """A compiled and routed PQL query. parsed: None if parsing failed."""

    runner: QueryRunner
    pending: PendingQuery
    parsed: PqlQuery | None

    def finish(self) -> tuple[int, int, bytes]:
        """Answer the query; return (first error code or -1, HTTP status for it, response JSON)."""
        response = self.runner.finish(self.pending)
        if response.is_long:
            response, content = self.runner.render(self.pending, response, self._to_bytes)
        else:
            content = self._to_bytes(response)
        code = response.exceptions[0][0] if response.exceptions else -1
        return code, _HTTP_STATUSES.get(code, 500) if response.exceptions else 200, content

    def _to_bytes(self, shown: BrokerResponse) -> bytes:
        if self.parsed is not None and self.parsed.is_sql_shaped:
            return encode(shown)
        if shown.table is not None and shown.is_long:
            guard.reserve("text of the answer", sum(len(column.values) for column in shown.table.columns) * OBJECT_BYTES)
        return orjson.dumps(to_legacy_json(shown, self.parsed))


def begin_pql(
    runner: QueryRunner, pql: str, body: Mapping[str, Any], database: str | None, principal: Principal = ANYONE
) -> BegunPql:
    """Compile a principal's PQL. Raises QueryError for invalid options.

    The answer has PQL's shape, unless the option `responseFormat=sql` asks for SQL's.

    body: the request, of which `queryOptions`, `debugOptions` and `trace` are read.
    """
    parsed: list[PqlQuery] = []

    def parse(text: str, options: Mapping[str, str], limits: RowLimits) -> Query:
        parsed.append(parse_pql(text, options, limits))
        return parsed[0].query

    pending = runner.begin(pql, _options(body), database, parse, principal)
    return BegunPql(runner, pending, parsed[0] if parsed else None)


def refused_pql(runner: QueryRunner, error: QueryError) -> bytes:
    """Return the response to PQL that is rejected unread."""
    return orjson.dumps(to_legacy_json(runner.refused(error), None))


def _options(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of a request; the others override `debugOptions`."""
    debug = body.get("debugOptions")
    known = parse_query_options(debug) if isinstance(debug, str) else {}
    return {**known, **request_options(body)}


def to_legacy_json(response: BrokerResponse, pql: PqlQuery | None) -> dict[str, Any]:
    """Return the response as a JSON-ready dictionary; `pql` is None when the query could not be parsed."""
    results: dict[str, Any] = {}
    selection: dict[str, Any] = {}
    if pql is not None and response.table is not None:
        native = flag(pql.query.options, "preserveType")
        if pql.kind is PqlKind.SELECTION:
            selection = {"selectionResults": _selection(response.table, native)}
            results = {"aggregationResults": []}
        elif pql.kind is PqlKind.AGGREGATION:
            results = {"aggregationResults": _aggregation(response.table, pql, native)}
        else:
            results = {"aggregationResults": _groups(response.table, pql, native)}
    stats = response.stats
    return {
        **selection,
        "traceInfo": response.trace_info,
        "numDocsScanned": stats.num_docs_scanned,
        **results,
        "timeUsedMs": response.time_used_ms,
        "segmentStatistics": [],
        "exceptions": [{"errorCode": code, "message": message} for code, message in response.exceptions],
        "totalDocs": stats.total_docs,
        "numServersQueried": stats.num_servers_queried,
        "numServersResponded": stats.num_servers_responded,
        "numSegmentsQueried": stats.num_segments_queried,
        "numSegmentsProcessed": stats.num_segments_processed,
        "numSegmentsMatched": stats.num_segments_matched,
        "numEntriesScannedInFilter": stats.num_entries_scanned_in_filter,
        "numEntriesScannedPostFilter": stats.num_entries_scanned_post_filter,
        "numGroupsLimitReached": stats.num_groups_limit_reached,
        **({"warnings": list(response.warnings)} if response.warnings else {}),
    }


def _selection(table: ResultTable, native: bool) -> dict[str, Any]:
    columns = [json_values(column) if native else selection_texts(column) for column in table.columns]
    return {"columns": list(table.names), "results": list(zip(*columns, strict=True))}


def _aggregation(table: ResultTable, pql: PqlQuery, native: bool) -> list[dict[str, Any]]:
    results = zip(pql.functions, table.columns, strict=True)
    return [{"function": function, "value": _aggregates(column, native)[0]} for function, column in results]


def _groups(table: ResultTable, pql: PqlQuery, native: bool) -> list[dict[str, Any]]:
    """Return a list of groups for each aggregate, in descending order of its values, limited to TOP."""
    keys = table.columns[: len(pql.group_columns)]
    results = []
    for function, values in zip(pql.functions, table.columns[len(keys) :], strict=True):
        if pql.one_order:
            rows = np.arange(min(pql.top, len(values)))
        else:
            rows = top_rows([sort_array(values, descending=True, nulls_last=True)], pql.top)
        shown = _aggregates(take_rows(values, rows), native)
        groups = zip(*(group_texts(take_rows(key, rows)) for key in keys), strict=True)
        listed = [{"value": value, "group": group} for value, group in zip(shown, groups, strict=True)]
        results.append({"groupByResult": listed, "function": function, "groupByColumns": list(pql.group_columns)})
    return results


def _aggregates(column: Vector, native: bool) -> list[Any]:
    return json_values(column) if native else aggregate_texts(column)
