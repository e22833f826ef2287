"""JSON functions: Jayway paths, types and defaults of extracted values, keys and maps."""

import json
import math
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.scalar.json.steps import MISSING, path_steps, read_path
from gamay.functions.vector import EncodedVector, Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

STORE = {
    "store": {
        "book": [
            {"category": "reference", "author": "Nigel Rees", "title": "Sayings", "price": 8.95},
            {"category": "fiction", "author": "Evelyn Waugh", "title": "Sword", "price": 12.99},
            {"category": "fiction", "author": "Herman Melville", "title": "Moby", "isbn": "0-553-1", "price": 8.99},
            {"category": "fiction", "author": "J. R. R. Tolkien", "title": "Lord", "isbn": "0-395-1", "price": 22.99},
        ],
        "bicycle": {"color": "red", "price": 19.95},
    },
    "expensive": 10,
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("$.store.bicycle.color", "red"),
        ("store.bicycle.color", "red"),
        ("$['store']['bicycle'].color", "red"),
        ('$["store"].book[0].price', 8.95),
        ("$.store.book[-1].title", "Lord"),
        ("$.store.book[9]", MISSING),
        ("$.store.book.title", MISSING),
        ("$.store.book[*].price", [8.95, 12.99, 8.99, 22.99]),
        ("$.store.book[0,2].title", ["Sayings", "Moby"]),
        ("$.store.book[1:3].title", ["Sword", "Moby"]),
        ("$.store.book[:1].title", ["Sayings"]),
        ("$.store.book[-2:].title", ["Moby", "Lord"]),
        ("$.store.bicycle['color','price']", {"color": "red", "price": 19.95}),
        ("$.store.bicycle['color','none']", {"color": "red"}),
        ("$.store.book[:2]['title','price']", [{"title": "Sayings", "price": 8.95}, {"title": "Sword", "price": 12.99}]),
        ("$.store['book','bicycle'].price", [19.95]),
        ("$.store.color['a','b']", MISSING),
        ("$.store.book.[0].title", "Sayings"),
        ("$.['store'].['book'].[*].['price']", [8.95, 12.99, 8.99, 22.99]),
        ("$.store.book.index(-1).title", "Lord"),
        ("$.store.bicycle.*", ["red", 19.95]),
        ("$..author", ["Nigel Rees", "Evelyn Waugh", "Herman Melville", "J. R. R. Tolkien"]),
        ("$..book[2].title", ["Moby"]),
        ("$.store..price", [8.95, 12.99, 8.99, 22.99, 19.95]),
        ("$.store.book[?(@.isbn)].title", ["Moby", "Lord"]),
        ("$.store.book[?(!@.isbn)].title", ["Sayings", "Sword"]),
        ("$.store.book[?(@.price < 10)].title", ["Sayings", "Moby"]),
        ("$.store.book[?(@.price < 10 && @.category == 'fiction')].title", ["Moby"]),
        ("$.store.book[?(@.price > 20 || @.category != 'fiction')].title", ["Sayings", "Lord"]),
        ("$.store.book[?(@['author'] =~ /.*waugh/i)].title", ["Sword"]),
        ("$.store.book[?(@.category in ['reference', 'x'])].title", ["Sayings"]),
        ("$.store.book[?(@.category nin ['reference'])].price", [12.99, 8.99, 22.99]),
        ("$.store.book[?((@.price == 8.95))].author", ["Nigel Rees"]),
        ("$.store.book.[?(@.price<9&&@.isbn)].title", ["Moby"]),
        ("$.store.book[?(@.price<$.store.bicycle.price)].title", ["Sayings", "Sword", "Moby"]),
        ("$.store.book[?(@.price == $['store'].book[0].price)].title", ["Sayings"]),
        ("$.store.book[?(@.title.length() < 5)].title", ["Moby", "Lord"]),
        ("$.store.book[?(@.isbn != 'x')].title", ["Sayings", "Sword", "Moby", "Lord"]),
        ("$.store.book[?(@.isbn == null)].title", MISSING),
        ("$.store.book[?(@.isbn nin ['x'])].title", ["Sayings", "Sword", "Moby", "Lord"]),
        ("$.store.book[?(@.title contains 'o')].title", ["Sword", "Moby", "Lord"]),
        ("$.store.book[?(@.title size 4)].title", ["Moby", "Lord"]),
        ('$.store.book[?(@.category in ["it\'s", "reference"])].title', ["Sayings"]),
        ("$.store[?(@ empty false)][0].title", ["Sayings"]),
        ("$.store.book.length()", 4),
        ("$.store.book[?(@.price > 'x')]", MISSING),
        ("$", STORE),
    ],
)
def test_paths(path: str, expected: Any) -> None:
    assert read_path(STORE, path_steps(path)) == expected


