"""Ranges over raw numbers, compared as in Python, with NaN above all."""

from typing import Any

import numpy as np
import pytest

from gamay.functions.vector import Vector, numpy_dtype
from gamay.model.types import DataType as D
from gamay.query.bind.predicate import In, Range
from gamay.query.filter.values import in_test, range_test

FLOATS = [-np.inf, -1.5, -5e-324, -0.0, 0.0, 5e-324, 1.0, 1.5, np.inf, np.nan]
LIMITS = [None, -np.inf, -1.5, -0.0, 0.0, 1.0, 1.25, np.inf]


def is_within(value: Any, lower: Any, upper: Any, closed: tuple[bool, bool]) -> bool:
    above = lower is None or value != value or value > lower or (closed[0] and value == lower)
    below = upper is None or (value == value and (value < upper or (closed[1] and value == upper)))
    return above and below


@pytest.mark.parametrize("closed", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("data_type", [D.DOUBLE, D.FLOAT, D.INT, D.LONG, D.TIMESTAMP])
def test_ranges(data_type: D, closed: tuple[bool, bool]) -> None:
    dtype = numpy_dtype(data_type)
    if dtype.kind == "f":
        values, limits = np.array(FLOATS, dtype), LIMITS
    else:
        ends = np.iinfo(dtype)
        values = np.array([ends.min, ends.min + 1, -1, 0, 1, 2, ends.max - 1, ends.max], dtype)
        limits = [None, ends.min, -1, 1, ends.max]
    for lower in limits:
        for upper in limits:
            if lower is upper is None:
                continue
            found = range_test(Range("x", lower, upper, *closed), data_type)(Vector(data_type, values))
            assert found.dtype == np.bool_
            expected = [is_within(value, lower, upper, closed) for value in values.tolist()]
            assert found.tolist() == expected, (lower, upper)
    for wanted in (values[:1], values[1:4], values[:6]):
        mask = in_test(In("x", tuple(wanted.tolist())), data_type)(Vector(data_type, values))
        assert mask.tolist() == [value in wanted.tolist() for value in values.tolist()]
