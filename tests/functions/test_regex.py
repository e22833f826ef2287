"""Patterns have Java's semantics, in conditions (RE2) and in functions that extract and replace (Python)."""

import random
import re
import sys
import threading
import time
import warnings

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base import guard
from gamay.base.errors import ErrorCode, QueryError
from gamay.base.guard import NullGuard
from gamay.functions.regex.java_syntax import java_regex
from gamay.functions.regex.matching import captured, compiled, re2_counted, re2_matches
from gamay.functions.scalar.text.patterns import find

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


_BACKTRACKING = [(r"(a|aa)+$", "a" * 60 + "b"), (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 5000)]


class _EndsSoon(NullGuard):
    """A guard that ends the work at the fourth check."""

    def __init__(self) -> None:
        self.asked = 0

    def check(self) -> None:
        self.asked += 1
        if self.asked == 4:
            raise QueryError(ErrorCode.EXECUTION_TIMEOUT, "out of time")


@pytest.mark.parametrize(("pattern", "text"), _BACKTRACKING)
def test_a_match_ends_with_its_query(pattern: str, text: str) -> None:
    """Python's `re` would take years for each, without asking, and no other thread would run meanwhile."""
    before = guard.enter(_EndsSoon())
    try:
        with pytest.raises(QueryError, match="out of time"):
            compiled(pattern).search(text)
    finally:
        guard.enter(before)


def test_other_threads_run_while_a_match_backtracks() -> None:
    turns, is_done = [0], threading.Event()

    def take_turns() -> None:
        while not is_done.is_set():
            turns[0] += 1
            time.sleep(0)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # no thread is made to give up the interpreter's lock: only one that releases it does
    thread = threading.Thread(target=take_turns)
    thread.start()
    try:
        engine = compiled(_BACKTRACKING[0][0])._engine
        turns_before = turns[0]
        with pytest.raises(TimeoutError):
            engine.search(_BACKTRACKING[0][1], timeout=0.2)
        assert turns[0] > turns_before
    finally:
        sys.setswitchinterval(before)
        is_done.set()
        thread.join()


def test_patterns_that_would_fill_the_memory_are_refused() -> None:
    with pytest.raises(QueryError, match="repeats expand to 1,000,000,000 elements, at most 100,000"):
        compiled("((a{1000}){1000}){1000}")
    with pytest.raises(QueryError, match="more than 10,000 characters"):
        compiled("(?=a)" + "b" * 10_000).search("")


_ATOMS = st.sampled_from(
    ["a", "b", "ab", "é", ".", r"\w", r"\d", "[ab]", "[^a]", "(a)", "(b|c)", "(?:ab|a)", "{", "1", r"\b"]
)
_TIMES = st.sampled_from(["", "", "", "?", "*", "+", "+?", "*?", "{2}", "{1,2}"])
_REPEATED = st.tuples(_ATOMS, _TIMES).map(lambda parts: parts[0] if parts[0] == r"\b" else "".join(parts))
_PATTERNS = st.recursive(
    st.lists(_REPEATED, min_size=1, max_size=4).map("".join),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("|".join),
        inner.map("({})".format),
        st.tuples(inner, st.sampled_from("?*+")).map(lambda parts: f"({parts[0]}){parts[1]}"),
    ),
    max_leaves=4,
)
_TEXTS = st.lists(st.text("aabbc1é {\n", max_size=8), min_size=1, max_size=5)


@settings(max_examples=300)
@given(_PATTERNS, _TEXTS, st.booleans())
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_all_engines_agree_with_the_one_of_python(pattern: str, texts: list[str], ignore_case: bool) -> None:
    """`re` is the oracle for the matched text and its groups, unless it takes exponential time."""
    oracle = re.compile(java_regex(pattern), re.ASCII | (re.IGNORECASE if ignore_case else 0))
    java = compiled(pattern, ignore_case)
    expected = [[(match.span(), match.groups("")) for match in oracle.finditer(text)] for text in texts]
    assert [[(match.span(), match.groups("")) for match in java.all_matches(text)] for text in texts] == expected
    whole = re2_matches(pattern, ignore_case)
    if whole is None:
        return
    column = pa.array(texts)
    if not ignore_case and (counted := re2_counted(pattern)) is not None:
        assert pc.count_substring_regex(column, counted).to_pylist() == [len(matches) for matches in expected]
    for group in range(java.groups + 1):
        found = [match and (match[group] or "") for match in map(oracle.search, texts)]
        assert captured(column, whole, group).to_pylist() == found
        replaced = [oracle.sub(lambda match, group=group: f"<{match[group] or ''}>", text) for text in texts]
        assert pc.replace_substring_regex(column, whole, rf"<\{group}>").to_pylist() == replaced
        if group and (to_end := re2_matches(f"{pattern}$", ignore_case, group)) is not None:
            at_end = re.compile(java_regex(f"{pattern}$"), oracle.flags & ~re.UNICODE)
            found = [match and (match[group] or "") for match in map(at_end.search, texts)]
            assert captured(column, to_end, group).to_pylist() == found


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
