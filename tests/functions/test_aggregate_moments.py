"""Variances, covariances, skewness and kurtosis against DuckDB, against fractions, and for any division of the rows."""

import math
import struct
from fractions import Fraction
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType

OF_ONE = {
    "varpop": "var_pop(x)",
    "varsamp": "var_samp(x)",
    "stddevpop": "stddev_pop(x)",
    "stddevsamp": "stddev_samp(x)",
    "skewness": "skewness(x)",
    "kurtosis": "kurtosis(x)",
}
OF_TWO = {"covarpop": "covar_pop(x, y)", "covarsamp": "covar_samp(x, y)"}
ALL = {**OF_ONE, **OF_TWO}


def doubles(values: Any) -> Vector:
    return Vector(DataType.DOUBLE, np.array(values, np.float64))


def arguments(name: str, x: Any, y: Any) -> list[Operand]:
    return [doubles(x), doubles(y)] if name in OF_TWO else [doubles(x)]


def types(name: str) -> list[DataType]:
    return [DataType.DOUBLE] * (2 if name in OF_TWO else 1)


@pytest.mark.parametrize("name", ALL)
def test_as_duckdb(name: str, bind_call: Any, whole: Any) -> None:
    rng = np.random.default_rng(3)
    x, groups = rng.gamma(2, 5, 5000), rng.integers(0, 20, 5000).astype(np.uint8)
    y = 3 * x + rng.normal(size=5000)
    connection = duckdb.connect()
    connection.register("points", pa.table({"x": x, "y": y, "g": groups}))
    aggregate = bind_call(name, types(name))
    expected = connection.execute(f"SELECT {ALL[name]} FROM points GROUP BY g ORDER BY g").fetchall()
    result = whole(aggregate, arguments(name, x, y), groups, 20).values
    np.testing.assert_allclose(result, [row[0] for row in expected], rtol=1e-9)
    alone = connection.execute(f"SELECT {ALL[name]} FROM points").fetchall()
    np.testing.assert_allclose(whole(aggregate, arguments(name, x, y), None, 1).values, [alone[0][0]], rtol=1e-9)


def exact_moments(values: list[float]) -> tuple[Fraction, Fraction, Fraction, Fraction]:
    numbers = [Fraction(value) for value in values]
    mean = sum(numbers, Fraction(0)) / len(numbers)
    return mean, *(sum(((v - mean) ** k for v in numbers), Fraction(0)) for k in (2, 3, 4))  # type: ignore[return-value]


@pytest.mark.parametrize("coded", [False, True])
def test_large_means_cost_no_digits(coded: bool, bind_call: Any, whole: Any, divided: Any) -> None:
    rng = np.random.default_rng(5)
    values = 1e9 + rng.integers(0, 50, 3000) / 8
    _, m2, m3, m4 = exact_moments(values.tolist())
    n, variance = 3000, float(m2 / 2999)
    expected = {
        "varpop": float(m2 / n),
        "stddevsamp": math.sqrt(variance),
        "skewness": n * float(m3) / ((n - 1) * (n - 2) * variance**1.5),
        "kurtosis": float(n * (n + 1) * m4 - 3 * m2 * m2 * (n - 1)) / ((n - 1) * (n - 2) * (n - 3) * variance**2),
    }
    dictionary, ids = np.unique(values, return_inverse=True)
    operand: Operand = EncodedVector(ids.astype(np.uint8), doubles(dictionary)) if coded else doubles(values)
    for name, value in expected.items():
        aggregate = bind_call(name, [DataType.DOUBLE])
        tolerance = 1e-6 if name == "skewness" else 1e-9
        for groups in (None, np.zeros(n, np.uint8)):
            assert whole(aggregate, [operand], groups, 1).values[0] == pytest.approx(value, rel=tolerance, abs=1e-9)
            assert divided(aggregate, [operand], groups, 1, 8).values[0] == pytest.approx(value, rel=tolerance, abs=1e-9)


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 200), st.integers(1, 6), st.integers(0, 1000), st.booleans())
def test_division_changes_nothing(
    bind_call: Any, whole: Any, divided: Any, rows: int, num_groups: int, seed: int, coded: bool
) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.integers(-5, 5, rows).astype(np.float64), rng.normal(size=rows)
    groups = rng.integers(0, num_groups, rows).astype(np.uint8)
    for name in ALL:
        operands = arguments(name, x, y)
        if coded:
            dictionary, ids = np.unique(x, return_inverse=True)
            operands[0] = EncodedVector(ids.astype(np.uint8), doubles(dictionary))
        aggregate = bind_call(name, types(name))
        expected = whole(aggregate, operands, groups, num_groups).values
        np.testing.assert_allclose(
            divided(aggregate, operands, groups, num_groups, seed).values, expected, rtol=1e-8, atol=1e-9
        )


