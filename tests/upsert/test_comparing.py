"""Comparison columns that hold times as text."""

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from tests.naive.upsert_histories import MemorySegment

from gamay.kernels.keys.table import ABSENT
from gamay.model.schema.schema import Schema
from gamay.upsert.index.comparing import ComparisonColumns

HOUR_MS = 3_600_000


def columns(pattern: str) -> tuple[Schema, ComparisonColumns]:
    document = {
        "schemaName": "t",
        "dateTimeFieldSpecs": [{"name": "at", "dataType": "STRING", "format": pattern, "granularity": "1:SECONDS"}],
    }
    schema = Schema.from_json(document).value
    return schema, ComparisonColumns((schema.field("at"),))


def both_ways(pattern: str, texts: list[str | None]) -> list[int]:
    """Return the comparison values of batches and of segments with these rows, which must be equal."""
    schema, comparison = columns(pattern)
    batch = pa.record_batch({"at": pa.array(texts, pa.string())})
    found = comparison.of_batch(batch)
    assert found.chosen.tolist() == [-1] * len(texts)
    numbers: list[int] = found.values[:, 0].tolist()
    stored: Any = MemorySegment(
        "t__0__0__20260101T0000Z", schema, pa.record_batch({"at": pa.array([t or "" for t in texts])})
    )
    assert comparison.of_segment(stored, 0, len(texts))[:, 0].tolist() == numbers
    assert not comparison.is_float
    return numbers


def test_times_by_a_pattern_order_as_times() -> None:
    texts = ["2024-01-02 10:00:00", "2024-01-02 09:59:59", "1969-12-31 23:59:59", "2024-01-02 10:00:00"]
    numbers = both_ways("SIMPLE_DATE_FORMAT|yyyy-MM-dd HH:mm:ss", texts)
    assert sorted(range(4), key=lambda i: (numbers[i], i)) == sorted(range(4), key=lambda i: (texts[i], i)) == [2, 1, 0, 3]
    assert numbers[0] == numbers[3]


@pytest.mark.parametrize("day", ["2024-03-10", "2024-11-03"])
def test_clocks_that_change_do_not_change_the_order(day: str) -> None:
    texts = [f"{day} {hour:02}:30" for hour in range(5)]
    numbers = both_ways("1:MINUTES:SIMPLE_DATE_FORMAT:yyyy-MM-dd HH:mm tz(America/Chicago)", texts)
    assert [later - earlier for earlier, later in pairwise(numbers)] == [HOUR_MS] * 4


def test_what_is_no_time_comes_first() -> None:
    assert both_ways("SIMPLE_DATE_FORMAT|yyyy-MM-dd", ["soon", None, "0001-01-01"])[:2] == [ABSENT, ABSENT]
    assert both_ways("SIMPLE_DATE_FORMAT|yyyy-MM-dd", ["0001-01-01"])[0] > ABSENT
