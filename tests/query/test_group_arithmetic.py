"""Arithmetic in buffers against the general evaluation of expressions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.functions.aggregate.totals.null_totals import NullableTotals
from gamay.functions.aggregate.totals.totals import Needs, Totals
from gamay.functions.evaluate import evaluate
from gamay.functions.expression import Call, Column, Expression, Literal, column_names
from gamay.functions.scalar.comparison import compare
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.kernels.group.programs import REGISTER_ROWS
from gamay.model.types import DataType
from gamay.query.arithmetic import Arithmetic, is_arithmetic
from gamay.sql.parser import parse_expression

DICTIONARY = Vector(DataType.DOUBLE, np.array([-np.inf, -1.5, 0.0, 2.25, 1e300, np.nan]))
COLUMNS = ["coded", "whole", "many", "long", "float", "double"]


def operands(num_rows: int, seed: int) -> dict[str, Operand]:
    rng = np.random.default_rng(seed)
    return {
        "coded": EncodedVector(rng.integers(0, 6, num_rows).astype(np.uint8), DICTIONARY),
        "whole": EncodedVector(
            rng.integers(0, 3, num_rows).astype(np.uint16), Vector(DataType.INT, np.array([-5, 1, 7], np.int32))
        ),
        "many": EncodedVector(
            rng.integers(0, 9, num_rows).astype(np.uint32), Vector(DataType.LONG, np.arange(-4, 5) * (1 << 60))
        ),
        "long": Vector(DataType.LONG, rng.integers(-(1 << 62), 1 << 62, num_rows)),
        "float": Vector(DataType.FLOAT, rng.normal(size=num_rows).astype(np.float32)),
        "double": Vector(DataType.DOUBLE, rng.normal(size=num_rows)),
    }


def _reader(columns: dict[str, Operand]) -> Callable[[Any], Operand]:
    return lambda part: columns[part.name]


leaves: st.SearchStrategy[Expression] = st.one_of(
    st.sampled_from(COLUMNS).map(Column),
    st.integers(-9, 9).map(lambda value: Literal(value, DataType.INT)),
    st.just(Literal(0.1, DataType.DOUBLE)),
)
expressions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds(Call, st.sampled_from(["plus", "minus", "times", "divide"]), st.tuples(inner, inner)),
        st.builds(Call, st.sampled_from(["plus", "times"]), st.tuples(inner, inner, inner)),
    ),
    max_leaves=8,
)


@settings(deadline=None)  # the first example may compile
@given(expressions.filter(is_arithmetic), st.integers(0, 5))
def test_values_are_those_of_the_evaluation(expression: Expression, seed: int) -> None:
    arithmetic = Arithmetic()
    for num_rows in (2 * REGISTER_ROWS + 5, 40, 7, 0):  # buffers of a larger block serve smaller ones
        columns = operands(num_rows, seed)

        def operand(part: Any, columns: dict[str, Operand] = columns) -> Operand:
            return columns[part.name]

        computed = arithmetic.compute(expression, operand, num_rows)
        expected = evaluate(expression, columns.__getitem__, num_rows)
        assert computed is not None
        assert isinstance(expected, Vector)
        np.testing.assert_array_equal(computed.values, expected.values)


@settings(deadline=None)
@given(
    expressions.filter(is_arithmetic),
    st.sampled_from(["equals", "notequals", "lessthan", "lessthanorequal", "greaterthan", "greaterthanorequal"]),
    st.sampled_from([0.0, -1.5, 2.25, 11.25, float("inf"), float("-inf"), 1e300]),
    st.integers(0, 5),
)
def test_comparisons_are_those_of_the_evaluation(expression: Expression, name: str, constant: float, seed: int) -> None:
    arithmetic = Arithmetic()
    for num_rows in (REGISTER_ROWS + 3, 40, 0):
        columns = operands(num_rows, seed)
        flags = np.arange(num_rows) % 7 == 3
        columns["double"] = replace(columns["double"], nulls=flags)
        marks = arithmetic.compare(expression, name, constant, _reader(columns), num_rows)
        values = evaluate(expression, columns.__getitem__, num_rows)
        assert marks is not None
        assert isinstance(values, Vector)
        expected = compare(name, values, Scalar(constant, DataType.DOUBLE), num_rows)
        np.testing.assert_array_equal(marks, expected & ~flags if "double" in column_names(expression) else expected)


@pytest.mark.parametrize("text", ["2 * 3", "a % b", "divide(a, b, 0)", "abs(a) * b", "a * 'x' + b", "a"])
def test_what_is_left_to_the_evaluation(text: str) -> None:
    assert not is_arithmetic(parse_expression(text))


@pytest.mark.parametrize(
    "other",
    [
        Vector(DataType.TIMESTAMP, np.arange(3)),
        Vector(DataType.BOOLEAN, np.array([True, False, True])),
        Vector(DataType.DOUBLE, np.arange(6.0), np.array([0, 2, 4, 6])),
    ],
)
def test_columns_of_anything_but_plain_numbers_are_left_alone(other: Vector) -> None:
    columns: dict[str, Operand] = {"a": Vector(DataType.DOUBLE, np.arange(3.0)), "b": other}

    def operand(part: Any) -> Operand:
        return columns[part.name]

    assert Arithmetic().compute(parse_expression("a * b"), operand, 3) is None


def test_rows_with_a_null_are_null() -> None:
    columns = {
        "a": Vector(DataType.DOUBLE, np.arange(3.0), None, np.array([True, False, False])),
        "b": Vector(DataType.DOUBLE, np.arange(3.0), None, np.array([False, False, True])),
    }

    def operand(part: Any) -> Operand:
        return columns[part.name]

    computed = Arithmetic().compute(parse_expression("a * b"), operand, 3)
    assert computed is not None
    assert computed.nulls is not None
    assert computed.nulls.tolist() == [True, False, True]
    assert computed.values[1] == 1.0


@settings(deadline=None)
@given(
    st.lists(st.tuples(expressions.filter(is_arithmetic), st.integers(1, 15)), min_size=1, max_size=4),
    st.sampled_from([None, np.uint8, np.uint16, np.int32]),
    st.integers(0, 5),
)
def test_totals_are_those_of_the_values(wanted: list[tuple[Expression, int]], group_type: Any, seed: int) -> None:
    num_groups = 1 if group_type is None else 5
    fused, single = ([Totals(Needs(needs), DataType.DOUBLE, num_groups) for _, needs in wanted] for _ in range(2))
    arithmetic = Arithmetic()
    for num_rows in (2 * REGISTER_ROWS + 5, 3, 0):
        columns = operands(num_rows, seed)
        # whole numbers of few digits, so that the order of addition does not show
        columns["coded"] = EncodedVector(
            columns["coded"].ids, Vector(DataType.DOUBLE, np.array([-2.0, -1.5, 0, 2.25, 8, 1]))
        )
        columns["many"] = EncodedVector(columns["many"].ids, Vector(DataType.LONG, np.arange(-4, 5)))
        columns["long"] = Vector(DataType.LONG, columns["long"].values >> 58)
        columns["float"] = Vector(DataType.FLOAT, np.round(columns["float"].values))
        columns["double"] = Vector(DataType.DOUBLE, np.round(columns["double"].values))
        groups = None if group_type is None else np.random.default_rng(seed).integers(0, 4, num_rows).astype(group_type)
        added = [(expression, totals) for (expression, _), totals in zip(wanted, fused, strict=True)]
        assert arithmetic.add(added, groups, _reader(columns), num_rows)
        for (expression, _), totals in zip(wanted, single, strict=True):
            totals.update(groups, evaluate(expression, columns.__getitem__, num_rows), num_rows)
    for one, other, (_, needs) in zip(fused, single, wanted, strict=True):
        mine, theirs = one.partial(Needs(needs)), other.partial(Needs(needs))
        for name in ("counts", "sums", "lows", "highs"):
            field, expected = getattr(mine, name), getattr(theirs, name)
            assert (field is None) == (expected is None)
            if field is not None:
                np.testing.assert_allclose(field, expected, rtol=1e-9, atol=1e-6)


@settings(deadline=None)
@given(
    st.lists(st.tuples(expressions.filter(is_arithmetic), st.integers(1, 15)), min_size=1, max_size=3),
    st.sampled_from([None, np.uint8, np.uint32]),
)
def test_nulls_are_passed_over(wanted: list[tuple[Expression, int]], group_type: Any) -> None:
    num_groups, num_rows = 1 if group_type is None else 5, REGISTER_ROWS + 9
    fused, single = ([NullableTotals(Needs(needs), DataType.DOUBLE, num_groups) for _, needs in wanted] for _ in range(2))
    columns = operands(num_rows, 1)
    columns["coded"] = replace(columns["coded"], nulls=np.arange(num_rows) % 5 == 1)  # type: ignore[arg-type]
    columns["double"] = replace(columns["double"], nulls=np.arange(num_rows) % 7 == 3)  # type: ignore[arg-type]
    groups = None if group_type is None else (np.arange(num_rows) % 4).astype(group_type)
    added = [(expression, totals) for (expression, _), totals in zip(wanted, fused, strict=True)]
    arithmetic = Arithmetic()
    if not arithmetic.add(added, groups, _reader(columns), num_rows):
        assert groups is None
        return
    for (expression, _), totals in zip(wanted, single, strict=True):
        values = evaluate(expression, columns.__getitem__, num_rows)
        assert isinstance(values, Vector)
        totals.update(groups, values, values.nulls, num_rows)
    for one, other, (_, needs) in zip(fused, single, wanted, strict=True):
        mine, theirs = one.partial(Needs(needs)), other.partial(Needs(needs))
        np.testing.assert_array_equal(mine.counts, theirs.counts)
        for name in ("lows", "highs"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))


def test_plain_totals_take_no_nulls() -> None:
    nulls = np.array([True, False, False])
    columns: dict[str, Operand] = {
        "a": Vector(DataType.DOUBLE, np.arange(3.0), None, nulls),
        "b": Vector(DataType.DOUBLE, np.arange(3.0)),
    }
    totals = Totals(Needs.SUM, DataType.DOUBLE, 1)
    assert not Arithmetic().add([(parse_expression("a * b"), totals)], None, _reader(columns), 3)
    assert totals.partial(Needs.SUM).sums.tolist() == [0.0]  # type: ignore[union-attr]
