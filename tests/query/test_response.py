"""The response document: its keys, their order, and how each type is written."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.answer.response import BrokerResponse, QueryStats, ResultTable, encode
from gamay.query.answer.values import json_values, python_values, timestamp_texts

KEYS = """
resultTable numRowsResultSet partialResult exceptions numGroupsLimitReached numGroupsWarningLimitReached
maxRowsInDistinctReached maxRowsWithoutChangeInDistinctReached maxExecutionTimeInDistinctReached timeUsedMs
requestId clientRequestId brokerId numDocsScanned totalDocs numEntriesScannedInFilter
numEntriesScannedPostFilter numServersQueried numServersResponded numSegmentsQueried numSegmentsProcessed
numSegmentsMatched numConsumingSegmentsQueried numConsumingSegmentsProcessed numConsumingSegmentsMatched
minConsumingFreshnessTimeMs numSegmentsPrunedByBroker numSegmentsPrunedByServer numSegmentsPrunedInvalid
numSegmentsPrunedByLimit numSegmentsPrunedByValue brokerReduceTimeMs offlineThreadCpuTimeNs
realtimeThreadCpuTimeNs offlineSystemActivitiesCpuTimeNs realtimeSystemActivitiesCpuTimeNs
offlineResponseSerializationCpuTimeNs realtimeResponseSerializationCpuTimeNs offlineTotalCpuTimeNs
realtimeTotalCpuTimeNs explainPlanNumEmptyFilterSegments explainPlanNumMatchAllFilterSegments traceInfo
tablesQueried offlineThreadMemAllocatedBytes offlineResponseSerMemAllocatedBytes offlineTotalMemAllocatedBytes
realtimeThreadMemAllocatedBytes realtimeResponseSerMemAllocatedBytes realtimeTotalMemAllocatedBytes pools
rlsFiltersApplied groupsTrimmed mseLiteLeafStageLimitReached
"""

TABLE = ResultTable(
    ("n", "n"), ("INT", "STRING"), (Vector(DataType.INT, np.array([1], np.int32)), Vector(DataType.STRING, pa.array(["ü"])))
)


def test_all_keys_are_there_in_order() -> None:
    document = json.loads(encode(BrokerResponse(TABLE, request_id="7", tables_queried=("t",))))
    assert list(document) == KEYS.split()
    assert document["resultTable"] == {
        "dataSchema": {"columnNames": ["n", "n"], "columnDataTypes": ["INT", "STRING"]},
        "rows": [[1, "ü"]],
    }
    assert (document["numRowsResultSet"], document["partialResult"], document["exceptions"]) == (1, False, [])
    assert document["tablesQueried"] == ["t"]


def test_errors_have_every_key_but_the_table() -> None:
    response = BrokerResponse.of_error(QueryError(ErrorCode.UNKNOWN_COLUMN, "Unknown columnName 'x' found in the query"))
    document = json.loads(encode(response))
    assert list(document) == KEYS.split()[1:]
    assert document["partialResult"] is True
    assert document["exceptions"] == [
        {"errorCode": 710, "message": "UnknownColumnError: Unknown columnName 'x' found in the query"}
    ]


def text(vector: Vector) -> str:
    """Return a column as the JSON of its rows."""
    return (
        encode(BrokerResponse(ResultTable(("c",), ("?",), (vector,))))
        .decode()
        .split('"rows":')[1]
        .split(',"numRows')[0][:-1]
    )


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        (Vector(DataType.LONG, np.array([2**63 - 1, -(2**63)])), "[[9223372036854775807],[-9223372036854775808]]"),
        (Vector(DataType.DOUBLE, np.array([1.0, 1e10, 0.1, -0.0])), "[[1.0],[10000000000.0],[0.1],[-0.0]]"),
        (Vector(DataType.DOUBLE, np.array([np.nan, np.inf, -np.inf])), '[["NaN"],["Infinity"],["-Infinity"]]'),
        (Vector(DataType.FLOAT, np.array([1.1, 16777216, np.inf], np.float32)), '[[1.1],[16777216.0],["Infinity"]]'),
        (Vector(DataType.BOOLEAN, np.array([True, False])), "[[true],[false]]"),
        (Vector(DataType.BIG_DECIMAL, np.array([Decimal("1.50"), Decimal("1E+3")], object)), '[["1.50"],["1000"]]'),
        (Vector(DataType.BYTES, pa.array([b"\xff\x00", b""])), '[["ff00"],[""]]'),
        (Vector(DataType.UUID, pa.array([uuid.UUID(int=5).bytes])), '[["00000000-0000-0000-0000-000000000005"]]'),
        (Vector(DataType.JSON, pa.array(['{"a":1}'])), '[["{\\"a\\":1}"]]'),
        (
            Vector(DataType.TIMESTAMP, np.array([0, 1_640_995_200_120])),
            '[["1970-01-01 00:00:00.0"],["2022-01-01 00:00:00.12"]]',
        ),
        (Vector(DataType.INT, np.array([1, 2, 3], np.int32), np.array([0, 2, 2, 3])), "[[[1,2]],[[]],[[3]]]"),
        (Vector(DataType.INT, np.array([1, 0], np.int32), nulls=np.array([False, True])), "[[1],[null]]"),
        (Vector(DataType.UNKNOWN, np.array([None], object), nulls=np.array([True])), "[[null]]"),
    ],
)
def test_values_are_written_as_clients_expect(vector: Vector, expected: str) -> None:
    assert text(vector) == expected


@given(st.lists(st.integers(-62_135_596_800_000, 253_402_300_799_999), max_size=5))
def test_timestamps_read_back(moments: list[int]) -> None:
    for text_, ms in zip(timestamp_texts(np.array(moments, np.int64)), moments, strict=True):
        moment = datetime.fromisoformat(text_).replace(tzinfo=UTC)
        assert round((moment - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1000) == ms
        assert text_[-1] != "0" or text_.endswith(".0")


def test_timestamps_beyond_the_calendar_are_written_too() -> None:
    assert timestamp_texts(np.array([253_402_300_800_000, -(2**63), 2**63 - 1]))[0] == "10000-01-01 00:00:00.0"
    assert timestamp_texts(np.array([-62_135_596_800_001]))[0] == "0000-12-31 23:59:59.999"


@pytest.mark.parametrize("beyond", [[], [253_402_300_800_000, -62_135_596_800_001]])
def test_timestamps_are_datetimes_as_far_as_these_reach(beyond: list[int]) -> None:
    moments = [-62_135_596_800_000, -1001, -1, 0, 1, 1_700_000_000_123, 253_402_300_799_999, *range(10, 30)]
    found = python_values(Vector(DataType.TIMESTAMP, np.array(moments + beyond)))
    assert found == [datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms) for ms in moments] + beyond
    assert python_values(Vector(DataType.TIMESTAMP, np.array([], np.int64))) == []


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=5))
def test_floats_read_back_as_the_same_float(values: list[float]) -> None:
    written = json_values(Vector(DataType.FLOAT, np.array(values, np.float32)))
    assert [np.float32(value) for value in written] == [np.float32(value) for value in values]


def test_python_rows_and_arrow_keep_types() -> None:
    table = ResultTable(
        ("at", "id", "x", "l"),
        ("TIMESTAMP", "UUID", "BIG_DECIMAL", "STRING_ARRAY"),
        (
            Vector(DataType.TIMESTAMP, np.array([1000])),
            Vector(DataType.UUID, pa.array([uuid.UUID(int=5).bytes])),
            Vector(DataType.BIG_DECIMAL, np.array([Decimal("1.50")], object)),
            Vector(DataType.STRING, pa.array(["a", "b"]), np.array([0, 2])),
        ),
    )
    assert table.rows() == [(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), uuid.UUID(int=5), Decimal("1.50"), ["a", "b"])]
    arrow: Any = table.to_arrow()
    assert [str(kind) for kind in arrow.schema.types] == ["timestamp[ms]", "binary", "string", "list<item: string>"]
    assert arrow.num_rows == 1


def test_stats_add_up() -> None:
    stats = QueryStats(num_docs_scanned=3, min_consuming_freshness_time_ms=9)
    stats.add(QueryStats(num_docs_scanned=4, min_consuming_freshness_time_ms=5, num_groups_limit_reached=True))
    stats.add(QueryStats())
    assert (stats.num_docs_scanned, stats.min_consuming_freshness_time_ms, stats.num_groups_limit_reached) == (7, 5, True)
