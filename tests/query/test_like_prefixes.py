"""LIKE over sorted dictionaries: the ranges of entries that a pattern's beginning leaves, against matching every entry."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.functions.expression import Call, Column, Literal
from gamay.functions.scalar.patterns import like
from gamay.model.types import DataType as D
from gamay.query.filter.prefixes import like_ranges
from gamay.segment.dictionary import SortedDictionary

LETTERS = "aAkK\u212asSſ/_%\\é\ud7ff\U0010ffff"
TEXTS = st.sets(st.text(LETTERS, max_size=5), max_size=40)


def ranges_of(texts: list[str], pattern: str) -> list[tuple[int, int]] | None:
    dictionary = SortedDictionary(D.STRING, pa.array([text.encode() for text in texts], pa.binary()))
    condition = Call("like", (Column("c"), Literal(pattern, D.STRING)))
    return like_ranges(condition, dictionary)


@given(TEXTS, st.text(LETTERS, max_size=6))
def test_matches_lie_in_the_ranges(texts: set[str], pattern: str) -> None:
    entries = sorted(texts, key=str.encode)
    ranges = ranges_of(entries, pattern)
    if ranges is None:
        assert pattern[:1] in ("", "%", "_", "\\") or not pattern[0].isascii()
        return
    assert all(0 <= first < last <= len(entries) for first, last in ranges)
    assert all(one[1] <= other[0] for one, other in pairwise(ranges))
    inside = np.zeros(len(entries), np.bool_)
    for first, last in ranges:
        inside[first:last] = True
    found = np.asarray(like(pa.array(entries, pa.string()), pattern), np.bool_) if entries else inside
    assert not (found & ~inside).any()


@pytest.mark.parametrize("pattern", ["abcdefgh%", "ABCDEFGH%", "aBcDeFgHi"])
def test_many_cases_end_in_few_ranges(pattern: str) -> None:
    texts = sorted({"".join(c.upper() if n >> i & 1 else c for i, c in enumerate("abcdefghi")) for n in range(512)})
    ranges = ranges_of(texts, pattern)
    assert ranges is not None
    assert len(ranges) <= 48
    assert sum(last - first for first, last in ranges) == 512
    assert ranges_of(["b"], pattern) == []
