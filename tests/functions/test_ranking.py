"""Ids in order of arrival, remapped to the order of their values."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from gamay.functions.ranking import comparable, in_order
from gamay.functions.vector import EncodedVector, Vector
from gamay.model.types import DataType

CASES = {
    DataType.STRING: pa.array(["b", "", "é", "a", "z"]),
    DataType.BYTES: pa.array([b"\xff", b"", b"a"]),
    DataType.DOUBLE: np.array([1.5, -2.0, np.inf, 0.0]),
    DataType.BIG_DECIMAL: np.array([Decimal("1.5"), Decimal("-2"), Decimal(3)], object),
}


def listed(values):
    return values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()


@pytest.mark.parametrize("data_type", CASES, ids=str)
def test_the_same_values_come_out_and_ids_ascend_as_they_do(data_type):
    dictionary = Vector(data_type, CASES[data_type], derived={})
    ids = np.array([2, 0, 1, 1, 2], np.uint8)
    ordered = in_order(EncodedVector(ids, dictionary, None, np.array([False, True, False, False, False])))
    values = listed(CASES[data_type])
    assert listed(ordered.decode().values) == [values[i] for i in ids]
    assert listed(ordered.dictionary.values) == sorted(values)
    assert ordered.dictionary.ascends
    assert ordered.nulls.tolist() == [False, True, False, False, False]
    assert in_order(ordered) is ordered
    assert in_order(EncodedVector(ids, dictionary)).dictionary is ordered.dictionary


def test_a_large_dictionary_is_not_sorted_for_few_rows():
    texts = pa.array([f"{i * 7919 % 1000}" for i in range(1000)])
    few = EncodedVector(np.array([1, 2], np.uint16), Vector(DataType.STRING, texts, derived={}))
    assert isinstance(comparable(few), Vector)
    in_order(few)
    assert isinstance(comparable(few), EncodedVector)
    number = EncodedVector(np.array([1, 0], np.uint8), Vector(DataType.INT, np.array([5, 3], np.int32)))
    assert comparable(number).values.tolist() == [3, 5]
