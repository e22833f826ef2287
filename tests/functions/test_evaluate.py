"""How expressions are computed: once for each dictionary entry, whole numbers after aggregation, broadcasting."""

import numpy as np
import pyarrow as pa
import pytest

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
