"""Comparing the ids of an ascending dictionary with a constant finds the same rows as comparing the values."""

import itertools
from typing import Any

import numpy as np
import pytest

from gamay.functions.scalar.comparison import MIRRORED, compare
from gamay.functions.vector import EncodedVector, Scalar, Vector, numpy_dtype
from gamay.model.types import DataType as D

COMPARISONS = ("equals", "notequals", *MIRRORED)
NUMBERS: list[Any] = [-(2**63), -(2**31), -2, -1, 0, 1, 2, 5, 2**31 - 1, 2**53, 2**63 - 1]
CONSTANTS = [
    *(Scalar(value, D.LONG) for value in NUMBERS),
    *(Scalar(value, D.DOUBLE) for value in (-0.5, 0.0, -0.0, 1.5, 1e300, -1e300, float("inf"), float("-inf"), float("nan"))),
    *(Scalar(value, D.STRING) for value in ("2", "1.5", "-7")),
]


def entries_of(data_type: D, size: int) -> np.ndarray[Any, Any]:
    """Return ascending values of a type, NaN last as in a dictionary; `size` is how many at most."""
    dtype = numpy_dtype(data_type)
    if dtype.kind == "f":
        values = np.array([-np.inf, -1.5, 0.0, 1.0, 1.5, 2.0, 5.0, np.inf, np.nan], dtype)
    else:
        limits = np.iinfo(dtype)
        values = np.array([value for value in NUMBERS if limits.min <= value <= limits.max], dtype)
    return values[:size]


@pytest.mark.parametrize("data_type", [D.INT, D.LONG, D.FLOAT, D.DOUBLE, D.TIMESTAMP])
@pytest.mark.parametrize("size", [1, 100])
def test_compared_ids(data_type: D, size: int) -> None:
    entries = entries_of(data_type, size)
    for id_type, constant, name in itertools.product((np.uint8, np.uint16, np.uint32, np.int32), CONSTANTS, COMPARISONS):
        if data_type is D.TIMESTAMP and constant.type is D.STRING:  # 1.5 is no time
            continue
        ids = np.random.default_rng(1).integers(0, len(entries), 50).astype(id_type)
        encoded = EncodedVector(ids, Vector(data_type, entries, ascends=True))
        expected = compare(name, encoded.decode(), constant, len(ids))
        assert compare(name, encoded, constant, len(ids)).tolist() == expected.tolist(), (name, constant)


@pytest.mark.parametrize("size", [1, 255, 256])
def test_all_ids_of_a_byte(size: int) -> None:
    entries, ids = np.arange(size, dtype=np.int64), np.arange(size, dtype=np.uint8)
    encoded = EncodedVector(ids, Vector(D.LONG, entries, ascends=True))
    for name, value in itertools.product(COMPARISONS, (-1, 0, 1, 254, 255, 256)):
        found = compare(name, encoded, Scalar(value, D.LONG), size)
        assert found.tolist() == compare(name, encoded.decode(), Scalar(value, D.LONG), size).tolist(), (name, value)
