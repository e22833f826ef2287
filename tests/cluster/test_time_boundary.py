"""The time boundary between the halves of a hybrid table."""

from dataclasses import replace
from typing import Any

import pytest

from gamay.cluster.records.time_boundary import boundary_of, fixed_boundary_ms
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig

DAY = 86_400_000
HOUR = 3_600_000


def schema_of(data_type: str, fmt: str) -> Schema:
    spec = {"name": "ts", "dataType": data_type, "format": fmt, "granularity": "1:MILLISECONDS"}
    return Schema.from_json({"schemaName": "t", "dateTimeFieldSpecs": [spec]}).value


def config_of(**segments: Any) -> TableConfig:
    document = TableConfig.offline("t").to_json()
    document["segmentsConfig"] = {"timeColumnName": "ts", "replication": "1", **segments}
    return TableConfig.from_json(document).value


@pytest.mark.parametrize(
    ("data_type", "fmt", "frequency", "ends_ms", "value"),
    [
        ("LONG", "1:MILLISECONDS:EPOCH", None, [5 * DAY + 7, 9 * DAY + 3], 8 * DAY + 3),
        ("LONG", "1:MILLISECONDS:EPOCH", "DAILY", [9 * DAY], 8 * DAY),
        ("LONG", "1:MILLISECONDS:EPOCH", "hourly", [9 * DAY], 9 * DAY - HOUR),
        ("LONG", "1:MILLISECONDS:EPOCH", "HOURLY", [9 * DAY, -1], 9 * DAY - HOUR),
        ("INT", "1:DAYS:EPOCH", "HOURLY", [9 * DAY], 8),  # a day at least, where the column counts days
        ("INT", "1:DAYS:EPOCH", None, [9 * DAY + 5], 8),
        ("INT", "5:MINUTES:EPOCH", "HOURLY", [DAY + HOUR], 288),
        ("LONG", "1:HOURS:EPOCH", "HOURLY", [9 * DAY + 17], 9 * 24 - 1),
        ("STRING", "1:DAYS:SIMPLE_DATE_FORMAT:yyyy-MM-dd", None, [9 * DAY], "1970-01-09"),
        ("INT", "1:DAYS:SIMPLE_DATE_FORMAT:yyyyMMdd", None, [9 * DAY], 19700109),
        ("TIMESTAMP", "TIMESTAMP", None, [9 * DAY + 1], 8 * DAY + 1),
    ],
)
def test_boundary(data_type: str, fmt: str, frequency: str | None, ends_ms: list[int], value: Any) -> None:
    config = config_of() if frequency is None else config_of(segmentPushFrequency=frequency)
    boundary = boundary_of(schema_of(data_type, fmt), config, ends_ms)
    assert boundary is not None
    assert boundary.value == value
    assert boundary.column == "ts"


def test_the_newer_key_of_the_frequency_wins() -> None:
    document = config_of(segmentPushFrequency="daily").to_json()
    document["ingestionConfig"] = {"batchIngestionConfig": {"segmentIngestionFrequency": "HOURLY"}}
    config = TableConfig.from_json(document).value
    boundary = boundary_of(schema_of("LONG", "1:MILLISECONDS:EPOCH"), config, [DAY])
    assert boundary is not None
    assert boundary.value == DAY - HOUR


def test_no_boundary() -> None:
    schema = schema_of("LONG", "1:MILLISECONDS:EPOCH")
    assert boundary_of(schema, config_of(), []) is None
    assert boundary_of(schema, config_of(), [-1, -1]) is None
    assert boundary_of(schema, TableConfig.offline("t"), [DAY]) is None


def test_a_boundary_that_is_fixed() -> None:
    schema = schema_of("LONG", "1:MILLISECONDS:EPOCH")
    fixed = boundary_of(schema, config_of(), [9 * DAY], fixed_boundary_ms({"HYBRID_TABLE_TIME_BOUNDARY": "12345"}))
    assert fixed is not None
    assert fixed.value == 12345
    assert fixed.difference_ms == 9 * DAY - 12345
    assert boundary_of(schema, config_of(), [], 12345) == replace(fixed, difference_ms=None)
    assert fixed_boundary_ms({}) == fixed_boundary_ms({"HYBRID_TABLE_TIME_BOUNDARY": "x"}) == 0


def test_a_boundary_parts_no_period_to_which_times_were_rounded() -> None:
    schema, end = schema_of("LONG", "1:MILLISECONDS:EPOCH"), 9 * DAY + 5 * HOUR + 7

    def value(*rounded: tuple[int, int]) -> int:
        boundary = boundary_of(schema, config_of(), [end], 0, rounded)
        assert boundary is not None
        return int(boundary.value)

    assert value() == end - DAY
    assert value((end, HOUR)) == 8 * DAY + 5 * HOUR - 1
    assert value((end, HOUR), (end, 2 * HOUR)) == 8 * DAY + 4 * HOUR - 1
    assert value((7 * DAY, DAY)) == end - DAY  # which is before it, with all its rows
    assert value((8 * DAY, DAY)) == 8 * DAY - 1
    assert value((end, HOUR), (8 * DAY + 4 * HOUR, DAY)) == 8 * DAY - 1
    assert boundary_of(schema, config_of(), [end], 12345, [(end, HOUR)]) == boundary_of(schema, config_of(), [end], 12345)
