"""Array functions against Python's lists and DuckDB's list functions."""

import itertools
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector, numpy_dtype
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

INT, LONG, DOUBLE, STRING = DataType.INT, DataType.LONG, DataType.DOUBLE, DataType.STRING


def lists(data_type: DataType, rows: list[list[Any]]) -> Vector:
    flat = [value for row in rows for value in row]
    values = pa.array(flat, pa.string()) if data_type is STRING else np.array(flat, numpy_dtype(data_type))
    return Vector(data_type, values, np.cumsum([0, *map(len, rows)]).astype(np.int32))


def encoded(rows: list[list[str]]) -> EncodedVector:
    entries = sorted({value for row in rows for value in row})
    ids = np.array([entries.index(value) for row in rows for value in row], np.uint8)
    offsets = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    return EncodedVector(ids, Vector(STRING, pa.array(entries, pa.string())), offsets)


def run(text: str, columns: dict[str, Operand], num_rows: int) -> Any:
    expression = parse_expression(text)
    result = evaluate(expression, columns.__getitem__, num_rows)
    if isinstance(result, Scalar):
        return result.value
    vector = result.decode() if isinstance(result, EncodedVector) else result

    def type_of(name: str) -> tuple[DataType, bool]:
        column = columns[name]
        assert not isinstance(column, Scalar)
        return column.type, column.offsets is not None

    assert result_type(expression, type_of) == (vector.type, vector.is_multi_value)
    listed = vector.values.tolist()
    if vector.offsets is not None:
        return [listed[a:b] for a, b in itertools.pairwise(vector.offsets)]
    return listed


def bound_and_run(text: str, columns: dict[str, Operand]) -> None:
    expression = parse_expression(text)
    result_type(expression, lambda name: (columns[name].type, name == "a"))
    evaluate(expression, columns.__getitem__, 1)


_ints = st.lists(st.lists(st.integers(-3, 3), max_size=5), min_size=1, max_size=4)
_texts = st.lists(st.lists(st.sampled_from(["a", "b", "ü", "😀", ""]), max_size=4), min_size=1, max_size=4)


def first_seen(values: list[Any]) -> list[Any]:
    return list(dict.fromkeys(values))


def removed(values: list[Any], value: Any) -> list[Any]:
    at = values.index(value) if value in values else len(values)
    return values[:at] + values[at + 1 :]


@settings(max_examples=60, deadline=None)
@given(_ints, st.data())
def test_functions_of_int_arrays(rows: list[list[int]], data: st.DataObject) -> None:
    n = len(rows)
    others = data.draw(st.lists(st.lists(st.integers(-3, 3), max_size=4), min_size=n, max_size=n))
    wanted = data.draw(st.lists(st.integers(-3, 3), min_size=n, max_size=n))
    columns: dict[str, Operand] = {
        "a": lists(INT, rows),
        "b": lists(INT, others),
        "x": Vector(INT, np.array(wanted, np.int32)),
        "up": lists(INT, [sorted(set(row)) for row in rows]),
        "vp": lists(INT, [sorted(set(row)) for row in others]),
    }
    pairs = list(zip(rows, others, strict=True))
    with_value = list(zip(rows, wanted, strict=True))
    expected = {
        "arrayConcatInt(a, b)": [a + b for a, b in pairs],
        "arrayConcatInt(a, b, a)": [a + b + a for a, b in pairs],
        "arrayUnionInt(a, b)": [first_seen(a + b) for a, b in pairs],
        "arrayDistinctInt(a)": [first_seen(a) for a in rows],
        "arraySortInt(a)": [sorted(a) for a in rows],
        "arrayReverseInt(a)": [a[::-1] for a in rows],
        "arrayPushBackInt(a, x)": [[*a, x] for a, x in with_value],
        "arrayPushFrontInt(a, 7)": [[7, *a] for a in rows],
        "arrayRemoveInt(a, x)": [removed(a, x) for a, x in with_value],
        "arrayRemoveInt(a, 1)": [removed(a, 1) for a in rows],
        "arrayIndexesOfInt(a, x)": [[i for i, v in enumerate(a) if v == x] for a, x in with_value],
        "arrayIndexesOfInt(a, 2)": [[i for i, v in enumerate(a) if v == 2] for a in rows],
        "arrayIndexOfInt(a, 2)": [a.index(2) if 2 in a else -1 for a in rows],
        "arrayContainsInt(a, 2)": [2 in a for a in rows],
        "arrayElementAtInt(a, 2)": [a[1] if len(a) > 1 else 0 for a in rows],
        "arraySliceInt(a, 1, 3)": [[*a, 0, 0, 0][1:3] for a in rows],
        "arraysOverlap(a, b)": [bool(set(a) & set(b)) for a, b in pairs],
        "intersectIndices(up, vp)": [sorted(set(a) & set(b)) for a, b in pairs],
        "filterMv(a, 'v > 0 AND v <> 2')": [[v for v in a if v > 0 and v != 2] for a in rows],
        "filterMv(a, 'V IN (1, 2) OR NOT v > -3')": [[v for v in a if v in (1, 2) or v <= -3] for a in rows],
        "valueIn(a, 1, 2)": [[v for v in a if v in (1, 2)] for a in rows],
        "arraySumInt(a)": [sum(a) for a in rows],
        "arrayToMv(a)": rows,
    }
    for text, values in expected.items():
        assert run(text, columns, n) == values, text


