"""Sums of PARTIAL tables."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.naive.upsert_histories import MemorySegment

from gamay.model.ingestion import UpsertConfig
from gamay.model.schema import Schema
from gamay.upsert.merging import Merger

SCHEMA = Schema.from_json(
    {
        "schemaName": "t",
        "dimensionFieldSpecs": [{"name": "id", "dataType": "STRING"}],
        "metricFieldSpecs": [{"name": "n", "dataType": "FLOAT"}, {"name": "m", "dataType": "LONG"}],
        "dateTimeFieldSpecs": [{"name": "ts", "dataType": "LONG", "format": "EPOCH", "granularity": "1:MILLISECONDS"}],
        "primaryKeyColumns": ["id"],
    }
).value


def rows(numbers: list[float]) -> pa.RecordBatch:
    count = len(numbers)
    whole = pa.nulls(count, pa.int64())
    return pa.record_batch({"id": ["a"] * count, "n": pa.array(numbers, pa.float32()), "m": whole, "ts": list(range(count))})


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_a_sum_of_floats_does_not_depend_on_where_batches_end(size: int) -> None:
    numbers = [16_777_216.0, 1.0, 1.0, 0.1, 1.0, 3.0]
    expected = [np.float32(numbers[0])]
    for number in numbers[1:]:
        expected.append(expected[-1] + np.float32(number))
    merger = Merger(SCHEMA, UpsertConfig(mode="PARTIAL", partial_upsert_strategies={"n": "INCREMENT"}), ["ts"], None)
    found: list[float] = []
    for start in range(0, len(numbers), size):
        batch = rows(numbers[start : start + size])
        stored: list[Any] = []
        sources = np.arange(-1, size - 1)
        if found:
            segment: Any = MemorySegment("s", SCHEMA, rows(found[-1:]))
            stored, sources[0] = [(segment, np.zeros(1, np.int32))], size
        found += merger.merge(batch, sources, stored).column("n").to_pylist()
    assert found == [float(value) for value in expected]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_64_bits_cannot_hold_stays_at_the_bound(sign: int) -> None:
    bound = 2**63 - 1 if sign > 0 else -(2**63)
    numbers = [sign * 2**62, sign * 2**62, sign * 5, -sign * 7, bound]
    expected = [numbers[0], bound, bound, bound - sign * 7, bound]
    merger = Merger(SCHEMA, UpsertConfig(mode="PARTIAL", partial_upsert_strategies={"m": "INCREMENT"}), ["ts"], None)
    batch = rows([0.0] * 5).set_column(2, "m", pa.array(numbers, pa.int64()))
    assert merger.merge(batch, np.arange(-1, 4), []).column("m").to_pylist() == expected
    assert merger.num_bounded == 2 + (sign > 0)
