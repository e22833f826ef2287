"""Regular-expression functions: Java's replacement syntax, options, and patterns from a column."""

import random
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gamay
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.evaluate import evaluate, result_type
from gamay.functions.scalar.text.patterns import find, like, like_parts, like_pattern, needed_parts
from gamay.functions.vector import Operand, Scalar, Vector
from gamay.model.types import DataType
from gamay.sql.parser import parse_expression

UNHURRIED = settings(deadline=None)  # machines are busy at times
COLUMNS: dict[str, Operand] = {
    "s": Vector(DataType.STRING, pa.array(["banana", "", "BAND", "a1b22"])),
    "p": Vector(DataType.STRING, pa.array(["an", "x", "[A-Z]", "\\d+"])),
}


def run(text: str) -> Any:
    expression = parse_expression(text)
    result = evaluate(expression, COLUMNS.__getitem__, 4)
    assert result_type(expression, lambda name: (DataType.STRING, False)) == (result.type, False)
    if isinstance(result, Scalar):
        return result.value
    assert isinstance(result, Vector)
    values = result.values.tolist() if isinstance(result.values, np.ndarray) else result.values.to_pylist()
    return [None if result.nulls is not None and result.nulls[k] else value for k, value in enumerate(values)]


CASES: list[tuple[str, Any]] = [
    ("regexpExtract(s, '(a)(\\d)?', 2, '-')", ["-", "-", "-", "1"]),
    ("regexpExtract(s, 'a', 7)", ["", "", "", ""]),
    ("regexpExtractVar(s, p)", ["an", "", "B", "1"]),
    ("regexpSubstr(s, 'an?')", ["an", None, None, "a"]),
    ("regexpSubstr(s, 'a*')", ["", "", "", "a"]),
    ("regexpSubstrVar(s, p)", ["an", None, "B", "1"]),
    ("regexpCount(s, 'a')", [3, 0, 0, 1]),
    ("regexpCountVar(s, p)", [2, 0, 4, 2]),
    ("regexpReplace(s, 'a(n)', '$1a')", ["bnanaa", "", "BAND", "a1b22"]),
    ("regexpReplace(s, 'a(n)', '$12')", ["bn2n2a", "", "BAND", "a1b22"]),
    ("regexpReplace(s, '(?<x>a)n', '${x}')", ["baaa", "", "BAND", "a1b22"]),
    ("regexpReplace(s, 'a', '\\$1')", ["b$1n$1n$1", "", "BAND", "$11b22"]),
    ("regexpReplace(s, 'a', '-', 2)", ["ban-n-", "", "BAND", "a1b22"]),
    ("regexpReplace(s, 'a', '-', 99)", ["banana", "", "BAND", "a1b22"]),
    ("regexpReplace(s, 'a', '-', 0, 1)", ["ban-na", "", "BAND", "a1b22"]),
    ("regexpReplace(s, 'A', '-', 0, -1, 'i')", ["b-n-n-", "", "B-ND", "-1b22"]),
    ("regexpReplace(s, '', '-')", ["-b-a-n-a-n-a-", "-", "-B-A-N-D-", "-a-1-b-2-2-"]),
    ("regexpReplaceVar(s, p, '<$0>')", ["b<an><an>a", "", "<B><A><N><D>", "a<1>b<22>"]),
    ("regexpLike(s, p)", [True, False, True, True]),
]  # fmt: skip


@pytest.mark.parametrize(("call", "expected"), CASES, ids=[call for call, _ in CASES])
def test_value(call: str, expected: Any) -> None:
    assert run(call) == expected


ERRORS = [
    "regexpReplace(s, 'a', '$1')",
    "regexpReplace(s, 'a', '${x}')",
    "regexpReplace(s, 'a', '-', -1)",
    "regexpReplace(s, 'a', '-', 0, 0, 'x')",
    "regexpExtract(s, '(')",
    "regexpCount(s, '*')",
    "regexp_like(s, '[')",
    "regexpSubstr(s)",
]


