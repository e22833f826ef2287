"""Literals are cut out of texts where the lexer's patterns say, though the search for them is another one."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.sql import slots
from gamay.sql.lexer import COMMENT, NUMBER, QUOTED, STRING

_WRITTEN = re.compile(rf"({COMMENT}|{STRING}|{QUOTED}|{NUMBER})")
PIECES = st.sampled_from([*"aEin019.+-*/'\"\n $_é٣,()", "1e5", "AND", "end", "--", "/*", "*/", "''"])


@settings(max_examples=1000, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_the_search_by_first_characters_finds_the_same(text: str) -> None:
    assert slots._CUT.split(text) == _WRITTEN.split(text)
