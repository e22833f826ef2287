"""Common codes for values of several sources: merging ascending ones and hashing others give equivalent codes."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.functions.aggregate.distinct import coding
from gamay.functions.aggregate.distinct.coding import HashNumbers, common_codes
from gamay.functions.aggregate.distinct.growth import expected_values
from gamay.functions.aggregate.distinct.text_numbers import TextNumbers
from gamay.functions.vector import EncodedVector, Vector
from gamay.kernels.group.ascending import merge_ascending
from gamay.model.types import DataType as D


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_two_ascending_arrays_become_one(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        one, other = (np.unique(rng.integers(-20, 20, rng.integers(0, 15))).astype(dtype) for _ in range(2))
        merged = np.empty(len(one) + len(other), dtype)
        of_one, of_other = np.empty(len(one), np.int32), np.empty(len(other), np.int32)
        count = merge_ascending(one, other, merged, of_one, of_other)
        assert merged[:count].tolist() == np.union1d(one, other).tolist()
        assert merged[of_one].tolist() == one.tolist()
        assert merged[of_other].tolist() == other.tolist()


SOURCES = {
    "ascending": (D.LONG, [np.arange(0, 9000, 2), np.arange(0, 9000, 3), np.arange(5)]),
    "empty": (D.INT, [np.arange(6000, dtype=np.int32), np.empty(0, np.int32)]),
    "repeated": (D.INT, [np.repeat(np.arange(3000, dtype=np.int32), 2), np.arange(4000, dtype=np.int32)]),
    "zeros": (D.DOUBLE, [np.array([-1.0, -0.0, *range(1, 3000)]), np.array([0.0, *range(2, 3000)])]),
    "infinities": (D.DOUBLE, [np.array([-np.inf, *range(3000), np.inf]), np.array([*range(3000), np.inf])]),
    "nan": (D.DOUBLE, [np.array([*range(3000), np.nan]), np.array([*range(2000), np.nan])]),
    "only nan": (D.DOUBLE, [np.arange(5000.0), np.array([np.nan])]),
    "floats": (D.FLOAT, [np.arange(0, 3000, 0.5, np.float32), np.arange(0, 3000, 0.75, np.float32)]),
    "flags": (D.BOOLEAN, [np.array([False, True]), np.tile([False, True], 4000)]),
    "times": (D.TIMESTAMP, [np.arange(-3000, 3000) * 1000, np.arange(0, 5000) * 1500]),
}


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("encoded", [False, True])
def test_codes_stand_for_their_values(name: str, encoded: bool) -> None:
    data_type, sources = SOURCES[name]
    keys: list[Any] = [Vector(data_type, values) for values in sources]
    if encoded:  # each value twice, so that the dictionaries are what is coded
        keys = [EncodedVector(np.repeat(np.arange(len(v), dtype=np.uint32), 2), Vector(data_type, v)) for v in sources]
    coder, codes = common_codes(keys)
    values = [np.repeat(v, 2) if encoded else v for v in sources]
    for part, expected in zip(codes, values, strict=True):
        decoded = coder.decode(part)
        found = decoded.decode() if isinstance(decoded, EncodedVector) else decoded
        assert found.values.dtype == expected.dtype
        np.testing.assert_array_equal(found.values, expected)
    every = coding.to_bits(np.concatenate(values))
    distinct = len(np.unique(every))
    assert len(np.unique(np.concatenate(codes))) == distinct
    assert coder.cardinality in (None, distinct)


def test_numbers_of_more_keys_than_the_cache_holds() -> None:
    keys = np.random.default_rng(2).integers(0, 150_000, 500_000) * 1_000_003
    numbers = HashNumbers()
    found = np.concatenate([numbers.number(part) for part in np.array_split(keys, 3)])
    _, first, back = np.unique(keys, return_index=True, return_inverse=True)
    assert numbers.count == len(first)
    assert found.tolist() == np.argsort(np.argsort(first))[back].tolist()
    assert numbers.keys[found].tolist() == keys.tolist()


@given(distinct=st.integers(1, 200_000), looked_at=st.integers(2_000, 20_000))
@settings(max_examples=50, deadline=None)
def test_how_many_values_come_is_told_by_the_first_rows(distinct: int, looked_at: int) -> None:
    rows = np.random.default_rng(distinct).integers(0, distinct, 100_000)
    found, true = len(np.unique(rows[:looked_at])), len(np.unique(rows))
    expected = expected_values(found, looked_at, len(rows))
    assert found <= expected <= len(rows)
    assert found < looked_at / 4 or 0.7 * true <= expected <= 1.4 * true


@pytest.mark.parametrize("distinct", [100, 3_000, 60_000, 1_000_000])
def test_tables_grow_to_what_comes_whatever_came_first(distinct: int) -> None:
    rng = np.random.default_rng(5)
    keys = np.concatenate([rng.integers(0, 50, 5_000), rng.integers(0, distinct, 200_000)])
    numbers, texts = HashNumbers(), TextNumbers("texts", pa.string())
    written = pa.array([f"text {key}" for key in keys])
    for part in (slice(0, 30_000), slice(30_000, len(keys))):
        found, of_texts = numbers.number(keys[part]), texts.number(written[part])
        assert numbers.keys[found].tolist() == keys[part].tolist()
        assert texts.texts.take(pa.array(of_texts)).to_pylist() == written[part].to_pylist()
    assert numbers.count == texts.count == len(np.unique(keys))
    assert len(numbers._table) <= max(4096, 16 * numbers.count)
