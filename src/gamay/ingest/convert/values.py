"""Conversion of values of any Arrow type to a column's type.

Nothing is rounded, wrapped or truncated: a value out of the type's range fails, and is reported to the caller.
NaN counts as null; negative zero becomes zero.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.functions.arrow import arrow_type
from gamay.ingest.convert import texts, times
from gamay.ingest.convert.arrays import Mask, convert_each, is_json_text, list_array, null_where, plain, rows_of_values
from gamay.ingest.convert.maps import to_map_text
from gamay.ingest.convert.objects import read_json
from gamay.ingest.convert.typed import typed_column
from gamay.model.schema.field_spec import FieldSpec
from gamay.model.types import DataType

_DECIMAL = pa.decimal128(38, 18)
# for these types, JSON text of objects, or of more than one value, is invalid
_OF_NUMBERS = frozenset(
    {
        DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL, DataType.BOOLEAN,
        DataType.TIMESTAMP,
    }
)  # fmt: skip


def convert(array: pa.Array, field: FieldSpec, multi_value_delimiter: str | None = None) -> tuple[pa.Array, Mask | None]:
    """Return the values in the column's type, and which rows failed (None if none did; null in the result).

    multi_value_delimiter: splits the text of a multi-value column into its values.
    """
    array_is_json = is_json_text(array.type)
    array = plain(array)
    if array_is_json and (not field.single_value or field.data_type in _OF_NUMBERS):
        array = typed_column(_read(array), field.data_type, multi_value=not field.single_value)
    elif array_is_json:
        array = texts.without_quotes(array, only_of_json=field.data_type is DataType.JSON)
    if field.data_type is DataType.MAP:
        return to_map_text(array, field, convert)
    if not field.single_value:
        return _to_lists(array, field, multi_value_delimiter)
    if pa.types.is_list(array.type) and field.data_type is not DataType.JSON:
        return _from_lists(array, field)
    return _convert_values(array, field, array_is_json)


def _read(texts_of_values: pa.Array) -> list[Any]:
    """Parse JSON texts, None for null."""
    return [None if text is None else read_json(text.encode()) for text in texts_of_values.to_pylist()]


def _to_lists(array: pa.Array, field: FieldSpec, delimiter: str | None) -> tuple[pa.Array, Mask | None]:
    if not pa.types.is_list(array.type):
        if pa.types.is_string(array.type) and delimiter is not None:
            array = pc.split_pattern(array, delimiter)
        else:
            array = pa.ListArray.from_arrays(np.arange(len(array) + 1, dtype=np.int32), array)
    values = plain(pc.list_flatten(array))
    rows = rows_of_values(array)
    converted, failed = _convert_values(values, field, False)
    kept = np.asarray(pc.is_valid(converted))
    failed_rows: Mask | None = None
    if failed is not None:
        failed_rows = np.zeros(len(array), np.bool_)
        failed_rows[rows[failed]] = True
        kept &= ~failed_rows[rows]
    counts = np.bincount(rows[kept], minlength=len(array)).astype(np.int64)
    return list_array(counts, converted if kept.all() else converted.filter(pa.array(kept))), failed_rows


def _from_lists(array: pa.Array, field: FieldSpec) -> tuple[pa.Array, Mask | None]:
    """Convert lists in a single-value column: each must have at most one value."""
    lengths = np.asarray(pc.list_value_length(array).fill_null(0))
    too_long = lengths > 1
    if too_long.any():
        array = null_where(array, too_long)
        lengths = np.where(too_long, 0, lengths)
    take = np.zeros(len(array), np.int64)
    take[lengths > 0] = np.arange(int((lengths > 0).sum()))
    values = pc.list_flatten(array).take(pa.array(take, mask=lengths == 0))
    converted, failed = _convert_values(plain(values), field, False)
    if too_long.any():
        failed = too_long if failed is None else failed | too_long
    return converted, failed


def _convert_values(array: pa.Array, field: FieldSpec, is_json: bool) -> tuple[pa.Array, Mask | None]:
    target = arrow_type(field.data_type)
    kind = array.type
    if pa.types.is_null(kind):
        return pa.nulls(len(array), target), None
    if pa.types.is_floating(kind):
        array = _without_nan(array)
    if kind == target and not pa.types.is_string(kind) and not pa.types.is_binary(kind):
        return (_without_negative_zero(array) if pa.types.is_floating(kind) else array), None
    match field.data_type:
        case DataType.INT | DataType.LONG:
            if pa.types.is_temporal(kind):
                return convert_each(array, lambda part: times.to_number(part, field, target), target)
            return convert_each(array, lambda part: _to_integer(part, target), target)
        case DataType.FLOAT | DataType.DOUBLE:
            return convert_each(array, lambda part: _to_floating(part, field, target), target)
        case DataType.BIG_DECIMAL:
            strip = not field.allow_trailing_zeros
            return convert_each(array, lambda part: texts.to_decimal_text(part, strip), target)
        case DataType.BOOLEAN:
            return convert_each(array, _to_boolean, target)
        case DataType.TIMESTAMP:
            return convert_each(array, times.to_timestamp, target)
        case DataType.STRING:
            return convert_each(array, lambda part: _to_string(part, field), target)
        case DataType.JSON:
            return convert_each(array, lambda part: texts.to_json_text(part, is_json), target)
        case DataType.BYTES:
            return convert_each(array, texts.to_bytes, target)
        case DataType.UUID:
            return convert_each(array, texts.to_uuid, target)
    raise ValueError(f"{field.data_type} is not a column type")


def _without_nan(array: pa.Array) -> pa.Array:
    is_nan = pc.is_nan(array)
    return null_where(array, is_nan) if pc.any(is_nan).as_py() else array


def _without_negative_zero(array: pa.Array) -> pa.Array:
    return pc.add(array, pa.scalar(0.0, array.type)) if len(array) else array


def _to_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    if pa.types.is_string(array.type):
        return _text_to_integer(array, target)
    if pa.types.is_boolean(array.type) or pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        return array.cast(target)
    if pa.types.is_decimal(array.type):
        return array.cast(pa.decimal128(38, 0)).cast(target)
    raise ValueError(f"{array.type} has no integer form")


def _text_to_integer(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Parse integers: first unchanged, then without spaces and plus sign, then in any notation (`517.0`, `1e3`)."""
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        array = pc.utf8_trim_whitespace(array)
    try:
        return pc.replace_substring_regex(array, r"^\+", "").cast(target)
    except pa.ArrowInvalid:
        # Decimals are exact where doubles would round a fraction away; a cast that loses digits raises.
        result = array.cast(_DECIMAL).cast(pa.decimal128(_DECIMAL.precision, 0)).cast(target)
        # Arrow 26 parses some out-of-range negative exponents, as in 1.25E-43, as 0
        lost = pc.and_(pc.equal(result, 0), pc.match_substring_regex(array, r"^[^eE]*[1-9]"))
        if pc.any(lost).as_py():
            raise ValueError("not a whole number") from None
        return result


