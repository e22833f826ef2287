"""SUMINT, SUMLONG and SUMPRECISION against Python's integers and fractions."""

from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.vector import EncodedVector, Operand, Vector
from gamay.model.types import DataType

LONG_MAX = 2**63 - 1


def longs(values: Any) -> Vector:
    return Vector(DataType.LONG, np.array(values, np.int64))


def encoded(data_type: DataType, values: Any) -> EncodedVector:
    entries, ids = np.unique(np.array(values), return_inverse=True)
    return EncodedVector(ids.astype(np.uint16), Vector(data_type, entries))


def decimals(values: list[str]) -> Vector:
    array = np.empty(len(values), object)
    array[:] = [Decimal(value) for value in values]
    return Vector(DataType.BIG_DECIMAL, array)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from([-LONG_MAX - 1, LONG_MAX, -1, 0, 5, 2**40])), max_size=40),
    st.integers(0, 1000),
    st.booleans(),
)
def test_sums_are_exact_or_an_error(
    bind_call: Any, whole: Any, divided: Any, rows: list[tuple[int, int]], seed: int, coded: bool
) -> None:
    groups, values = np.array([g for g, _ in rows], np.uint8), [v for _, v in rows]
    wanted = [sum(v for g, v in rows if g == group) for group in range(4)]
    occurs = [any(g == group for g, _ in rows) for group in range(4)]
    operand: Operand = encoded(DataType.LONG, values) if coded and rows else longs(values)
    aggregate, precise = bind_call("sumlong", [DataType.LONG]), bind_call("sumprecision", [DataType.LONG])
    for run in (whole, lambda *args: divided(*args, seed)):
        texts = run(precise, [operand], groups, 4)
        nulls = [False] * 4 if texts.nulls is None else texts.nulls.tolist()
        assert nulls == [not found for found in occurs]
        assert [int(text) for text, null in zip(texts.values.to_pylist(), nulls, strict=True) if not null] == [
            total for total, found in zip(wanted, occurs, strict=True) if found
        ]
        if all(-LONG_MAX - 1 <= total <= LONG_MAX for total in wanted):
            assert run(aggregate, [operand], groups, 4).values.tolist() == wanted
        else:
            with pytest.raises(QueryError, match="does not fit 64 bits") as caught:
                run(aggregate, [operand], groups, 4)
            assert caught.value.code is ErrorCode.QUERY_EXECUTION


@pytest.mark.parametrize("data_type", [DataType.INT, DataType.LONG, DataType.BOOLEAN, DataType.TIMESTAMP])
def test_many_rows(data_type: DataType, bind_call: Any, whole: Any) -> None:
    rng = np.random.default_rng(1)
    dtype = {DataType.INT: np.int32, DataType.BOOLEAN: np.bool_}.get(data_type, np.int64)
    values = rng.integers(0, 2, 9000).astype(dtype) if dtype is np.bool_ else rng.integers(-9999, 9999, 9000).astype(dtype)
    groups = rng.integers(0, 7, 9000).astype(np.int32)
    wanted = [int(values[groups == group].sum()) for group in range(7)]
    for operand in (Vector(data_type, values), encoded(data_type, values)):
        for name in ("sumint", "sumlong"):
            aggregate = bind_call(name, [data_type])
            assert whole(aggregate, [operand], groups, 7).values.tolist() == wanted
            assert whole(aggregate, [operand], None, 1).values.tolist() == [sum(wanted)]


def one(result: Vector) -> str | None:
    assert result.type is DataType.STRING
    return None if result.nulls is not None and result.nulls[0] else result.values[0].as_py()


