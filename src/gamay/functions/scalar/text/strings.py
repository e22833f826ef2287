"""Functions of text. Positions count characters (code points); `length` counts UTF-16 units, as Java's clients expect."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.arguments import wrong
from gamay.functions.arrow import binary_buffers
from gamay.functions.convert import array_of, by_distinct, convert_values
from gamay.functions.distinct import distinct
from gamay.functions.expression import Call, Literal
from gamay.functions.registry import ValueType
from gamay.functions.scalar.define import ANY, by_value, const, each, scalar
from gamay.functions.vector import Values, Vector, take
from gamay.model.types import DataType

STRING, INT, BOOLEAN = DataType.STRING, DataType.INT, DataType.BOOLEAN
_BLANKS = "".join(map(chr, range(33)))  # what Java's trim removes
_TEXT = each(STRING)
_WORD = re.compile(r"\S+")
MAX_CHARACTERS = 1 << 20
"""The maximum length of a text that functions create."""
# the growth of texts by replacing is computed only if a replacement has more characters than this
_WIDE = 64


@scalar("upper", params=(_TEXT,), returns=STRING)
def upper(text: Any) -> Any:
    """All characters in upper case; `ß` becomes two."""
    return _cased(text, pc.ascii_upper, str.upper)


@scalar("lower", params=(_TEXT,), returns=STRING)
def lower(text: Any) -> Any:
    """All characters in lower case; a sigma at the end of a word becomes the final one."""
    return _cased(text, pc.ascii_lower, str.lower)


def _cased(text: Any, ascii_case: Callable[[Any], Any], full_case: Callable[[str], str]) -> Any:
    """Change the case of texts as Java does: by Unicode's full case mapping, which Arrow lacks."""
    is_ascii = pc.string_is_ascii(text)
    if pc.all(is_ascii, min_count=0).as_py():
        return ascii_case(text)
    return by_distinct(text, full_case, STRING)


@scalar("reverse", params=(_TEXT,), returns=STRING)
def reverse(text: Any) -> Any:
    return pc.utf8_reverse(text)


_TRIMS = {"BOTH": pc.utf8_trim, "LEADING": pc.utf8_ltrim, "TRAILING": pc.utf8_rtrim}


def _trim_type(call: Call, types: Sequence[ValueType]) -> ValueType:
    side = call.args[0].value if len(types) == 3 and isinstance(call.args[0], Literal) else "BOTH"
    if len(types) == 3 and (not isinstance(call.args[0], Literal) or str(side).upper() not in _TRIMS):
        raise wrong(
            "trim", "the first of three arguments must be 'BOTH', 'LEADING' or 'TRAILING', as in trim('BOTH', ' ', x)"
        )
    return STRING, False


@scalar("trim", params=(_TEXT, const(STRING), _TEXT), returns=_trim_type, optional=2)
def trim(text: Any, characters: str = _BLANKS, of: Any = None) -> Any:
    """`trim(x)`, `trim(x, 'characters')`, or `trim('LEADING', 'characters', x)`."""
    return pc.utf8_trim(text, characters) if of is None else _TRIMS[text[0].as_py().upper()](of, characters)


@scalar("ltrim", params=(_TEXT, const(STRING)), returns=STRING, optional=1)
def ltrim(text: Any, characters: str = _BLANKS) -> Any:
    return pc.utf8_ltrim(text, characters)


@scalar("rtrim", params=(_TEXT, const(STRING)), returns=STRING, optional=1)
def rtrim(text: Any, characters: str = _BLANKS) -> Any:
    return pc.utf8_rtrim(text, characters)


@scalar("initCap", params=(_TEXT,), returns=STRING)
def init_cap(text: Any) -> Any:
    """The first character of each word in upper case, the others in lower case; words are separated by whitespace."""
    return by_distinct(text, lambda value: _WORD.sub(_capitalized, value), STRING)


def _capitalized(word: re.Match[str]) -> str:
    first = word[0][0].upper()
    return (first if len(first) == 1 else word[0][0]) + word[0][1:].lower()  # as in Java, one character remains one


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
    offsets, data = binary_buffers(text)
    if data.max(initial=0) < 128:
        return np.diff(offsets)
    points = np.asarray(pc.utf8_length(text))
    return points + np.asarray(pc.count_substring_regex(text, r"[\x{10000}-\x{10FFFF}]"))


# -- parts


@scalar("substr", params=(_TEXT, const(INT), const(INT)), returns=STRING, optional=1)
def substr(text: Any, begin: int, end: int = -1) -> Any:
    """The characters [begin, end), counted from 0; an end of -1 is that of the text, a negative begin counts from there."""
    return pc.utf8_slice_codeunits(text, begin, None if end == -1 else end)