@settings(max_examples=60, deadline=None)
@given(_texts)
def test_functions_of_text_arrays(rows: list[list[str]]) -> None:
    expected = {
        "arraySortString(a)": [sorted(a) for a in rows],
        "arrayReverseString(a)": [a[::-1] for a in rows],
        "arrayDistinctString(a)": [first_seen(a) for a in rows],
        "arrayMax(a)": [max(a, default="null") for a in rows],
        "arrayMin(a)": [min(a, default="null") for a in rows],
        "arrayRemoveString(a, 'b')": [removed(a, "b") for a in rows],
        "arrayPushBackString(a, 'z')": [[*a, "z"] for a in rows],
        "arraySliceString(a, 0, 2)": [[*a, "null", "null"][:2] for a in rows],
        "arrayElementAtString(a, 1)": [a[0] if a else "" for a in rows],
        "arrayIndexesOfString(a, 'a')": [[i for i, v in enumerate(a) if v == "a"] for a in rows],
        "arrayToString(a, '-')": ["-".join(a) for a in rows],
        "filterMv(a, 'REGEXP_LIKE(v, ''^[ab]$'')')": [[v for v in a if v in ("a", "b")] for a in rows],
        "filterMv(a, 'v = ''ü'' OR v LIKE ''😀%''')": [[v for v in a if v in ("ü", "😀")] for a in rows],
        "valueIn(a, 'b', 'a', '?')": [[v for v in a if v in ("a", "b")] for a in rows],
    }
    for column in (lists(STRING, rows), encoded(rows)):
        for text, values in expected.items():
            assert run(text, {"a": column}, len(rows)) == values, text


@settings(max_examples=25, deadline=None)
@given(_ints)
def test_lists_agree_with_duckdb(rows: list[list[int]]) -> None:
    table = pa.table({"n": list(range(len(rows))), "a": pa.array(rows, pa.list_(pa.int32()))})
    connection = duckdb.connect()
    connection.register("t", table)
    for ours, theirs in {
        "arraySortInt(a)": "list_sort(a)",
        "arrayReverseInt(a)": "list_reverse(a)",
        "arrayConcatInt(a, a)": "list_concat(a, a)",
        "arrayLength(a)": "len(a)",
        "arraysOverlap(a, arrayPushBackInt(a, 3))": "list_has_any(a, list_append(a, 3))",
        "filterMv(a, 'v BETWEEN -1 AND 2')": "list_filter(a, lambda v: v BETWEEN -1 AND 2)",
    }.items():
        expected = [row[0] for row in connection.sql(f"SELECT {theirs} FROM t ORDER BY n").fetchall()]
        assert run(ours, {"a": lists(INT, rows)}, len(rows)) == expected, ours


