"""Statements are split at their ends, and nowhere else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.base.errors import InvalidConfigError
from gamay.shell.statements import is_complete, option_of, split

PIECES = ["SELECT 1", "x", " ", "\n", "'a;b'", "''';'", '"c;d"', "-- e;'\n", "/* f;' */", "-", "/", "*", "(1, 2)"]


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ;; \n; ", []),
        ("-- only; this\n/* and; that */", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' AS \"a;b\" -- c;\n FROM t /* ; */ WHERE x = 'it''s;'; SELECT 2", None),
        ("SELECT 'open; SELECT 2", ["SELECT 'open; SELECT 2"]),
        ("SELECT 1;\n.tables\n.mode csv; SELECT 2", ["SELECT 1", ".tables", ".mode csv; SELECT 2"]),
        ("SELECT\n.5", ["SELECT\n.5"]),
    ],
)
def test_split(text: str, statements: list[str] | None) -> None:
    found = [one.text for one in split(text)]
    assert found == statements if statements is not None else len(found) == 2
    assert all(text[one.start :].startswith(one.text) for one in split(text))


def test_lines_are_counted() -> None:
    assert [one.line for one in split("SELECT 1;\n\n SELECT\n 2; SELECT 3")] == [1, 3, 4]


@given(st.lists(st.lists(st.sampled_from(PIECES), min_size=1), max_size=5))
def test_what_is_joined_by_semicolons_is_split_again(parts: list[list[str]]) -> None:
    whole = [f"SELECT {''.join(part)}" for part in parts]
    texts = [one.text for one in split("\n;".join(whole))]
    assert len(texts) == len(whole)
    assert all(one.startswith(text) for one, text in zip(whole, texts, strict=True))


@given(st.text(alphabet="ab;'\"-/*\n. ", max_size=30))
def test_any_text_is_split_without_loss(text: str) -> None:
    position = 0
    for one in split(text):
        assert one.start >= position
        assert text.startswith(one.text, one.start)
        position = one.start + len(one.text)


def test_enter_ends_what_is_complete() -> None:
    assert is_complete("")
    assert is_complete("SELECT 1; -- done")
    assert not is_complete("SELECT 1;\nSELECT")
    assert not is_complete("SELECT ';")
    assert not is_complete("/* ;")


def test_set_is_an_option() -> None:
    assert option_of("SET numGroupsLimit = 5") == ("numGroupsLimit", "5")
    assert option_of("set \"clientqueryid\" = 'it''s' ") == ("clientQueryId", "it's")
    with pytest.raises(InvalidConfigError, match="Did you mean 'numGroupsLimit'"):
        option_of("SET numGroupLimit = 5")
    assert option_of("SELECT 1") is None


def test_settings_before_an_insert_belong_to_it() -> None:
    text = "SELECT 1; SET recordReader.prop.delimiter = ';'; -- a\nINSERT INTO t FROM FILE '/in/'; SET timeoutMs = 5; SELECT"
    first, second, third, fourth = split(text)
    assert (second.text, second.line) == ("SET recordReader.prop.delimiter = ';'; -- a\nINSERT INTO t FROM FILE '/in/'", 1)
    assert [one.text for one in (first, third, fourth)] == ["SELECT 1", "SET timeoutMs = 5", "SELECT"]
