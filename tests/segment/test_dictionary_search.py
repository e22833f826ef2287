"""Search in a sorted dictionary: every value is found at its position, and no other value."""

from decimal import Decimal

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from gamay.model.types import DataType
from gamay.segment.encode.dictionary import SortedDictionary, sort_distinct


@given(st.lists(st.text(max_size=4), max_size=40), st.lists(st.text(max_size=4), max_size=10))
def test_texts(values: list[str], others: list[str]) -> None:
    stored, _ = sort_distinct([pa.array([value.encode() for value in values], pa.binary())], DataType.STRING)
    dictionary = SortedDictionary(DataType.STRING, stored)
    expected = sorted(set(values), key=str.encode)
    for value in {*values, *others}:
        assert dictionary.id_of(value) == (expected.index(value) if value in expected else -1)


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False), max_size=20), st.decimals(-9, 9, allow_nan=False))
def test_decimals(values: list[Decimal], other: Decimal) -> None:
    texts = pa.array([format(value, "f").encode() for value in values], pa.binary())
    stored, _ = sort_distinct([texts], DataType.BIG_DECIMAL)
    dictionary = SortedDictionary(DataType.BIG_DECIMAL, stored)
    expected = sorted(set(values))
    for value in (*values, other):
        assert dictionary.id_of(value) == (expected.index(value) if value in expected else -1)
