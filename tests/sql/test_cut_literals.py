"""Literals are extracted from texts exactly as the lexer's patterns define, although by another search."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from gamay.base.errors import QueryError
from gamay.sql.text import slots
from gamay.sql.text.lexer import COMMENT, NUMBER, QUOTED, STRING, lex

_WRITTEN = re.compile(rf"({COMMENT}|{STRING}|{QUOTED}|{NUMBER})")
PIECES = st.sampled_from([*"aEin019.+-*/'\"\n $_é٣,()", "1e5", "AND", "end", "--", "/*", "*/", "''"])
LEXEMES = st.sampled_from(
    [*"aé_5.,(\n -", "'x'", "'it''s'", '"q"', "AS", "as", " As ", "/* as */", "-- as\n", "1e5", "'as'"]
)


@settings(max_examples=1000, deadline=None)
@given(st.lists(PIECES, max_size=14).map("".join))
def test_the_search_by_first_characters_finds_the_same(text: str) -> None:
    assert slots._CUT.split(text) == _WRITTEN.split(text)


@settings(max_examples=1000, deadline=None)
@given(st.lists(LEXEMES, max_size=12).map("".join))
def test_the_cutter_and_the_lexer_see_the_same_literals(text: str) -> None:
    try:
        found = [lexeme.source for lexeme in lex(text) if lexeme.literal >= 0]
    except QueryError:
        return
    lifted = slots.lift_literals(text)
    pattern = range(len(lifted.sources)) if lifted.pattern is None else lifted.pattern
    assert [lifted.sources[i] for i in pattern] == found
