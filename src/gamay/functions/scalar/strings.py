"""Functions of text. Positions count characters (code points); `length` counts UTF-16 units, as clients of Java expect."""

import re
import unicodedata
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.scalar.convert import array_of
from gamay.functions.scalar.define import by_value, const, each, lists, scalar, wrong
from gamay.functions.scalar.distinct import distinct
from gamay.functions.vector import Values, Vector, take
from gamay.model.types import DataType

STRING, INT, BOOLEAN = DataType.STRING, DataType.INT, DataType.BOOLEAN
_BLANKS = "".join(map(chr, range(33)))  # what Java's trim removes
_TEXT = each(STRING)


@scalar("upper", params=(_TEXT,), returns=STRING)
def upper(text: Any) -> Any:
    return pc.utf8_upper(text)


@scalar("lower", params=(_TEXT,), returns=STRING)
def lower(text: Any) -> Any:
    return pc.utf8_lower(text)


@scalar("reverse", params=(_TEXT,), returns=STRING)
def reverse(text: Any) -> Any:
    return pc.utf8_reverse(text)


@scalar("trim", params=(_TEXT, const(STRING)), returns=STRING, optional=1)
def trim(text: Any, characters: str = _BLANKS) -> Any:
    return pc.utf8_trim(text, characters)


@scalar("ltrim", params=(_TEXT, const(STRING)), returns=STRING, optional=1)
def ltrim(text: Any, characters: str = _BLANKS) -> Any:
    return pc.utf8_ltrim(text, characters)


@scalar("rtrim", params=(_TEXT, const(STRING)), returns=STRING, optional=1)
def rtrim(text: Any, characters: str = _BLANKS) -> Any:
    return pc.utf8_rtrim(text, characters)


@scalar("initCap", params=(_TEXT,), returns=STRING)
def init_cap(text: Any) -> Any:
    return pc.utf8_title(text)


# -- lengths


@scalar("charLength", "characterLength", params=(_TEXT,), returns=INT)
def char_length(text: Any) -> Any:
    return pc.utf8_length(text)


@scalar("octetLength", params=(_TEXT,), returns=INT)
def octet_length(text: Any) -> Any:
    return pc.binary_length(text)


@scalar("bitLength", params=(_TEXT,), returns=INT)
def bit_length(text: Any) -> Any:
    return np.asarray(pc.binary_length(text)) * 8


@scalar("length", params=(_TEXT,), returns=INT)
def length(text: Any) -> Any:
    points = np.asarray(pc.utf8_length(text))
    if np.array_equal(points, np.asarray(pc.binary_length(text))):
        return points
    return points + np.asarray(pc.count_substring_regex(text, r"[\x{10000}-\x{10FFFF}]"))


# -- parts


@scalar("substr", params=(_TEXT, const(INT), const(INT)), returns=STRING, optional=1)
def substr(text: Any, begin: int, end: int = -1) -> Any:
    """From 0, up to but without `end`; -1 is the end of the text, a negative begin counts from there."""
    return pc.utf8_slice_codeunits(text, begin, None if end == -1 else end)


@scalar("substring", params=(_TEXT, const(INT), const(INT)), returns=STRING, optional=1)
def substring(text: Any, begin: int, count: int | None = None) -> Any:
    """From 1, `count` characters."""
    start = begin - 1
    stop = None if count is None else max(start + count, 0)
    return pc.utf8_slice_codeunits(text, max(start, 0), stop)


@scalar("left", "leftSubStr", params=(_TEXT, const(INT)), returns=STRING)
def left(text: Any, count: int) -> Any:
    return pc.utf8_slice_codeunits(text, 0, max(count, 0))


@scalar("right", "rightSubStr", params=(_TEXT, const(INT)), returns=STRING)
def right(text: Any, count: int) -> Any:
    return pc.utf8_slice_codeunits(text, -count, None) if count > 0 else pc.utf8_slice_codeunits(text, 0, 0)


@by_value("strpos", params=(STRING, STRING, INT), returns=INT, optional=1)
def strpos(text: str, find: str, occurrence: int = 1) -> int:
    """Position from 0 of the nth occurrence, -1 if there is none."""
    position = -1
    for _ in range(occurrence):
        position = text.find(find, position + 1)
        if position < 0:
            return -1
    return position


@by_value("strrpos", params=(STRING, STRING, INT), returns=INT, optional=1)
def strrpos(text: str, find: str, start: int | None = None) -> int:
    """Position of the last occurrence that begins at `start` or before."""
    return text.rfind(find) if start is None else text.rfind(find, 0, start + len(find))


@scalar("startsWith", params=(_TEXT, const(STRING)), returns=BOOLEAN)
def starts_with(text: Any, prefix: str) -> Any:
    return pc.starts_with(text, prefix).to_numpy(zero_copy_only=False)


