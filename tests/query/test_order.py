"""Sorting: the order of each type, and the first rows against Python's sort."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.functions.expression import Column
from gamay.functions.vector import EncodedVector, Vector
from gamay.kernels.rows.filter import rows_in_id_range
from gamay.model.types import DataType as D
from gamay.query.bind.binder import SortKey
from gamay.query.columns.order import Bound, CommonBound, bound_of, sort_array, top_rows
from gamay.query.selection import leading_rows
from gamay.segment.encode.dictionary import SortedDictionary


@pytest.mark.parametrize(
    "ascending",
    [
        Vector(D.DOUBLE, np.array([-np.inf, -1.5, 0.0, 1e-300, 2.0, np.inf, np.nan])),
        Vector(D.FLOAT, np.array([-np.inf, -1.5, 2.0, np.nan], np.float32)),
        Vector(D.LONG, np.array([-(2**63), -1, 0, 2**63 - 1])),
        Vector(D.BOOLEAN, np.array([False, True])),
        Vector(D.STRING, pa.array(["", "A", "a", "é", "\ufffd", "😀"])),
        Vector(D.BYTES, pa.array([b"", b"\x00", b"a", b"\xff"])),
        Vector(D.BIG_DECIMAL, np.array([Decimal("-1"), Decimal("0.5"), Decimal("1E+3")], object)),
        EncodedVector(np.array([0, 1, 2], np.uint8), Vector(D.STRING, pa.array(["a", "b", "c"]))),
    ],
)
def test_each_type_has_its_order(ascending: Vector | EncodedVector) -> None:
    up = sort_array(ascending, False, True)
    assert (np.diff(up) > 0).all()
    assert (np.diff(sort_array(ascending, True, False)) < 0).all()


def test_zeros_are_equal_and_nulls_stand_where_they_are_wanted() -> None:
    assert len(set(sort_array(Vector(D.DOUBLE, np.array([0.0, -0.0])), False, True))) == 1
    key = Vector(D.INT, np.array([5, 0, -5], np.int32), nulls=np.array([False, True, False]))
    assert top_rows([sort_array(key, False, True)], 3).tolist() == [2, 0, 1]
    assert top_rows([sort_array(key, True, False)], 3).tolist() == [1, 0, 2]


KEYS = st.lists(st.tuples(st.integers(-3, 3), st.integers(-2, 2)), max_size=60)


@given(KEYS, st.integers(0, 70))
def test_first_rows_are_those_of_a_stable_sort(rows: list[tuple[int, int]], limit: int) -> None:
    keys: list[Any] = [np.array([row[k] for row in rows], np.int64) for k in (0, 1)]
    expected = sorted(range(len(rows)), key=lambda i: rows[i])[:limit]
    assert top_rows(keys, limit).tolist() == expected


@given(st.lists(st.floats(width=32), min_size=1, max_size=30), st.booleans(), st.integers(1, 30))
def test_a_bound_drops_only_rows_that_come_later(values: list[float], descending: bool, limit: int) -> None:
    key = Vector(D.DOUBLE, np.array(values))
    order = sort_array(key, descending, True)
    first = top_rows([order], limit)
    bound = bound_of(Vector(D.DOUBLE, key.values[first]), descending, True)
    if bound is not None:
        assert set(first.tolist()) <= set(bound.candidates(key).tolist())
        assert (order[bound.candidates(key)] <= order[first].max()).all()


def test_a_decimal_that_is_no_number_is_greater_than_all() -> None:
    values = np.array([Decimal("NaN"), Decimal("2.50"), Decimal("-1"), Decimal("NaN"), Decimal("2.5")], object)
    column = Vector(D.BIG_DECIMAL, values)
    assert top_rows([sort_array(column, descending=False, nulls_last=True)], 5).tolist() == [2, 1, 4, 0, 3]
    assert top_rows([sort_array(column, descending=True, nulls_last=True)], 5).tolist() == [0, 3, 1, 4, 2]


@given(st.lists(st.text(max_size=3), min_size=1, max_size=30), st.booleans(), st.integers(1, 30))
def test_a_bound_drops_only_texts_that_come_later(values: list[str], descending: bool, limit: int) -> None:
    key = Vector(D.STRING, pa.array(values))
    first = top_rows([sort_array(key, descending, True)], limit)
    bound = bound_of(Vector(D.STRING, key.values.take(pa.array(first))), descending, True)
    assert bound is not None
    last = values[first[-1]].encode()
    kept = [i for i, value in enumerate(values) if (value.encode() >= last if descending else value.encode() <= last)]
    assert bound.candidates(key).tolist() == kept


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.int32])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_rows_in_a_range_of_ids(dtype: Any, size: int) -> None:
    rng = np.random.default_rng(size)
    most = min(np.iinfo(dtype).max, 1000)
    ids = rng.integers(0, most, size, dtype, endpoint=True)
    found = np.empty(size + 1, np.int64)
    for first, last in [(0, 0), (0, most), (most, np.iinfo(dtype).max), (3, 5), (most - 1, most)]:
        count = rows_in_id_range(ids, first, last, found)
        assert found[:count].tolist() == np.flatnonzero((ids >= first) & (ids <= last)).tolist()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.int32, np.bool_])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
@pytest.mark.parametrize("descending", [False, True])
def test_rows_within_a_bound_of_numbers(dtype: Any, size: int, descending: bool) -> None:
    rng = np.random.default_rng(size)
    values = (rng.integers(-20, 20, size) / 4).astype(dtype)
    if dtype in (np.float64, np.float32) and size:
        values[rng.integers(0, size, size // 8)] = np.nan
    for limit in (-9, -3, 0, 2.5, 9):
        bound = dtype(limit)
        found = Bound(bound, descending, True).candidates(Vector(D.DOUBLE, values))
        expected = ~(values < bound) if descending else values <= bound
        assert found.tolist() == np.flatnonzero(expected).tolist()


@pytest.mark.parametrize("descending", [False, True])
def test_parts_share_the_tightest_bound(descending: bool) -> None:
    """Segments with other dictionaries, one of 256 values, which are all before or all behind the bound of another."""
    parts = [range(0, 500, 2), range(1000, 1256), range(301, 340), range(2000, 2001)]
    common, lasts = CommonBound(descending), []
    for values in parts:
        dictionary = SortedDictionary(D.INT, np.array(values, np.int32))
        ids = np.arange(len(values)).astype(np.min_scalar_type(len(values) - 1))
        key = EncodedVector(ids, dictionary.values)
        bound = common.tightened(None, dictionary, nulls_last=True)
        if not lasts:
            assert bound is None
        else:
            best = max(lasts) if descending else min(lasts)
            assert bound is not None
            wanted = [i for i, v in enumerate(values) if (v >= best if descending else v <= best)]
            assert bound.candidates(key).tolist() == wanted
        first = top_rows([sort_array(key, descending, True)], 10)
        own = bound_of(EncodedVector(ids[first], dictionary.values), descending, True)
        assert own is not None
        common.offer(own, D.INT, dictionary)
        lasts.append(values[first[-1]])


@pytest.mark.parametrize("limit", [0, 1, 20, 300, 1200])
@pytest.mark.parametrize(("descending", "nulls_last"), [(False, True), (False, False), (True, True), (True, False)])
@pytest.mark.parametrize("null_share", [0.0, 0.2, 0.97])
def test_leading_rows_of_many_texts(limit: int, descending: bool, nulls_last: bool, null_share: float) -> None:
    rng = np.random.default_rng(limit)
    texts = [f"é {number}" for number in rng.integers(0, 3000, 5000)]  # in pairs, so that ties matter
    nulls = rng.random(5000) < null_share if null_share else None
    key = Vector(D.STRING, pa.array(texts), nulls=nulls)
    sort = SortKey(Column("text"), descending, nulls_last)
    first = top_rows([sort_array(key, descending, nulls_last)], limit)
    chosen = leading_rows(key, sort, limit)
    if chosen is None:
        assert not 0 < limit < 1250
        return
    assert (np.diff(chosen) > 0).all()
    assert set(first.tolist()) <= set(chosen.tolist())
    if null_share == 0 or (nulls_last and null_share < 0.5):
        assert len(chosen) < 2 * limit + 20  # and hardly any others
