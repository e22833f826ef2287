"""Result columns as Python objects: for JSON (wire formats of the types) and for Python callers."""

import itertools
import uuid
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from gamay.functions.vector import Vector
from gamay.model.types import DataType

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FEW = 10_000  # values
_FEW_TIMES = 16
_FEW_FLOATS = 32
_AS_THEY_ARE = frozenset({DataType.INT, DataType.LONG, DataType.DOUBLE, DataType.BOOLEAN})
# the range of datetime, in milliseconds
_FIRST_MS, _LAST_MS = -62_135_596_800_000, 253_402_300_799_999


def json_values(column: Vector) -> list[Any]:
    """Return one JSON-serializable object per row.

    NaN and infinities are strings, FLOAT is the shortest number that parses to the same float32, TIMESTAMP is `yyyy-MM-dd
    HH:mm:ss.f`, BIG_DECIMAL plain text, BYTES lower-case hex, UUID canonical, MAP the object itself.
    """
    if column.type is DataType.LONG and column.offsets is None and column.nulls is None:  # such as counts
        listed: list[Any] = column.values.tolist()
        return listed
    return _rows(column, _json_scalars(column.type, column.values))


def python_values(column: Vector) -> list[Any]:
    """Return one Python object per row: TIMESTAMP as datetime in UTC (int if out of range), UUID as UUID.

    MAP is a dict with values as in JSON.
    """
    values = column.values
    if column.type in _AS_THEY_ARE and column.offsets is None and column.nulls is None and isinstance(values, np.ndarray):
        listed: list[Any] = values.tolist()
        return listed
    return _rows(column, _python_scalars(column.type, values))


def _rows(column: Vector, flat: list[Any]) -> list[Any]:
    if column.offsets is not None:
        bounds = column.offsets.tolist()
        flat = [flat[start:stop] for start, stop in itertools.pairwise(bounds)]
    if column.nulls is not None:
        for row in np.flatnonzero(column.nulls).tolist():
            flat[row] = None
    return flat


def _json_scalars(data_type: DataType, values: Any) -> list[Any]:
    if data_type in (DataType.FLOAT, DataType.DOUBLE):
        return _json_floats(values)
    if data_type is DataType.TIMESTAMP:
        return timestamp_texts(values)
    if data_type is DataType.BIG_DECIMAL:
        return [format(value, "f") for value in values]
    if data_type is DataType.BYTES:
        return [value.hex() for value in _plain(values)]
    if data_type is DataType.UUID:
        return [str(uuid.UUID(bytes=value)) for value in _plain(values)]
    if data_type is DataType.MAP:
        return [orjson.Fragment(text) for text in _plain(values)]
    return _plain(values)


def _python_scalars(data_type: DataType, values: Any) -> list[Any]:
    if data_type is DataType.FLOAT:
        return list(_shortest_floats(values).tolist())
    if data_type is DataType.TIMESTAMP:
        return _datetimes(values)
    if data_type is DataType.UUID:
        return [uuid.UUID(bytes=value) for value in _plain(values)]
    if data_type is DataType.MAP:
        return [orjson.loads(text) for text in _plain(values)]
    return _plain(values)


def _datetimes(values: "np.ndarray[Any, np.dtype[np.int64]]") -> list[Any]:
    if len(values) > _FEW_TIMES and values.min() >= _FIRST_MS and values.max() <= _LAST_MS:
        # NumPy creates timedeltas ten times as fast as their constructor
        return list(map(_EPOCH.__add__, values.astype("m8[ms]").astype("m8[us]").tolist()))
    return [_EPOCH + timedelta(milliseconds=ms) if _FIRST_MS <= ms <= _LAST_MS else ms for ms in values.tolist()]


def _plain(values: Any) -> list[Any]:
    if not isinstance(values, np.ndarray) and len(values) < _FEW:
        return list(values.to_pylist())
    # via NumPy, Arrow creates Python objects several times faster, but imports pandas if installed
    array = values if isinstance(values, np.ndarray) else values.to_numpy(zero_copy_only=False)
    listed: list[Any] = array.tolist()
    return listed


def _shortest_floats(values: "np.ndarray[Any, np.dtype[Any]]") -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return float32 values as the doubles with the same shortest text (1.1, not 1.100000023841858)."""
    texts = pa.array(values, pa.float32()).cast(pa.string())
    widened: np.ndarray[Any, np.dtype[np.float64]] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return widened


def _json_floats(values: "np.ndarray[Any, np.dtype[Any]]") -> list[Any]:
    wide = _shortest_floats(values) if values.dtype == np.float32 else values
    listed: list[Any] = wide.tolist()
    if len(listed) <= _FEW_FLOATS and all(map(isfinite, listed)):  # NumPy takes ten times as long for few values
        return listed
    finite = np.isfinite(values)
    for row in () if finite.all() else np.flatnonzero(~finite).tolist():
        value = listed[row]
        listed[row] = "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    return listed


def timestamp_texts(values: "np.ndarray[Any, np.dtype[Any]]") -> list[str]:
    """Format milliseconds as `yyyy-MM-dd HH:mm:ss.f` in UTC, the fraction without trailing zeros but with at least one
    digit."""
    inside = (values >= _FIRST_MS) & (values <= _LAST_MS)
    stamps = np.datetime_as_string(np.where(inside, values, 0).astype("M8[ms]")).tolist()
    ends = 23 - (values % 10 == 0) - (values % 100 == 0)
    listed = [f"{stamp[:10]} {stamp[11:end]}" for stamp, end in zip(stamps, ends.tolist(), strict=True)]
    for row in np.flatnonzero(~inside).tolist():
        listed[row] = _far_timestamp(int(values[row]))
    return listed


def _far_timestamp(ms: int) -> str:
    """Format a time outside the years 1 to 9999 (the calendar repeats every 400 years)."""
    cycle_ms = 146_097 * 86_400_000
    cycles = (ms - _FIRST_MS) // cycle_ms
    moment = _EPOCH + timedelta(milliseconds=ms - cycles * cycle_ms)
    year = moment.year + 400 * cycles
    fraction = f"{moment.microsecond // 1000:03d}".rstrip("0") or "0"
    sign = "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{moment:%m-%d %H:%M:%S}.{fraction}"
