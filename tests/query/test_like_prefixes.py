"""LIKE over sorted dictionaries: the ranges of entries with a pattern's prefix, against matching every entry."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gamay
from gamay.functions.expression import Call, Column, Literal
from gamay.functions.scalar.text.patterns import like
from gamay.model.types import DataType as D
from gamay.query.filter.prefixes import like_ranges
from gamay.segment.encode.dictionary import SortedDictionary

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


@pytest.mark.parametrize("function", ["reverse", "upper", "jsonextractscalar"])
def test_what_is_made_of_a_column_begins_otherwise(function: str) -> None:
    dictionary = SortedDictionary(D.STRING, pa.array([b"ab", b"ba"], pa.binary()))
    condition = Call("like", (Call(function, (Column("c"),)), Literal("a%", D.STRING)))
    assert like_ranges(condition, dictionary) is None


def test_like_on_what_is_made_of_a_column(tmp_path: Path) -> None:
    texts = pa.table({"word": ["ab", "ba", "bab"], "doc": ['{"a": "xy"}', '{"a": "yx"}', '{"b": "xy"}']})
    with gamay.connect(tmp_path / "data") as db:
        db.create_table("t", texts)
        for condition, count in (
            ("reverse(word) LIKE 'a%'", 1),
            ("reverse(word) LIKE 'b%'", 2),
            ("word LIKE 'b%'", 2),
            ("concat('x', word) LIKE 'xb%'", 2),
            ("jsonExtractScalar(doc, '$.a', 'STRING', 'none') LIKE 'x_'", 1),
            ("jsonExtractScalar(doc, '$.a', 'STRING', 'none') LIKE 'no%'", 1),
            ("NOT jsonExtractScalar(doc, '$.a', 'STRING', 'none') LIKE 'x%'", 2),
        ):
            assert db.sql(f"SELECT COUNT(*) FROM t WHERE {condition}").rows() == [(count,)], condition
