"""Running totals, packed and unpacked, against NumPy."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.functions.aggregate.lookup import Lookup
from gamay.functions.aggregate.totals import packed
from gamay.functions.aggregate.totals.null_totals import NullableTotals
from gamay.functions.aggregate.totals.packed import Packed
from gamay.functions.aggregate.totals.totals import Needs, Totals
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType

BOTH = Needs.COUNT | Needs.SUM


def column(values: list[int]) -> Vector:
    return Vector(DataType.LONG, np.array(values, np.int64))


SMALL = column([-70_000, -3, 0, 5, 60_000])
WIDE = column([-70_000, 0, 70_000])
STEPS = column([10, 20, 30])
HUGE = column([-(1 << 60), 7, 1 << 60])


@settings(deadline=None)  # the first example may compile
@given(st.lists(st.tuples(st.sampled_from([SMALL, STEPS, HUGE]), st.integers(0, 90)), max_size=8), st.integers(0, 9))
def test_counts_and_sums_of_changing_dictionaries(blocks: list[tuple[Vector, int]], seed: int) -> None:
    rng = np.random.default_rng(seed)
    totals = Totals(BOTH, DataType.LONG, 5)
    counts, sums = [0] * 9, [0] * 9
    for number, (dictionary, rows) in enumerate(blocks):
        if number == 4:
            totals.grow(9)
        ids = rng.integers(0, len(dictionary), rows).astype(np.uint8)
        groups = rng.integers(0, totals.num_groups, rows).astype(np.uint8)
        totals.update(groups, EncodedVector(ids, dictionary), rows)
        for group, value in zip(groups.tolist(), dictionary.values[ids].tolist(), strict=True):
            counts[group] += 1
            sums[group] += value
    partial = totals.partial(BOTH)
    assert partial.counts is not None
    assert partial.sums is not None
    assert partial.counts.tolist() == counts[: totals.num_groups]
    np.testing.assert_allclose(partial.sums, np.array(sums[: totals.num_groups], float), rtol=1e-12, atol=1e4)
    if not any(dictionary is HUGE for dictionary, _ in blocks):
        assert partial.sums.tolist() == sums[: totals.num_groups]


def test_cells_are_taken_before_they_run_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_ROWS_MAX", 100)
    totals, others = Totals(BOTH, DataType.LONG, 2), Totals(BOTH, DataType.LONG, 2)
    for rows in (60, 60, 101, 100, 1):  # 101 rows never fit, and are added unpacked
        totals.update(np.zeros(rows, np.uint8), EncodedVector(np.full(rows, 4, np.uint8), SMALL), rows)
        others.update(np.ones(rows, np.uint8), EncodedVector(np.full(rows, 0, np.uint8), SMALL), rows)
    totals.combine(others)
    partial = totals.partial(BOTH)
    assert partial.counts is not None
    assert partial.sums is not None
    assert partial.counts.tolist() == [322, 322]
    assert partial.sums.tolist() == [322 * 60_000, 322 * -70_000]


def test_what_is_not_packed() -> None:
    assert Packed.of(Lookup.of(WIDE), 5, 4) is None  # values too far apart
    assert Packed.of(Lookup.of(HUGE), 5, 4) is None
    assert Packed.of(Lookup.of(STEPS), 1 << 20, 1) is None
    assert Packed.of(Lookup.of(Vector(DataType.DOUBLE, np.array([1.0, 2.0]))), 5, 4) is None
    assert Packed.of(Lookup.of(column([])), 5, 4) is None
    assert Packed.of(Lookup.of(STEPS), 5, 4) is not None


@pytest.mark.parametrize("dictionary", [SMALL, STEPS, HUGE, column([9]), Vector(DataType.DOUBLE, np.array([0.5, 1, 8]))])
def test_kept_rows(dictionary: Vector) -> None:
    rng = np.random.default_rng(1)
    ids, mask = rng.integers(0, len(dictionary), 300).astype(np.uint16), rng.integers(0, 2, 300).astype(np.uint8)
    values: Any = dictionary.values[ids][mask == 1]
    for operand in (EncodedVector(ids, dictionary), Vector(dictionary.type, dictionary.values[ids])):
        totals = Totals(BOTH, dictionary.type, 1)
        totals.update_kept(mask, len(values), operand)
        partial = totals.partial(BOTH)
        assert partial.counts is not None
        assert partial.sums is not None
        assert partial.counts.tolist() == [len(values)]
        assert float(partial.sums[0]) == pytest.approx(float(sum(values.tolist())), abs=1e4 if dictionary is HUGE else 0)


def encoded(values: Any, rng: np.random.Generator) -> EncodedVector | Vector:
    """Return the values as they are, or by ids."""
    if rng.integers(2):
        return Vector(DataType.DOUBLE, values)
    dictionary, ids = np.unique(values, return_inverse=True)
    return EncodedVector(ids.astype(np.uint16), Vector(DataType.DOUBLE, dictionary))


@settings(deadline=None)  # the first example may compile
@given(
    st.lists(st.tuples(st.integers(0, 90), st.sampled_from([0.0, 0.05, 0.9, 1.0])), max_size=6),
    st.sampled_from([Needs.SUM, BOTH, Needs.LOW, Needs.LOW | Needs.HIGH, BOTH | Needs.HIGH]),
    st.sampled_from(["one", "many", "mask"]),
    st.integers(0, 99),
)
def test_totals_of_what_is_not_null(batches: list[tuple[int, float]], needs: Needs, way: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    needs = BOTH if way == "mask" else needs
    totals, threads = NullableTotals(needs, DataType.DOUBLE, 5), NullableTotals(needs, DataType.DOUBLE, 9)
    expected: list[list[float]] = [[] for _ in range(9)]
    for number, (rows, share) in enumerate(batches):
        if number == 3:
            totals.grow(9)
        nulls = rng.random(rows) < share
        values = np.where(nulls, np.nan, rng.integers(-50, 50, rows).astype(float))  # placeholders of nulls must not count
        operand = encoded(values, rng)
        target = threads if number == 4 else totals
        groups = rng.integers(0, 9 if number >= 3 else 5, rows).astype(np.uint8)
        kept = ~nulls
        if way == "many":
            target.update(groups.astype(rng.choice(["u1", "u2", "i4"])), operand, nulls if share else None, rows)
        elif way == "one":
            target.update(None, operand, nulls if share else None, rows)
        else:
            mask = rng.integers(0, 2, rows).astype(np.uint8)
            target.update_kept(mask, int(mask.sum()), nulls if share else None, operand)
            kept &= mask.view(bool)
        for group, value in zip(groups[kept].tolist(), values[kept].tolist(), strict=True):
            expected[group if way == "many" else 0].append(value)
    if len(batches) < 4:
        totals.grow(9)
    totals.combine(threads)
    partial = totals.partial(needs)
    assert partial.counts is not None
    assert partial.counts.tolist() == [len(values) for values in expected]
    if Needs.SUM in needs:
        assert partial.sums is not None
        assert partial.sums.tolist() == [sum(values) for values in expected]
    if Needs.LOW in needs:
        assert partial.lows is not None
        assert partial.lows.tolist() == [min(values, default=np.inf) for values in expected]
    if Needs.HIGH in needs:
        assert partial.highs is not None
        assert partial.highs.tolist() == [max(values, default=-np.inf) for values in expected]
