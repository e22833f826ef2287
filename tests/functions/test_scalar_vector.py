"""Functions of vectors against NumPy and DuckDB."""

import math
from typing import Any

import duckdb
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.vector import Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

FLOAT = DataType.FLOAT


def lists(rows: list[list[float]], data_type: DataType = FLOAT) -> Vector:
    dtype = np.float32 if data_type is FLOAT else np.int32
    flat = np.array([value for row in rows for value in row], dtype)
    return Vector(data_type, flat, np.cumsum([0, *map(len, rows)]).astype(np.int32))


def run(text: str, **columns: Operand) -> Any:
    expression = parse_expression(text)
    num_rows = max((len(column) for column in columns.values() if not isinstance(column, Scalar)), default=1)
    result = evaluate(expression, columns.__getitem__, num_rows)
    assert isinstance(result, Vector)
    assert result_type(expression, lambda name: (columns[name].type, True)) == (result.type, False)
    return result.values.tolist()


_row = st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(_row, _row), min_size=1, max_size=5))
def test_distances_agree_with_duckdb(pairs: list[tuple[list[float], list[float]]]) -> None:
    a, b = lists([pair[0] for pair in pairs]), lists([pair[1] for pair in pairs])
    found = {
        name: run(f"{name}(a, b)", a=a, b=b)
        for name in ("innerProduct", "dotProduct", "l1Distance", "l2Distance", "euclideanDistance", "cosineDistance")
    }
    for i, (left, right) in enumerate(pairs):
        relation = duckdb.connect().sql(
            "SELECT array_inner_product(?::DOUBLE[3], ?::DOUBLE[3]), array_distance(?::DOUBLE[3], ?::DOUBLE[3])",
            params=[left, right, left, right],
        )
        assert relation is not None
        product, distance = relation.fetchall()[0]
        assert found["innerProduct"][i] == found["dotProduct"][i] == pytest.approx(product, abs=1e-9)
        assert found["l2Distance"][i] == pytest.approx(distance, abs=1e-9)
        assert found["euclideanDistance"][i] == pytest.approx(distance**2, abs=1e-9)
        assert found["l1Distance"][i] == pytest.approx(sum(abs(x - y) for x, y in zip(left, right, strict=True)), abs=1e-9)
        lengths = math.hypot(*left) * math.hypot(*right)
        if lengths > 1e-9:
            assert found["cosineDistance"][i] == pytest.approx(1 - product / lengths, abs=1e-6)


def test_constants_lengths_and_other_numbers() -> None:
    a = lists([[3, 4], [0, 0]])
    assert run("l2Distance(a, ARRAY[0.0, 0.0])", a=a) == [5.0, 0.0]
    assert run("vectorNorm(a)", a=a) == [5.0, 0.0]
    assert run("vectorDims(a)", a=lists([[1, 2, 3], [], [1]])) == [3, 0, 1]
    assert run("vectorNorm(a)", a=lists([[]])) == [0.0]
    assert run("innerProduct(a, ARRAY[1, 2])", a=lists([[3, 4]], DataType.INT)) == [11.0]


def test_a_vector_without_length_has_no_angle() -> None:
    a, zero = lists([[3, 4]]), lists([[0, 0]])
    assert math.isnan(run("cosineDistance(a, b)", a=a, b=zero)[0])
    assert run("cosineDistance(a, b, 0.5)", a=a, b=zero) == [0.5]
    assert run("cosineDistance(a, b, 0.5)", a=a, b=a) == [pytest.approx(0)]


def test_different_lengths_are_an_error() -> None:
    with pytest.raises(QueryError, match="have 2 and 3 elements") as caught:
        run("l1Distance(a, b)", a=lists([[1], [1, 2]]), b=lists([[1], [1, 2, 3]]))
    assert caught.value.code is ErrorCode.QUERY_EXECUTION


@pytest.mark.parametrize("text", ["l1Distance(a)", "l1Distance(a, 1)", "cosineDistance(a, a, a)", "vectorNorm(1)"])
def test_wrong_arguments_are_refused_when_bound(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        result_type(parse_expression(text), lambda _: (FLOAT, True))
    assert caught.value.code is ErrorCode.QUERY_VALIDATION


@pytest.mark.parametrize("name", ["innerProduct", "l1Distance", "l2Distance", "euclideanDistance", "cosineDistance"])
@pytest.mark.parametrize("count", [0, 1, 5])
def test_a_constant_vector_stands_for_all_rows(name: str, count: int) -> None:
    rows = [[float(i), 2.0, -1.0] for i in range(count)]
    expected = [run(f"{name}(a, b)", a=lists([row]), b=lists([[1.0, 0.5, 3.0]]))[0] for row in rows]
    assert run(f"{name}(a, ARRAY[1, 0.5, 3])", a=lists(rows)) == expected
    assert run(f"{name}(ARRAY[1, 0.5, 3], a)", a=lists(rows)) == expected
    nulls = Vector(FLOAT, lists(rows).values, lists(rows).offsets, np.arange(count) % 2 == 1)
    assert run(f"{name}(a, ARRAY[1, 0.5, 3])", a=nulls) == expected


def test_two_constant_vectors_and_wrong_lengths() -> None:
    assert run("l1Distance(ARRAY[1, 2], ARRAY[3, 5]) + vectorDims(a)", a=lists([[1.0], [2.0, 3.0]])) == [6.0, 7.0]
    with pytest.raises(QueryError, match="2 and 3 elements"):
        run("l2Distance(ARRAY[1, 2, 3], a)", a=lists([[1.0, 2.0, 3.0], [1.0, 2.0]]))
