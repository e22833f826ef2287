"""SQLite's JSONB format, version 3.45 and later.

element = type and size, then `size` bytes of payload
type    : the lower four bits of the first byte; `_SCALARS` and the containers below
size    : the upper four bits if at most 11; 12 to 15 mean that it follows in 1, 2, 4 or 8 bytes, big-endian
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any

ARRAY, OBJECT = 11, 12
_LABELS = (7, 8, 9, 10)
_ESCAPE_5 = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|\r\n|[\s\S])")
_NUMBERS_5 = {"Infinity": math.inf, "+Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}
_PLAIN = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "0": "\0"}
_CONTINUED = ("\n", "\r\n", "\r", "\u2028", "\u2029")


def read_sqlite_jsonb(data: bytes) -> Any:
    """Return the value of a message; raises ValueError unless it is exactly one value."""
    value, end = _element(data, 0, len(data))
    if end != len(data):
        raise ValueError("there are bytes behind the value")
    return value


def header(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Return the type of an element, and the start and end of its payload; raises ValueError if that exceeds `end`."""
    if at >= end:
        raise ValueError("it ends too early")
    kind, size, start = data[at] & 0x0F, data[at] >> 4, at + 1
    if size >= 12:
        more = 1 << (size - 12)
        size, start = int.from_bytes(data[start : min(start + more, end)], "big"), start + more
    if start + size > end:
        raise ValueError("it ends too early")
    return kind, start, start + size


def _element(data: bytes, at: int, end: int) -> tuple[Any, int]:
    kind, start, stop = header(data, at, end)
    if kind == ARRAY:
        values = []
        while start < stop:
            value, start = _element(data, start, stop)
            values.append(value)
        return values, stop
    if kind == OBJECT:
        found = {}
        while start < stop:
            if data[start] & 0x0F not in _LABELS:
                raise ValueError("a name of an object is no text")
            name, start = _element(data, start, stop)
            found[name], start = _element(data, start, stop)
        return found, stop
    if kind not in _SCALARS:
        raise ValueError(f"there is no type {kind}")
    return _SCALARS[kind](data[start:stop].decode()), stop


def _integer_5(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    return sign * int(text.lstrip("+-"), 16)


def _float_5(text: str) -> float:
    return _NUMBERS_5[text] if text in _NUMBERS_5 else float(text)


def _escaped(text: str) -> str:
    return str(json.loads(f'"{text}"', strict=False))


def _escaped_5(text: str) -> str:
    """Resolve the escapes of JSON5, a superset of those of JSON."""
    plain = _ESCAPE_5.sub(_unescaped_5, text)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescaped_5(found: re.Match[str]) -> str:
    escape = found[1]
    if len(escape) > 1 and escape[0] in "ux":
        return chr(int(escape[1:], 16))
    return "" if escape in _CONTINUED else _PLAIN.get(escape, escape)


_SCALARS: Mapping[int, Callable[[str], Any]] = {
    0: lambda _: None,
    1: lambda _: True,
    2: lambda _: False,
    3: int,
    4: _integer_5,
    5: float,
    6: _float_5,
    7: str,
    8: _escaped,
    9: _escaped_5,
    10: str,
}
"""null, true, false; numbers as in JSON and as in JSON5 (hexadecimal, points without digits); texts: plain, with escapes of
JSON, with those of JSON5, and not escaped."""
