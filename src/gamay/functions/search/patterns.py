"""Translation of wildcards and Lucene's regular expressions to RE2 patterns for whole words."""

import re
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.search.query import Pattern

_NOTHING = r"[^\x00-\x{10FFFF}]"
_CLASSES = "dDwWsS"
_REFUSED = {
    "~": "complements",
    "&": "intersections",
    "<": "intervals of numbers",
}


def wildcard(text: str, *, begins: bool = False, ends: bool = False, marks: str = "") -> Pattern:
    """Return the pattern of a text whose zero characters represent `marks`, each `*` (any run) or `?` (one character).

    begins: any prefix may precede it. ends: any suffix may follow.
    """
    runs = text.split("\0")
    parts = [".*" if begins else ""]
    for run, mark in zip(runs, [*marks, ""], strict=True):
        parts += [re.escape(run), {"*": ".*", "?": ".", "": ""}[mark]]
    parts.append(".*" if ends else "")
    return Pattern(rf"(?s)\A{''.join(parts)}\z", tuple(filter(None, runs)), prefix="" if begins else runs[0])


def regex_pattern(text: str) -> Pattern:
    """Translate a regular expression of Lucene; raises ValueError if it is invalid or not supported."""
    translated = rf"(?s)\A(?:{''.join(_translated(text))})\z"
    try:
        pc.match_substring_regex(pa.array([""]), translated)
    except pa.ArrowInvalid as error:
        raise ValueError(str(error)) from None
    return Pattern(translated)


def _translated(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\" and at < len(text):
            yield f"\\{text[at]}" if text[at] in _CLASSES else re.escape(text[at])
            at += 1
        elif char == '"':
            end = text.find('"', at)
            if end < 0:
                raise ValueError("a quotation mark is not closed")
            yield f"(?:{re.escape(text[at:end])})"
            at = end + 1
        elif char == "[":
            members, at = _class(text, at)
            yield members
        elif char == "(" and text[at : at + 1] == "?":
            raise ValueError("'(?' does not begin a group")
        elif char in _REFUSED:
            raise ValueError(f"{_REFUSED[char]} ({char}) are not supported; write \\{char} for the character")
        else:
            yield {"@": ".*", "#": _NOTHING}.get(char, char if char in ".?*+|(){}," or char.isdecimal() else re.escape(char))


def _class(text: str, at: int) -> tuple[str, int]:
    """Translate the character class after a bracket; return it and the position after it."""
    members = ["["]
    if text[at : at + 1] == "^":
        members.append("^")
        at += 1
    first = at
    while at < len(text) and (text[at] != "]" or at == first):
        char = text[at]
        if char == "\\" and at + 1 < len(text):
            at += 1
            members.append(f"\\{text[at]}" if text[at] in _CLASSES else _member(text[at]))
        else:
            members.append("-" if char == "-" else _member(char))
        at += 1
    if at >= len(text):
        raise ValueError("a class of characters is not closed")
    return "".join([*members, "]"]), at + 1


def _member(char: str) -> str:
    return char if char.isalnum() or not char.isascii() else f"\\{char}"