@scalar("substring", params=(_TEXT, const(INT), const(INT)), returns=STRING, optional=1)
def substring(text: Any, begin: int, count: int | None = None) -> Any:
    """The `count` characters from `begin`, counted from 1."""
    start = begin - 1
    stop = None if count is None else max(start + count, 0)
    return pc.utf8_slice_codeunits(text, max(start, 0), stop)


@scalar("left", "leftSubStr", params=(_TEXT, const(INT)), returns=STRING)
def left(text: Any, count: int) -> Any:
    return pc.utf8_slice_codeunits(text, 0, max(count, 0))


@scalar("right", "rightSubStr", params=(_TEXT, const(INT)), returns=STRING)
def right(text: Any, count: int) -> Any:
    return pc.utf8_slice_codeunits(text, -count, None) if count > 0 else pc.utf8_slice_codeunits(text, 0, 0)


@scalar("strpos", params=(_TEXT, const(STRING), const(INT)), returns=INT, optional=1)
def strpos(text: Any, find: str, occurrence: int = 1) -> Any:
    """The position from 0 of the nth occurrence, which may overlap the previous one; -1 if there is none."""
    if occurrence == 1 and pc.all(pc.string_is_ascii(text), min_count=0).as_py():
        return pc.find_substring(text, find)  # counts bytes
    return by_distinct(text, lambda value: _nth(value, find, occurrence), INT)


def _nth(text: str, find: str, occurrence: int) -> int:
    if not find:
        return 0 if occurrence > 0 else -1
    position = -1
    for _ in range(min(occurrence, len(text) + 1)):
        position = text.find(find, position + 1)
        if position < 0:
            return -1
    return position


@by_value("position", params=(STRING, STRING), returns=INT)
def position(find: str, text: str) -> int:
    """`POSITION(find IN text)` of SQL: from 1; 0 if it does not occur."""
    return text.find(find) + 1


@by_value("strrpos", params=(STRING, STRING, INT), returns=INT, optional=1)
def strrpos(text: str, find: str, start: int | None = None) -> int:
    """The position of the last occurrence that begins at or before `start`; -1 if there is none."""
    if start is None:
        return text.rfind(find)
    return -1 if start < 0 else text.rfind(find, 0, start + len(find))


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
    """`concat(a, b, separator)`; the operator || is the form with two arguments."""
    return pc.binary_join_element_wise(first, second, separator)


@scalar("concatWS", params=(_TEXT, _TEXT), returns=STRING, variadic=True)
def concat_ws(separator: Any, *parts: Any) -> Any:
    return pc.binary_join_element_wise(*parts, separator)


@scalar("replace", params=(_TEXT, const(STRING), const(STRING)), returns=STRING)
def replace(text: Any, find: str, by: str) -> Any:
    if not find:
        return text
    check_growth("replace", text, lambda texts: pc.count_substring(texts, find), len(by))
    return pc.replace_substring(text, find, by)


def check_growth(name: str, texts: Any, count: Callable[[Any], Any], width: int) -> None:
    """Raise QueryError if replacing each match by `width` characters may make a text too long.

    count: returns the number of matches in each text; called only if needed.
    """
    if width > _WIDE and len(texts):
        longest, most = (pc.max(numbers).as_py() or 0 for numbers in (pc.utf8_length(texts), count(texts)))
        checked_size(name, longest + most * width)


@scalar("remove", params=(_TEXT, const(STRING)), returns=STRING)
def remove(text: Any, find: str) -> Any:
    return pc.replace_substring(text, find, "") if find else text


def checked_size(name: str, size: int) -> int:
    """Return the size of a text. Raises QueryError if it is too large."""
    if size > MAX_CHARACTERS:
        raise QueryError(
            ErrorCode.QUERY_EXECUTION, f"Function '{name}': the result is longer than {MAX_CHARACTERS} characters"
        )
    return size


def _padding(name: str, text: str, size: int, pad: str) -> str:
    missing = max(checked_size(name, size) - len(text), 0)
    return ((pad or " ") * missing)[:missing]


@scalar("lpad", params=(_TEXT, const(INT, lambda size: checked_size("lpad", size)), const(STRING)), returns=STRING)
def lpad(text: Any, size: int, pad: str) -> Any:
    """A longer text is unchanged; an empty pad is a blank."""
    return by_distinct(text, lambda value: _padding("lpad", value, size, pad) + value, STRING)


