"""The zones of a column against its rows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.model.types import DataType
from gamay.segment.mutable.zones import GrowingZones
from gamay.segment.zones import ZONE_ROWS, Zones, zones_of

ROWS = 10 * ZONE_ROWS + 77


def near_order(dtype: str) -> Any:
    """Return rows in about the order of their values."""
    return (np.arange(ROWS) // 300 + np.random.default_rng(1).integers(0, 20, ROWS)).astype(dtype)


def bounds(rows: Any) -> list[tuple[Any, Any]]:
    parts = np.split(rows, range(ZONE_ROWS, len(rows), ZONE_ROWS))
    return [(part.min(), part.max()) for part in parts]


@pytest.mark.parametrize("dtype", ["uint8", "int32", "int64", "float32", "float64"])
def test_bounds_are_those_of_the_rows_of_each_zone(dtype: str) -> None:
    rows = near_order(dtype)
    found = zones_of(lambda start, stop: rows[start:stop], ROWS)
    assert found is not None
    assert list(zip(found.low, found.high, strict=True)) == bounds(rows)
    assert found.low.dtype == rows.dtype


def test_nan_is_below_and_above_everything() -> None:
    rows = near_order("float64")
    rows[5 * ZONE_ROWS + 3] = np.nan
    growing = GrowingZones(rows.dtype)
    for start in range(0, ROWS, 1000):
        growing.append(rows[start : start + 1000], start)
    for found in (zones_of(lambda start, stop: rows[start:stop], ROWS), growing.of_first(ROWS)):
        assert found is not None
        assert (found.low[5], found.high[5]) == (-np.inf, np.inf)
        assert np.isfinite(np.delete(found.low, 5)).all()
        assert found.meeting(1e9, None).nonzero()[0].tolist() == [5]


@pytest.mark.parametrize("count", [0, 1, 7 * ZONE_ROWS])
def test_few_rows_have_no_zones(count: int) -> None:
    assert zones_of(lambda start, stop: np.arange(start, stop), count) is None


@pytest.mark.parametrize("rows", [np.random.default_rng(2).integers(0, 1000, ROWS), np.zeros(ROWS), np.full(ROWS, np.nan)])
def test_zones_that_tell_nothing_are_not_kept(rows: Any) -> None:
    read: list[int] = []

    def values(start: int, stop: int) -> Any:
        read.append(stop - start)
        return rows[start:stop]

    assert zones_of(values, ROWS) is None
    assert sum(read) <= 16 * ZONE_ROWS  # a sample has shown it


VALUES = st.integers(-5, 15)


@settings(max_examples=200)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=6), st.lists(VALUES, min_size=1, max_size=4), VALUES, VALUES)
def test_zones_that_may_hold_a_value_are_found(pairs: Any, wanted: list[int], first: int, last: int) -> None:
    low, high = np.sort(np.array(pairs), axis=1).T
    zones = Zones(low, high)
    held = [any(a <= value <= b for value in wanted) for a, b in zip(low, high, strict=True)]
    assert zones.holding(np.unique(wanted)).tolist() == held
    assert zones.meeting(first, last).tolist() == [a <= last and b >= first for a, b in zip(low, high, strict=True)]
    assert zones.meeting(None, last).tolist() == (low <= last).tolist()
    assert zones.meeting(first, None).tolist() == (high >= first).tolist()


def test_the_order_of_zones_is_that_of_what_they_have_first() -> None:
    zones = Zones(np.array([5, 1, 3]), np.array([6, 9, 4]))
    assert zones.from_the_first(descending=False).tolist() == [1, 2, 0]
    assert zones.from_the_first(descending=True).tolist() == [1, 0, 2]


def test_columns_in_order_and_lists_have_none(kit: Any) -> None:
    near = near_order("int64")
    columns = {"near": near.tolist(), "up": list(range(ROWS)), "lists": [[value] for value in near.tolist()]}
    fields = [kit.field("near", DataType.LONG), kit.field("up", DataType.LONG), kit.field("lists", DataType.LONG, False)]
    segment = kit.open(kit.schema(*fields), kit.config(), columns)
    assert [segment.column(name).zones is None for name in columns] == [False, True, True]
