"""PERCENTILE and MODE against Python, for any division of the rows."""

import math
from collections import Counter
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.model.types import DataType

VALUES = [-math.inf, -2.5, -0.0, 0.0, 1.0, 3.0, math.inf, math.nan]


def doubles(values: Any) -> Vector:
    return Vector(DataType.DOUBLE, np.array(values, np.float64))


def encoded(values: Any) -> EncodedVector:
    entries, ids = np.unique(np.array(values, np.float64), return_inverse=True)
    return EncodedVector(ids.astype(np.uint8), doubles(entries))


def ordered(values: list[float]) -> list[float]:
    return sorted(values, key=lambda value: (math.isnan(value), value))


def percentile(values: list[float], p: float) -> float:
    if not values:
        return -math.inf
    return ordered(values)[-1 if p == 100 else math.floor(len(values) * p / 100)]


def mode(values: list[float], reducer: str) -> float:
    if not values:
        return -math.inf
    counts = Counter("NaN" if math.isnan(value) else value for value in values)
    most = ordered([float(value) for value, count in counts.items() if count == max(counts.values())])
    with np.errstate(invalid="ignore"):  # infinities of both signs
        return {"MIN": most[0], "MAX": most[-1], "AVG": float(np.sum(most)) / len(most)}[reducer]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.sampled_from(VALUES), max_size=50), st.integers(0, 999), st.booleans())
def test_as_python(bind_call: Any, whole: Any, divided: Any, values: list[float], seed: int, coded: bool) -> None:
    groups = np.random.default_rng(seed).integers(0, 3, len(values)).astype(np.uint8)
    own = [[value for value, g in zip(values, groups, strict=True) if g == group] for group in range(4)]
    operand: Operand = encoded(values) if coded else doubles(values)
    cases = [(bind_call("percentile", [DataType.DOUBLE], p), [percentile(v, p) for v in own]) for p in (0, 7, 29, 50, 100)]
    for reducer in ("MIN", "MAX", "AVG"):
        cases.append((bind_call("mode", [DataType.DOUBLE], reducer), [mode(v, reducer) for v in own]))
    for aggregate, wanted in cases:
        np.testing.assert_array_equal(whole(aggregate, [operand], groups, 4).values, wanted)
        np.testing.assert_array_equal(divided(aggregate, [operand], groups, 4, seed).values, wanted)


@pytest.mark.parametrize("p", range(101))
def test_every_percentile_of_a_hundred(p: int, bind_call: Any, whole: Any) -> None:
    for name in ("percentile", "percentileest", "percentilesmarttdigest"):
        result = whole(bind_call(name, [DataType.DOUBLE], p), [doubles(np.arange(100.0))], None, 1).values
        assert result.tolist() == [min(p, 99)]


def test_as_duckdb_with_many_groups(bind_call: Any, whole: Any) -> None:
    rng = np.random.default_rng(1)
    values, groups = rng.integers(0, 9, 30_000), rng.integers(0, 3000, 30_000).astype(np.int32)
    connection = duckdb.connect()
    connection.register("points", pa.table({"x": values, "g": groups}))
    # DuckDB's mode settles ties by the first that was seen, so ties are settled here
    rows = connection.execute(
        "SELECT min(x) FROM (SELECT g, x, count(*) c, max(count(*)) OVER (PARTITION BY g) m FROM points GROUP BY g, x)"
        " WHERE c = m GROUP BY g ORDER BY g"
    ).fetchall()
    result = whole(bind_call("mode", [DataType.LONG]), [Vector(DataType.LONG, values)], groups, 3000).values
    assert result[np.unique(groups)].tolist() == [row[0] for row in rows]


def test_decimals_and_large_numbers(bind_call: Any, whole: Any) -> None:
    array = np.empty(3, object)
    array[:] = [Decimal("1.5"), Decimal("2.50"), Decimal("2.5")]
    assert whole(bind_call("mode", [DataType.BIG_DECIMAL]), [Vector(DataType.BIG_DECIMAL, array)], None, 1).values[0] == 2.5
    longs = Vector(DataType.LONG, np.array([2**63 - 1, -(2**63), 2**63 - 1]))
    assert whole(bind_call("mode", [DataType.LONG]), [longs], None, 1).values[0] == float(2**63)


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("mode", ("MIN", 1), "takes 1 to 2 arguments"),
        ("mode", ("median",), "'AVG'"),
        ("mode", (1,), "'AVG'"),
        ("percentile", (50, 1), "takes 2 arguments"),
        ("percentile", ("x",), "0 to 100"),
        ("percentile", (True,), "0 to 100"),
    ],
)
def test_refused(name: str, more: Any, words: str, bind_call: Any) -> None:
    with pytest.raises(QueryError, match=words):
        bind_call(name, [DataType.INT], *more)