def _to_floating(array: pa.Array, field: FieldSpec, target: pa.DataType) -> pa.Array:
    kind = array.type
    if pa.types.is_temporal(kind):
        return times.to_number(array, field, pa.int64()).cast(target, safe=False)
    if pa.types.is_boolean(kind):
        return array.cast(pa.int8()).cast(target)
    if pa.types.is_string(kind):
        array = texts.to_floating(array, target)
        return _without_negative_zero(_without_nan(array))
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        raise ValueError(f"{kind} has no number form")
    result = array.cast(target, safe=False)
    if pa.types.is_floating(kind) and kind != target:
        overflowed = pc.and_(pc.is_inf(result), pc.is_finite(array))
        if pc.any(overflowed).as_py():
            raise ValueError("beyond the range of the type")
    return _without_negative_zero(result)


_TRUE = ("true", "1", "t", "yes", "y")
_FALSE = ("false", "0", "f", "no", "n")


def _to_boolean(array: pa.Array) -> pa.Array:
    if pa.types.is_string(array.type):
        folded = pc.utf8_lower(pc.utf8_trim_whitespace(array))
        is_true = pc.is_in(folded, pa.array(_TRUE))
        known = pc.or_(is_true, pc.is_in(folded, pa.array(_FALSE)))
        if not pc.all(pc.or_(known, pc.is_null(array)), min_count=0).as_py():
            raise ValueError("neither true nor false")
        return null_where(is_true, pc.is_null(array))
    if pa.types.is_decimal(array.type) or pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        return pc.not_equal(array.cast(pa.float64(), safe=False), 0.0)
    raise ValueError(f"{array.type} has no boolean form")


def _to_string(array: pa.Array, field: FieldSpec) -> pa.Array:
    if pa.types.is_temporal(array.type):
        return times.to_text(array, field)
    return texts.to_text(array)