@pytest.mark.parametrize(
    ("name", "values", "expected"),
    [
        ("varpop", [], -math.inf),
        ("varsamp", [], -math.inf),
        ("stddevpop", [], -math.inf),
        ("varsamp", [4.0], -math.inf),
        ("stddevsamp", [4.0], -math.inf),
        ("covarsamp", [4.0], -math.inf),
        ("covarpop", [], -math.inf),
        ("varpop", [4.0], 0.0),
        ("covarpop", [4.0], 0.0),
        ("skewness", [], math.nan),
        ("skewness", [1.0, 2.0], math.nan),
        ("skewness", [2.0, 2.0, 2.0], 0.0),
        ("kurtosis", [1.0, 2.0, 3.0], math.nan),
        ("kurtosis", [2.0, 2.0, 2.0, 2.0], 0.0),
        ("varpop", [1.0, math.nan], math.nan),
        ("varpop", [1.0, math.inf], math.nan),
        ("kurtosis", [1.0, math.inf, 2.0, 3.0], math.nan),
    ],
)
def test_few_values(name: str, values: list[float], expected: float, bind_call: Any, whole: Any) -> None:
    aggregate = bind_call(name, types(name))
    groups = np.full(len(values), 1, np.uint8)
    result = whole(aggregate, arguments(name, values, values), groups, 3).values
    np.testing.assert_array_equal(result[1], expected)
    nothing = whole(aggregate, arguments(name, [], []), np.empty(0, np.uint8), 3).values
    np.testing.assert_array_equal(result[[0, 2]], nothing[:2])
    np.testing.assert_array_equal(whole(aggregate, arguments(name, values, values), None, 1).values, [expected])


def test_fourth_moment_is_the_state(bind_call: Any, whole: Any) -> None:
    text = whole(bind_call("fourthmoment", [DataType.DOUBLE]), [doubles([1, 2, 3, 6])], None, 1).values[0].as_py()
    assert struct.unpack(">qdddd", bytes.fromhex(text)) == (4, 3.0, 14.0, 18.0, 98.0)


def test_constants_and_integers(bind_call: Any, whole: Any) -> None:
    aggregate = bind_call("covarpop", [DataType.LONG], 3)
    column = Vector(DataType.LONG, np.array([1, 5, 9]))
    assert whole(aggregate, [column, Scalar(3, DataType.INT)], None, 1).values.tolist() == [0.0]


@pytest.mark.parametrize(
    ("name", "argument_types", "more", "words"),
    [
        ("varpop", [DataType.STRING], (), "needs numbers"),
        ("varpop", [DataType.INT, DataType.INT], (), "takes 1 argument, not 2"),
        ("varpop", [DataType.INT], (3,), "takes 1 argument, not 2"),
        ("covarpop", [DataType.INT], (), "takes 2 arguments, not 1"),
        ("covarsamp", [DataType.INT, DataType.BYTES], (), "needs numbers"),
    ],
)
def test_refused(name: str, argument_types: Any, more: Any, words: str, bind_call: Any) -> None:
    with pytest.raises(QueryError, match=words):
        bind_call(name, argument_types, *more)


@pytest.mark.parametrize("base", [0.0, 1e9])
def test_many_groups_are_summed_by_distances_from_their_first_value(base: float, bind_call: Any, divided: Any) -> None:
    rng = np.random.default_rng(4)
    groups = rng.permutation(40_000).astype(np.uint32) % 5000
    values = base + rng.normal(0, 1, 40_000)
    values[:3000] *= 1.01  # first values are far from the mean
    found = divided(bind_call("varPop", [DataType.DOUBLE]), [Vector(DataType.DOUBLE, values)], groups, 5000, 3)
    expected = [np.var(values[groups == group]) for group in range(5000)]
    np.testing.assert_allclose(found.values, expected, rtol=1e-6 if base else 1e-9)
    values[np.flatnonzero(groups == 7)[1]] = math.inf
    found = divided(bind_call("varPop", [DataType.DOUBLE]), [Vector(DataType.DOUBLE, values)], groups, 5000, 3)
    assert math.isnan(found.values[7]) or math.isinf(found.values[7])
    assert np.isfinite(found.values[:7]).all()
