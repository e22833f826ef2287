"""Values in answers to PQL, against decimal arithmetic and vectors of the reference."""

import uuid
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, localcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.broker.http.legacy_format import aggregate_texts, group_texts, selection_texts
from gamay.functions.vector import Vector
from gamay.model.types import DataType

D = DataType
INF = float("inf")


def column(data_type: DataType, values: Any, **rest: Any) -> Vector:
    dtypes = {D.INT: np.int32, D.LONG: np.int64, D.TIMESTAMP: np.int64, D.FLOAT: np.float32, D.DOUBLE: np.float64}
    if data_type in dtypes:
        return Vector(data_type, np.array(values, dtypes[data_type]), **rest)
    if data_type is D.BOOLEAN:
        return Vector(data_type, np.array(values, bool), **rest)
    if data_type is D.BIG_DECIMAL:
        return Vector(data_type, np.array(values, object), **rest)
    return Vector(data_type, pa.array(values, pa.string() if data_type.is_text else pa.binary()), **rest)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (15.0, "15.00000"),
        (1 / 3, "0.33333"),
        (-2 / 3, "-0.66667"),
        (0.000005, "0.00001"),  # half up, of the digits that are printed
        (0.000015, "0.00002"),
        (-0.0, "0.00000"),
        (1e20, "100000000000000000000.00000"),
        (2.0**62 + 2.0**11, f"{2**62 + 2**11}.00000"),
        (1e23, f"1{'0' * 23}.00000"),  # not 99999999999999991611392, which is as near
        (-1.5e300, f"-15{'0' * 299}.00000"),
        (123456789.123456789, "123456789.12346"),
        (INF, "Infinity"),
        (-INF, "-Infinity"),
        (float("nan"), "NaN"),
    ],
)
def test_double_aggregates(value: float, text: str) -> None:
    assert aggregate_texts(column(D.DOUBLE, [value])) == [text]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_double_aggregates_round_half_up(value: float) -> None:
    [text] = aggregate_texts(column(D.DOUBLE, [value]))
    assert text is not None
    is_long = value.is_integer() and abs(value) < 2**63
    shortest = Decimal(repr(value))
    is_whole = shortest == shortest.to_integral_value()
    wanted = Decimal(value) if is_long else shortest if is_whole else shortest.quantize(Decimal("1e-5"), ROUND_HALF_UP)
    assert Decimal(text) == wanted
    assert len(text.partition(".")[2]) == 5


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_doubles_of_selections_round_half_even(value: float) -> None:
    """The shortest notation of a double is shown; if that has too many digits, the exact value is rounded."""
    [text] = selection_texts(column(D.DOUBLE, [value]))
    shortest = Decimal(repr(value))
    is_shown = shortest.as_tuple().exponent >= -10
    with localcontext(prec=400):
        assert Decimal(text) == (shortest if is_shown else Decimal(value).quantize(Decimal("1e-10"), ROUND_HALF_EVEN))
    whole, _, fraction = text.partition(".")
    assert whole
    assert 1 <= len(fraction) <= 10
    assert fraction == "0" or not fraction.endswith("0")


@pytest.mark.parametrize(
    ("data_type", "value", "text"),
    [
        (D.INT, -5, "-5"),
        (D.LONG, 2**62, str(2**62)),
        (D.DOUBLE, 123456789.123456789, "123456789.12345679"),  # exactly 123456789.12345679104328155517578125
        (D.DOUBLE, 1e23, f"1{'0' * 23}.0"),
        (D.DOUBLE, 0.12345678905, "0.1234567891"),  # which is a little more than half
        (D.FLOAT, 0.1, "0.1"),
        (D.FLOAT, 1 / 3, "0.33333"),
        (D.FLOAT, 2.0, "2.0"),
        (D.DOUBLE, 2.0, "2.0"),
        (D.DOUBLE, 1e-12, "0.0"),
        (D.DOUBLE, 1 / 3, "0.3333333333"),
        (D.DOUBLE, INF, "Infinity"),
        (D.STRING, "a'b", "a'b"),
        (D.BOOLEAN, True, "true"),
        (D.TIMESTAMP, 1_700_000_000_500, "2023-11-14 22:13:20.5"),
        (D.BIG_DECIMAL, Decimal("1.50"), "1.50"),
        (D.BYTES, b"\x01\xff", "01ff"),
        (D.UUID, uuid.UUID(int=7).bytes, str(uuid.UUID(int=7))),
    ],
)
def test_selected_values(data_type: DataType, value: Any, text: str) -> None:
    assert selection_texts(column(data_type, [value])) == [text]


def test_lists_and_nulls() -> None:
    offsets = np.array([0, 2, 2, 3], np.int32)
    assert selection_texts(column(D.DOUBLE, [1.0, 0.25, 3.0], offsets=offsets)) == [["1.0", "0.25"], [], ["3.0"]]
    nulls = np.array([False, True])
    for texts in (selection_texts, aggregate_texts):
        assert texts(column(D.LONG, [4, 0], nulls=nulls)) == ["4", None]
    assert aggregate_texts(column(D.DOUBLE, [4, 0], nulls=nulls)) == ["4.00000", None]
    assert group_texts(column(D.DOUBLE, [4, 0], nulls=nulls)) == ["4.0", None]


def test_group_keys_are_printed_as_java_prints() -> None:
    assert group_texts(column(D.DOUBLE, [1.0, 1e10, 0.1, float("nan")])) == ["1.0", "1.0E10", "0.1", "NaN"]
    assert group_texts(column(D.FLOAT, [1.0, 0.1])) == ["1.0", "0.1"]
    assert group_texts(column(D.INT, [1])) == ["1"]
    assert group_texts(column(D.STRING, ["a"])) == ["a"]
