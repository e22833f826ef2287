"""Rounding, 64-bit integers, bit operations and rand(), against Python's arithmetic."""

import math
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gamay
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.scalar import whole
from gamay.functions.vector import Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

UNHURRIED = settings(deadline=None)  # machines are busy at times
INT, LONG, DOUBLE = DataType.INT, DataType.LONG, DataType.DOUBLE
LONGS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.sampled_from([-(2**63), 2**63 - 1, 0, 1, -1]))
WIDE = Context(prec=800)


def run(text: str, **columns: Vector) -> Any:
    rows = max((len(column) for column in columns.values()), default=1)
    result = evaluate(parse_expression(text), columns.__getitem__, rows)
    types = result_type(parse_expression(text), lambda name: (columns[name].type, False))
    assert types == (result.type, False)
    if isinstance(result, Scalar):
        return result.value
    assert isinstance(result, Vector)
    return result.values.tolist()


def longs(*values: int) -> Vector:
    return Vector(LONG, np.array(values, np.int64))


def ints(*values: int) -> Vector:
    return Vector(INT, np.array(values, np.int32))


def doubles(*values: float) -> Vector:
    return Vector(DOUBLE, np.array(values, np.float64))


def rounded(value: float, scale: int, rounding: str) -> float:
    if not math.isfinite(value):
        return value
    exact = Decimal(repr(value)).quantize(Decimal(1).scaleb(-scale), rounding=rounding, context=WIDE)
    return float(exact)


def same(left: list[float], right: list[float]) -> bool:
    return all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in zip(left, right, strict=True))


