"""The answer to a query: a columnar result table, and the JSON document that clients read.

Keys are always present and in a fixed order, except for `resultTable` and `warnings`, which are omitted when empty.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from gamay.base import guard
from gamay.base.errors import QueryError
from gamay.functions.arrow import arrow_type
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.answer.values import json_values, python_values
from gamay.query.stats import QueryStats

__all__ = ["BrokerResponse", "QueryStats", "ResultTable", "encode", "wire_type"]


# larger results are encoded in parts; this many values take about 4 MB as Python objects
LONG_VALUES = 1 << 16
# bytes of a value as a Python object in a list
OBJECT_BYTES = 64
_TEXT = "text of the answer"


def wire_type(data_type: DataType, multi_value: bool) -> str:
    """Return the wire name of a result type: `INT`, `STRING_ARRAY`, …"""
    return f"{data_type.value}_ARRAY" if multi_value else data_type.value


@dataclass(slots=True, eq=False)  # not frozen: small queries create several, and freezing would take five times as long
class ResultTable:
    """Columnar result rows: `types` are wire names; all columns have the same length."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    columns: tuple[Vector, ...]

    @property
    def num_rows(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    def first(self, num_rows: int) -> "ResultTable":
        """Return the first `num_rows` rows."""
        return ResultTable(self.names, self.types, tuple(_slice(column, 0, num_rows) for column in self.columns))

    def rows(self) -> list[tuple[Any, ...]]:
        """Return the rows as Python values: int, float, str, bool, bytes, Decimal, datetime (UTC), uuid.UUID, list, None."""
        return list(zip(*[python_values(column) for column in self.columns], strict=True))

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table; duplicate names are kept."""
        arrays = [arrow_array(column) for column in self.columns]
        return pa.Table.from_arrays(arrays, names=list(self.names))


@dataclass(slots=True, eq=False)
class EncodedTable:
    """Rows that another process has already encoded as JSON. text: a list of all rows."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    num_rows: int
    text: bytes


def arrow_array(column: Vector) -> pa.Array:
    """Return a column as an Arrow array, of the type in `gamay.functions.arrow`."""
    mask = column.nulls
    if column.type in (DataType.UNKNOWN, DataType.OBJECT):
        return pa.nulls(len(column)) if column.type is DataType.UNKNOWN else pa.array(column.values)
    element = arrow_type(column.type)
    values = column.values
    if column.type is DataType.BIG_DECIMAL:
        values = pa.array([format(value, "f") for value in values], pa.string())
    elif column.type is DataType.TIMESTAMP:
        values = pa.array(values, pa.int64()).cast(element)
    elif isinstance(values, np.ndarray):
        values = pa.array(values, element)
    if column.offsets is not None:
        offsets = pa.array(column.offsets.astype(np.int32, copy=False), pa.int32())
        return pa.ListArray.from_arrays(offsets, values, mask=None if mask is None else pa.array(mask))
    if mask is not None and mask.any():
        return pa.compute.if_else(pa.array(~mask), values, pa.scalar(None, values.type))
    return values


@dataclass(slots=True)
class BrokerResponse:
    """The response to one query. `exceptions` has (code, message) pairs; `table` is None without a result.

    encoded: instead of `table`, if only the client reads the rows. rls_filters_applied: whether row-level security hides
    rows from the sender. warnings: about the query, such as options without effect. has_more: whether a query without LIMIT
    has more rows, see `QueryRunner.looks_ahead`. stage_stats: statistics of the stages of a relational query, else None.
    peak_rows: of the operators of such a query.
    """

    table: ResultTable | None = None
    encoded: EncodedTable | None = None
    exceptions: list[tuple[int, str]] = field(default_factory=list)
    stats: QueryStats = field(default_factory=QueryStats)
    time_used_ms: int = 0
    request_id: str = ""
    client_request_id: str | None = None
    broker_id: str = ""
    reduce_time_ms: int = 0
    tables_queried: Sequence[str] = ()
    trace_info: dict[str, str] = field(default_factory=dict)
    rls_filters_applied: bool = False
    warnings: Sequence[str] = ()
    has_more: bool = False
    stage_stats: Mapping[str, Any] | None = None
    peak_rows: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of_error(cls, error: QueryError) -> "BrokerResponse":
        """Return the response to a failed query."""
        return cls(exceptions=[(error.code.code, error.client_message())])

    def cut(self, num_rows: int) -> None:
        """Truncate the rows, and record whether any were removed."""
        if self.table is not None and self.table.num_rows > num_rows:
            self.table, self.has_more = self.table.first(num_rows), True

    @property
    def is_long(self) -> bool:
        """Whether encoding the values takes considerable time and memory."""
        return self.table is not None and is_long(self.table.columns)

    @property
    def is_partial(self) -> bool:
        """Whether the answer is incomplete: because of an error, or a limit on groups or distinct rows."""
        stats = self.stats
        return bool(
            self.exceptions
            or stats.num_groups_limit_reached
            or stats.max_rows_in_join_reached
            or stats.max_rows_in_distinct_reached
            or stats.max_rows_without_change_in_distinct_reached
            or stats.max_execution_time_in_distinct_reached
        )


def _rows(columns: Iterable[Vector]) -> Iterator[tuple[Any, ...]]:
    return zip(*(json_values(column) for column in columns), strict=True)


def is_long(columns: Iterable[Vector]) -> bool:
    """Whether encoding the values takes considerable time and memory."""
    num_values = 0
    for column in columns:
        num_values += len(column.values)
    return num_values > LONG_VALUES


def encode_rows(columns: Iterable[Vector]) -> bytes:
    """Encode rows in the JSON format of responses."""
    return orjson.dumps(list(_rows(columns)), option=orjson.OPT_PASSTHROUGH_DATETIME)


def data_schema(table: ResultTable | EncodedTable) -> dict[str, Any]:
    """Return the names and types of columns in the JSON format of responses."""
    return {"columnNames": table.names, "columnDataTypes": table.types}


def _result_table(table: ResultTable | EncodedTable) -> dict[str, Any]:
    return {
        "dataSchema": data_schema(table),
        "rows": orjson.Fragment(table.text) if isinstance(table, EncodedTable) else list(_rows(table.columns)),
    }


def _of_stages(response: BrokerResponse) -> dict[str, Any]:
    """Return the additional fields of responses to relational queries."""
    stats, peak = response.stats, response.peak_rows
    reasons = {
        "DISTINCT_MAX_ROWS": stats.max_rows_in_distinct_reached,
        "DISTINCT_MAX_ROWS_WITHOUT_CHANGE": stats.max_rows_without_change_in_distinct_reached,
        "DISTINCT_MAX_EXECUTION_TIME": stats.max_execution_time_in_distinct_reached,
    }
    reached = [reason for reason, is_reached in reasons.items() if is_reached]
    return {
        "numGroups": peak.get("numGroups", 0),
        **({"earlyTerminationReasons": reached} if reached else {}),
        "maxRowsInJoinReached": stats.max_rows_in_join_reached,
        "maxRowsInJoin": peak.get("maxRowsInJoin", 0),
        "maxRowsInWindowReached": stats.max_rows_in_window_reached,
        "maxRowsInWindow": peak.get("maxRowsInWindow", 0),
        "maxRowsInOperator": peak.get("maxRowsInOperator", 0),
        "stageStats": dict(response.stage_stats or {}),
    }


def to_json(response: BrokerResponse) -> dict[str, Any]:
    """Return the response as a dictionary for orjson, with keys in wire order."""
    stats = response.stats
    table = response.table or response.encoded
    offline_ns, realtime_ns = stats.offline_thread_cpu_time_ns, stats.realtime_thread_cpu_time_ns
    document = {
        "resultTable": None if table is None else _result_table(table),
        "numRowsResultSet": 0 if table is None else table.num_rows,
        "partialResult": response.is_partial,
        "exceptions": [{"errorCode": code, "message": message} for code, message in response.exceptions],
        "numGroupsLimitReached": stats.num_groups_limit_reached,
        "numGroupsWarningLimitReached": stats.num_groups_warning_limit_reached,
        "maxRowsInDistinctReached": stats.max_rows_in_distinct_reached,
        "maxRowsWithoutChangeInDistinctReached": stats.max_rows_without_change_in_distinct_reached,
        "maxExecutionTimeInDistinctReached": stats.max_execution_time_in_distinct_reached,
        "timeUsedMs": response.time_used_ms,
        "requestId": response.request_id,
        "clientRequestId": response.client_request_id,
        "brokerId": response.broker_id,
        "numDocsScanned": stats.num_docs_scanned,
        "totalDocs": stats.total_docs,
        "numEntriesScannedInFilter": stats.num_entries_scanned_in_filter,
        "numEntriesScannedPostFilter": stats.num_entries_scanned_post_filter,
        "numServersQueried": stats.num_servers_queried,
        "numServersResponded": stats.num_servers_responded,
        "numSegmentsQueried": stats.num_segments_queried,
        "numSegmentsProcessed": stats.num_segments_processed,
        "numSegmentsMatched": stats.num_segments_matched,
        "numConsumingSegmentsQueried": stats.num_consuming_segments_queried,
        "numConsumingSegmentsProcessed": stats.num_consuming_segments_processed,
        "numConsumingSegmentsMatched": stats.num_consuming_segments_matched,
        "minConsumingFreshnessTimeMs": stats.min_consuming_freshness_time_ms,
        "numSegmentsPrunedByBroker": stats.num_segments_pruned_by_broker,
        "numSegmentsPrunedByServer": stats.num_segments_pruned_by_server,
        "numSegmentsPrunedInvalid": stats.num_segments_pruned_invalid,
        "numSegmentsPrunedByLimit": stats.num_segments_pruned_by_limit,
        "numSegmentsPrunedByValue": stats.num_segments_pruned_by_value,
        "brokerReduceTimeMs": response.reduce_time_ms,
        "offlineThreadCpuTimeNs": offline_ns,
        "realtimeThreadCpuTimeNs": realtime_ns,
        "offlineSystemActivitiesCpuTimeNs": 0,
        "realtimeSystemActivitiesCpuTimeNs": 0,
        "offlineResponseSerializationCpuTimeNs": 0,
        "realtimeResponseSerializationCpuTimeNs": 0,
        "offlineTotalCpuTimeNs": offline_ns,
        "realtimeTotalCpuTimeNs": realtime_ns,
        "explainPlanNumEmptyFilterSegments": stats.explain_plan_num_empty_filter_segments,
        "explainPlanNumMatchAllFilterSegments": stats.explain_plan_num_match_all_filter_segments,
        "traceInfo": response.trace_info,
        "tablesQueried": list(response.tables_queried),
        "offlineThreadMemAllocatedBytes": 0,
        "offlineResponseSerMemAllocatedBytes": 0,
        "offlineTotalMemAllocatedBytes": 0,
        "realtimeThreadMemAllocatedBytes": 0,
        "realtimeResponseSerMemAllocatedBytes": 0,
        "realtimeTotalMemAllocatedBytes": 0,
        "pools": [],
        "rlsFiltersApplied": response.rls_filters_applied,
        "groupsTrimmed": stats.groups_trimmed,
        "mseLiteLeafStageLimitReached": False,
    }
    if response.stage_stats is not None:
        document |= _of_stages(response)
    if table is None:
        del document["resultTable"]
    if response.warnings:
        document["warnings"] = list(response.warnings)
    return document


def encode(response: BrokerResponse) -> bytes:
    """Return the JSON document of a response."""
    if response.table is not None and response.is_long:
        return _encode_long(response, response.table)
    return encode_short(response)


def encode_short(response: BrokerResponse) -> bytes:
    """Return the JSON document of a short response."""
    return orjson.dumps(to_json(response), option=orjson.OPT_PASSTHROUGH_DATETIME)


def _encode_long(response: BrokerResponse, table: ResultTable) -> bytes:
    """Encode rows in batches: as Python objects, all values would take ten times the memory of the columns."""
    holder = guard.holder(_TEXT)
    rest = orjson.dumps(to_json(replace(response, table=None)) | {"numRowsResultSet": table.num_rows})
    pieces = [b'{"resultTable":{"dataSchema":', orjson.dumps(data_schema(table)), b',"rows":[']
    size = 0
    num_values = sum(len(column.values) for column in table.columns)
    for text in row_blocks(table, max(1, table.num_rows * LONG_VALUES // num_values)):
        if size:
            pieces.append(b",")
        pieces.append(text)
        size += len(text)
        holder.hold(size)
    guard.reserve(_TEXT, size)  # the pieces and the joined text
    return b"".join([*pieces, b"]},", rest[1:]])


def row_blocks(table: ResultTable, step: int) -> Iterator[bytes]:
    """Yield the rows as JSON in batches of `step`, separated by commas and without enclosing brackets."""
    for start in range(0, table.num_rows, step):
        guard.check()
        part = [_slice(column, start, start + step) for column in table.columns]
        values = sum(len(column.values) for column in part)
        if values > LONG_VALUES:
            guard.reserve(_TEXT, values * OBJECT_BYTES)
        yield orjson.dumps(list(_rows(part)), option=orjson.OPT_PASSTHROUGH_DATETIME)[1:-1]


def _slice(column: Vector, start: int, stop: int) -> Vector:
    nulls = None if column.nulls is None else column.nulls[start:stop]
    if column.offsets is None:
        return Vector(column.type, column.values[start:stop], None, nulls)
    offsets = column.offsets[start : stop + 1]
    first, last = int(offsets[0]), int(offsets[-1])
    return Vector(column.type, column.values[first:last], offsets - offsets.dtype.type(first), nulls)