@pytest.mark.parametrize(
    "path",
    [
        *("$.a[", "$.a[x]", "$..", "$.a..", "$.a[1:2:3]", "$['a'", "$.a.", "$.a[?(@.b ==)]", "$.a[?(@.b"),
        *("$.a[?(@.b in [1,2)]", "$.a[?(@.b in [1 2])]", "$.a[?(@.b =~ /(/)]", "$.a[?(@.b.none())]", "$.a[?(@.b size)]"),
    ],
)
def test_what_is_no_path_is_refused_when_bound(path: str) -> None:
    constant = Literal(path, DataType.STRING)
    for call in (
        Call("jsonextractscalar", (Column("x"), constant, Literal("INT", DataType.STRING))),
        Call("jsonpathstring", (Column("x"), constant)),
    ):
        with pytest.raises(QueryError, match="not a JSON path") as caught:
            result_type(call, lambda _: (DataType.JSON, False))
        assert caught.value.code is ErrorCode.QUERY_VALIDATION


def value_of(name: str, *constants: Any) -> Any:
    """Compute a function of constants, for one row."""
    types = {str: DataType.STRING, int: DataType.LONG}
    call = Call(name.lower(), tuple(Literal(value, types[type(value)]) for value in constants))
    result_type(call, lambda _: (DataType.STRING, False))
    result = evaluate(call, lambda _: Scalar(None, DataType.STRING), 1)
    if isinstance(result, Scalar):
        return result.value
    assert isinstance(result, Vector)
    return result.values.tolist() if isinstance(result.values, np.ndarray) else result.values.to_pylist()


LISTS = [[1, 2], [1], [], ["a", 2.0]]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("@ size 2", [[1, 2], ["a", 2.0]]),
        ("@ empty true", [[]]),
        ("@ empty false && @ size 1", [[1]]),
        ("@ subsetof [1, 3]", [[1], []]),
        ("@ anyof [2, 'b']", [[1, 2], ["a", 2.0]]),
        ("@ noneof [2]", [[1], []]),
        ("@ contains 'a'", [["a", 2.0]]),
        ("!(@ contains 1)", [[], ["a", 2.0]]),
        ("@[0] in $[1]", [[1, 2], [1]]),
        ("1 == @[0]", [[1, 2], [1]]),
    ],
)
def test_conditions_on_lists(condition: str, expected: list[Any]) -> None:
    assert read_path(LISTS, path_steps(f"$[?({condition})]")) == expected


def test_conditions_compare_numbers_that_are_read_exactly() -> None:
    assert value_of("jsonExtractScalar", '{"a": [8.95, 9, 12.99]}', "$.a[?(@ <= 8.95)]", "BIG_DECIMAL_ARRAY") == [
        Decimal("8.95")
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("$.big", "STRING"), "123456789012345678901234567890"),
        (("$.big", "JSON"), "123456789012345678901234567890"),
        (("$.big", "DOUBLE"), 123456789012345678901234567890.0),
        (("$.big", "BOOLEAN"), True),
        (("$.big", "LONG", -1), -1),
        (("$.list", "STRING_ARRAY"), ["-123456789012345678901", "1.0E30", "x"]),
        (("$.list[1]", "STRING"), "1.0E30"),
        (("$.long", "LONG"), 2147483648),
        (("$.long", "DOUBLE"), 2147483648.0),
        (("$.long", "INT", -1), -1),
        (("$.long", "INT_ARRAY", "[7]"), [7]),
        (("$.list", "INT_ARRAY", "[7, 8]"), [7, 8]),  # what a default is for as well as for what is missing
        (("$.list", "BIG_DECIMAL", "1.5"), Decimal("1.5")),
        (("$", "BIG_DECIMAL", "2.50"), Decimal("2.50")),
    ],
)
def test_numbers_that_do_not_fit_and_lists_that_are_none(arguments: tuple[Any, ...], expected: Any) -> None:
    document = '{"big": 123456789012345678901234567890, "list": [-123456789012345678901, 1e30, "x"], "long": 2147483648}'
    assert value_of("jsonExtractScalar", document, *arguments) == expected
    if arguments[1] == "STRING":
        assert value_of("jsonPathString", document, arguments[0]) == expected


