"""Splitting of scripts at semicolons outside strings, names and comments; an unclosed one extends to the end."""

import re
from dataclasses import dataclass

from gamay.base.errors import InvalidConfigError
from gamay.sql.options.option_values import option_name, unknown_options
from gamay.sql.text.lexer import COMMENT, QUOTED, STRING

_OPEN = r"""'(?:[^']|'')*+|"(?:[^"]|"")*+|/\*(?:[^*]|\*(?!/))*+"""
_PIECE = re.compile(rf"(?P<comment>{COMMENT})|{STRING}|{QUOTED}|(?P<open>{_OPEN})|(?P<end>;)|\s+|(?P<other>[^\s;'\"/-]+|.)")
_SET = re.compile(
    r"""\s*SET\s+(?P<name>\w+|"\w+"|'\w+'|`\w+`)\s*=\s*(?P<value>'(?:[^']|'')*'|[^\s;]+)\s*\Z""", re.IGNORECASE
)
_ANY_SET = re.compile(r"(?i)SET\s")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement. start: its offset in the text; line: its line, from 1; is_closed: whether a `;` follows."""

    text: str
    start: int
    line: int
    is_closed: bool

    @property
    def is_command(self) -> bool:
        """Whether it is a command of the shell."""
        return self.text.startswith(".")


def split(text: str) -> list[Statement]:
    """Return the statements of a text, without their `;`; those that contain only comments are omitted.

    A line that begins with a dot where a statement could begin is a command, and a separate statement.

    >>> [one.text for one in split("SELECT ';' FROM t; -- a; b\\n.tables\\nSELECT 2")]
    ["SELECT ';' FROM t", '.tables', 'SELECT 2']

    SET before an INSERT is a setting of the task that it creates rather than a query option, so it is part of the statement.

    >>> [one.text for one in split("SELECT 1; SET inputFormat = 'csv'; INSERT INTO t FROM FILE '/in/';")]
    ['SELECT 1', "SET inputFormat = 'csv'; INSERT INTO t FROM FILE '/in/'"]
    """
    found: list[Statement] = []
    begin: int | None = None
    end = position = 0
    while position < len(text):
        piece = _PIECE.match(text, position)
        assert piece is not None  # it matches any character
        start, position = piece.start(), piece.end()
        if piece["end"]:
            if begin is not None:
                found.append(_statement(text, begin, end, is_closed=True))
            begin = None
        elif piece["comment"] or piece[0].isspace() or piece[0].startswith("/*"):
            continue
        elif begin is None and piece[0].startswith("."):
            position = text.find("\n", start) % (len(text) + 1)
            found.append(_statement(text, start, position, is_closed=True))
        else:
            begin = start if begin is None else begin
            end = position
    if begin is not None:
        found.append(_statement(text, begin, end, is_closed=False))
    return _with_settings(text, found)


def _with_settings(text: str, found: list[Statement]) -> list[Statement]:
    """Return the statements with each INSERT joined to the SETs before it."""
    joined: list[Statement] = []
    for one in found:
        begin = one
        if one.text[:6].upper() == "INSERT":
            while joined and _ANY_SET.match(joined[-1].text):
                begin = joined.pop()
        whole = text[begin.start : one.start + len(one.text)]
        joined.append(Statement(whole, begin.start, begin.line, one.is_closed))
    return joined


def _statement(text: str, begin: int, end: int, *, is_closed: bool) -> Statement:
    return Statement(text[begin:end], begin, text.count("\n", 0, begin) + 1, is_closed)


def is_complete(text: str) -> bool:
    """Whether Enter ends the input: it is empty or ends with a `;` outside strings and comments.

    >>> is_complete("SELECT 1;  -- done"), is_complete("SELECT ';"), is_complete("SELECT 1")
    (True, False, False)
    """
    last = None
    for piece in _PIECE.finditer(text):
        if piece["open"]:
            return False
        if not piece["comment"] and not piece[0].isspace():
            last = piece
    return last is None or last["end"] is not None


def option_of(statement: str) -> tuple[str, str] | None:
    """Return the name and value of a `SET name = value`; None for any other statement.

    Raises InvalidConfigError for an unknown option, which would make every later statement fail.

    >>> option_of("set timeoutMs = 500"), option_of("SELECT 1")
    (('timeoutMs', '500'), None)
    """
    found = _SET.match(statement)
    if found is None:
        return None
    name, value = found["name"].strip("\"'`"), found["value"]
    if value.startswith("'"):
        value = value[1:-1].replace("''", "'")
    if unknown := unknown_options([option_name(name)]):
        raise InvalidConfigError(f"there is no query option {unknown[0]}")
    return option_name(name), value
