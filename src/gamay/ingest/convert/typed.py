"""Conversion of decoded values (numbers, texts, lists, objects) to a column of a known type, each value independently."""

import math
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from gamay.ingest.convert.objects import json_text, values_to_array
from gamay.ingest.convert.texts import to_text
from gamay.model.types import DataType

_NUMBERS = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL)
_WHOLE = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)
FLOAT_MAX = float(np.finfo(np.float32).max)
_TEXTS = (DataType.JSON, DataType.MAP, DataType.STRING, DataType.BYTES, DataType.UUID)
_FRACTIONS = (DataType.FLOAT, DataType.DOUBLE)


def typed_column(values: list[Any], target: DataType | None, *, multi_value: bool) -> pa.Array:
    """Return values as a column whose conversion to `target` depends on each value alone; None: the type is unknown."""
    if target is None:
        return values_to_array(values)
    return lists_column(values, target) if multi_value else _singles(values, target)


def lists_column(values: list[Any], target: DataType) -> pa.Array:
    lists = [v if isinstance(v, list) or v is None else [v] for v in values]
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum([0 if v is None else len(v) for v in lists], out=offsets[1:])
    flat = _singles([item for v in lists if v for item in v], target)
    return pa.ListArray.from_arrays(pa.array(offsets), flat, mask=pa.array([v is None for v in lists], pa.bool_()))


def _singles(values: list[Any], target: DataType) -> pa.Array:
    kinds = set(map(type, values))
    kinds.discard(type(None))
    if list in kinds and target is not DataType.JSON:
        values = [_only_item(v) if isinstance(v, list) else v for v in values]
        kinds = set(map(type, values)) - {type(None)}
    if kinds <= {str}:
        return _text_array(values)
    if Decimal in kinds and target not in (DataType.BIG_DECIMAL, *_TEXTS):
        values = [float(v) if isinstance(v, Decimal) else v for v in values]
        kinds = kinds - {Decimal} | {float}
    if target in _TEXTS:
        return _text_array([_text(v, target) for v in values])
    if dict in kinds or list in kinds:
        values = [json_text(v) if isinstance(v, dict | list) else v for v in values]
    if target in _NUMBERS and bool in kinds:
        values = [int(v) if isinstance(v, bool) else v for v in values]
    if target in _WHOLE and float in kinds:
        values = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
    if target is DataType.BOOLEAN and kinds & {int, float}:
        values = [v != 0 if isinstance(v, int | float) else v for v in values]
    if target in _FRACTIONS and kinds & {int, bool}:
        values = [_double(v) if isinstance(v, int) else v for v in values]
    if len({type(v) for v in values} - {type(None)}) > 1:
        values = [_text(v, target) for v in values]
    return values_to_array(values)


def _double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _only_item(values: list[Any]) -> Any:
    if len(values) > 1:
        return json_text(values)
    return values[0] if values else None


def _text(value: Any, target: DataType) -> str | None:
    """Return the text of a value as the pipeline would produce it from a column of the value's type."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, dict | list | bool) or target is DataType.JSON:
        try:
            return orjson.dumps(value).decode()
        except TypeError:  # keys that are not text, or values that JSON cannot represent
            return json_text(value)
    if target is DataType.FLOAT and FLOAT_MAX < abs(value) < math.inf:
        return f"{value} is beyond the range"  # as a number it fails; as text it would become infinite
    if isinstance(value, float):
        return str(to_text(pa.array([value]))[0].as_py())
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.hex() if isinstance(value, bytes) else str(value)


def _text_array(values: list[Any]) -> pa.Array:
    try:
        return pa.array(values, pa.string())
    except UnicodeEncodeError:  # a lone surrogate
        return pa.array([None if v is None else v.encode("utf-8", "replace").decode() for v in values], pa.string())