@scalar("endsWith", params=(_TEXT, const(STRING)), returns=BOOLEAN)
def ends_with(text: Any, suffix: str) -> Any:
    return pc.ends_with(text, suffix).to_numpy(zero_copy_only=False)


@scalar("startsWithCaseInsensitive", params=(_TEXT, const(STRING)), returns=BOOLEAN)
def starts_with_any_case(text: Any, prefix: str) -> Any:
    return pc.starts_with(text, prefix, ignore_case=True).to_numpy(zero_copy_only=False)


@scalar("endsWithCaseInsensitive", params=(_TEXT, const(STRING)), returns=BOOLEAN)
def ends_with_any_case(text: Any, suffix: str) -> Any:
    return pc.ends_with(text, suffix, ignore_case=True).to_numpy(zero_copy_only=False)


@scalar("contains", params=(_TEXT, const(STRING)), returns=BOOLEAN)
def contains(text: Any, part: str) -> Any:
    return pc.match_substring(text, part).to_numpy(zero_copy_only=False)


# -- joining and replacing


@scalar("concat", params=(_TEXT, _TEXT, _TEXT), returns=STRING, optional=1)
def concat(first: Any, second: Any, separator: Any = "") -> Any:
    """`concat(a, b, separator)`; the operator || is the form of two arguments."""
    return pc.binary_join_element_wise(first, second, separator)


@scalar("concatWS", params=(_TEXT, _TEXT), returns=STRING, variadic=True)
def concat_ws(separator: Any, *parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, separator)


@scalar("replace", params=(_TEXT, const(STRING), const(STRING)), returns=STRING)
def replace(text: Any, find: str, by: str) -> Any:
    return pc.replace_substring(text, find, by) if find else text


@scalar("remove", params=(_TEXT, const(STRING)), returns=STRING)
def remove(text: Any, find: str) -> Any:
    return pc.replace_substring(text, find, "") if find else text


@by_value("translate", params=(STRING, STRING, STRING), returns=STRING)
def translate(text: str, source: str, target: str) -> str:
    """Replace characters one by one; those without a counterpart vanish."""
    table: dict[int, str] = {}
    for i, character in enumerate(source):
        table.setdefault(ord(character), target[i : i + 1])
    return text.translate(table)


@by_value("lpad", params=(STRING, INT, STRING), returns=STRING)
def lpad(text: str, size: int, pad: str) -> str:
    missing = max(size - len(text), 0) if pad else 0
    return (pad * missing)[:missing] + text


@by_value("rpad", params=(STRING, INT, STRING), returns=STRING)
def rpad(text: str, size: int, pad: str) -> str:
    missing = max(size - len(text), 0) if pad else 0
    return text + (pad * missing)[:missing]


@scalar("repeat", params=(_TEXT, each(None), each(INT)), returns=STRING, optional=1)
def repeat(text: Any, second: Any, count: Any = None) -> Any:
    """`repeat(x, n)` or `repeat(x, separator, n)`."""
    if count is None:
        return pc.binary_repeat(text, _counts(pc.cast(second, pa.int64()), len(text)))
    counts = _counts(pa.array(np.atleast_1d(count)), len(text))
    return _repeat_separated(text, second, counts)


def _counts(counts: Any, num_rows: int) -> Any:
    numbers = np.maximum(np.asarray(counts), 0)
    return pa.array(np.broadcast_to(numbers, num_rows) if len(numbers) != num_rows else numbers)


def _repeat_separated(text: Any, separators: Any, counts: Any) -> Any:
    pieces = pc.binary_repeat(pc.binary_join_element_wise(text, separators, ""), counts)
    # one separator too many at the end, where there is anything at all
    lengths = np.asarray(pc.utf8_length(pieces)) - np.asarray(pc.utf8_length(separators))
    return pa.array([p[: max(n, 0)] for p, n in zip(pieces.to_pylist(), lengths.tolist(), strict=True)], pa.string())


@by_value("space", params=(INT,), returns=STRING)
def space(count: int) -> str:
    return " " * count


# -- splitting


def pieces_of(text: str, delimiter: str) -> list[str]:
    """Split at a whole delimiter; empty pieces vanish, but one trailing delimiter leaves an empty last piece."""
    if not delimiter:
        return text.split()
    parts = text.split(delimiter)
    kept = [part for part in parts if part]
    return [*kept, ""] if len(parts) > 1 and kept and parts[-1] == "" else kept