@scalar("rpad", params=(_TEXT, const(INT, lambda size: checked_size("rpad", size)), const(STRING)), returns=STRING)
def rpad(text: Any, size: int, pad: str) -> Any:
    """A longer text is unchanged; an empty pad is a blank."""
    return by_distinct(text, lambda value: value + _padding("rpad", value, size, pad), STRING)


@scalar("repeat", params=(_TEXT, ANY, each(INT)), returns=STRING, optional=1)
def repeat(text: Any, second: Vector, count: Any = None) -> Any:
    """`repeat(x, n)` or `repeat(x, separator, n)`; a count below 1 yields the empty text."""
    if count is None:
        counts, separator = convert_values(second.values, second.type, INT), None
    else:
        counts, separator = np.atleast_1d(count), convert_values(second.values, second.type, STRING)
    counts = np.maximum(np.broadcast_to(counts, len(text)), 0).astype(np.int64)
    sizes = np.asarray(pc.binary_length(text)) + (0 if separator is None else np.asarray(pc.binary_length(separator)))
    checked_size("repeat", int((sizes * counts).max(initial=0)))
    times = pa.array(counts)
    if separator is None:
        return pc.binary_repeat(text, times)
    # a separator before each piece; the first one is cut off again
    pieces = pc.binary_repeat(pc.binary_join_element_wise(separator, text, ""), times).to_pylist()
    lengths = pc.utf8_length(separator).to_pylist()
    return pa.array([piece[length:] for piece, length in zip(pieces, lengths, strict=True)], pa.string())


# -- splitting


def pieces_of(text: str, delimiter: str, limit: int = 0) -> list[str]:
    """Split at a whole delimiter as Apache Commons' StringUtils.splitByWholeSeparator does.

    Empty pieces are dropped, but a delimiter at the end leaves one empty last piece. With a limit above 0, the last of
    that many pieces is the rest of the text. An empty delimiter splits at whitespace.
    """
    if not delimiter:
        return text.split(None, limit - 1 if limit > 0 else -1)
    pieces: list[str] = []
    begin = 0
    while True:
        end = text.find(delimiter, begin)
        if end < 0:
            return [*pieces, text[begin:]] if text else []
        if end > begin:
            if len(pieces) + 1 == limit:
                return [*pieces, text[begin:]]
            pieces.append(text[begin:end])
        begin = end + len(delimiter)


@scalar("split", "stringToArray", params=(_TEXT, const(STRING), const(INT)), returns=STRING, optional=1, multi_value=True)
def split(text: Any, delimiter: str, limit: int = -1) -> Vector:
    """The non-empty pieces between delimiters; with a limit, the last one is the rest of the text."""
    return lists_by_distinct(text, lambda value: pieces_of(value, delimiter, limit), STRING)


def lists_by_distinct(values: Values, function: Callable[[Any], list[Any] | None], element: DataType) -> Vector:
    """Apply a function that returns a list, or None for null, once to each distinct value."""
    codes, entries = distinct(Vector(STRING, values))
    found = [function(value) for value in entries.values.to_pylist()]
    missing = np.array([part is None for part in found], dtype=np.bool_)
    lengths = np.array([len(part or ()) for part in found], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(lengths)])
    offsets = np.concatenate([[0], np.cumsum(lengths[codes])])
    rows = np.arange(offsets[-1]) + np.repeat(starts[codes] - offsets[:-1], lengths[codes])
    flat = array_of([item for part in found for item in part or ()], element)
    return Vector(element, take(flat, rows), offsets.astype(np.int32), missing[codes] if missing.any() else None)


@scalar("splitPart", params=(_TEXT, const(STRING), const(INT), const(INT)), returns=STRING, optional=1)
def split_part(text: Any, delimiter: str, position: int, last: int | None = None) -> Any:
    """`splitPart(x, delimiter, i)` or `splitPart(x, delimiter, limit, i)`: the piece from 0, negative from the end.

    A position without a piece yields the text `null`.
    """
    limit, index = (0, position) if last is None else (position, last)

    def pick(value: str) -> str:
        pieces = pieces_of(value, delimiter, limit)
        return pieces[index] if -len(pieces) <= index < len(pieces) else "null"

    return by_distinct(text, pick, STRING)


@by_value("substringIndex", params=(STRING, STRING, INT), returns=STRING)
def substring_index(text: str, delimiter: str, count: int) -> str:
    """The text left of the nth delimiter, or right of the nth from the end."""
    if count == 0 or not delimiter:
        return ""
    if count > 0:
        return delimiter.join(text.split(delimiter)[:count])
    return delimiter.join(text.rsplit(delimiter)[count:])  # searched from the end, which matters if two overlap