def test_lists_with_numbers_of_any_size_are_text() -> None:
    document = '{"a": [123456789012345678901, 1], "b": NaN}'
    assert value_of("jsonPathString", document, "$.a", "none") == "none"
    assert value_of("jsonExtractScalar", document, "$.b", "BIG_DECIMAL", "1") == 1
    for name in ("jsonPathString", "jsonExtractScalar"):
        arguments = ["$.a"] if name == "jsonPathString" else ["$.a", "STRING"]
        assert value_of(name, document.replace("NaN", "0"), *arguments) == "[123456789012345678901,1]"


@pytest.mark.parametrize("levels", [250, 300, 900, 5000])
def test_documents_of_many_levels(levels: int) -> None:
    lists, objects = "[" * levels + "7" + "]" * levels, '{"a":' * levels + "7" + "}" * levels
    for document, path in ((lists, "$[0][0]"), (objects, "$.a.a")):
        inner = document[2:-2] if document is lists else document[10:-2]
        assert value_of("jsonExtractScalar", document, path, "STRING", "none") == ("none" if levels > 1000 else inner)
        assert value_of("jsonExtractScalar", document, path, "BIG_DECIMAL", "1") == 1
        assert value_of("jsonExtractScalar", document, path, "DOUBLE", 1) == 1


def test_documents_of_too_many_levels_for_a_search() -> None:
    document = "[" * 1020 + "7" + "]" * 1020
    with pytest.raises(QueryError, match="nested too deeply"):
        value_of("jsonExtractScalar", document, "$..[0]", "STRING")


def test_what_cannot_be_read_is_an_error_without_a_default() -> None:
    huge = '{"a": 123456789012345678901234567890}'
    for document, kind in ((huge, "LONG"), ('{"a": [1]}', "BIG_DECIMAL"), ('{"a": -2147483649}', "INT")):
        with pytest.raises(QueryError, match=f"cannot be read as {kind}"):
            value_of("jsonExtractScalar", document, "$.a", kind)


_documents = st.recursive(
    st.integers(-9, 9) | st.sampled_from(["x", "y"]) | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None)
@given(_documents, st.sampled_from(["$.a", "$.a.b", "$.a[0]", "$.a[1].b", "$.b[-1]", "$.c.a"]))
def test_single_values_agree_with_duckdb(document: Any, path: str) -> None:
    dialect = path.replace("[-", "[#-")
    with duckdb.connect() as peer:
        expected = peer.execute("SELECT json_extract(?::JSON, ?)", [json.dumps(document), dialect]).fetchall()
    found = read_path(document, path_steps(path))
    assert (None if found is MISSING else found) == (None if expected[0][0] is None else json.loads(expected[0][0]))


COLUMNS: dict[str, Operand] = {
    "j": Vector(DataType.JSON, pa.array(['{"a": 1, "b": [1, "x", null], "c": {"d": 2.50}}', "no json", '{"a": "7"}'])),
    "e": EncodedVector(
        np.array([1, 0, 1], np.uint8), Vector(DataType.STRING, pa.array(['{"a": [1, 2]}', '{"a": true, "n": 1e10}']))
    ),
    "keys": Vector(DataType.STRING, pa.array(["k", "l", "l", "k", "k"]), np.array([0, 2, 4, 5], np.int32)),
    "vals": Vector(DataType.INT, np.array([1, 2, 3, 4], np.int32), np.array([0, 2, 4, 4], np.int32)),
    "i": Vector(DataType.INT, np.arange(3, dtype=np.int32)),
    # null except for the first row; the placeholders of nulls must not be parsed
    "none": Vector(DataType.STRING, pa.array(['{"a": 1}', *['{"a": 9}'] * 2]), None, np.array([False, True, True])),
}