def wrapped(value: int, modulus: int) -> int:
    """Return the number between -modulus / 2 and modulus / 2 that is congruent."""
    return (value + modulus // 2) % modulus - modulus // 2


CLOSE_TO_A_DIGIT = st.builds(lambda n, s: n / 10**s, st.integers(-(10**12), 10**12), st.integers(0, 12))


@UNHURRIED
@given(st.lists(st.one_of(st.floats(), CLOSE_TO_A_DIGIT), min_size=1, max_size=20), st.integers(-6, 25))
def test_rounding_is_that_of_the_decimal_text(values: list[float], scale: int) -> None:
    for name, rounding in (("roundDecimal", ROUND_HALF_UP), ("truncate", ROUND_DOWN)):
        found = run(f"{name}(d, {scale})", d=doubles(*values))
        assert same(found, [rounded(value, scale, rounding) for value in values]), name


def test_rounding_next_to_ties() -> None:
    ties = [n / 1000 for n in range(-20_005, 20_005, 5)]
    near = [math.nextafter(t, side) for t in ties for side in (-math.inf, math.inf)]
    for values in (ties, near):
        assert run("roundDecimal(d, 2)", d=doubles(*values)) == [rounded(v, 2, ROUND_HALF_UP) for v in values]


@pytest.mark.parametrize("scale", [-400, 400, -(2**31), 2**31 - 1])
def test_rounding_to_digits_that_no_double_has(scale: int) -> None:
    values = [1.5, -1e308, 5e-324, math.inf, math.nan]
    assert same(run(f"roundDecimal(d, {scale})", d=doubles(*values)), values if scale > 0 else [0, 0, 0, math.inf, math.nan])


@UNHURRIED
@given(LONGS, LONGS)
def test_whole_numbers_fit_or_fail(left: int, right: int) -> None:
    for operator, exact in (("+", left + right), ("-", left - right), ("*", left * right)):
        call = parse_expression("a " + operator + " b")
        columns = {"a": longs(left), "b": longs(right)}
        if -(2**63) <= exact < 2**63:
            result = evaluate(call, columns.__getitem__, 1, post_aggregation=True)
            assert isinstance(result, Vector)
            assert result.values.tolist() == [exact]
        else:
            with pytest.raises(QueryError, match="does not fit 64 bits"):
                evaluate(call, columns.__getitem__, 1, post_aggregation=True)


@UNHURRIED
@given(LONGS, LONGS)
def test_saturating_arithmetic(left: int, right: int) -> None:
    a, b = np.array([left], np.int64), np.array([right], np.int64)
    for found, exact in (
        (whole.add(a, b), left + right),
        (whole.subtract(a, b), left - right),
        (whole.multiply(a, b), left * right),
    ):
        assert found.tolist() == [min(max(exact, -(2**63)), 2**63 - 1)]


@UNHURRIED
@given(LONGS, LONGS)
def test_divisors_and_remainders(left: int, right: int) -> None:
    columns = {"a": longs(left), "b": longs(right)}
    for name, exact in (("gcd", math.gcd(left, right)), ("lcm", math.lcm(left, right))):
        if exact < 2**63:
            assert run(f"{name}(a, b)", **columns) == [exact]
        else:
            with pytest.raises(QueryError, match="64 bits"):
                run(f"{name}(a, b)", **columns)
    assert run("moduloOrZero(a, b)", **columns) == [int(math.copysign(1, left)) * (abs(left) % abs(right)) if right else 0]
    if right:
        assert run("positiveModulo(a, b)", **columns) == [left % abs(right)]


@UNHURRIED
@given(st.integers(-(2**31), 2**31 - 1), LONGS, st.integers(-70, 70))
def test_shifts_are_those_of_java(small: int, large: int, count: int) -> None:
    columns = {"i": ints(small), "l": longs(large), "n": ints(count)}
    for name, value, width in (("i", small, 32), ("l", large, 64)):
        places, full = count & (width - 1), 2**width
        assert run(f"bitShiftLeft({name}, n)", **columns) == [wrapped(value << places, full)]
        assert run(f"bitShiftRight({name}, n)", **columns) == [value >> places]
        assert run(f"bitShiftRightLogical({name}, n)", **columns) == [wrapped((value % full) >> places, full)]
    swapped = int.from_bytes(small.to_bytes(4, "big", signed=True), "little", signed=True)
    assert run("byteswapInt(i)", **columns) == [swapped]
    assert run("byteswapLong(byteswapLong(l))", **columns) == [large]
    assert run("bitCount(l)", **columns) == [(large % 2**64).bit_count()]
    assert run("bitExtract(l, n)", **columns) == [(large % 2**64) >> count & 1 if 0 <= count < 64 else 0]


def test_a_shift_has_the_type_of_what_is_shifted() -> None:
    assert result_type(parse_expression("bitShiftLeft(i, l)"), lambda name: (INT if name == "i" else LONG, False))[0] is INT


def test_remainders_keep_their_kind() -> None:
    assert run("positiveModulo(-7, 3)") == 2
    assert run("positiveModulo(-7.5, 3)") == 1.5
    assert run("moduloOrZero(d, 0)", d=doubles(5.0, math.nan)) == [0.0, 0.0]


def test_width_bucket_at_its_edges() -> None:
    values = doubles(-math.inf, 0, 0.999999, 1, 9.999999999999999, 10, math.inf, math.nan)
    assert run("widthBucket(d, 0, 10, 10)", d=values) == [0, 1, 1, 2, 10, 11, 11, 11]
    with pytest.raises(QueryError, match="number of buckets"):
        run("width_bucket(d, 0, 10, 0)", d=values)


@pytest.mark.parametrize("text", ["9223372036854775807 + 1", "-9223372036854775807 * 2", "5 % 0", "positiveModulo(1, 0)"])
def test_constants_without_a_result_are_errors_of_the_query(text: str) -> None:
    with pytest.raises(QueryError, match="has no value") as caught:
        parse_expression(text)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION


# -- rand()


def test_seeded_numbers_are_those_of_java() -> None:
    # new java.util.Random(seed).nextDouble(), as its documentation's algorithm gives it
    assert run("rand(42)") == 0.7275636800328681
    assert run("rand(0)") == 0.730967787376657
    assert run("rand(l)", l=longs(42, 0, 42)) == [0.7275636800328681, 0.730967787376657, 0.7275636800328681]


def test_each_row_has_a_number_of_its_own(tmp_path: Any) -> None:
    with gamay.connect(tmp_path) as db:
        db.create_table("t", pa.table({"n": [1, 2, 2, 2] * 500}))
        numbers = [row[0] for row in db.sql("SELECT rand() FROM t LIMIT 5000").rows()]
        assert len(set(numbers)) == 2000
        assert all(0 <= number < 1 for number in numbers)
        kept = db.sql("SELECT COUNT(*) FROM t WHERE rand() < 0.5").rows()[0][0]
        assert 800 < kept < 1200
        assert db.sql("SELECT COUNT(DISTINCT n + rand()) FROM t").rows() == [(2000,)]
        kept = db.sql("SELECT COUNT(*) FROM t WHERE n + rand() < 2.5").rows()[0][0]
        assert 1150 < kept < 1350
        assert 0 <= db.sql("SELECT rand()").rows()[0][0] < 1
        assert db.sql("SELECT rand(42)").rows() == [(0.7275636800328681,)]


def test_rand_takes_one_seed() -> None:
    columns: dict[str, Operand] = {}
    for text in ("rand(1, 2)", "rand(CAST('00' AS BYTES))"):
        expression = parse_expression(text)
        with pytest.raises(QueryError) as caught:
            evaluate(expression, columns.__getitem__, 1)
        assert caught.value.code is ErrorCode.QUERY_VALIDATION