@scalar("split", "stringToArray", params=(_TEXT, const(STRING), const(INT)), returns=STRING, optional=1, multi_value=True)
def split(text: Any, delimiter: str, limit: int = -1) -> Vector:
    def cut(value: str) -> list[str]:
        parts = [part for part in value.split(delimiter) if part] if delimiter else value.split()
        if 0 < limit < len(parts):
            rest = [part for part in value.split(delimiter, limit - 1) if part] if delimiter else parts
            parts = rest[:limit] if len(rest) >= limit else [*parts[: limit - 1], delimiter.join(parts[limit - 1 :])]
        return parts

    return lists_by_distinct(text, cut, STRING)


def lists_by_distinct(values: Values, function: Any, element: DataType) -> Vector:
    """Apply a function that returns a list once to each distinct value."""
    codes, entries = distinct(Vector(STRING, values))
    found = [function(value) for value in entries.values.to_pylist()]
    lengths = np.array([len(part) for part in found], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    offsets = np.concatenate([[0], np.cumsum(lengths[codes])])
    rows = np.arange(offsets[-1]) + np.repeat(starts[codes] - offsets[:-1], lengths[codes])
    flat = array_of([item for part in found for item in part], element)
    return Vector(element, take(flat, rows), offsets.astype(np.int32))


@by_value("splitPart", params=(STRING, STRING, INT, INT), returns=STRING, optional=1)
def split_part(text: str, delimiter: str, position: int, last: int | None = None) -> str:
    """`splitPart(x, delimiter, i)` or `splitPart(x, delimiter, limit, i)`: the piece from 0, negative from the end.

    A position that no piece has gives the text `null`.
    """
    if last is None:
        parts, index = pieces_of(text, delimiter), position
    else:
        parts, index = pieces_of(text, delimiter)[: position if position > 0 else None], last
    return parts[index] if -len(parts) <= index < len(parts) else "null"


@by_value("substringIndex", params=(STRING, STRING, INT), returns=STRING)
def substring_index(text: str, delimiter: str, count: int) -> str:
    """What lies left of the nth delimiter, or right of the nth from the end."""
    if count == 0 or not delimiter:
        return ""
    parts = text.split(delimiter)
    return delimiter.join(parts[:count] if count > 0 else parts[count:])


@scalar("arrayToString", params=(lists(STRING), const(STRING), const(STRING)), returns=STRING, optional=1)
def array_to_string(values: Vector, delimiter: str, null_text: str = "null") -> Any:
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(values.offsets, pa.int32()), values.values), delimiter)


# -- characters


@by_value("codepoint", params=(STRING,), returns=INT)
def codepoint(text: str) -> int:
    if not text:
        raise ValueError("an empty text has no first character")
    return ord(text[0])


@by_value("ascii", params=(STRING,), returns=INT)
def ascii_of(text: str) -> int:
    return ord(text[0]) if text else 0


@by_value("chr", params=(INT,), returns=STRING)
def chr_of(code: int) -> str:
    return chr(code)


_NORMAL_FORMS: dict[str, Callable[[str], str]] = {
    "NFC": lambda text: unicodedata.normalize("NFC", text),
    "NFD": lambda text: unicodedata.normalize("NFD", text),
    "NFKC": lambda text: unicodedata.normalize("NFKC", text),
    "NFKD": lambda text: unicodedata.normalize("NFKD", text),
}


@by_value("normalize", params=(STRING, STRING), returns=STRING, optional=1)
def normalize(text: str, form: str = "NFC") -> str:
    if form not in _NORMAL_FORMS:
        raise wrong("normalize", f"'{form}' is not one of {', '.join(_NORMAL_FORMS)}")
    return _NORMAL_FORMS[form](text)


@by_value("strcmp", params=(STRING, STRING), returns=INT)
def strcmp(left_text: str, right_text: str) -> int:
    """As Java compares: the difference of the first characters that differ, else of the lengths."""
    for a, b in zip(left_text, right_text, strict=False):
        if a != b:
            return ord(a) - ord(b)
    return len(left_text) - len(right_text)


@by_value("hammingDistance", params=(STRING, STRING), returns=INT)
def hamming_distance(left_text: str, right_text: str) -> int:
    if len(left_text) != len(right_text):
        return -1
    return sum(a != b for a, b in zip(left_text, right_text, strict=True))


@by_value("levenshteinDistance", params=(STRING, STRING), returns=INT)
def levenshtein_distance(left_text: str, right_text: str) -> int:
    row = list(range(len(right_text) + 1))
    for i, a in enumerate(left_text, 1):
        previous, row[0] = row[0], i
        for j, b in enumerate(right_text, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (a != b))
    return row[-1]


@by_value("firstLine", params=(STRING,), returns=STRING)
def first_line(text: str) -> str:
    return re.split(r"\r\n|\r|\n", text, maxsplit=1)[0]
