"""Python values as SQL literals, and their insertion at the placeholders of a query.

A value becomes exactly one literal (a list: several, comma-separated), so its content is never parsed as SQL. Placeholders
are recognised only outside string literals, quoted names and comments.
"""

import math
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

from gamay.base.errors import ErrorCode, nearest
from gamay.client.errors import DataError, ProgrammingError

_LONG_MIN, _LONG_MAX = -(2**63), 2**63 - 1
# an unterminated token extends to the end; the broker reports it
_OPAQUE = r"""'(?:[^']|'')*+'?|"(?:[^"]|"")*+"?|`[^`]*+`?|--[^\n]*|/\*(?:[^*]|\*(?!/))*+(?:\*/)?"""
_MARKED = re.compile(rf"{_OPAQUE}|(?P<place>\?)|(?<![:\w]):(?P<name>[A-Za-z_]\w*)")
_PYFORMAT = re.compile(rf"{_OPAQUE}|(?P<percent>%%)|%\((?P<name>[^()]*)\)(?P<conversion>\w?)|(?P<place>%s(?!\w))")
# next to any other character, a literal is separated by a space: `-?` must not become a comment, nor `'a'?` one string
_NEIGHBOURS = frozenset(" \t\r\n(),=<>+*;[]|")


def literal(value: Any) -> str:
    """Return a value as a SQL literal.

    None, bool, int, float, Decimal, str, bytes (hex), datetime (in UTC, also assumed without a zone), date, time,
    UUID; NumPy's scalars; lists, tuples, sets and arrays of these, for IN. Raises DataError for any other value.

    >>> literal("it's"), literal([1, 2.5, None]), literal(b"\\x01\\xff")
    ("'it''s'", '1, 2.5, NULL', "'01ff'")
    """
    if hasattr(value, "tolist") and not isinstance(value, memoryview):
        value = _of_numpy(value)
    if isinstance(value, list | tuple | set | frozenset):
        if not value:
            raise DataError("an empty list has no literal: IN needs at least one value", ErrorCode.QUERY_VALIDATION)
        return ", ".join(_scalar(_of_numpy(v) if hasattr(v, "tolist") else v) for v in value)
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None or type(value).__name__ == "NAType":  # of pandas
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        number = int(value)
        return str(number) if _LONG_MIN <= number <= _LONG_MAX else f"CAST('{number}' AS BIG_DECIMAL)"
    if isinstance(value, float):
        return repr(float(value)) if math.isfinite(value) else f"CAST('{_special(value)}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return _decimal(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return f"'{bytes(value).hex()}'"
    if isinstance(value, datetime):
        if value != value:
            return "NULL"  # pandas' NaT
        moment = value if value.tzinfo is None else value.astimezone(UTC)
        return f"'{moment.replace(tzinfo=None).isoformat(' ')}'"
    if isinstance(value, date | time):
        return f"'{value.isoformat()}'"
    if isinstance(value, uuid.UUID):
        return f"'{value}'"
    raise DataError(
        f"a parameter of type {type(value).__name__} has no literal; give None, bool, int, float, Decimal, str, bytes, "
        "datetime, date, time, UUID, or a list of these",
        ErrorCode.QUERY_VALIDATION,
    )


