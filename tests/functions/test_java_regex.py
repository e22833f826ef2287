"""Patterns mean what they mean in Java, for conditions (RE2) as for functions that extract and replace (Python)."""

import random
import re
import warnings

import pyarrow as pa
import pytest

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.scalar.java_regex import java_regex
from gamay.functions.scalar.patterns import compiled, find

# pattern, texts that contain a match, texts that do not
CASES: list[tuple[str, list[str], list[str]]] = [
    (r"[\w&&[^a]]", ["b", "ab"], ["a", "é", ""]),
    (r"[a-d[m-p]]", ["c", "m"], ["e", "[", "-"]),
    (r"[a-z&&def]x", ["ex"], ["ax", "x", "&x"]),
    (r"[^a-c[x-z]]", ["m", "["], ["a", "y"]),
    (r"[^a-z&&[^b]]", ["b", "-"], ["a", "z"]),
    (r"[a-c&&[b-d]c]", ["b", "c"], ["a", "d"]),
    (r"[a[-b]]", ["-", "a", "b"], ["`", "_"]),
    (r"[]a]", ["]", "a"], ["["]),
    (r"[\Q[]\E]", ["[", "]"], ["Q", "a"]),
    (r"[a&b]", ["&"], ["c"]),
    (r"x[[:alpha:]]", ["x:", "xl"], ["xb", "x["]),
    (r"^\p{L}$", ["é", "Ω", "a"], ["1", "ab", ""]),
    (r"^\p{Lu}\p{IsLowercase}+$", ["Été", "Ab"], ["AB", "ab"]),
    (r"\p{IsGreek}|\p{script=Han}", ["a中", "αb"], ["a", "я"]),
    (r"[\p{L}\d]", ["é", "7"], ["-"]),
    (r"\P{L}", ["-"], ["é", ""]),
    (r"[\P{Lower}a]", ["a", "A", "é"], ["b"]),
    (r"\p{IsDigit}", ["٣"], ["a"]),
    (r"\p{Digit}", ["3"], ["٣"]),
    (r"\A(a|b)\z", ["a"], ["ab", "a\n"]),
    (r"a\Z", ["a", "a\n", "a\r\n"], ["ab", "a\n\n"]),
    (r"a$|b", ["a\n", "xb"], ["a\nx"]),
    (r"(?m)^b$", ["a\nb\nc"], ["ab"]),
    (r"a(?i)b|c", ["aB", "C"], ["AB"]),
    (r"(a(?i)b|c)d", ["aBd", "Cd"], ["aBD", "Abd"]),
    (r"(?i)a(?-i)b", ["Ab"], ["AB"]),
    (r"(?iu)É", ["é"], ["e"]),
    (r"(?<first>a|b)\k<first>", ["aa", "bb"], ["ab"]),
    (r"\x{1F600}|\uD83D\uDE01|\u00e9|\x41|\0102|\cC|\e", ["😀", "😁", "é", "A", "B", "\x03", "\x1b"], ["x", "a", "e"]),
    (r"^\h\v$", ["\u00a0\u2028", "\t\n"], ["\n\t", "ab"]),
    (r"^[\H&&[^a]]\V$", ["bc"], ["ab", " b"]),
    (r"a\Rb", ["a\r\nb", "a\u2028b"], ["ab", "a\n\nb"]),
]


@pytest.mark.parametrize(("pattern", "fitting", "others"), CASES, ids=[case[0] for case in CASES])
@pytest.mark.filterwarnings("error")
def test_meaning(pattern: str, fitting: list[str], others: list[str]) -> None:
    texts = fitting + others
    expected = [True] * len(fitting) + [False] * len(others)
    assert find(pa.array(texts), pattern).tolist() == expected
    assert [compiled(pattern).search(text) is not None for text in texts] == expected


@pytest.mark.parametrize(
    "pattern", ["(", ")", "[", "[a", "*a", r"\p{Nonsense}", r"\x{110000}", "a\\", "[a-", r"(?<n>a)\k<m>", "[" * 10_000]
)
def test_no_pattern(pattern: str) -> None:
    with pytest.raises(QueryError, match="not a regular expression") as caught:
        compiled(pattern)
    assert caught.value.code is ErrorCode.QUERY_VALIDATION
    with pytest.raises(QueryError, match="not a regular expression"):
        find(pa.array(["a"]), pattern)


def _random_class(rng: random.Random, depth: int) -> tuple[str, set[str]]:
    """Return a class of Java, and which of the letters a to h are in it."""
    letters = "abcdefgh"
    text, members = "", set[str]()
    is_first = True
    while is_first or rng.random() < 0.5:
        is_first = False
        if depth and rng.random() < 0.3:
            inner, chosen = _random_class(rng, depth - 1)
            text, members = text + inner, members | chosen
        elif rng.random() < 0.5:
            low, high = sorted(rng.sample(range(8), 2))
            text, members = f"{text}{letters[low]}-{letters[high]}", members | set(letters[low : high + 1])
        else:
            letter = rng.choice(letters)
            text, members = text + letter, members | {letter}
    if depth and rng.random() < 0.4:
        inner, chosen = _random_class(rng, depth - 1)
        text, members = f"{text}&&{inner}", members & chosen
    if rng.random() < 0.3:
        return f"[^{text}]", set(letters) - members
    return f"[{text}]", members


def test_classes_are_sets() -> None:
    rng = random.Random(5)
    texts = pa.array(list("abcdefgh"))
    for _ in range(300):
        pattern, members = _random_class(rng, 3)
        expected = [letter in members for letter in "abcdefgh"]
        assert find(texts, pattern).tolist() == expected, pattern
        assert [compiled(pattern).search(letter) is not None for letter in "abcdefgh"] == expected, pattern


def test_plain_patterns_stay_as_they_are() -> None:
    for pattern in (r"user \d+ took .*ms", "a|b(?:c)?d{2,3}", r"^/a/[^/]+\.html", "[A-Za-z0-9_]+@"):
        assert java_regex(pattern) == java_regex(pattern, for_re2=True) == pattern
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        re.compile(java_regex("[[a]--b||~~]"))
