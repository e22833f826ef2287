"""Sums of a few integers without states equal those of `Totals`."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.functions.aggregate.totals.totals import Needs, Totals, whole_total
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=20), st.booleans())
def test_as_totals_do_or_not_at_all(values: list[int], small: bool) -> None:
    numbers = np.array([value >> 16 if small else value for value in values], np.int64)
    entries, ids = np.unique(numbers, return_inverse=True)
    coded = EncodedVector(ids.astype(np.uint8), Vector(DataType.LONG, entries, derived={}, ascends=True))
    for operand in (Vector(DataType.LONG, numbers), coded):
        totals = Totals(Needs.SUM, DataType.LONG, 1)
        totals.update(None, operand, len(numbers))
        sums = totals.partial(Needs.SUM).sums
        assert sums is not None
        found = whole_total(operand)
        assert found is None if sums.dtype == np.float64 else found == int(sums[0])


@pytest.mark.parametrize("data_type", [DataType.INT, DataType.BOOLEAN, DataType.TIMESTAMP])
def test_of_other_types(data_type: DataType) -> None:
    dtype = {DataType.INT: np.int32, DataType.BOOLEAN: np.bool_, DataType.TIMESTAMP: np.int64}[data_type]
    assert whole_total(Vector(data_type, np.array([1, 0, 1], dtype))) == 2
    assert whole_total(Vector(data_type, np.array([], dtype))) == 0
