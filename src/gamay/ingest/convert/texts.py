"""Conversions to and from text: strings, JSON, decimals, bytes, UUIDs."""

from decimal import Decimal, InvalidOperation

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from gamay.ingest.convert.arrays import null_where
from gamay.ingest.convert.objects import json_text
from gamay.model.number_text import number_text

_PLAIN_NUMBER = r"^-?\d+(\.\d+)?$"


def to_text(array: pa.Array) -> pa.Array:
    """Return values as text: numbers and booleans as in JSON, bytes as hex, nested values as JSON."""
    kind = array.type
    if pa.types.is_string(kind):
        return array
    if pa.types.is_binary(kind):
        return pa.array([None if v is None else v.hex() for v in array.to_pylist()], pa.string())
    if pa.types.is_floating(kind):
        return _floating_text(array)
    if pa.types.is_nested(kind):
        return nested_to_json(array)
    if pa.types.is_decimal(kind):
        return to_decimal_text(array, False)
    return array.cast(pa.string())


def _floating_text(array: pa.Array) -> pa.Array:
    text = array.cast(pa.string())
    text = pc.replace_substring_regex(text, r"^(-?\d+)$", r"\1.0")
    text = pc.replace_substring_regex(text, r"^(-?\d+)e\+?", r"\1.0E")
    text = pc.replace_substring_regex(text, r"e\+?", "E")
    return pc.replace_substring_regex(text, r"^(-?)inf$", r"\1Infinity")


def nested_to_json(array: pa.Array) -> pa.Array:
    """Return structs, maps and lists as JSON text; members of a struct that are null are written as null."""
    values = array.to_pylist(maps_as_pydicts="strict") if _has_maps(array.type) else array.to_pylist()
    return pa.array([None if v is None else json_text(v) for v in values], pa.string())


def _has_maps(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and any(_has_maps(kind.field(i).type) for i in range(kind.num_fields))


def without_quotes(array: pa.Array, *, only_of_json: bool = False) -> pa.Array:
    """Return JSON text with JSON strings replaced by their content; only_of_json: only if the content is JSON itself."""
    quoted = pc.starts_with(array, '"').fill_null(False)
    if not pc.any(quoted, min_count=0).as_py():
        return array
    quotes = array.filter(quoted).to_pylist()
    read = [
        quote if only_of_json and not _is_json(text) else text
        for quote, text in zip(quotes, map(orjson.loads, quotes), strict=True)
    ]
    return pc.replace_with_mask(array, quoted, pa.array(read, pa.string()))


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True


def to_json_text(array: pa.Array, is_json: bool) -> pa.Array:
    """Return values as JSON text. Text must be valid JSON, which is not checked if `is_json`."""
    if not pa.types.is_string(array.type):
        return to_text(array)
    if is_json:
        return array
    present = [text.encode() for text in array.to_pylist() if text is not None]
    # all are valid if and only if they parse as the elements of one array of the same length
    parsed = orjson.loads(b"[" + b",".join(present) + b"]")
    if len(parsed) != len(present):
        raise ValueError("not a JSON value")
    return array


def to_floating(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse numbers in text."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        return pc.utf8_trim_whitespace(array).cast(target)


def to_decimal_text(array: pa.Array, strip_zeros: bool) -> pa.Array:
    """Return numbers, or text of numbers, as plain decimal text without exponent."""
    kind = array.type
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    if not pa.types.is_string(array.type):
        if not (pa.types.is_integer(array.type) or pa.types.is_floating(array.type) or pa.types.is_decimal(array.type)):
            raise ValueError(f"{kind} has no decimal form")
        array = array.cast(pa.string())
    if not pc.all(pc.match_substring_regex(array, _PLAIN_NUMBER), min_count=0).as_py():
        array = pa.array([None if v is None else _plain_decimal(v) for v in array.to_pylist()], pa.string())
    array = pc.replace_substring_regex(array, r"^(-?)0+(\d)", r"\1\2")
    if strip_zeros:
        array = pc.replace_substring_regex(array, r"(\.\d*?)0+$", r"\1")
        array = pc.replace_substring_regex(array, r"\.$", "")
    return pc.replace_substring_regex(array, r"^-(0(\.0+)?)$", r"\1")


def _plain_decimal(text: str) -> str:
    try:
        number = Decimal(number_text(text))
    except (ValueError, InvalidOperation):
        raise ValueError(f"not a number: {text!r}") from None
    if not number.is_finite() or abs(number.adjusted()) > 10_000:
        raise ValueError(f"not a number that can be written out: {text!r}")
    return format(number, "f")


def to_bytes(array: pa.Array) -> pa.Array:
    """Return bytes; text is read as hex."""
    if pa.types.is_binary(array.type):
        return array
    if not pa.types.is_string(array.type):
        raise ValueError(f"{array.type} has no bytes form")
    lengths = np.asarray(pc.binary_length(array).fill_null(0))
    if (lengths % 2).any():
        raise ValueError("an odd number of hex digits")
    joined = "".join(text for text in array.to_pylist() if text)
    content = bytes.fromhex(joined)
    if 2 * len(content) != len(joined):
        raise ValueError("spaces between hex digits")
    offsets = np.zeros(len(array) + 1, np.int32)
    np.cumsum(lengths // 2, out=offsets[1:])
    values = pa.BinaryArray.from_buffers(pa.binary(), len(array), [None, pa.py_buffer(offsets), pa.py_buffer(content)])
    return null_where(values, pc.is_null(array)) if array.null_count else values


_UUID = r"^[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}$"


def to_uuid(array: pa.Array) -> pa.Array:
    """Return UUIDs as 16 bytes, from 16 bytes or the canonical text."""
    if pa.types.is_string(array.type):
        array = pc.utf8_trim_whitespace(array)
        if not pc.all(pc.match_substring_regex(array, _UUID), min_count=0).as_py():
            raise ValueError("not a UUID")
        return to_bytes(pc.replace_substring(array, "-", ""))
    if not pa.types.is_binary(array.type):
        raise ValueError(f"{array.type} has no UUID form")
    if not pc.all(pc.equal(pc.binary_length(array), 16), min_count=0).as_py():
        raise ValueError("a UUID has 16 bytes")
    return array
