"""Literals converted to a column's type: nothing is truncated or wrapped."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.expression import Literal
from gamay.model.types import DataType as D
from gamay.query.bind.coerce import coerce_equal, coerce_lower, coerce_upper


def literal(value: Any) -> Literal:
    """Return a literal of the value's own type, which coercion ignores."""
    return Literal(value, D.UNKNOWN)


@pytest.mark.parametrize(
    ("value", "data_type", "expected"),
    [
        (5.5, D.INT, None),
        (5.0, D.INT, 5),
        ("17", D.INT, 17),
        ("5.0", D.LONG, 5),
        (2**31, D.INT, None),
        (2**63, D.LONG, None),
        (True, D.INT, 1),
        (1, D.DOUBLE, 1.0),
        (2**53 + 1, D.DOUBLE, None),
        ("NaN", D.LONG, None),
        (1.1, D.FLOAT, 1.100000023841858),
        (1e300, D.FLOAT, None),
        (0.1, D.BIG_DECIMAL, Decimal("0.1")),
        ("1.50", D.BIG_DECIMAL, Decimal("1.5")),
        ("TRUE", D.BOOLEAN, True),
        ("1", D.BOOLEAN, True),
        ("yes", D.BOOLEAN, False),
        (2, D.BOOLEAN, False),
        ("Infinity", D.BIG_DECIMAL, Decimal("Infinity")),
        ("NaN", D.BIG_DECIMAL, None),
        (0, D.BOOLEAN, False),
        ("1970-01-01 00:00:01.5", D.TIMESTAMP, 1500),
        ("1970-01-01T01:00:00+01:00", D.TIMESTAMP, 0),
        ("1970-01-02", D.TIMESTAMP, 86_400_000),
        ("12345", D.TIMESTAMP, 12345),
        (12345.5, D.TIMESTAMP, None),
        (7, D.STRING, "7"),
        (1e10, D.STRING, "1.0E10"),
        (True, D.STRING, "true"),
        ("fF00", D.BYTES, b"\xff\x00"),
        ("00000000-0000-0000-0000-000000000005", D.UUID, b"\x00" * 15 + b"\x05"),
    ],
)
def test_equality(value: Any, data_type: D, expected: Any) -> None:
    assert coerce_equal(literal(value), data_type, "c") == expected


@pytest.mark.parametrize(
    ("value", "data_type"),
    [
        ("abc", D.INT),
        ("zz", D.BYTES),
        (5, D.BYTES),
        ("x", D.UUID),
        ("yesterday", D.TIMESTAMP),
        (b"a", D.LONG),
        (None, D.INT),
    ],
)
def test_what_cannot_be_read_is_an_error(value: Any, data_type: D) -> None:
    with pytest.raises(QueryError, match="'price'"):
        coerce_equal(literal(value), data_type, "price")


INTEGERS = st.integers(-(2**31), 2**31 - 1)
NUMBERS = st.one_of(
    st.integers(-(2**40), 2**40), st.floats(allow_nan=False), st.sampled_from([2**31 - 1, 2**31, -(2**31), 0.5])
)


@given(INTEGERS, NUMBERS, st.booleans())
def test_bounds_keep_exactly_what_the_literal_keeps(value: int, bound: float, inclusive: bool) -> None:
    lower, lower_inclusive = coerce_lower(literal(bound), D.INT, "c", inclusive)
    assert isinstance(lower, int)
    assert (value > lower or (lower_inclusive and value == lower)) == (value > bound or (inclusive and value == bound))
    upper, upper_inclusive = coerce_upper(literal(bound), D.INT, "c", inclusive)
    assert isinstance(upper, int)
    assert (value < upper or (upper_inclusive and value == upper)) == (value < bound or (inclusive and value == bound))


@given(st.floats(allow_nan=False), st.integers(-(2**70), 2**70), st.booleans())
def test_double_bounds_are_exact_for_whole_numbers(value: float, bound: int, inclusive: bool) -> None:
    lower, lower_inclusive = coerce_lower(literal(bound), D.DOUBLE, "c", inclusive)
    assert isinstance(lower, float)
    assert (value > lower or (lower_inclusive and value == lower)) == (value > bound or (inclusive and value == bound))


@given(st.datetimes())
def test_timestamps_are_read_as_utc(moment: Any) -> None:
    moment = moment.replace(microsecond=moment.microsecond // 1000 * 1000)
    with_zone = coerce_equal(literal(moment.isoformat() + "+00:00"), D.TIMESTAMP, "c")
    assert coerce_equal(literal(moment.isoformat(" ")), D.TIMESTAMP, "c") == with_zone


@pytest.mark.parametrize("data_type", [D.INT, D.LONG, D.DOUBLE, D.BIG_DECIMAL])
def test_text_that_is_no_number_is_told_in_words(data_type: D) -> None:
    with pytest.raises(QueryError, match=r"Cannot compare column 'price' of type \w+ with 'x': .*\w") as caught:
        coerce_equal(literal("x"), data_type, "price")
    assert "<class" not in str(caught.value)
