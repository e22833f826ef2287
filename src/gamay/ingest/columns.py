"""From decoded records (dicts) to columns, for formats that have no columnar decoder."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa


def json_text(value: Any) -> str:
    """Return the JSON text of a value; what JSON has no form for becomes text (Decimal, bytes as hex, dates as ISO)."""
    try:
        return orjson.dumps(value, default=_json_default, option=orjson.OPT_NON_STR_KEYS).decode()
    except orjson.JSONEncodeError:  # an integer beyond 64 bits, or text with a lone surrogate
        import json

        return json.dumps(value, default=_json_default, ensure_ascii=False, separators=(",", ":"))


def _json_default(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, (set, frozenset, tuple)):
        return list(value)
    return str(value)


def records_to_batch(records: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
    """Return the records as a batch with one column for each key that occurs; missing keys are null."""
    names = dict.fromkeys(name for record in records for name in record)
    arrays = [values_to_array([record.get(name) for record in records]) for name in names]
    return pa.RecordBatch.from_arrays(arrays, list(names)) if names else _no_columns(len(records))


def _no_columns(num_rows: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.array([{}] * num_rows, pa.struct([])))


def values_to_array(values: list[Any]) -> pa.Array:
    """Return values of one column as an Arrow array of the narrowest type that holds them exactly.

    Objects, and lists that hold objects or lists, become JSON text; what has no common type becomes text.
    """
    kinds = {type(v) for v in values}
    kinds.discard(type(None))
    if dict in kinds or (list in kinds and any(_is_nested(v) for v in values)):
        return _json_array(values)
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
        return pa.array([None if v is None else v if isinstance(v, str) else _text(v) for v in values], pa.string())


def _is_nested(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value)


def _json_array(values: list[Any]) -> pa.Array:
    text = pa.array([None if v is None else json_text(v) for v in values], pa.string())
    return pa.ExtensionArray.from_storage(pa.json_(), text)


def _text(value: Any) -> str:
    if isinstance(value, Decimal):
        return format(value, "f")
    return json_text(value)
