"""Values located in JSON texts without parsing them, against orjson; and both implementations of jsonExtractScalar."""

import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.scalar.json.match import json_filter
from gamay.functions.scalar.json.path import Extraction
from gamay.functions.scalar.json.scan import scan
from gamay.functions.scalar.json.steps import MISSING, parse_document, path_steps, read_path
from gamay.functions.vector import Vector
from gamay.kernels.json import paths as kinds
from gamay.model.types import DataType

STRING = DataType.STRING
PATHS = ["$", "$.a", "$.a.b", "$[0]", "$.a[1].b", "$[1][0]", "$.b[2]", "$['d é']", "$.a.a.a"]
LEAVES = [
    1,
    0,
    -5,
    10**17,
    2**63 - 1,
    -(2**63),
    10**19,
    -0.0,
    1.5,
    2e10,
    "x",
    'a"b',
    "é",
    "\n",
    True,
    False,
    None,
    "",
    {},
    [],
]
ODD = [
    *(
        "",
        "  ",
        "-0",
        "01",
        "1.",
        "1e5",
        "1E+05",
        ".5",
        "-",
        "[1,]",
        '{"a":1,}',
        '{"a" 1}',
        "[1 2]",
        "\ufeff1",
        "1e999",
        "[1e999]",
    ),
    *('"\\ud800"', "tru", "true ", "nulll", "[[]", "[]]", '{"a":{"b":1},"a":2}', '{"a":{"b":1},"a":{"c":2}}', "1 2", "{}x"),
    *(
        "[" * 70 + "]" * 70,
        '{"a":12345678901234567890}',
        "1" * 400,
        '{"a\\u0062":1}',
        '{"\\u0061":1}',
        '"\x01"',
        '{"a":[1,{"b":2}]}',
    ),
]


def _value(rng: random.Random, depth: int) -> Any:
    if depth > 4 or rng.random() < 0.35:
        return rng.choice(LEAVES)
    if rng.random() < 0.6:
        return {rng.choice(["a", "b", "c", "d é", "a\\"]): _value(rng, depth + 1) for _ in range(rng.randint(0, 4))}
    return [_value(rng, depth + 1) for _ in range(rng.randint(0, 4))]


def documents(count: int) -> list[str]:
    """Return JSON, some of it with repeated names, and about a quarter of it damaged."""
    rng = random.Random(1)
    texts = []
    for _ in range(count):
        text = json.dumps(_value(rng, 0), ensure_ascii=rng.random() < 0.3, indent=rng.choice([None, 1]))
        if rng.random() < 0.15:
            text = text.replace('"b":', '"a":')
        if rng.random() < 0.25:
            place = rng.randrange(len(text))
            text = text[:place] + rng.choice([*',"}]\\1-e.\t [{:\x01', "nul"]) + text[place + rng.randint(0, 2) :]
        texts.append(text)
    return [*texts, *ODD]


DOCUMENTS = documents(4000)
FITS: dict[int, Callable[[Any, str], bool]] = {
    kinds.MISSING: lambda value, raw: value is MISSING,
    kinds.NULL: lambda value, raw: value is None,
    kinds.TRUE: lambda value, raw: value is True,
    kinds.FALSE: lambda value, raw: value is False,
    kinds.WHOLE: lambda value, raw: type(value) is int and str(value) == raw,
    kinds.REAL: lambda value, raw: type(value) is float and value == float(raw),
    kinds.LARGE: lambda value, raw: type(value) in (int, float),
    kinds.TEXT: lambda value, raw: bool(value == raw),
    kinds.ESCAPED: lambda value, raw: isinstance(value, str) and "\\" in raw,
    kinds.NESTED: lambda value, raw: isinstance(value, dict | list),
    kinds.UNSURE: lambda value, raw: True,
}


@pytest.mark.parametrize("path", PATHS)
def test_what_is_found_is_what_a_parser_finds(path: str) -> None:
    steps = path_steps(path)
    texts = pa.array(["left out", *DOCUMENTS])[1:]  # an array that does not begin with its buffer
    found = scan(texts, steps)
    assert found is not None
    data = found.data.tobytes()
    sure = 0
    for text, kind, begin, end in zip(
        DOCUMENTS, *(a.tolist() for a in (found.kinds, found.begins, found.ends)), strict=True
    ):
        value = read_path(parse_document(text), steps)
        raw = "" if kind in (kinds.MISSING, kinds.NESTED, kinds.UNSURE) else data[begin:end].decode()
        assert FITS[kind](value, raw), (text, kind, value, raw)
        sure += kind != kinds.UNSURE
    assert sure > len(DOCUMENTS) // 2


@pytest.mark.parametrize("path", [*PATHS, "$.c.a", "$.b.a[0]", "$.a.b.c.a", "$['']"])
def test_documents_known_to_be_json_hold_the_same(path: str) -> None:
    steps = path_steps(path)
    known = [text for text in DOCUMENTS if parse_document(text) is not MISSING]
    known += ['{"a" : 1, "b":{"a":{"a":2},"a" :3}}', '{"":{"":1},"a":""}', '{"b":1,"a":"b:\\"","a":"{"}']
    # of several lengths, so that blocks of 64 bytes are cut at any place
    known += [
        f'{{"{"n" * size}":[{"1," * (size % 7)}{{"a":{{"b":0}}}}],"a":{{"b":{size},"c":["a:","{{"]}}}}'
        for size in range(140)
    ]
    texts = pa.array([*known, "x" * 70])[:-1]  # none is too near to the end of its buffer
    found, plain = scan(texts, steps, is_json=True), scan(texts, steps)
    assert found is not None
    assert plain is not None
    differ = np.flatnonzero((found.kinds != plain.kinds) & (plain.kinds != kinds.UNSURE))
    assert not len(differ), known[differ[0]]
    rows = np.flatnonzero(~found.is_one_of(kinds.MISSING, kinds.NESTED, kinds.UNSURE))
    assert found.texts(rows).equals(plain.texts(rows))


