"""Texts by code points: `unistr`, and the literals that become calls of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gamay.functions.scalar.text.characters import unistr

CHARACTERS = st.characters(exclude_categories=["Cs"])


def by_codes(text: str, escape: str, units: bool) -> str:
    """Return a text with each character as its code, those of half characters where they do not fit four digits."""
    if not units:
        return "".join(f"{escape}+{ord(character):06X}" for character in text)
    data = text.encode("utf-16-be")
    return "".join(f"{escape}{data[i : i + 2].hex()}" for i in range(0, len(data), 2))


@given(st.text(CHARACTERS), st.sampled_from("\\!#é"), st.booleans())
def test_codes_stand_for_characters(text: str, escape: str, units: bool) -> None:
    assert unistr(by_codes(text, escape, units), escape) == text


@given(st.text(CHARACTERS))
def test_other_characters_stay(text: str) -> None:
    assert unistr(text.replace("\\", "\\\\")) == text


@pytest.mark.parametrize(
    ("text", "escape", "why"),
    [
        ("\\00", "\\", "followed by 4 hexadecimal digits"),
        ("a\\", "\\", "followed by 4 hexadecimal digits"),
        ("\\+00004", "\\", "followed by 4 hexadecimal digits"),
        ("\\+110000", "\\", "there is no character with the code 110000"),
        ("\\d83d", "\\", "surrogate without its counterpart"),
        ("\\de00\\d83d", "\\", "surrogate without its counterpart"),
        ("x", "a", "'a' is not an escape character"),
        ("x", "", "'' is not an escape character"),
        ("x", "+", "is not an escape character"),
    ],
)
def test_what_is_no_code_is_refused(text: str, escape: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        unistr(text, escape)
