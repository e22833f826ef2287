"""Conversion of decoded records (dicts) to columns, for formats without a columnar decoder."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa

_PLAIN_TYPES = (str, int, float, bool, bytes, Decimal, datetime, date, type(None))


def json_text(value: Any) -> str:
    """Return the JSON text of a value; other types become text (Decimal, bytes as hex, dates as ISO)."""
    try:
        return orjson.dumps(value, default=_json_default, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # an integer beyond 64 bits, or text with a lone surrogate
        return json.dumps(value, default=_json_default, ensure_ascii=False, separators=(",", ":"))


def _json_default(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return str(value)


def read_json(text: bytes) -> Any:
    """Parse JSON with all digits of its numbers; raises ValueError with orjson's message."""
    read = orjson.loads(text)
    return _EXACT.decode(text.decode()) if _LONG_NUMBER.search(text) else read


def _fraction(text: str) -> Any:
    number = float(text)
    return number if len(text) < _EXACT_CHARS or Decimal(repr(number)) == Decimal(text) else Decimal(text)


_EXACT_CHARS = 17  # shorter numbers fit a double or a 64-bit integer without loss
_LONG_NUMBER = re.compile(rb"[0-9.eE+-]{%d}" % _EXACT_CHARS)
_EXACT = json.JSONDecoder(parse_float=_fraction)


def records_to_batch(records: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return the records as a batch with one column for each key that occurs; missing keys are null."""
    names = dict.fromkeys(name for record in records for name in record)
    arrays = [values_to_array([record.get(name) for record in records]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, list(names)) if names else _no_columns(len(records))


def _no_columns(num_rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * num_rows, pa.struct([])))


def values_to_array(values: list[Any]) -> pa.Array:
    """Return values of one column as an Arrow array of the narrowest type that holds them exactly.

    Objects, nested lists, lists of mixed values, lists mixed with other values, and numbers mixed with booleans
    become JSON text; other mixtures without a common type become text.
    """
    kinds = {type(v) for v in values}
    kinds.discard(type(None))
    if dict in kinds or (list in kinds and any(_is_nested(v) for v in values)):
        return _json_array(values)
    if bool in kinds and len(kinds) > 1 and kinds <= {bool, int, float}:
        return _json_array(values)  # Arrow would convert false to 0.0
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        if list in kinds:
            return _json_array(values)
        return pa.array([None if v is None else v if isinstance(v, str) else _text(v) for v in values], pa.string())


def values_as_written(values: list[Any]) -> pa.Array:
    """Return values of one column in a lossless form, which does not depend on the other values.

    Scalars of one type are an array of that type; lists, objects and mixtures are JSON text.
    """
    kinds = {type(v) for v in values}
    kinds.discard(type(None))
    beyond = kinds == {int} and not all(v is None or -(2**63) <= v < 2**63 for v in values)
    return _json_array(values) if beyond or len(kinds) > 1 or list in kinds else values_to_array(values)


def joined_as_written(arrays: Sequence[pa.Array]) -> pa.Array:
    """Return arrays of several types, each as from `values_as_written`, as one array of JSON text."""
    texts = [
        array.storage if isinstance(array, pa.ExtensionArray) else _json_texts(array.to_pylist(maps_as_pydicts="strict"))
        for array in arrays
    ]
    return pa.ExtensionArray.from_storage(pa.json_(), pa.concat_arrays(texts))


def _is_nested(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value)


def _json_array(values: list[Any]) -> pa.Array:
    return pa.ExtensionArray.from_storage(pa.json_(), _json_texts(values))


def _json_texts(values: list[Any]) -> pa.Array:
    return pa.array([None if v is None else json_text(v) for v in values], pa.string())


def _text(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return json_text(value)


def plain_value(value: Any, special: Callable[[Any], Any]) -> Any:
    """Return a value of a document library converted to plain types, recursively.

    special: converts a value of the library's own types; the result is converted in turn.
    """
    if type(value) in _PLAIN_TYPES:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain_value(item, special) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain_value(item, special) for item in value]
    return plain_value(special(value), special)
