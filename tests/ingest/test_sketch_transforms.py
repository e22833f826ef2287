"""Sketches built during ingestion."""

import numpy as np
import pyarrow as pa
import pytest

from gamay.functions.expression import Call, Column
from gamay.functions.registry import bind_aggregate
from gamay.functions.vector import Vector
from gamay.ingest.transform.pipeline import Pipeline
from gamay.model.types import DataType


@pytest.mark.parametrize(
    ("function", "aggregate", "expected"),
    [
        ("toThetaSketch(k)", "distinctcountthetasketch", 30),
        ("toThetaSketch(k, 64)", "distinctcountthetasketch", 30),
        ("toCpcSketch(k)", "distinctcountcpcsketch", 30),
        ("toHLL(k, 12)", "distinctcounthll", 30),
        ("toULL(k)", "distinctcountull", 30),
        ("toIntegerSumTupleSketch(k, n)", "distinctcounttuplesketch", 30),
        ("toIntegerSumTupleSketch(k, n)", "sumvaluesintegersumtuplesketch", 100),
        ("toIntegerSumTupleSketch(k, n)", "avgvalueintegersumtuplesketch", 3),
    ],
)
def test_a_column_of_sketches(schema, table, function, aggregate, expected):
    config = table(transformConfigs=[{"columnName": "sketch", "transformFunction": function}])
    batch = pa.record_batch({"k": [f"{i % 30} é" for i in range(100)] + [None], "n": [1] * 101})
    done = Pipeline(schema(k="STRING", n="INT", sketch="metric BYTES"), config).apply(batch)
    bound = bind_aggregate(Call(aggregate, (Column("sketch"),)), [(DataType.BYTES, False)])
    state = bound.allocate(1)
    bound.update(state, np.zeros(101, np.uint8), [Vector(DataType.BYTES, done.column("sketch"))], 101)
    assert bound.finish(bound.seal(state)).values.tolist() == pytest.approx([expected], abs=1)  # sketches estimate
