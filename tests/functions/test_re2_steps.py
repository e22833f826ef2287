"""Matching a column in steps equals matching it at once, and the query may end between steps."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base import guard
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.regex import re2
from gamay.functions.regex.matching import CHARS_MAX
from gamay.functions.vector import Values
from gamay.sql.parser import parse_query

_TEXTS = st.lists(st.text("abé", max_size=12), max_size=20)


@pytest.mark.parametrize(
    "function",
    [
        lambda texts: np.asarray(pc.match_substring_regex(texts, "a+b")),
        lambda texts: pc.replace_substring_regex(texts, "a+b", "-"),
    ],
)
@given(texts=_TEXTS, skipped=st.integers(0, 3), step=st.integers(1, 100))
def test_steps_make_what_the_whole_makes(
    function: Callable[[Values], Values], texts: list[str], skipped: int, step: int
) -> None:
    column = pa.array(texts, pa.string())[skipped:]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(re2, "_STEP_WORK", step)
        found = re2.in_steps(column, "a+b", function)
    assert pa.array(found).equals(pa.array(function(column)))


class _Counting(guard.NullGuard):
    def __init__(self, most: int) -> None:
        self.left = most

    def uninterrupted(self, worst_s: float) -> None:
        assert worst_s < 1
        self.left -= 1
        if self.left < 0:
            raise QueryError(ErrorCode.QUERY_CANCELLATION, "cancelled")


def test_the_query_may_end_between_steps() -> None:
    column = pa.array(["ab" * 50_000] * 1_000)  # 100 MB
    asked: list[Any] = []
    before = guard.enter(_Counting(3))
    try:
        with pytest.raises(QueryError, match="cancelled"):
            re2.in_steps(column, "a" * 100, lambda texts: asked.append(len(texts)) or np.zeros(len(texts), np.bool_))
    finally:
        guard.enter(before)
    assert len(asked) == 3
    assert sum(asked) < 20


@pytest.mark.parametrize("function", ["regexp_like", "regexp_extract", "regexp_count", "like"])
def test_too_long_a_pattern_is_refused(function: str) -> None:
    with pytest.raises(QueryError, match=f"has {CHARS_MAX + 1:,} characters, at most {CHARS_MAX:,}"):
        parse_query(f"SELECT {function}('a', repeat('_', {CHARS_MAX + 1})) FROM t")


def test_what_may_take_too_long_on_one_text_is_refused() -> None:
    with pytest.raises(QueryError, match=r"may take too long on a text of 1,000,000 bytes; at most 1,000 characters"):
        re2.found(pa.array(["a" * 1_000_000]), "a?" * 501)
    assert list(re2.found(pa.array(["a" * 1_000_000]), "a" * 500)) == [True]
