"""Sums and lists of PARTIAL tables."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.naive.upsert_histories import MemorySegment

from gamay.functions.arrow import arrow_type
from gamay.model.schema.schema import Schema
from gamay.model.table.ingestion import UpsertConfig
from gamay.upsert.rows.merging import Merger

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


UNITED = {
    "STRING": (["b", "", "a"], ["é", "a"], ["", "a", "b", "é"]),
    "INT": ([10, 9], [-1, 10], [-1, 9, 10]),
    "DOUBLE": ([1.5, -0.5], [-2.0], [-2.0, -0.5, 1.5]),
    "BOOLEAN": ([True, False], [True], [False, True]),
}


@pytest.mark.parametrize("kind", UNITED)
@pytest.mark.parametrize("strategy", ["UNION", "APPEND"])
@pytest.mark.parametrize("stored", [True, False])
def test_a_union_is_ascending_and_a_list_that_meets_no_other_stays_as_it_is(kind: str, strategy: str, stored: bool) -> None:
    old, new, union = UNITED[kind]
    fields = [{"name": "id", "dataType": "STRING"}, {"name": "l", "dataType": kind, "singleValueField": False}]
    schema = Schema.from_json({**SCHEMA.to_json(), "dimensionFieldSpecs": fields, "metricFieldSpecs": []}).value
    merger = Merger(schema, UpsertConfig(mode="PARTIAL", partial_upsert_strategies={"l": strategy}), ["ts"], None)

    def batch(*lists: Any) -> pa.RecordBatch:
        elements = arrow_type(schema.field("l").data_type, False)
        return pa.record_batch({"id": ["a"] * len(lists), "l": pa.array(lists, elements), "ts": list(range(len(lists)))})

    alone = [*new, new[0]]  # a row of its own, in the order in which it came, with what it has twice
    if stored:
        before: list[Any] = [(MemorySegment("s", schema, batch(old)), np.zeros(1, np.int32))]
        found = merger.merge(batch(alone, new, None), np.array([-1, 3, 1]), before)
    else:
        found = merger.merge(batch(alone, old, new, None), np.array([-1, -1, 1, 2]), [])
    lists = found.column("l").to_pylist()
    merged = union if strategy == "UNION" else [*old, *new]
    assert (lists[0], lists[-2], lists[-1]) == (alone, merged, merged)
