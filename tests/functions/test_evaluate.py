"""Evaluation of expressions: once per dictionary entry, integers after aggregation, broadcasting."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.evaluate import evaluate, evaluate_constant, result_type
from gamay.functions.expression import Call, Column, Literal, Star
from gamay.functions.registry import ScalarFunction, register_scalar
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

LONG, STRING = DataType.LONG, DataType.STRING
seen: list[int] = []


def _count_rows(call: Call, args: object, num_rows: int) -> Operand:
    seen.append(num_rows)
    return Vector(LONG, np.arange(num_rows))


register_scalar(["testRowsSeen"], ScalarFunction("testRowsSeen", 1, 1, lambda call, types: (LONG, False), _count_rows))
register_scalar(
    ["testVolatile"],
    ScalarFunction("testVolatile", 1, 1, lambda call, types: (LONG, False), _count_rows, is_deterministic=False),
)


@pytest.fixture
def encoded() -> EncodedVector:
    seen.clear()
    return EncodedVector(np.array([2, 0, 2, 1, 0], np.uint8), Vector(STRING, pa.array(["a", "b", "c"])))


def test_one_encoded_column_is_computed_over_its_dictionary(encoded: EncodedVector) -> None:
    result = evaluate(parse_expression("testRowsSeen(upper(s)) + 1"), lambda name: encoded, 5)
    assert seen == [3]
    assert isinstance(result, Vector)
    assert result.values.tolist() == [3.0, 1.0, 3.0, 2.0, 1.0]


def test_a_dictionary_longer_than_the_batch_is_not(encoded: EncodedVector) -> None:
    short = EncodedVector(encoded.ids[:2], encoded.dictionary)
    evaluate(parse_expression("testRowsSeen(s)"), lambda name: short, 2)
    assert seen == [2]


def test_a_volatile_function_sees_all_rows(encoded: EncodedVector) -> None:
    evaluate(parse_expression("testVolatile(s)"), lambda name: encoded, 5)
    assert seen == [5]


def test_rows_with_nulls_keep_them(encoded: EncodedVector) -> None:
    nulls = np.array([False, True, False, False, False])
    column = EncodedVector(encoded.ids, encoded.dictionary, None, nulls)
    result = evaluate(parse_expression("upper(s)"), lambda name: column, 5)
    assert isinstance(result, Vector)
    assert result.values.to_pylist() == ["C", "A", "C", "B", "A"]
    assert result.nulls is not None
    assert result.nulls.tolist() == nulls.tolist()


def test_null_rows_of_as_many_entries_as_the_ids_can_number() -> None:
    """The place behind 256 entries does not fit the 8 bits of the ids."""
    entries = Vector(LONG, np.arange(256))
    ids, nulls = np.arange(300).astype(np.uint8), np.arange(300) % 7 == 0
    result = evaluate(parse_expression("x + 1 < 5"), lambda name: EncodedVector(ids, entries, None, nulls), 300)
    assert isinstance(result, Vector)
    assert result.nulls is not None
    assert result.nulls.tolist() == nulls.tolist()


def test_whole_numbers_after_aggregation() -> None:
    expression = parse_expression("n + 1")
    column = Vector(LONG, np.array([2**53 + 1]))
    types = {"n": (LONG, False)}
    assert result_type(expression, types.__getitem__) == (DataType.DOUBLE, False)
    assert result_type(expression, types.__getitem__, post_aggregation=True) == (LONG, False)
    result = evaluate(expression, lambda name: column, 1, post_aggregation=True)
    assert isinstance(result, Vector)
    assert result.values.tolist() == [2**53 + 2]


def test_columns_and_constants_come_as_they_are() -> None:
    column = Vector(LONG, np.array([1, 2]))
    assert evaluate(Column("x"), lambda name: column, 2) is column
    assert evaluate(Literal(5, LONG), lambda name: column, 2) == Scalar(5, LONG)


def test_a_star_is_no_expression() -> None:
    with pytest.raises(QueryError, match=r"\* is not an expression"):
        evaluate(Star(), lambda name: Scalar(1, LONG), 1)
    with pytest.raises(QueryError, match=r"\* is not an expression"):
        result_type(Star(), lambda name: (LONG, False))


def test_constants() -> None:
    two = Literal(2, DataType.INT)
    assert evaluate_constant(Call("plus", (two, two))) == Literal(4, LONG)
    assert evaluate_constant(Call("nullif", (two, two))) == Literal(None, DataType.UNKNOWN)
    lists = Call("arrayvalueconstructor", (two, two))
    assert evaluate_constant(lists) == lists


WHOLE = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-5, 5), st.sampled_from([1 << 31, 1 << 62, -(1 << 63)])
)


@given(st.sampled_from(["plus", "minus", "times"]), WHOLE, WHOLE)
def test_whole_numbers_are_computed_as_in_columns(name: str, left: int, right: int) -> None:
    types = [DataType.INT if abs(value) < 1 << 31 else LONG for value in (left, right)]
    call = Call(name, (Literal(left, types[0]), Literal(right, types[1])))

    def slowly() -> object:
        found = evaluate(call, lambda name: Scalar(1, LONG), 1, post_aggregation=True)
        assert isinstance(found, Scalar)
        return Literal(found.value, found.type)

    assert _outcome(slowly) == _outcome(lambda: evaluate_constant(call))


def _outcome(compute: Callable[[], object]) -> object:
    try:
        return compute()
    except QueryError as error:
        return str(error)


def _column(kind: str, rng: np.random.Generator, num_rows: int) -> EncodedVector:
    """Return an encoded column of few texts or numbers, with nulls or without."""
    size = int(rng.integers(1, 5))
    if kind == "text":
        dictionary = Vector(STRING, pa.array(["", "a", "b", "ñ", "zz"][:size]))
    else:
        dictionary = Vector(DataType.DOUBLE, np.array([-1.5, 0.0, 2.0, np.inf, np.nan])[:size])
    ids = rng.integers(0, size, num_rows).astype(rng.choice(["u1", "u2", "i4"]))
    return EncodedVector(ids, dictionary, None, rng.random(num_rows) < 0.3 if rng.integers(2) else None)


@pytest.mark.parametrize(
    "text",
    [
        "concat(s, t, '-')",
        "CASE WHEN x > 0 THEN s WHEN y > 1 THEN t END",
        "CASE WHEN x > 0 AND y < 2 THEN 'high' WHEN s = 'a' OR x < y THEN 'mid' ELSE 'low' END",
        "CASE WHEN s = t THEN 1 WHEN x IS NULL THEN 2 END",
        "CASE WHEN x > 0 THEN x WHEN y > 1 THEN 5 ELSE y END",
        "x * y + x",
        "coalesce(x, y, 7)",
        "coalesce(s, t)",
        "greatest(x, y)",
        "x > y OR NOT s = t",
        "s IN ('a', 'b') AND x >= y",
        "upper(s)",
    ],
)
@pytest.mark.parametrize("seed", range(4))
def test_combinations_of_entries_give_what_rows_give(text: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_rows = 20_000
    kinds = {"s": "text", "t": "text", "x": "number", "y": "number"}
    encoded_columns = {name: _column(kind, rng, num_rows) for name, kind in kinds.items()}
    decoded = {name: column.decode() for name, column in encoded_columns.items()}
    by_entries = evaluate(parse_expression(text), encoded_columns.__getitem__, num_rows)
    by_rows = evaluate(parse_expression(text), decoded.__getitem__, num_rows)
    assert by_entries.type is by_rows.type
    assert _listed(by_entries) == _listed(by_rows)
    if isinstance(by_entries, EncodedVector):
        assert sorted(by_entries.dictionary.values.tolist()) == by_entries.dictionary.values.tolist()


def _listed(operand: Operand) -> list[str]:
    """Return the rows as text, so that NaN equals NaN."""
    assert not isinstance(operand, Scalar)
    vector = operand.decode() if isinstance(operand, EncodedVector) else operand
    nulls = np.zeros(len(vector), bool) if vector.nulls is None else vector.nulls
    return ["null" if null else repr(value) for value, null in zip(vector.values.tolist(), nulls.tolist(), strict=True)]


def test_cases_of_rows_are_those_of_python() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 4, 500), rng.integers(0, 4, 500)
    nulls = rng.random(500) < 0.2
    columns = {"x": Vector(LONG, x, None, nulls), "y": Vector(LONG, y)}
    text = "CASE WHEN x = 1 THEN y WHEN x > 1 OR y = 0 THEN 9 WHEN NOT x = 0 THEN 8 END"
    expected = [
        None if null and b else 9 if null else b if a == 1 else 9 if a > 1 or b == 0 else None
        for a, b, null in zip(x.tolist(), y.tolist(), nulls.tolist(), strict=True)
    ]
    result = evaluate(parse_expression(text), columns.__getitem__, 500)
    assert _listed(result) == ["null" if value is None else repr(value) for value in expected]