def _of_numpy(value: Any) -> Any:
    """Return a NumPy (or pandas, or Arrow) object as Python's; 64-bit times in any unit as datetime."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    if kind == "M" and hasattr(value, "astype"):
        value = value.astype("datetime64[us]")
    return value.tolist()


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"a text parameter holds half of a surrogate pair at position {error.start}, which is not a character",
            ErrorCode.QUERY_VALIDATION,
        ) from error
    return "'" + value.replace("'", "''") + "'"


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: Decimal) -> str:
    if not value.is_finite():
        raise DataError(f"the decimal {value} has no literal: BIG_DECIMAL is finite", ErrorCode.QUERY_VALIDATION)
    plain = format(value, "f")
    if "." not in plain:
        return _scalar(int(plain))
    # a number with a point is parsed as a double: one that would lose digits is written as text
    return plain if Decimal(repr(float(value))) == value else f"CAST('{plain}' AS BIG_DECIMAL)"


@dataclass(frozen=True, slots=True)
class Template:
    """A query cut at its placeholders.

    pieces: one more than keys; keys: names, or positions from 0; marks: the placeholders as written.
    """

    pieces: tuple[str, ...]
    keys: tuple[str | int, ...]
    marks: tuple[str, ...]

    def fill(self, literals: Mapping[str | int, str]) -> str:
        """Return the query with a literal for each placeholder."""
        parts = [self.pieces[0]]
        for key, piece in zip(self.keys, self.pieces[1:], strict=True):
            before = parts[-1] or (parts[-2] if len(parts) > 1 else "")  # an empty piece: two placeholders in a row
            if before and before[-1] not in _NEIGHBOURS:
                parts.append(" ")
            parts.append(literals[key])
            if piece and piece[0] not in _NEIGHBOURS:
                parts.append(" ")
            parts.append(piece)
        return "".join(parts)


def filled(query: str, parameters: Mapping[str, Any] | Sequence[Any] | None) -> str:
    """Return a query with its parameters filled in: `:name` or `%(name)s` from a mapping, `?` or `%s` from a list.

    Without parameters (None) the query is left as it is. Raises ProgrammingError, DataError.
    """
    if not isinstance(query, str):
        raise ProgrammingError(f"a query is text, not {type(query).__name__}", ErrorCode.QUERY_VALIDATION)
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise ProgrammingError(
            f"the query holds half of a surrogate pair at position {error.start}, which is not a character",
            ErrorCode.SQL_PARSING,
        ) from error
    if parameters is None:
        return query
    is_named = isinstance(parameters, Mapping)
    if not is_named and (isinstance(parameters, str | bytes) or not isinstance(parameters, Sequence)):
        raise ProgrammingError(
            f"parameters are a mapping or a list, not {type(parameters).__name__}", ErrorCode.QUERY_VALIDATION
        )
    marked = placeholders(query)
    template = marked if marked.keys else pyformat_template(query)
    return fill_names(template, parameters) if isinstance(parameters, Mapping) else fill_positions(template, parameters)


def placeholders(query: str) -> Template:
    """Cut a query at its `?` and `:name`.

    >>> placeholders("SELECT '?' FROM t WHERE a = ? AND b = :b").pieces
    ("SELECT '?' FROM t WHERE a = ", ' AND b = ', '')
    """
    pieces: list[str] = []
    keys: list[str | int] = []
    marks: list[str] = []
    start = 0
    for found in _MARKED.finditer(query):
        if found["place"] or found["name"]:
            keys.append(found["name"] or len(keys))
            marks.append(found[0])
            pieces.append(query[start : found.start()])
            start = found.end()
    return Template((*pieces, query[start:]), tuple(keys), tuple(marks))


def pyformat_template(query: str) -> Template:
    """Cut a query at its `%(name)s`, or `%s`; `%%` stands for `%` everywhere. Any other `%` is kept (modulo, LIKE)."""
    pieces: list[str] = []
    keys: list[str | int] = []
    marks: list[str] = []
    current: list[str] = []
    start = 0
    for found in _PYFORMAT.finditer(query):
        current.append(query[start : found.start()].replace("%%", "%"))
        start = found.end()
        if found["place"] or found["name"] is not None:
            if found["name"] is not None and found["conversion"] != "s":
                raise ProgrammingError(
                    f"the placeholder {found[0]} must be written %({found['name']})s", ErrorCode.QUERY_VALIDATION
                )
            keys.append(len(keys) if found["name"] is None else found["name"])
            marks.append(found[0])
            pieces.append("".join(current))
            current = []
        else:
            current.append(found[0].replace("%%", "%"))
    return Template((*pieces, "".join(current) + query[start:]), tuple(keys), tuple(marks))


def fill_positions(template: Template, parameters: Sequence[Any]) -> str:
    """Fill placeholders in order. Raises ProgrammingError if the numbers of parameters and placeholders differ."""
    named = [mark for key, mark in zip(template.keys, template.marks, strict=True) if isinstance(key, str)]
    if named:
        raise ProgrammingError(
            f"the query names its parameters ({named[0]}): give a mapping, not a list", ErrorCode.QUERY_VALIDATION
        )
    if len(parameters) != len(template.keys):
        raise ProgrammingError(
            f"the query has {len(template.keys)} placeholders, but {len(parameters)} parameters are given",
            ErrorCode.QUERY_VALIDATION,
        )
    return template.fill({i: literal(value) for i, value in enumerate(parameters)})


def fill_names(template: Template, parameters: Mapping[str, Any]) -> str:
    """Fill placeholders by name; unused names are allowed. Raises ProgrammingError for a missing one."""
    if parameters and not template.keys:
        raise ProgrammingError(
            f"parameters are given ({', '.join(map(str, parameters))}), but the query has no placeholders such as "
            f":{next(iter(parameters))}",
            ErrorCode.QUERY_VALIDATION,
        )
    for key, mark in zip(template.keys, template.marks, strict=True):
        if not isinstance(key, str):
            raise ProgrammingError(
                f"the query numbers its parameters ({mark}): give a list, not a mapping", ErrorCode.QUERY_VALIDATION
            )
        if key not in parameters:
            hint = nearest(key, [name for name in parameters if isinstance(name, str)])
            raise ProgrammingError(f"the query's parameter {mark} is not given.{hint}", ErrorCode.QUERY_VALIDATION)
    return template.fill({key: literal(parameters[str(key)]) for key in set(template.keys)})
