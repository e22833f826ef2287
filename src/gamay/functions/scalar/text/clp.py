r"""clpDecode and clpMatch: log messages that CLP has split into a log type and its variables.

A log type is the message with a placeholder for each variable: U+0011 an integer, U+0012 an entry of the dictionary
variables, U+0013 a decimal fraction; a backslash escapes a character. Integers and fractions are encoded variables, 64
bits each. A fraction has, from the highest bit: the sign, an unused bit, 54 bits of digits, in 4 bits the number of
digits less 1, and in 4 bits the number of decimal places less 1. (The format is that of CLP's intermediate representation
with 8-byte variables.)

In a query `clpDecode(x)` and `clpMatch(x, 'wildcard')` read `x_logtype`, `x_dictionaryVars` and `x_encodedVars`.
"""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.convert import array_of, by_distinct, placeholder
from gamay.functions.distinct import distinct
from gamay.functions.regex import re2
from gamay.functions.scalar.define import const, each, fixed, lists, scalar
from gamay.functions.vector import Vector, concat, take
from gamay.model.types import DataType

STRING, LONG, BOOLEAN = DataType.STRING, DataType.LONG, DataType.BOOLEAN
_INTEGER, _DICTIONARY, _FLOAT = "\x11", "\x12", "\x13"
_PIECES = re.compile(r"(?s)\\(.)|([\x11\x12\x13])|([^\\\x11\x12\x13]+)|\\$")
_DIGITS_MASK = (1 << 54) - 1
_TOKENS = re.compile(r"[-+.0-9A-Z\\_a-z]+|[\x11\x12\x13]")
_WHOLE = re.compile(r"-?[1-9][0-9]{0,18}|0")
_POINT = re.compile(r"(-?)([0-9]*)\.([0-9]+)")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]{2,}")
_KEPT = re.compile(r"[\\\x11\x12\x13]")
_DIGITS_MAX = 16


def encode(message: str) -> tuple[str, list[str], list[int]]:
    r"""Return log type, dictionary variables and encoded variables of a message; the inverse of `decode`.

    A variable is a run of ASCII letters, digits and `+-._\` that has a digit, or has a letter and follows `=`, or is a
    hexadecimal number of at least two digits.
    """
    dictionary: list[str] = []
    encoded: list[int] = []

    def mark(found: re.Match[str]) -> str:
        token, before = found[0], message[found.start() - 1 : found.start()]
        is_variable = any("0" <= c <= "9" for c in token) or (before == "=" and any(c.isalpha() for c in token))
        if not is_variable and not _HEXADECIMAL.fullmatch(token):
            return _KEPT.sub(r"\\\g<0>", token)
        if _WHOLE.fullmatch(token) and -(2**63) <= int(token) < 2**63:
            encoded.append(int(token))
            return _INTEGER
        fraction = _encoded_fraction(token)
        if fraction is not None:
            encoded.append(fraction)
            return _FLOAT
        dictionary.append(token)
        return _DICTIONARY

    return _TOKENS.sub(mark, message), dictionary, encoded


def _encoded_fraction(token: str) -> int | None:
    found = _POINT.fullmatch(token)
    if found is None or len(found[2]) + len(found[3]) > _DIGITS_MAX:
        return None
    sign, before, behind = found.groups()
    number = int(before + behind) << 8 | (len(before + behind) - 1) << 4 | len(behind) - 1
    return number - (1 << 63) if sign else number


def _pieces(log_type: str) -> list[tuple[str, str]]:
    """Return the parts of a log type: (placeholder, '') for a variable or ('', text)."""
    parts: list[tuple[str, str]] = []
    for kept, mark, text in _PIECES.findall(log_type):
        if mark:
            parts.append((mark, ""))
        elif parts and not parts[-1][0]:
            parts[-1] = ("", parts[-1][1] + kept + text)
        else:
            parts.append(("", kept + text))
    return parts


def _fraction(encoded: int) -> str:
    """Return a decimal fraction as originally written."""
    behind = (encoded & 0xF) + 1
    count = ((encoded >> 4) & 0xF) + 1
    digits = str((encoded >> 8) & _DIGITS_MASK).zfill(max(count, behind))
    return f"{'-' if encoded < 0 else ''}{digits[:-behind]}.{digits[-behind:]}"


