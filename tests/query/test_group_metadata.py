"""Aggregates from metadata equal those over all rows; metadata that cannot answer is not used."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gamay.functions.expression import Call, Column, Star
from gamay.functions.registry import aggregate_arguments, bind_aggregate
from gamay.functions.vector import Vector
from gamay.model.types import DataType
from gamay.query.groupby.metadata import answer_from_metadata
from gamay.segment.spi import ColumnStats


def column(data_type: DataType, values: Any, total: Any, encoded: bool = True, is_sorted: bool = True) -> Any:
    ordered = sorted(set(values), key=lambda v: (v != v, v))
    stored = pa.array(ordered) if data_type is DataType.STRING else np.array(ordered)
    known = [v for v in ordered if v == v]
    stats = ColumnStats(
        cardinality=len(ordered), minimum=known[0] if known else None, maximum=known[-1] if known else None, total=total,
        is_sorted=False, num_values=len(values), max_values_per_row=1, num_nulls=0, partition=None,
    )  # fmt: skip

    class _Dictionary(SimpleNamespace):
        def __len__(self) -> int:
            return len(ordered)

    dictionary = _Dictionary(values=Vector(data_type, stored), is_sorted=is_sorted)
    return SimpleNamespace(data_type=data_type, stats=stats, dictionary=dictionary if encoded else None)


def answer(name: str, of: Any, num_docs: int) -> Any:
    call = Call(name, (Column("x"),) if of is not None else (Star(),))
    aggregate = bind_aggregate(call, [(of.data_type, False) for _ in aggregate_arguments(call)] if of is not None else [])
    partial = answer_from_metadata(aggregate, of, num_docs)
    return None if partial is None else aggregate.finish(partial).values[0]


def read(name: str, data_type: DataType, values: Any) -> Any:
    call = Call(name, (Column("x"),))
    aggregate = bind_aggregate(call, [(data_type, False) for _ in aggregate_arguments(call)])
    state = aggregate.allocate(1)
    stored = pa.array(values) if data_type is DataType.STRING else np.array(values)
    aggregate.update(state, None, [Vector(data_type, stored)], len(values))
    return aggregate.finish(aggregate.seal(state)).values[0]


@pytest.mark.parametrize("name", ["count", "sum", "min", "max", "avg", "minmaxrange", "distinctcount", "distinctcounthll"])
@pytest.mark.parametrize(
    ("data_type", "values"),
    [(DataType.LONG, [5, -7, 5, 2**60, 2**60]), (DataType.DOUBLE, [1.5, -2.0, 1.5]), (DataType.DOUBLE, [math.inf, 1.0])],
)
def test_metadata_agrees_with_rows(name: str, data_type: DataType, values: list[Any]) -> None:
    expected = read(name, data_type, values)
    got = answer(name, column(data_type, values, sum(values)), len(values))
    assert got is not None
    assert got == expected or (got != got and expected != expected)


def test_distinct_text() -> None:
    assert answer("distinctcount", column(DataType.STRING, ["a", "b", "a"], None), 3) == 2


def test_distinct_values_of_a_dictionary_in_order_of_arrival() -> None:
    assert answer("distinctcount", column(DataType.INT, [1, 2], 3, is_sorted=False), 2) == 2


def test_rows_are_counted() -> None:
    assert answer("count", None, 17) == 17


@pytest.mark.parametrize("name", ["min", "max", "minmaxrange"])
def test_bounds_are_not_trusted_where_a_nan_may_be(name: str) -> None:
    values = [1.0, math.nan]
    assert answer(name, column(DataType.DOUBLE, values, math.nan), 2) is None
    assert answer(name, column(DataType.DOUBLE, values, None), 2) is None
    assert answer(name, column(DataType.DOUBLE, [1.0, 2.0], None), 2) is not None
    assert answer(name, column(DataType.DOUBLE, [1.0, 2.0], None, encoded=False), 2) is None


@pytest.mark.parametrize("name", ["percentile50", "mode", "percentiletdigest50"])
def test_what_needs_frequencies_is_read(name: str) -> None:
    assert answer(name, column(DataType.INT, [1, 2], 3), 2) is None


def test_unknown_is_none() -> None:
    assert answer("sum", column(DataType.TIMESTAMP, [1, 2], None), 2) is None
    assert answer("distinctcount", column(DataType.INT, [1, 2], 3, encoded=False), 2) is None
    assert answer("min", column(DataType.INT, [], 0), 0) is None


def test_a_sum_beyond_64_bits_is_a_double() -> None:
    assert answer("sum", column(DataType.LONG, [2**62], 2**70), 300) == 2.0**70
