"""HISTOGRAM against numpy.histogram, which has the same bins."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.model.types import DataType


def array(*edges: Any) -> Call:
    types = {int: DataType.INT, float: DataType.DOUBLE, str: DataType.STRING, bool: DataType.BOOLEAN}
    return Call("arrayvalueconstructor", tuple(Literal(edge, types[type(edge)]) for edge in edges))


def doubles(values: Any) -> Vector:
    return Vector(DataType.DOUBLE, np.array(values, np.float64))


def counts(result: Vector, num_groups: int) -> Any:
    assert result.offsets is not None
    assert len(result.offsets) == num_groups + 1
    return result.values.reshape(num_groups, -1).tolist()


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.one_of(st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0, 10.0]), st.floats(-2, 12)), max_size=60),
    st.integers(0, 1000),
    st.booleans(),
    st.sampled_from([(0, 1, 10), (0, 10, 7), (-1.5, 0.7, 3), (0.1, 0.3, 1)]),
)
def test_as_numpy(
    bind_call: Any, whole: Any, divided: Any, values: list[float], seed: int, coded: bool, bins: tuple[float, float, int]
) -> None:
    low, high, count = bins
    groups = np.random.default_rng(seed).integers(0, 3, len(values)).astype(np.uint8)
    operand: Operand = doubles(values)
    if coded:
        entries, ids = np.unique(np.array(values, np.float64), return_inverse=True)
        operand = EncodedVector(ids.astype(np.uint8), doubles(entries))
    edges = [*(low + (high - low) * i / count for i in range(count)), float(high)]
    wanted = [np.histogram(np.array(values)[groups == g], edges)[0].tolist() for g in range(3)]
    for more in ((low, high, count), (array(*edges),)):
        aggregate = bind_call("histogram", [DataType.DOUBLE], *more)
        assert counts(whole(aggregate, [operand], groups, 3), 3) == wanted
        assert counts(divided(aggregate, [operand], groups, 3, seed), 3) == wanted


def test_edges(bind_call: Any, whole: Any) -> None:
    values = doubles([-math.inf, -1, 0, 1, 2, 3, math.inf, math.nan])
    assert counts(whole(bind_call("histogram", [DataType.DOUBLE], array(0, 1, 3)), [values], None, 1), 1) == [[1, 3]]
    everything = bind_call("histogram", [DataType.DOUBLE], array("-Infinity", 0.5, "Infinity"))
    assert counts(whole(everything, [values], None, 1), 1) == [[3, 4]]
    lists = Vector(DataType.INT, np.array([4, 2, 9], np.int32), np.array([0, 2, 2, 3], np.int32))
    many = bind_call("histogram", [DataType.INT], 0, 10, 2, multi_value=True)
    assert counts(whole(many, [lists], None, 1), 1) == [[2, 1]]
    assert counts(whole(many, [Vector(DataType.INT, np.empty(0, np.int32))], np.empty(0, np.uint8), 2), 2) == [[0, 0]] * 2


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "2 or 4 arguments"),
        ((1, 2), "2 or 4 arguments"),
        ((5,), "array of edges"),
        ((array(),), "at least two edges"),
        ((array(1),), "at least two edges"),
        ((array(1, 1),), "in ascending order"),
        ((array(1, "x"),), "must be numbers"),
        ((array(False, True),), "must be numbers"),
        ((Call("arrayvalueconstructor", (Column("c0"), Literal(1, DataType.INT))),), "must be numbers"),
        ((5, 5, 3), "below the upper"),
        ((5, "Infinity", 3), "must be finite"),
        ((0, 1, 0), "number of bins"),
        ((0, 1, 2.5), "number of bins"),
        ((1e300, 1.0000000000000002e300, 5), "too narrow"),
    ],
)
def test_refused(more: Any, words: str, bind_call: Any) -> None:
    with pytest.raises(QueryError, match=words):
        bind_call("histogram", [DataType.DOUBLE], *more)
