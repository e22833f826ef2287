"""Conversions to and from times: timestamps, dates, and the formats of date-time columns."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.model.schema.datetime_format import DateTimeKind
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType

_MILLIS = pa.timestamp("ms")
_ZONED = r"(?i)(Z|[+-]\d\d(:?\d\d)?)$"
_NUMBER = r"^-?\d+$"


def to_timestamp(array: pa.Array) -> pa.Array:
    """Return UTC milliseconds.

    Numbers are milliseconds since 1970. Text is `yyyy-MM-dd[ HH:mm[:ss[.fraction]]]` or ISO 8601, in UTC unless it names an
    offset, or a number. Fractions finer than a millisecond are cut.
    """
    kind = array.type
    if pa.types.is_temporal(kind):
        return _to_millis(array)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return array.cast(pa.int64()).cast(_MILLIS)
    if pa.types.is_string(kind):
        return _text_to_timestamp(array)
    raise ValueError(f"{kind} has no timestamp form")


def _text_to_timestamp(array: pa.Array) -> pa.Array:
    try:
        return array.cast(_MILLIS)
    except pa.ArrowInvalid:
        array = pc.utf8_trim_whitespace(array)
    if pc.all(pc.match_substring_regex(array, _NUMBER), min_count=0).as_py():
        return array.cast(pa.int64()).cast(_MILLIS)
    if pc.all(pc.match_substring_regex(array, _ZONED), min_count=0).as_py():
        return _to_millis(_parsed(array, "UTC"))
    return _to_millis(_parsed(array, None))


def _parsed(array: pa.Array, zone: str | None) -> pa.Array:
    try:
        return array.cast(pa.timestamp("us", zone))
    except pa.ArrowInvalid:
        return array.cast(pa.timestamp("ns", zone))


def _to_millis(array: pa.Array) -> pa.Array:
    kind = array.type
    if pa.types.is_timestamp(kind):
        if kind.unit in ("us", "ns"):
            array = pc.floor_temporal(array, unit="millisecond")
        # an instant is stored in UTC regardless of its display zone
        return array.cast(pa.timestamp("ms", kind.tz)).cast(pa.int64()).cast(_MILLIS)
    if pa.types.is_date(kind):
        return array.cast(_MILLIS)
    raise ValueError(f"{kind} has no timestamp form")


def to_number(array: pa.Array, field: FieldSpec, target: pa.DataType) -> pa.Array:
    """Return times as numbers in the column's format; without a format: milliseconds, dates in INT as days."""
    if field.format is None and pa.types.is_date(array.type) and field.data_type is DataType.INT:
        return array.cast(pa.date32()).cast(target)
    millis = _to_millis(array).cast(pa.int64())
    if field.format is None or field.format.kind is DateTimeKind.TIMESTAMP:
        return millis.cast(target)
    return _printed(millis, field).cast(target)


def to_text(array: pa.Array, field: FieldSpec) -> pa.Array:
    """Return times as text: by the pattern of the column's format, else `yyyy-MM-dd HH:mm:ss.SSS`, dates `yyyy-MM-dd`."""
    if field.format is not None and field.format.kind is not DateTimeKind.TIMESTAMP:
        return _printed(_to_millis(array).cast(pa.int64()), field).cast(pa.string())
    if pa.types.is_timestamp(array.type):
        return _to_millis(array).cast(pa.string())
    return array.cast(pa.string())


def _printed(millis: pa.Array, field: FieldSpec) -> pa.Array:
    """Return the form of each distinct time, computed once."""
    assert field.format is not None
    encoded = millis.dictionary_encode()
    printed: list[Any] = [field.format.from_millis(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(printed).take(encoded.indices) if printed else pa.nulls(len(millis))


def millis_of_column(array: pa.Array, field: FieldSpec) -> "np.ndarray[Any, np.dtype[np.int64]]":
    """Return the times of a date-time column in milliseconds; null and invalid times become the lowest int64."""
    if array.type == _MILLIS:
        return np.asarray(array.cast(pa.int64()).fill_null(np.iinfo(np.int64).min))
    encoded = array.dictionary_encode()
    millis = np.array([_millis_of(value, field) for value in encoded.dictionary.to_pylist()] or [0], np.int64)
    ids = np.asarray(encoded.indices.fill_null(0))
    return np.where(np.asarray(pc.is_null(array)), np.iinfo(np.int64).min, millis[ids])


def _millis_of(value: Any, field: FieldSpec) -> int:
    try:
        return field.format.to_millis(value) if field.format is not None else int(value)
    except (ValueError, OverflowError):
        return int(np.iinfo(np.int64).min)