@pytest.mark.parametrize("call", ERRORS)
def test_wrong_argument(call: str) -> None:
    with pytest.raises(QueryError) as caught:
        run(call)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION


def test_a_constant_that_is_no_pattern_is_refused_before_there_are_rows(tmp_path: Any) -> None:
    with gamay.connect(tmp_path) as db:
        db.create_table("t", pa.table({"s": ["a"]}))
        for condition in ("regexp_like(s, '(')", "regexpCount(s, '(') > 1"):
            with pytest.raises(QueryError, match="not a regular expression") as caught:
                db.sql(f"SELECT s FROM t WHERE {condition}")
            assert caught.value.code is ErrorCode.QUERY_VALIDATION


@UNHURRIED
@given(
    st.text("ab1", max_size=8),
    st.sampled_from(["a", "a+b?", "(a)(b)?", "b*", "[0-9]"]),
    st.integers(0, 9),
    st.integers(-1, 3),
)
def test_replacing_agrees_with_python(value: str, pattern: str, start: int, occurrence: int) -> None:
    column = Vector(DataType.STRING, pa.array([value]))
    call = parse_expression(f"regexpReplace(s, '{pattern}', '-', {start}, {occurrence})")
    result = evaluate(call, lambda name: column, 1)
    assert isinstance(result, Vector)
    head, tail = value[:start], value[start:]
    seen = iter(range(100))
    expected = re.sub(pattern, lambda match: "-" if occurrence in (-1, next(seen)) else match[0], tail)
    assert result.values.to_pylist() == [head + expected if tail or not head else value]


@pytest.mark.parametrize("alphabet", ["aAbBkKsS/%0", "aAbBkKsS/%0é\u212a\u017f\n"])
def test_like_by_parts_is_like_by_regular_expression(alphabet: str) -> None:
    rng = random.Random(2)
    texts = ["".join(rng.choices(alphabet, k=rng.randint(0, 12))) for _ in range(1500)]
    values = pa.array(["left out", *texts])[1:]  # an array that does not begin with its buffer
    for _ in range(200):
        pattern = "".join(rng.choices("aAbkS/%%%%0", k=rng.randint(0, 7)))
        expected = np.asarray(pc.match_substring_regex(values, like_pattern(pattern)))
        np.testing.assert_array_equal(like(values, pattern), expected, pattern)


def test_which_patterns_have_parts() -> None:
    assert all(like_parts(pattern) is None for pattern in ("", "a", "%", "a_%", "é%", r"a\%%"))
    parts = like_parts("A%b%")
    assert parts is not None
    assert (bytes(parts.parts), parts.is_begin_fixed, parts.is_end_fixed) == (b"ab", True, False)


@pytest.mark.parametrize(
    ("pattern", "needed"),
    [
        ("user [0-9]*7 took .*timeout$", b"user 7 took timeout"),
        ("abc|abd", b"ab"),
        ("abc|xyz", None),
        ("x(abc)y?", b"x"),
        ("(?i)abc", None),
        ("[[:alpha:]]x", b"x"),
        ("a.*", b"a"),
        ("ab{2,3}cd", b"acd"),
        (r"\.html", b".html"),
        (r"a\z", b"a"),
        (r"\Qa.b\E$", b"a.b"),
    ],
)
def test_what_a_pattern_needs(pattern: str, needed: bytes | None) -> None:
    parts = needed_parts(pattern)
    assert (None if parts is None else bytes(parts.parts)) == needed


def test_texts_without_what_a_pattern_needs_do_not_match() -> None:
    rng = random.Random(3)
    texts = ["".join(rng.choices("abcAé0 ", k=rng.randint(0, 90))) for _ in range(2000)]
    for pattern in ("abc", "a[bc]+c0", "^ab", "0 a|b", "(ab)+c", "A.*é", "[^a]b$", "ba{2}", "a?bc+0"):
        expected = [re.search(pattern, text) is not None for text in texts]
        assert find(pa.array(["left out", *texts])[1:], pattern).tolist() == expected, pattern
