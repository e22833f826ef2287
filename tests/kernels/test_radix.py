import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra.numpy import arrays

from gamay.kernels.rows.radix import sort_numbers, sort_words

_SHAPES = {
    "normal": lambda rng, n: rng.normal(size=n),
    "times": lambda rng, n: 1.7e12 + rng.integers(0, 1000, n),
    "one far away": lambda rng, n: np.append(rng.random(n - 1), -1e300),
    "near, with one far away": lambda rng, n: np.append(1.0 + rng.random(n - 1) * 1e-9, 1e300),
    "equal": lambda rng, n: np.full(n, -2.5),
    "special": lambda rng, n: rng.choice([0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 5e-324, -1.0], n),
    "whole": lambda rng, n: rng.integers(-(2**63), 2**63 - 1, n),
    "around zero": lambda rng, n: rng.integers(-1000, 10**9, n),
    "few whole": lambda rng, n: rng.integers(-3, 3, n),
}


def sorted_by_digits(values: np.ndarray) -> np.ndarray:
    """Sort a copy as `sort_numbers` does on processors where NumPy's sort is slow."""
    ordered = values.copy()
    sort_words(ordered.view(np.uint64), np.empty(len(values), np.uint64), values.dtype.kind == "f")
    return ordered


@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("count", [1, 2, 25, 5000, 70_000])
def test_digits_sort_as_numpy_does(shape: str, count: int) -> None:
    values = _SHAPES[shape](np.random.default_rng(count), count)
    np.testing.assert_array_equal(sorted_by_digits(values), np.sort(values))
    in_place = values.copy()
    sort_numbers(in_place)
    np.testing.assert_array_equal(in_place, np.sort(values))


@settings(max_examples=200, deadline=None)
@given(st.one_of(arrays(np.float64, st.integers(1, 200)), arrays(np.int64, st.integers(1, 200))))
def test_any_bits_are_sorted(values: np.ndarray) -> None:
    np.testing.assert_array_equal(sorted_by_digits(values), np.sort(values))


def test_other_types_and_strides_are_sorted_too() -> None:
    for values in (np.arange(10_000, 0, -1, np.int32), np.arange(20_000.0)[::-2]):
        expected = np.sort(values)
        sort_numbers(values)
        np.testing.assert_array_equal(values, expected)