@pytest.mark.parametrize("text", DOCUMENTS[-60:])
def test_what_is_no_json_is_read_to_its_end_and_no_further(text: str) -> None:
    for path in PATHS:
        found = scan(pa.array(["x" * 70, text, "x" * 70]), path_steps(path), is_json=True)
        assert found is not None
        assert 70 <= found.begins[1] <= 70 + len(text.encode())


@settings(max_examples=300)
@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1), st.sampled_from(["{!r}", "{:.3f}", "{:.12e}"])
)
def test_numbers_are_read_as_python_reads_them(numbers: list[float], form: str) -> None:
    texts = pa.array([f"[{form.format(number)}]" for number in numbers])
    found = scan(texts, path_steps("$[0]"))
    assert found is not None
    rows, read = found.reals()
    assert read.tolist() == [float(form.format(numbers[row])) for row in rows]
    whole = scan(pa.array([f"[{int(max(min(number, 1e17), -1e17))}]" for number in numbers]), path_steps("$[0]"))
    assert whole is not None
    rows, integers = whole.wholes()
    assert integers.tolist() == [int(max(min(numbers[row], 1e17), -1e17)) for row in rows]


def test_which_paths_are_not_plain() -> None:
    texts = pa.array(["{}"])
    assert all(scan(texts, path_steps(path)) is None for path in ("$..a", "$.a[*]", "$.a[-1]", "$.a.length()", "$.a[0,1]"))
    assert all(scan(texts, path_steps(path)) is not None for path in ("$", "$.a", "$['a b'][3]"))


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("to", ["STRING", "INT", "LONG", "FLOAT", "DOUBLE", "BOOLEAN"])
@pytest.mark.parametrize("default", [None, "1"])
def test_both_ways_to_extract_agree(path: str, to: str, default: str | None) -> None:
    literals = [Literal(value, STRING) for value in (path, to, default)]
    extraction = Extraction.of("jsonExtractScalar", Call("jsonextractscalar", (Column("d"), *literals)), 4)
    steps = path_steps(path)

    def find(text: str) -> Any:
        return read_path(parse_document(text), steps)

    def is_readable(value: Any) -> bool:
        """Other values are errors by both ways."""
        if to == "STRING" or value is MISSING:
            return True
        return not isinstance(value, str | dict | list) and (value is None or abs(value) < 2**63)

    texts = [text for text in DOCUMENTS if is_readable(find(text))]
    for nulls in (None, np.random.default_rng(0).random(len(texts)) < 0.2):
        vector = Vector(STRING, pa.array(texts), None, nulls)
        plain, other = extraction.plain_results(vector, steps, find), extraction.results(vector, find)
        assert plain is not None
        assert _rows(plain) == _rows(other)


def _rows(vector: Vector) -> list[str]:
    nulls = np.zeros(len(vector), bool) if vector.nulls is None else vector.nulls
    return ["null" if null else repr(value) for value, null in zip(vector.values.tolist(), nulls.tolist(), strict=True)]


def test_a_value_that_is_missing_needs_a_default() -> None:
    call = Call("jsonextractscalar", (Column("d"), Literal("$.a", STRING), Literal("INT", STRING)))
    extraction = Extraction.of("jsonExtractScalar", call, 4)
    vector = Vector(STRING, pa.array(['{"a":1}', "{}"]))
    with pytest.raises(QueryError, match="a row has no value"):
        extraction.plain_results(vector, path_steps("$.a"), lambda text: MISSING)
    known = extraction.plain_results(
        Vector(STRING, vector.values, None, np.array([False, True])), path_steps("$.a"), lambda text: MISSING
    )
    assert known is not None
    assert known.values[0] == 1


@pytest.mark.parametrize(
    "condition",
    [
        """ "$.a" = '1' """,
        """ "$.a" <> 'x' AND "$.b" IS NOT NULL """,
        """ "$.a" > 0 OR "$.a.b" <= 1.5 """,
        """ "$.a.b" IN ('x', 'true', '20000000000.0') """,
        """ "$.a" BETWEEN -5 AND 2 """,
        """ "$.a" >= 'b' OR "$" = '1' """,
        """ "$.c" LIKE 'x%' OR REGEXP_LIKE("$.b", '[0-9]+') """,
        """ "$.a[0]" = '1' """,
        """ "$.a" IS NULL """,
    ],
)
def test_conditions_on_columns_are_conditions_on_documents(condition: str) -> None:
    read = json_filter("jsonMatch", condition)
    flags = read.matches_all(pa.array(DOCUMENTS))
    assert (flags is None) == ("[0]" in condition or "IS NULL" in condition)
    if flags is not None:
        assert flags.tolist() == [read.matches(document) for document in DOCUMENTS]
        assert flags.any()
