"""Every aggregation kernel, compiled and interpreted, against NumPy."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gamay.kernels.group import aggregation as kernels
from gamay.kernels.rows.filter import mark_id_range

Array = np.ndarray[Any, np.dtype[Any]]

UNSIGNED = [np.uint8, np.uint16, np.uint32]
ROWS = [0, 1, 3, 4, 1003]


def forms(kernel: Any) -> list[Any]:
    """Return the compiled and the plain form; they are one when Numba is switched off."""
    return list(dict.fromkeys([kernel, getattr(kernel, "py_func", kernel)]))


def rows_of(n: int, num_groups: int, cardinality: int, group_type: Any, id_type: Any) -> tuple[Array, Array]:
    rng = np.random.default_rng(n + num_groups)
    return rng.integers(0, num_groups, n).astype(group_type), rng.integers(0, cardinality, n).astype(id_type)


def folded(cells: Array, lanes: int, num_groups: int) -> Array:
    return cells.reshape(lanes, num_groups, -1).sum(axis=0)


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("kernel", forms(kernels.count_groups))
def test_counts(kernel: Callable[..., Any], lanes: int, n: int) -> None:
    for group_type in UNSIGNED:
        groups, _ = rows_of(n, 200, 10, group_type, np.uint8)
        counts = np.zeros(lanes * 200, np.int64)
        kernel(groups, counts, 200 if lanes > 1 else 0)
        np.testing.assert_array_equal(folded(counts, lanes, 200)[:, 0], np.bincount(groups, minlength=200))


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("kernel", forms(kernels.add_coded) + forms(kernels.count_add_coded))
def test_sums_of_ids(kernel: Any, dtype: Any, lanes: int, n: int) -> None:
    groups, ids = rows_of(n, 200, 250, np.uint8, np.uint8)
    lut = (np.arange(250) * 3 - 100).astype(dtype)
    pairs = kernel in forms(kernels.count_add_coded)
    cells = np.zeros(lanes * 200 * (2 if pairs else 1), dtype)
    kernel(groups, ids, lut, cells, len(cells) // lanes if lanes > 1 else 0)
    totals = folded(cells, lanes, 200)
    np.testing.assert_array_equal(totals[:, -1], np.bincount(groups, weights=lut[ids], minlength=200))
    np.testing.assert_array_equal(totals[:, 0] if pairs else 0, np.bincount(groups, minlength=200) if pairs else 0)


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("kernel", forms(kernels.add_values) + forms(kernels.count_add_values))
def test_sums_of_values(kernel: Any, dtype: Any, lanes: int, n: int) -> None:
    groups, ids = rows_of(n, 70, 250, np.uint16, np.uint8)
    values = ids.astype(dtype)
    pairs = kernel in forms(kernels.count_add_values)
    cells = np.zeros(lanes * 70 * (2 if pairs else 1), np.float64 if values.dtype.kind == "f" else np.int64)
    kernel(groups, values, cells, len(cells) // lanes if lanes > 1 else 0)
    totals = folded(cells, lanes, 70)
    np.testing.assert_array_equal(totals[:, -1], np.bincount(groups, weights=values, minlength=70))
    np.testing.assert_array_equal(totals[:, 0] if pairs else 0, np.bincount(groups, minlength=70) if pairs else 0)


@pytest.mark.parametrize("kernel", forms(kernels.add_coded))
def test_narrow_ids_do_not_wrap(kernel: Any) -> None:
    groups = np.full(9, 250, np.uint8)
    sums = np.zeros(4 * 251, np.int64)
    kernel(groups, np.full(9, 255, np.uint8), np.full(256, 1 << 40), sums, 251)
    assert folded(sums, 4, 251)[250, 0] == 9 << 40


@pytest.mark.parametrize("side", ["low", "high", "both"])
@pytest.mark.parametrize("coded", [True, False])
def test_bounds_pass_over_nan(coded: bool, side: str) -> None:
    groups, ids = rows_of(500, 20, 40, np.uint32, np.uint16)
    lut = np.where(np.arange(40) % 7 == 0, np.nan, np.arange(40) * 1.5 - 20)
    values = lut[ids]
    for kernel in forms(kernels.bound_coded if coded else kernels.bound_values):
        lows = np.full(20 if side != "high" else 0, np.inf)
        highs = np.full(20 if side != "low" else 0, -np.inf)
        if coded:
            kernel(groups, ids, lut, lows, highs)
        else:
            kernel(groups, values, lows, highs)
        for group in range(20):
            known = values[(groups == group) & ~np.isnan(values)]
            assert side == "high" or lows[group] == known.min()
            assert side == "low" or highs[group] == known.max()


@pytest.mark.parametrize("n", ROWS)
@pytest.mark.parametrize("kernel", forms(kernels.total_coded))
def test_total(kernel: Any, n: int) -> None:
    _, ids = rows_of(n, 1, 1000, np.uint8, np.uint16)
    for dtype in (np.int64, np.float64):
        lut = (np.arange(1000) - 500).astype(dtype)
        assert kernel(ids, lut) == lut[ids].sum()
    # An infinite entry that does not occur has no say.
    assert kernel(np.ones(n, np.uint8), np.array([-np.inf, 2.0])) == 2 * n


def test_marks_and_tallies() -> None:
    groups, ids = rows_of(300, 30, 40, np.uint8, np.uint8)
    expected = np.zeros((30, 40), np.int64)
    np.add.at(expected, (groups, ids), 1)
    for tally, mark_ids in zip(forms(kernels.tally_coded), forms(kernels.mark_ids), strict=True):
        counts, some = np.zeros(1200, np.int64), np.zeros(40, np.uint8)
        tally(groups, ids, 40, counts)
        mark_ids(ids, some)
        np.testing.assert_array_equal(counts.reshape(30, 40), expected)
        np.testing.assert_array_equal(np.flatnonzero(some), np.unique(ids))


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("size", [0, 1, 7, 1000])
def test_totals_of_kept_rows(dtype: Any, size: int) -> None:
    rng = np.random.default_rng(size)
    ids = rng.integers(0, 50, size).astype(dtype)
    mask = rng.integers(0, 2, size).astype(np.uint8)
    kept = ids[mask == 1]
    for kernel in forms(kernels.total_ids):
        assert int(kernel(ids)) == int(ids.sum())
    for kernel in forms(kernels.total_ids_kept):
        assert int(kernel(ids, mask)) == int(kept.sum())
    for lut in (rng.integers(-(1 << 40), 1 << 40, 50), rng.integers(-(1 << 40), 1 << 40, 50) / 4):
        for kernel in forms(kernels.total_coded_kept):
            assert kernel(ids, mask, lut) == lut[kept].sum()
        for kernel in forms(kernels.total_values_kept):
            assert kernel(lut[ids], mask, lut.dtype.type(0)) == lut[kept].sum()


def test_totals_of_kept_rows_leave_infinities_of_others_out() -> None:
    ids, mask = np.array([0, 1, 2, 1, 2], np.uint8), np.array([1, 0, 1, 0, 1], np.uint8)
    values = np.array([1.0, np.inf, 2.0])
    for kernel in forms(kernels.total_coded_kept):
        assert kernel(ids, mask, values) == 5
    for kernel in forms(kernels.total_values_kept):
        assert kernel(values[ids], mask, 0.0) == 5


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.int32])
def test_mark_id_range(dtype: Any) -> None:
    largest = min(int(np.iinfo(dtype).max), 1 << 20)
    ids = np.random.default_rng(2).integers(0, largest + 1, 500).astype(dtype)
    for first, last in [(0, 1), (0, largest), (1, largest + 1), (largest // 3, largest // 2), (5, 5)]:
        out = np.empty(500, np.bool_)
        mark_id_range(ids, first, last, out)
        assert out.tolist() == ((ids >= first) & (ids < last)).tolist()