_near_limits = {
    bits: st.lists(
        st.one_of(st.sampled_from([least, least + 1, -1, 1, -least - 1]), st.integers(least, -least - 1)), max_size=6
    )
    for bits, least in ((32, -(2**31)), (64, -(2**63)))
}


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([32, 64]).flatmap(
        lambda bits: st.tuples(st.just(bits), st.lists(_near_limits[bits], min_size=1, max_size=3))
    )
)
def test_sums_that_do_not_fit_are_errors(drawn: tuple[int, list[list[int]]]) -> None:
    bits, rows = drawn
    name, data_type = ("arraySumInt", INT) if bits == 32 else ("arraySumLong", LONG)
    expected = [sum(row) for row in rows]
    columns: dict[str, Operand] = {"a": lists(data_type, rows)}
    if all(-(2 ** (bits - 1)) <= total < 2 ** (bits - 1) for total in expected):
        assert run(f"{name}(a)", columns, len(rows)) == expected
    else:
        with pytest.raises(QueryError, match=f"'{name}': the sum of a row does not fit {data_type.value}"):
            run(f"{name}(a)", columns, len(rows))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("array()", "at least 1 argument"),
        ("arraySliceLong(a, 2, 1)", "'arraySliceLong': the range 2 to 1"),
        ("generateFloatArray(1, 5, 0)", "'generateFloatArray': the step"),
        ("generateLongArray(1, 5000000, 1)", "'generateLongArray': 5000000 elements"),
    ],
)
def test_errors_name_the_function(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        bound_and_run(text, {"a": lists(LONG, [[1]])})


@pytest.mark.parametrize(
    "text", ["arrayLength(NULL)", "arrayMax(NULL)", "arrayContainsInt(NULL, 1)", "l2Distance(NULL, ARRAY[1])"]
)
def test_a_null_list_gives_null(text: str) -> None:
    assert run_constant(text) is None


def run_constant(text: str) -> Any:
    expression = parse_expression(text)
    result_type(expression, lambda name: (INT, False))
    result = evaluate(expression, lambda name: Scalar(None, INT), 1)
    assert isinstance(result, Scalar)
    return result.value


def test_generated_arrays() -> None:
    assert run("generateIntArray(1, 7, 3)", {}, 2) == [[1, 4, 7], [1, 4, 7]]
    assert run("generateIntArray(7, 1, -2)", {}, 1) == [[7, 5, 3, 1]]
    assert run("generateIntArray(1, 0, 1)", {}, 1) == [[]]
    assert run("generateLongArray(9223372036854775806, 9223372036854775807, 1)", {}, 1) == [[2**63 - 2, 2**63 - 1]]
    assert run("generateDoubleArray(0.5, 2, 0.5)", {}, 1) == [[0.5, 1.0, 1.5, 2.0]]
    assert run("generateFloatArray(0, 1, 0.25)", {}, 1) == [[0.0, 0.25, 0.5, 0.75, 1.0]]


def test_null_elements_print_as_asked() -> None:
    column = lists(STRING, [["a", "null"], []])
    assert run("arrayToString(a, ',', '?')", {"a": column}, 2) == ["a,?", ""]
    assert run("arrayToString(a, ',')", {"a": column}, 2) == ["a,null", ""]


def test_averages_and_extremes_of_numbers() -> None:
    columns: dict[str, Operand] = {"a": lists(LONG, [[1, 2], [5]]), "d": lists(DOUBLE, [[1.5, -2.5], [0.0]])}
    assert run("arrayAverage(a)", columns, 2) == [1.5, 5.0]
    assert run("arrayMin(d)", columns, 2) == [-2.5, 0.0]
    assert run("arrayMax(a)", columns, 2) == [2, 5]
    assert run("arraySum(d)", columns, 2) == [-1.0, 0.0]
    assert run("arraySumLong(a)", columns, 2) == [3, 5]
    assert run("cardinality(a)", columns, 2) == [2, 1]


@pytest.mark.parametrize(
    "text",
    [
        "filterMv(a, 'v +')",
        "filterMv(a, 'w > 1')",
        "filterMv(a, 'v + 1')",
        "filterMv(a, 'nope(v) = 1')",
        "filterMv(x, 'v > 1')",
        "filterMv(a, a)",
        "arraysOverlap(a, x)",
        "arraySliceInt(a, 2, 1)",
        "arraySliceInt(a, -1, 1)",
        "arrayConcatInt(a)",
        "generateIntArray(1, 5, 0)",
        "generateIntArray(1, 5000000, 1)",
        "generateIntArray(x, 5, 1)",
        "valueIn(a, x)",
        "valueIn(x, 1)",
        "arrayToMv(x)",
    ],
)
def test_wrong_arguments_are_refused(text: str) -> None:
    columns: dict[str, Operand] = {"a": lists(INT, [[1]]), "x": Vector(INT, np.array([1], np.int32))}
    with pytest.raises(QueryError) as caught:
        bound_and_run(text, columns)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION
