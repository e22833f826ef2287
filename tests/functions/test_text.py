"""Names of result columns, and numbers in Java's notation."""

import math

import numpy as np
import pytest

from gamay.functions.expression import Call, Column, Expression, Literal, Star
from gamay.functions.text import java_double_text, java_float_text, literal_text, to_text
from gamay.model.types import DataType

A, B = Column("a"), Column("B c")
TWO = Literal(2, DataType.INT)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (A, "a"),
        (B, "B c"),
        (Star(), "*"),
        (TWO, "'2'"),
        (Literal("x", DataType.STRING), "'x'"),
        (Literal(True, DataType.BOOLEAN), "'true'"),
        (Literal(None, DataType.UNKNOWN), "'null'"),
        (Literal(b"\x0a", DataType.BYTES), "'0a'"),
        (Literal(float(np.float32(1.1)), DataType.FLOAT), "'1.1'"),
        (Literal(float(np.float32(1.1)), DataType.DOUBLE), "'1.100000023841858'"),
        (Literal(bytes(15) + b"\x05", DataType.UUID), "'00000000-0000-0000-0000-000000000005'"),
        (Call("count", (Star(),)), "count(*)"),
        (Call("sum", (Call("plus", (A, B)),)), "sum(plus(a,B c))"),
        (Call("times", (A, TWO)), "times(a,'2')"),
        (Call("cast", (A, Literal("INT", DataType.STRING))), "cast(a,'INT')"),
        (Call("case", (Call("lessthan", (A, TWO)), A, B)), "case(less_than(a,'2'),a,B c)"),
        (Call("percentile50", (A,)), "percentile50(a)"),
        (Call("percentile", (A, Literal(50, DataType.INT))), "percentile(a, 50.0)"),
        (
            Call("percentiletdigest", (A, Literal(95, DataType.INT), Literal(200, DataType.INT))),
            "percentiletdigest(a, 95.0, 200)",
        ),
        (
            Call("percentiletdigest", (A, Literal(95, DataType.INT), Literal(100, DataType.INT))),
            "percentiletdigest(a, 95.0)",
        ),
        (Call("covarpop", (A, A)), "covarpop(a,a)"),
    ],
)
def test_to_text(expression: Expression, text: str) -> None:
    assert to_text(expression) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (100.0, "100.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (-1.5e300, "-1.5E300"),
        (5e-324, "5.0E-324"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert java_double_text(value) == text == literal_text(value)
    assert math.isnan(value) or float(text.replace("Infinity", "inf")) == value


@pytest.mark.parametrize(("value", "text"), [(0.1, "0.1"), (16777216.0, "1.6777216E7"), (1e-10, "1.0E-10"), (3.0, "3.0")])
def test_floats_as_java_prints_them(value: float, text: str) -> None:
    assert java_float_text(np.float32(value)) == text