@pytest.mark.parametrize(
    ("operand", "more", "wanted"),
    [
        (decimals(["0.1", "0.20", "1E+3"]), (), "1000.30"),
        (decimals(["0.1", "0.20", "1E+3"]), (3,), "1000"),
        (decimals(["12345.67", "0.005"]), (10, 2), "12345.68"),
        (decimals(["12345.665"]), (10, 2), "12345.66"),
        (decimals(["12345.675"]), (0, 2), "12345.68"),
        (decimals(["15", "1000"]), (2, -2), "1000"),
        (decimals(["1E+40", "1E-40"]), (), f"1{'0' * 40}.{'0' * 39}1"),
        (Vector(DataType.DOUBLE, np.array([0.1, 0.2, 0.1])), (), "0.4"),
        (Vector(DataType.DOUBLE, np.array([1e22, 1.0])), (), "10000000000000000000001.0"),
        (Vector(DataType.FLOAT, np.array([0.1, 0.2], np.float32)), (), "0.3"),
        (Vector(DataType.STRING, pa.array(["1.50", "+2", ".25", "1e2"])), (), "103.75"),
        (Vector(DataType.BYTES, pa.array([b"\x00\x02\x7f", b"\x00\x00\xff", b"\x00\x02\x7f"])), (), "1.54"),
        (longs([LONG_MAX, LONG_MAX]), (5,), "18447000000000000000"),
        (decimals([]), (), None),
        (longs([]), (), None),
    ],
)
def test_precise_sums(operand: Vector, more: Any, wanted: str | None, bind_call: Any, whole: Any) -> None:
    aggregate = bind_call("sumprecision", [operand.type], *more)
    assert one(whole(aggregate, [operand], None, 1)) == wanted


def test_precise_sums_divided(bind_call: Any, divided: Any) -> None:
    rng = np.random.default_rng(4)
    values = np.round(rng.normal(size=500), 3)
    groups = rng.integers(0, 3, 500).astype(np.uint8)
    wanted = [sum((Fraction(str(v)) for v in values[groups == group].tolist()), Fraction(0)) for group in range(3)]
    aggregate = bind_call("sumprecision", [DataType.DOUBLE])
    for operand in (Vector(DataType.DOUBLE, values), encoded(DataType.DOUBLE, values)):
        result = divided(aggregate, [operand], groups, 4, 2)
        assert result.nulls.tolist() == [False, False, False, True]
        assert [Fraction(text) for text in result.values.to_pylist()[:3]] == wanted


@pytest.mark.parametrize("text", ["", "abc", "NaN", "Infinity", " 1", "1_0"])
def test_text_that_is_no_number(text: str, bind_call: Any, whole: Any) -> None:
    aggregate = bind_call("sumprecision", [DataType.STRING])
    with pytest.raises(QueryError, match="not a decimal number") as caught:
        whole(aggregate, [Vector(DataType.STRING, pa.array(["1", text]))], None, 1)
    assert caught.value.code is ErrorCode.QUERY_EXECUTION


def test_numbers_that_are_no_decimals(bind_call: Any, whole: Any) -> None:
    with pytest.raises(QueryError, match="'NaN'"):
        whole(bind_call("sumprecision", [DataType.DOUBLE]), [Vector(DataType.DOUBLE, np.array([np.nan]))], None, 1)
    with pytest.raises(QueryError, match="'0001'"):
        whole(bind_call("sumprecision", [DataType.BYTES]), [Vector(DataType.BYTES, pa.array([b"\x00\x01"]))], None, 1)


@pytest.mark.parametrize(
    ("name", "data_type", "more", "words"),
    [
        ("sumint", DataType.DOUBLE, (), r"write sum\(x\)"),
        ("sumlong", DataType.STRING, (), "needs whole numbers"),
        ("sumlong", DataType.LONG, (1,), "takes 1 argument"),
        ("sumprecision", DataType.JSON, (), "not JSON"),
        ("sumprecision", DataType.LONG, (-1,), "is the precision"),
        ("sumprecision", DataType.LONG, (True,), "is the precision"),
        ("sumprecision", DataType.LONG, (3, "x"), "third argument of 'sumprecision' is the scale"),
        ("sumprecision", DataType.LONG, (3, 2, 1), "takes 1 to 3 arguments"),
    ],
)
def test_refused(name: str, data_type: DataType, more: Any, words: str, bind_call: Any) -> None:
    with pytest.raises(QueryError, match=words):
        bind_call(name, [data_type], *more)
