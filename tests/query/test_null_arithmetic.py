"""Arithmetic under aggregates without groups, with null and NaN operands and with ids, against NumPy."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gamay
from gamay.functions.frame import frame_of_ids
from gamay.functions.scalar.comparison import among
from gamay.functions.vector import EncodedVector, Vector
from gamay.kernels.tuning import CACHED_ENTRIES_MAX
from gamay.model.types import DataType

_ROWS = 50_003


def _same(found: Any, expected: float) -> bool:
    return bool(np.isclose(found, expected, rtol=1e-12, equal_nan=True))


@pytest.mark.parametrize("has_nan", [False, True])
@pytest.mark.parametrize("condition", ["", " WHERE k < 5", " WHERE k < 0"])
def test_totals_leave_out_nulls_and_keep_nan(has_nan: bool, condition: str) -> None:
    rng = np.random.default_rng(11)
    x, y, k = rng.normal(3, 2, _ROWS), rng.integers(1, 9, _ROWS), rng.integers(0, 10, _ROWS)
    if has_nan:  # a quotient; what is loaded as NaN would be null
        x[:9], y[:9] = 0, 0
    no_x, no_y = rng.random(_ROWS) < 0.3, rng.random(_ROWS) < 0.01
    rows = pa.table({"x": pa.array(x, mask=no_x, from_pandas=False), "y": pa.array(y, mask=no_y), "k": pa.array(k)})
    kept = ~(no_x | no_y) & {"": k < 99, " WHERE k < 5": k < 5, " WHERE k < 0": k < 0}[condition]
    with np.errstate(invalid="ignore"):
        quotients, products = x[kept] / y[kept], x[kept] * (y[kept] - 4)
    with gamay.connect(":memory:", threads=1) as db:
        db.create_table("t", rows)
        selected = "MIN(x / y), MAX(x / y), SUM(x * (y - 4)), AVG(x / y), COUNT(x / y), MIN(x * (y - 4)), MAX(k + 1.5)"
        ((low, high, total, mean, count, least, known),) = db.sql(f"SELECT {selected} FROM t{condition}").rows()
    assert count == kept.sum()
    if not kept.any():
        assert (low, high, total, mean, least, known) == (None,) * 6
        return
    assert _same(low, quotients.min())
    assert _same(high, quotients.max())
    assert _same(mean, quotients.mean())
    assert _same(total, products.sum())
    assert _same(least, products.min())
    assert known == k[k < (5 if condition else 99)].max() + 1.5


@pytest.mark.parametrize("least", [-7, 1 << 40])
def test_ids_of_every_number_of_a_range_are_numbers(least: int) -> None:
    count = CACHED_ENTRIES_MAX + 10
    rng = np.random.default_rng(7)
    order, k = rng.permutation(count), rng.integers(0, 3, count)
    numbers = least + order
    with gamay.connect(":memory:", threads=1) as db:
        db.create_table("t", pa.table({"n": pa.array(numbers), "k": pa.array(k), "h": pa.array(np.full(count, 0.5))}))
        assert db.sql("SELECT AVG(n * h) FROM t").rows() == [(pytest.approx((numbers * 0.5).mean(), rel=1e-12),)]
        found = db.sql("SELECT k, SUM(n), MIN(n), MAX(n), AVG(h - n) FROM t GROUP BY k ORDER BY k").rows()
    for key, total, low, high, mean in found:
        some = numbers[k == key]
        assert (total, low, high) == (some.sum(), some.min(), some.max())
        assert mean == pytest.approx((0.5 - some).mean(), rel=1e-12)


def test_ids_are_no_numbers_where_one_is_missing() -> None:
    ids = np.array([0, 5], np.uint32)
    counted = np.arange(CACHED_ENTRIES_MAX + 1)
    frame = frame_of_ids(EncodedVector(ids, Vector(DataType.LONG, counted + 3, ascends=True)))
    assert frame is not None
    assert frame.decode().tolist() == [3, 8]
    for values in (counted[:-1], np.append(counted[:-1], 1 << 30)):
        assert frame_of_ids(EncodedVector(ids, Vector(DataType.LONG, values, ascends=True))) is None
    assert frame_of_ids(EncodedVector(ids, Vector(DataType.LONG, counted))) is None


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("count", [0, 1, 5, 100])
def test_numbers_among_others(dtype: Any, count: int) -> None:
    rng = np.random.default_rng(count)
    values, wanted = rng.integers(-9, 200, 9001).astype(dtype), rng.integers(-9, 200, count).astype(dtype)
    assert among(values[::2], wanted).tolist() == np.isin(values[::2], wanted).tolist()