def _variables(vector: Vector, rows: Any, number: int) -> Any:
    """Return variable `number` of some rows, which all have that many."""
    assert vector.offsets is not None
    return take(vector.values, vector.offsets[rows].astype(np.int64) + number)


def _messages(log_type: str, rows: Any, dictionary: Vector, encoded: Vector) -> Any:
    """Return the messages of rows of one log type, which all have the variables that it needs."""
    columns: list[Any] = []
    next_dictionary = next_encoded = 0
    for mark, text in _pieces(log_type):
        if mark == _DICTIONARY:
            columns.append(_variables(dictionary, rows, next_dictionary))
            next_dictionary += 1
        elif mark:
            numbers = _variables(encoded, rows, next_encoded)
            next_encoded += 1
            whole = mark == _INTEGER
            columns.append(pc.cast(pa.array(numbers), pa.string()) if whole else by_distinct(numbers, _fraction, STRING))
        else:
            columns.append(pa.repeat(pa.scalar(text), len(rows)))
    return pc.binary_join_element_wise(*columns, "") if columns else array_of([""] * len(rows), STRING)


def decode(log_types: Any, dictionary: Vector, encoded: Vector) -> tuple[Any, Any]:
    """Return the messages, and which of them lack variables that their log type needs: Arrow strings, bool [n]."""
    codes, entries = distinct(Vector(STRING, log_types))
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(entries) + 1))
    has_dictionary, has_encoded = (np.diff(np.asarray(vector.offsets)) for vector in (dictionary, encoded))
    broken = np.zeros(len(codes), np.bool_)
    parts: list[Any] = []
    places: list[Any] = []
    for code, log_type in enumerate(entries.values.to_pylist()):
        rows = order[bounds[code] : bounds[code + 1]]
        marks = [mark for mark, _ in _pieces(log_type)]
        needs_dictionary = marks.count(_DICTIONARY)
        lacks = has_dictionary[rows] < needs_dictionary
        lacks |= has_encoded[rows] < marks.count(_INTEGER) + marks.count(_FLOAT)
        broken[rows[lacks]] = True
        whole, lacking = rows[~lacks], rows[lacks]
        parts += [_messages(log_type, whole, dictionary, encoded), array_of([""] * len(lacking), STRING)]
        places += [whole, lacking]
    if not parts:
        return array_of([], STRING), broken
    back = np.empty(len(codes), np.int64)
    back[np.concatenate(places)] = np.arange(len(codes))
    return take(concat(parts), back), broken


_COLUMNS = (each(STRING), lists(STRING), lists(LONG))


@scalar("clpDecode", params=(*_COLUMNS, const(STRING)), returns=STRING, optional=1)
def clp_decode(log_types: Any, dictionary: Vector, encoded: Vector, *default: str) -> Vector:
    """The message; if it cannot be decoded, the last argument or else null."""
    messages, broken = decode(log_types, dictionary, encoded)
    if not broken.any():
        return Vector(STRING, messages)
    filled = pc.if_else(pa.array(broken), default[0] if default else placeholder(STRING), messages)
    return Vector(STRING, filled, None, None if default else broken)


def _wildcard(pattern: str) -> str:
    """Translate a wildcard to a regular expression: `*` is any run, `?` one character, a backslash escapes both."""
    parts: Sequence[tuple[str, str]] = re.findall(r"(?s)\\(.)|(.)", pattern)
    meanings = {"*": ".*", "?": "."}
    return "(?s)^" + "".join(re.escape(kept) if kept else meanings.get(char, re.escape(char)) for kept, char in parts) + "$"


@scalar("clpMatch", params=(*_COLUMNS, fixed(STRING)), returns=BOOLEAN)
def clp_match(log_types: Any, dictionary: Vector, encoded: Vector, wildcard: str) -> Any:
    """Whether a whole message matches a wildcard, in which `*` is any run of characters and `?` one; case-sensitive."""
    messages, broken = decode(log_types, dictionary, encoded)
    return re2.found(messages, _wildcard(wildcard)) & ~broken