def column_type(name: str) -> tuple[DataType, bool]:
    column = COLUMNS[name]
    assert not isinstance(column, Scalar)
    return column.type, column.offsets is not None


def run(text: str) -> Any:
    expression = parse_expression(text)
    result = evaluate(expression, COLUMNS.__getitem__, 3)
    if isinstance(result, Scalar):
        return result.value
    vector = result.decode() if isinstance(result, EncodedVector) else result
    assert result_type(expression, column_type) == (vector.type, vector.is_multi_value)
    listed = vector.values.tolist()
    if vector.offsets is not None:
        listed = [listed[a:b] for a, b in zip(vector.offsets[:-1], vector.offsets[1:], strict=True)]
    return [None if vector.nulls is not None and vector.nulls[k] else value for k, value in enumerate(listed)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jsonExtractScalar(j, '$.a', 'INT', 0)", [1, 0, 7]),
        ("jsonExtractScalarFast(j, '$.a', 'STRING', '-')", ["1", "-", "7"]),
        ("jsonExtractScalarFirstMatch(j, '$.c.d', 'DOUBLE', 0)", [2.5, 0.0, 0.0]),
        ("jsonExtractScalarFory(j, '$.c', 'JSON', NULL)", ['{"d":2.5}', None, None]),
        ("jsonExtractScalar(j, '$.c.d', 'BIG_DECIMAL', '0')", [Decimal("2.50"), Decimal(0), Decimal(0)]),
        ("jsonExtractScalar(j, '$.b', 'STRING_ARRAY')", [["1", "x"], [], []]),
        ("jsonExtractScalar(j, '$.b[*]', 'STRING_ARRAY', '[\"-\"]')", [["1", "x"], ["-"], ["-"]]),
        ("jsonExtractScalar(e, '$.a', 'BOOLEAN')", [True, False, True]),
        ("jsonExtractScalar(e, '$.n', 'STRING', '?')", ["1.0E10", "?", "1.0E10"]),
        ("jsonExtractScalar('{\"t\": \"2020-01-01\"}', '$.t', 'TIMESTAMP')", 1577836800000),
        ("jsonExtractScalar('[1]', '$.x', 'STRING', NULL)", None),
        ("jsonPathLong(j, '$.a')", [1, -(2**63), 7]),
        ("jsonPathLong(j, '$.x', 5)", [5, 5, 5]),
        ("jsonPathDouble(j, '$.c.d', 0.5)", [2.5, 0.5, 0.5]),
        ("jsonPathString(j, '$.c')", ['{"d":2.5}', None, None]),
        ("jsonPathString(j, '$.c', 'none')", ['{"d":2.5}', "none", "none"]),
        ("jsonPath(j, '$.b[1]')", ["x", None, None]),
        ("jsonPathExists(j, '$.b[2]')", [True, False, False]),
        ("jsonPathArray(j, '$.b[*]')", [["1", "x", "null"], None, None]),
        ("jsonPathArrayDefaultEmpty(j, '$.b')", [["1", "x", "null"], [], []]),
        ("jsonExtractScalar('{\"a\": [1, 2.5, \"x\", 4]}', '$.a.sum()', 'DOUBLE')", 7.5),
        ("jsonExtractScalar('{\"a\": [3, 1, true]}', '$.a.min()', 'INT')", 1),
        ("jsonExtractScalar('{\"a\": [3, 1]}', '$.a.max()', 'STRING')", "3.0"),
        ("jsonExtractScalar('{\"a\": [1, 2, 3, 4]}', '$.a.avg()', 'DOUBLE')", 2.5),
        ("jsonExtractScalar('{\"a\": [1, 2, 3, 4]}', '$.a.stddev()', 'DOUBLE')", math.sqrt(1.25)),
        ("jsonExtractScalar('{\"a\": [\"x\"]}', '$.a.avg()', 'DOUBLE', -1)", -1.0),
        ("jsonExtractScalar('{\"a\": [{\"b\": 5}, 7]}', '$.a.first().b', 'INT')", 5),
        ("jsonExtractScalar('{\"a\": [{\"b\": 5}, 7]}', '$.a.last()', 'INT')", 7),
        ("jsonExtractScalar('{\"a\": [[1, 2], [3]]}', '$.a[*].size()', 'INT_ARRAY')", [[2, 1]] * 3),
        ("jsonExtractScalar('{\"a\": {\"b\": 1, \"c\": 2}}', '$.a.keys()', 'STRING_ARRAY')", [["b", "c"]] * 3),
        ("jsonExtractScalar('{\"sum\": 1}', '$.sum', 'INT')", 1),
        ("jsonPathString(none, '$.a', 'no')", ["1", "no", "no"]),
        ("jsonPathLong(none, '$.a', 5)", [1, 5, 5]),
        ("jsonPathDouble(none, '$.a', 0.5)", [1.0, 0.5, 0.5]),
        ("jsonPathArrayDefaultEmpty(none, '$.a')", [["1"], [], []]),
        ("jsonPathString(none, '$.a')", ["1", None, None]),
        ("jsonPathLong(none, '$.a')", [1, None, None]),
        ("jsonPathArray(none, '$.a')", [["1"], None, None]),
        ("jsonPathLong(NULL, '$.a', 5)", 5),
        ("jsonPathLong(none, '$.a', NULL)", None),
        ("jsonExtractKey(j, '$.*')", [["$['a']", "$['b']", "$['c']"], [], ["$['a']"]]),
        (
            "jsonExtractKey(j, '$..**')",
            [["$['a']", "$['b']", "$['c']", "$['b'][0]", "$['b'][1]", "$['b'][2]", "$['c']['d']"], [], ["$['a']"]],
        ),
        ("jsonExtractKey(j, '', 'maxDepth=1')", [["$['a']", "$['b']", "$['c']"], [], ["$['a']"]]),
        ("jsonExtractKey(j, '$.c.*', 'dotNotation=true; maxDepth=0')", [["c.d"], [], []]),
        ("jsonStringToArray(jsonExtractScalar(j, '$.b', 'JSON', '[]'))", [["1", "x", "null"], [], []]),
        ("jsonStringToMap(j)", ['{"a":1,"b":[1,"x",null],"c":{"d":2.5}}', None, '{"a":"7"}']),
        ("jsonStringToListOrMap('[1, 2]')", "[1,2]"),
        ('jsonKeyValueArrayToMap(\'[{"key": "a", "value": 1}, {"key": 2}]\')', '{"a":1,"2":null}'),
        ("jsonKeyValueArrayToMap('[{\"k\": \"a\", \"v\": [1]}]', 'k', 'v')", '{"a":[1]}'),
        ("jsonExtractObject(j, '$.c')", ['{"d":2.5}', None, None]),
        ("jsonFormat('{\"a\": 1 }')", '{"a":1}'),
        ("toJsonMapStr('{\"a\": 1 }')", '{"a":1}'),
        ("isJson(j)", [True, False, True]),
        ("mapValue(keys, 'l', vals)", [2, 3, None]),
        ("mapValue(keys, 'k', vals)", [1, 4, None]),
    ],
)
def test_values(text: str, expected: Any) -> None:
    assert run(text) == expected


def test_a_missing_double_is_nan() -> None:
    found = run("jsonPathDouble(j, '$.c.d')")
    assert found[0] == 2.5
    assert math.isnan(found[1])


def test_a_missing_value_without_default_is_an_error() -> None:
    with pytest.raises(QueryError, match="no value at") as caught:
        run("jsonExtractScalar(j, '$.a', 'INT')")
    assert caught.value.code is ErrorCode.QUERY_EXECUTION


@pytest.mark.parametrize(
    "text",
    [
        "jsonExtractScalar(j, '$.a')",
        "jsonExtractScalar(j, '$.a', 'NOPE')",
        "jsonExtractScalar(j, '$.a', 'INT', 'x')",
        "jsonExtractScalar(j, '$.a', 'INT_ARRAY', 0)",
        "jsonExtractScalar(j, j, 'INT')",
        "jsonExtractScalar(keys, '$.a', 'INT')",
        "jsonExtractKey(j, '$.*', 'depth=1')",
        "jsonExtractKey(j, j)",
        "mapValue(keys, 'l', i)",
        "mapValue(keys, keys, vals)",
    ],
)
def test_wrong_arguments_are_refused_when_bound(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        result_type(parse_expression(text), column_type)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION
