"""The JSON index against JSON_MATCH itself: random documents, conditions and settings."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyroaring import BitMap

from gamay.base.errors import CorruptSegmentError, QueryError
from gamay.functions.convert import to_vector
from gamay.functions.evaluate import evaluate_entries
from gamay.functions.expression import Call, Column, Expression, Literal
from gamay.functions.scalar.json.match import json_filter, number_in
from gamay.functions.vector import Vector
from gamay.kernels.json import leaves as json_leaves
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.types import DataType
from gamay.query.bind.binder import bind
from gamay.query.bind.predicate import Match
from gamay.segment.secondary.json_index.files import StoredTerms, numbers_of
from gamay.segment.secondary.json_index.index import JSON
from gamay.segment.spi import Found
from gamay.sql.parser import parse_query


@dataclass
class Entries:
    """A dictionary of texts."""

    values: Vector

    def __len__(self) -> int:
        return len(self.values)


class Source:
    """A column of documents, with or without a dictionary."""

    name, data_type, single_value, null_docs = "doc", DataType.STRING, True, None

    def __init__(self, documents: list[str], *, encoded: bool) -> None:
        self._documents = pa.array(documents, pa.string())
        self.num_docs = len(documents)
        coded = self._documents.dictionary_encode()
        self.dictionary: Any = Entries(Vector(DataType.STRING, coded.dictionary)) if encoded else None
        self._ids = coded.indices.to_numpy()

    def values(self, start: int, stop: int) -> Vector:
        return Vector(DataType.STRING, self._documents[start:stop])

    def ids(self, start: int, stop: int) -> Any:
        return self._ids[start:stop]


def condition_of(text: str) -> Expression:
    """Return a condition of WHERE in the form passed to segments."""
    found = bind(parse_query(f"SELECT doc FROM t WHERE {text}"), Schema("t", (FieldSpec("doc", DataType.STRING),))).filter
    assert isinstance(found, Match)
    return found.expression


def matching(text: str) -> Expression:
    return Call("jsonmatch", (Column("doc"), Literal(text, DataType.STRING)))


def find(
    documents: list[str], ask: Callable[[Any], Any], settings: dict[str, Any] | None = None, *, encoded: bool = False
) -> Any:
    """Build an index of documents, check it as one of unknown origin, and return its result."""
    source: Any = Source(documents, encoded=encoded)
    with TemporaryDirectory() as folder:
        content = json.loads(json.dumps(JSON.build([source], settings or {}, Path(folder))))
        JSON.check(Path(folder), content, [source])
        return ask(JSON.open(Path(folder), content, [source], settings or {}))


def agrees(found: Found | None, documents: list[str], text: str) -> None:
    """Check an index's result for a condition against JSON_MATCH of each document."""
    expected = {row for row, document in enumerate(documents) if json_filter("jsonMatch", text).matches(document)}
    if found is not None and found.is_exact:
        assert set(found.docs) == expected, text
    elif found is not None:
        assert set(found.docs) >= expected, text


NAMES = st.sampled_from(["a", "b", "a b", "é", 'q"', "a.b", "\n"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "x", "y", "xy", "1", " 2", "1e1", "nan", "é\\", "\U0001f600", "long " * 4]),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
ODD = st.sampled_from(
    ["", "no", "[1,]", '{"a":1,"a":{"b":2}}', '{"\\u0061":"\\u0078"}', '["\\ud800"]', "1e999", "[-0, -0.0, 1E2, 1e-400]",
     "[" * 80 + "1" + "]" * 80, ' { "a" : [ 1 , { "b" : "x" } ] } ', '{"a":1}}', "null"]
)  # fmt: skip
DOCUMENTS = st.lists(
    st.one_of(VALUES.map(json.dumps), VALUES.map(lambda value: json.dumps(value, ensure_ascii=False)), ODD),
    min_size=1,
    max_size=12,
)
PATHS = st.lists(st.sampled_from([".a", ".b", "['a.b']", ".é", "[*]", "[0]", "[1]"]), max_size=3).map(
    lambda s: '"$' + "".join(s) + '"'
)
CONSTANTS = st.sampled_from(
    ["''x''", "''xy''", "1", "-3", "2.5", "''1''", "true", "0", "''''", "''é''", "''long long long long ''"]
)


@st.composite
def leaves(draw: st.DrawFn) -> str:
    path, one, other = draw(PATHS), draw(CONSTANTS), draw(CONSTANTS)
    form = draw(
        st.sampled_from(
            ["{p} = {a}", "{p} <> {a}", "{p} IN ({a}, {b})", "{p} NOT IN ({a}, {b})", "{p} > {a}", "{p} <= {a}",
             "{p} BETWEEN {a} AND {b}", "{p} LIKE ''%x%''", "REGEXP_LIKE({p}, ''x.*'')", "{p} IS NOT NULL"]
        )
    )  # fmt: skip
    return form.format(p=path, a=one, b=other).replace("''", "'")


CONDITIONS = st.one_of(
    st.recursive(
        leaves(),
        lambda inner: st.tuples(st.sampled_from([" AND ", " OR "]), st.lists(inner, min_size=2, max_size=3)).map(
            lambda joined: "(" + joined[0].join(joined[1]) + ")"
        ),
        max_leaves=4,
    ),
    PATHS.map(lambda path: f"{path} IS NULL"),
)
SETTINGS = st.fixed_dictionaries(
    {},
    optional={
        "maxLevels": st.integers(-1, 3),
        "excludeArray": st.booleans(),
        "excludePaths": st.lists(st.sampled_from(["$.a", "$.a[*]", "$.b.a", "$['a.b']"]), max_size=2),
        "excludeFields": st.lists(st.sampled_from(["b", "é"]), max_size=1),
        "indexPaths": st.lists(st.sampled_from(["*", "**", "a.**", "*.*", "a..b", "**.b"]), max_size=2),
        "maxValueLength": st.integers(0, 3),
    },
)


@given(DOCUMENTS, CONDITIONS, SETTINGS, st.booleans(), st.booleans())
@example(['{"a":[{"b":1,"c":2},{"b":3,"c":4}]}'], '"$.a[*].b" = 1 AND "$.a[*].c" = 4', {}, False, False)
def test_it_agrees_with_the_scan(
    documents: list[str], text: str, settings: dict[str, Any], encoded: bool, negated: bool
) -> None:
    condition = Call("not", (matching(text),)) if negated else matching(text)
    found = find(documents * 2, lambda index: index.find(condition), settings, encoded=encoded)
    if negated and found is not None:
        assert found.is_exact
        found = Found(BitMap(range(2 * len(documents))) - found.docs)
    agrees(found, documents * 2, text)


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    """Return a comparison of an extracted value, with or without a default."""
    path = "$" + "".join(draw(st.lists(st.sampled_from([".a", ".b", "[''a.b'']", "[0]"]), max_size=2)))
    function = draw(st.sampled_from(["jsonExtractScalar", "jsonExtractIndex"]))
    if draw(st.booleans()):
        of_type, constants, operators = "STRING", ["'x'", "'xy'", "'1'", "'true'", "'2.5'", "''"], ["=", "IN"]
    else:
        of_type, operators = draw(st.sampled_from(["INT", "LONG", "DOUBLE"])), ["=", "IN", "<", "<=", ">", ">=", "BETWEEN"]
        constants = ["0", "1", "-3", "2.5", str(2**53), "1e30"]
    default = draw(st.sampled_from(["", f", {draw(st.sampled_from(constants[:3]))}", ", null"]))
    operator, one, other = draw(st.sampled_from(operators)), *[draw(st.sampled_from(constants)) for _ in range(2)]
    compared = {"IN": f"IN ({one}, {other})", "BETWEEN": f"BETWEEN {one} AND {other}"}.get(operator, f"{operator} {one}")
    return f"{function}(doc, '{path}', '{of_type}'{default}) {compared}"


@given(DOCUMENTS, comparisons(), SETTINGS)
@example(['{"a":{"b":1}}', '{"a":"x"}'], "jsonExtractScalar(doc, '$.a', 'STRING', 'y') = 'y'", {})
@example([f'{{"a":{2**70}}}', '{"a":"x"}'], "jsonExtractScalar(doc, '$.a', 'STRING', 'y') = '1.1805916207174113E21'", {})
def test_extracted_values_are_compared_as_they_are_without_it(
    documents: list[str], text: str, settings: dict[str, Any]
) -> None:
    condition = condition_of(text)
    found = find(documents * 2, lambda index: index.find(condition), settings)
    try:
        flags = to_vector(evaluate_entries(condition, Vector(DataType.STRING, pa.array(documents * 2))), 2 * len(documents))
    except QueryError:  # some document lacks the value, or has one of another type
        assert found is None
        return
    if found is None:
        return
    expected = set(np.flatnonzero(flags.values & ~(False if flags.nulls is None else flags.nulls)).tolist())
    assert set(found.docs) == expected if found.is_exact else set(found.docs) >= expected


MANY = [
    json.dumps({"a": {"b": i % 7, "c": f"v{i}"}, "l": [{"k": i % 3, "p": i}, {"k": 1, "p": i + 0.5}], "t": [i % 5, "z"]})
    for i in range(500)
]


@pytest.mark.parametrize(
    ("text", "is_exact"),
    [
        ('"$.a.b" = 3', True),
        ('"$.a.b" <> 3', True),
        ('"$.a.c" IN (\'v1\', \'v2\', \'none\')', True),
        ('"$.a.b" NOT IN (1, 2)', True),
        ('"$.a.b" >= 5 AND "$.a.c" LIKE \'v1%\'', True),
        ('REGEXP_LIKE("$.a.c", \'v1.\')', True),
        ('"$.t[*]" = 2 AND "$.a.b" < 3', True),
        ('"$.l[*].p" BETWEEN 10 AND 12.5', True),
        ('"$.l[*].k" = 2 OR "$.t[*]" = 4', True),
        ('"$.l[*].k" = 2 AND "$.l[*].p" = 20', False),
        ('"$.l[0].p" = 20', False),
        ('"$.a.b" IS NOT NULL', True),
        ('"$.x" IS NULL', True),
        ('"$.a.c" IS NULL', True),
        ('"$.a.c" > \'v3\'', True),
    ],
)  # fmt: skip
@pytest.mark.parametrize("encoded", [False, True])
def test_what_is_exact_and_what_narrows_down(text: str, is_exact: bool, encoded: bool) -> None:
    found = find(MANY, lambda index: index.find(matching(text)), encoded=encoded)
    assert found.is_exact == is_exact
    agrees(found, MANY, text)


@pytest.mark.parametrize(
    ("settings", "held", "left"),
    [
        ({"maxLevels": 1}, [], ["$.a.b", "$.t[*]"]),
        ({"maxLevels": 2}, ["$.a.b", "$.t[*]"], ["$.l[*].k"]),
        ({"excludeArray": True}, ["$.a.b"], ["$.t[*]", "$.l[0].k"]),
        ({"includePaths": ["$.a", "$.l[*].k"]}, ["$.a.b", "$.l[*].k"], ["$.t[*]", "$.l[*].p"]),
        ({"excludePaths": ["$.l[*]"]}, ["$.a.b", "$.t[*]"], ["$.l[*].p"]),
        ({"excludeFields": ["b"]}, ["$.a.c"], ["$.a.b"]),
        ({"indexPaths": ["a.*"]}, ["$.a.b"], ["$.t[*]"]),
        ({"indexPaths": ["l[*].k", "t.."]}, ["$.l[*].k", "$.t[*]"], ["$.l[*].p", "$.a.b"]),
        ({"indexPaths": ["l..k", "t."]}, ["$.l[*].k", "$.t[*]"], ["$.l[*].p", "$.a.b"]),
    ],
)
def test_what_is_not_held_is_left_to_the_scan(settings: dict[str, Any], held: list[str], left: list[str]) -> None:
    def asked(index: Any) -> tuple[list[bool], int]:
        found = [index.find(matching(f'"{path}" = 1')) is not None for path in held + left]
        both = index.find(matching(f'"{left[0]}" = 1 AND "$.a.c" = \'v1\''))
        return found, 0 if both is None else both.is_exact

    assert find(MANY, asked, settings) == ([True] * len(held) + [False] * len(left), False)


@pytest.mark.parametrize(
    ("text", "is_exact", "count"),
    [
        ("jsonExtractScalar(doc, '$.a.c', 'STRING') = 'v7'", True, 1),
        ("jsonExtractIndex(doc, '$.a.c', 'STRING', '') IN ('v7', 'v8', 'v')", True, 2),
        ("jsonExtractScalar(doc, '$.l[1].p', 'DOUBLE', 0.0) BETWEEN 7 AND 8", False, 2),
        ("jsonExtractScalar(doc, '$.a.b', 'LONG', 0) = 3", False, 214),
        ("jsonExtractScalar(doc, '$.a.b', 'LONG', 3) = 3", False, 214),
        ("jsonExtractScalar(doc, '$.x', 'STRING', 'y') = 'z'", True, 0),
    ],
)
def test_extracted_values_are_found(text: str, is_exact: bool, count: int) -> None:
    found = find(MANY, lambda index: index.find(condition_of(text)))
    assert (found.is_exact, len(found.docs)) == (is_exact, count)


@pytest.mark.parametrize(
    "text",
    [
        "jsonExtractScalar(doc, '$.x', 'STRING') = 'z'",
        "jsonExtractScalar(doc, '$.a.b', 'LONG') = 3",
        "jsonExtractScalar(doc, '$.a.b', 'LONG', 0) >= 0",
        "jsonExtractScalar(doc, '$.a', 'STRING', '') = '{\"b\":3,\"c\":\"v3\"}'",
        "jsonExtractScalar(doc, '$.t[*]', 'STRING', '') = 'z'",
    ],
)
def test_what_only_the_function_knows_is_left_to_it(text: str) -> None:
    assert find(MANY, lambda index: index.find(condition_of(text))) is None


def test_long_values_are_found_by_reading() -> None:
    documents = [*MANY, json.dumps({"a": {"c": "x" * 50}})]
    for text, is_exact in ((f"\"$.a.c\" = '{'x' * 50}'", False), ("\"$.a.c\" = 'v1'", True), ('"$.a.c" IS NOT NULL', True)):
        found = find(documents, lambda index, text=text: index.find(matching(text)), {"maxValueLength": 10})
        assert found.is_exact == is_exact
        agrees(found, documents, text)


def test_texts_that_are_no_json_are_told_of(caplog: pytest.LogCaptureFixture) -> None:
    ask = lambda index: set(index.find(matching('"$.a" IS NULL')).docs)  # noqa: E731
    assert find(['{"b":1}', "no"], ask) == {0}
    assert "the column 'doc' has 1 texts that are no JSON, the first is row 1" in caplog.text
    caplog.clear()
    assert find(['{"b":1}', "no"], ask, {"skipInvalidJson": True}) == {0}
    assert not caplog.text


@given(
    st.lists(
        st.one_of(st.text(max_size=6), st.floats().map(str), st.from_regex(r"\s*[-+]?[0-9_.eE]{1,8}\s*", fullmatch=True))
    )
)
def test_numbers_of_texts_are_those_of_ranges(texts: list[str]) -> None:
    expected = [np.nan if (number := number_in(text)) is None else number for text in texts]
    np.testing.assert_array_equal(numbers_of(pa.array(texts, pa.string())), expected)


def test_documents_are_read_no_deeper_than_the_other_reader_does() -> None:
    levels = json_leaves.LEVELS_MAX
    documents = ["[" * depth + "7" + "]" * depth for depth in (1, levels - 1, levels, levels + 1)]
    agrees(find(documents, lambda index: index.find(matching('"$.x" IS NULL'))), documents, '"$.x" IS NULL')


def test_documents_that_only_the_other_reader_takes_are_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    documents = ['{"a":1,"a":2}', '{"a":3}', *['{"b":3}'] * 4]
    monkeypatch.setattr("gamay.segment.secondary.json_index.flatten._rewritten", lambda document: None)
    for text, docs in (('"$.a" = 2', {0}), ('"$.a" = 3', {0, 1}), ('"$.a" = 7', {0})):
        found = find(documents, lambda index, text=text: index.find(matching(text)))
        assert (found.is_exact, set(found.docs)) == (False, docs)


def test_damage_is_found(tmp_path: Path) -> None:
    source: Any = Source(MANY, encoded=False)
    content = JSON.build([source], {}, tmp_path)
    file = tmp_path / "index.bin"
    whole = file.read_bytes()
    for kind, offset, size, _ in content["buffers"]:
        if kind == "terms.numbers" or not size:
            continue
        file.write_bytes(whole[:offset] + b"\xff" * size + whole[offset + size :])
        with pytest.raises(CorruptSegmentError):
            JSON.check(tmp_path, content, [source])
    file.write_bytes(whole)
    JSON.check(tmp_path, content, [source])
    for key in ("docs", "paths", "terms"):
        with pytest.raises((CorruptSegmentError, ValueError)):
            JSON.check(tmp_path, {**content, key: content[key] + 1}, [source])
    assert StoredTerms.read(tmp_path, content).path(("a", "b")) is not None
