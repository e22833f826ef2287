"""Conversion of values between types, whole arrays at a time.

Numbers narrow as in Java: doubles saturate and NaN becomes 0, integers wrap. Text is parsed, and invalid text is an
error, except for BOOLEAN, where everything but `true` and `1` is false. BYTES become lower-case hexadecimal text.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gamay.base import guard
from gamay.base.errors import ErrorCode, QueryError
from gamay.functions.expression import LiteralValue
from gamay.functions.text import java_double_text, java_float_text
from gamay.functions.vector import EncodedVector, Operand, Scalar, Values, Vector, numpy_dtype, take
from gamay.model.number_text import number_text
from gamay.model.schema.default_null import COLUMN_TYPES, default_null_value, null_value_from_json
from gamay.model.types import DataType, FieldRole
from gamay.model.zones import parse_timestamp

_UUID_BYTES = 16
_INTEGERS = (DataType.INT, DataType.LONG, DataType.TIMESTAMP)
_FLOATS = (DataType.FLOAT, DataType.DOUBLE)
_PLACEHOLDERS = {kind: default_null_value(kind, FieldRole.DIMENSION) for kind in (*COLUMN_TYPES, DataType.MAP)}


def placeholder(data_type: DataType) -> LiteralValue:
    """Return the placeholder stored for a null; shown as the value where null handling is off."""
    return _PLACEHOLDERS.get(data_type)


def array_of(values: list[Any], data_type: DataType) -> Values:
    """Return Python values as the storage of a type."""
    if data_type.is_text:
        return pa.array(values, pa.string())
    if data_type.is_binary:
        return pa.array(values, pa.binary())
    if data_type is DataType.BIG_DECIMAL:
        out = np.empty(len(values), dtype=object)
        out[:] = values
        return out
    return np.array(values, dtype=numpy_dtype(data_type))


def repeat(value: LiteralValue, data_type: DataType, count: int) -> Values:
    """Return a value repeated `count` times."""
    if data_type.is_text or data_type.is_binary:
        return pa.repeat(pa.scalar(value, pa.string() if data_type.is_text else pa.binary()), count)
    if data_type is DataType.BIG_DECIMAL:
        return array_of([value] * count, data_type)
    return np.full(count, value, dtype=numpy_dtype(data_type))


def to_vector(operand: Operand, num_rows: int) -> Vector:
    """Return an operand decoded and at full length; a NULL constant becomes placeholders that are all null."""
    if isinstance(operand, Vector):
        return operand
    if isinstance(operand, EncodedVector):
        return operand.decode()
    data_type = DataType.STRING if operand.type is DataType.UNKNOWN else operand.type
    if operand.value is None:
        return Vector(data_type, repeat(placeholder(data_type), data_type, num_rows), None, np.ones(num_rows, np.bool_))
    return Vector(data_type, repeat(operand.value, data_type, num_rows))


def python_values(values: Values) -> list[Any]:
    """Return the storage of a type as Python values."""
    listed: list[Any] = values.tolist() if isinstance(values, np.ndarray) else values.to_pylist()
    return listed


def convert(operand: Operand, to: DataType) -> Operand:
    """Return an operand as another type, which stays multi-value if it was; raises QueryError for invalid text."""
    if operand.type is to:
        return operand
    if isinstance(operand, Scalar):
        if operand.value is None:
            return Scalar(None, to)
        return Scalar(convert_value(operand.value, operand.type, to), to)
    if isinstance(operand, EncodedVector) and len(operand.dictionary) <= len(operand.ids):
        converted = _convert_entries(operand, to)
        if converted is not None:
            return converted
    vector = operand.decode() if isinstance(operand, EncodedVector) else operand
    return Vector(to, convert_values(vector.values, vector.type, to), vector.offsets, vector.nulls)


def _convert_entries(operand: EncodedVector, to: DataType) -> Vector | None:
    """Convert each dictionary entry once; None if one is invalid, as perhaps no row has it."""
    try:
        entries = convert_values(operand.dictionary.values, operand.type, to)
    except QueryError as error:
        if error.code is ErrorCode.QUERY_EXECUTION:
            return None
        raise
    return Vector(to, take(entries, operand.ids), operand.offsets, operand.nulls)


def convert_value(value: LiteralValue, source: DataType, to: DataType) -> LiteralValue:
    """Return one value as another type."""
    if source is to:
        return value
    converted: LiteralValue = python_values(convert_values(array_of([value], source), source, to))[0]
    return converted


def convert_values(values: Values, source: DataType, to: DataType) -> Values:
    """Return the storage of one type as that of another; raises QueryError where there is no conversion."""
    if source is to or (source.is_text and to.is_text and to is not DataType.MAP):
        return values
    if source.is_text:
        return _from_text(values, to)
    if to.is_text:
        return _to_text(values, source)
    if source.is_binary or to.is_binary:
        if source.is_binary and to.is_binary:
            if to is DataType.UUID and pc.any(pc.not_equal(pc.binary_length(values), _UUID_BYTES)).as_py():
                raise QueryError(
                    ErrorCode.QUERY_EXECUTION, f"BYTES can be read as UUID only if they are {_UUID_BYTES} bytes long"
                )
            return values
        raise no_conversion(source, to)
    if source is DataType.BIG_DECIMAL:
        return _from_decimal(values, to)
    if to is DataType.BIG_DECIMAL:
        numbers = values.astype(np.int8) if source is DataType.BOOLEAN else values
        numbers = numbers + 0  # which drops the sign of zero
        return array_of([Decimal(str(v)) for v in (numbers.tolist() if source is not DataType.FLOAT else numbers)], to)
    if to is DataType.BOOLEAN:
        return values != 0
    if source in _FLOATS and to in _INTEGERS:
        return saturate(values, numpy_dtype(to))
    with np.errstate(over="ignore"):
        return values.astype(numpy_dtype(to))


def saturate(values: "np.ndarray[Any, np.dtype[Any]]", dtype: "np.dtype[Any]") -> "np.ndarray[Any, np.dtype[Any]]":
    """Truncate floating-point numbers to integers of a dtype; NaN becomes 0, numbers out of range the nearest bound."""
    info = np.iinfo(dtype)
    # the largest LONG is not a double: comparing with the next power of two is exact
    too_large = values >= float(info.max) + (1 if dtype.itemsize < 8 else 0)
    too_small = values < float(info.min)
    safe = np.where(too_large | too_small | np.isnan(values), 0, values).astype(dtype)
    return np.where(too_large, info.max, np.where(too_small, info.min, safe)).astype(dtype, copy=False)


def no_conversion(source: DataType, to: DataType) -> QueryError:
    """Return the error for two types without a conversion."""
    return QueryError(ErrorCode.QUERY_VALIDATION, f"{source.value} cannot be converted to {to.value}")


# the number and size of the values that a Python function processes between two checks of the query's guard
_CHECKED_VALUES = 1 << 12
_CHECKED_BYTES = 1 << 18
_T = TypeVar("_T")


def by_dictionary(values: Values, function: Callable[[Any], Values]) -> Values:
    """Apply a column function to the distinct values."""
    encoded = pa.array(values).dictionary_encode()
    return take(function(encoded.dictionary), np.asarray(encoded.indices))


def by_distinct(values: Values, function: Callable[[Any], Any], to: DataType) -> Values:
    """Apply a Python function once to each distinct value. Raises QueryError if the query ends meanwhile."""
    encoded = pa.array(values).dictionary_encode()
    entries = encoded.dictionary
    step = _values_at_once(len(entries), entries.nbytes)
    results: list[Any] = []
    for start in range(0, len(entries), step):
        guard.check()
        results += [function(value) for value in entries[start : start + step].to_pylist()]
    return take(array_of(results, to), np.asarray(encoded.indices))


def watched(values: Sequence[_T], num_bytes: int) -> Iterator[_T]:
    """Yield values that are processed one by one in Python; raises QueryError if the query ends meanwhile.

    num_bytes: the total size of the values, from which the interval of checks follows.
    """
    step = _values_at_once(len(values), num_bytes)
    for number, value in enumerate(values):
        if not number % step:
            guard.check()
        yield value


def _values_at_once(num_values: int, num_bytes: int) -> int:
    return max(1, min(_CHECKED_VALUES, _CHECKED_BYTES * num_values // max(num_bytes, 1)))


def _from_decimal(values: Values, to: DataType) -> Values:
    if to is DataType.BOOLEAN:
        return np.array([bool(v) for v in values], dtype=np.bool_)
    if to in _FLOATS:
        return np.array([float(v) for v in values], dtype=numpy_dtype(to))
    info = np.iinfo(numpy_dtype(to))
    return np.array([_whole(v, info.min, info.max) for v in values], dtype=numpy_dtype(to))


def _whole(value: Decimal, least: int, most: int) -> int:
    """Truncate a decimal; as for doubles, NaN becomes 0 and numbers out of range the nearest bound.

    Decimal's own `min` and `max` would round to 28 digits.
    """
    if value.is_nan():
        return 0
    return least if value < least else most if value > most else int(value)


def _to_text(values: Values, source: DataType) -> Values:
    if source is DataType.TIMESTAMP:
        return timestamp_text(values)
    if source is DataType.DOUBLE:
        return _double_text(values)
    if source is DataType.FLOAT:
        return by_distinct(values, lambda v: java_float_text(np.float32(v)), DataType.STRING)
    if source is DataType.BIG_DECIMAL:
        return pa.array([format(v, "f") for v in values], pa.string())
    if source is DataType.BYTES:
        return by_distinct(values, bytes.hex, DataType.STRING)
    if source is DataType.UUID:
        return by_distinct(values, lambda v: str(uuid.UUID(bytes=v)), DataType.STRING)
    return pc.cast(pa.array(values), pa.string())


def _double_text(values: Values) -> Values:
    """Format doubles as Java does; Arrow's text is the same for those without exponent, except for `.0`."""
    sizes = np.abs(values)
    plain = (sizes >= 1e-3) & (sizes < 1e7)
    if not plain.all():
        out = np.empty(len(values), dtype=object)
        out[plain] = _double_text(values[plain]).to_pylist()
        out[~plain] = by_distinct(values[~plain], java_double_text, DataType.STRING).to_pylist()
        return pa.array(out, pa.string())
    text = pc.cast(pa.array(values), pa.string())
    whole = np.asarray(pc.find_substring(text, ".")) < 0
    return pc.binary_join_element_wise(text, pa.array(np.where(whole, ".0", "")), "")


def timestamp_text(millis: Values) -> Values:
    """Return timestamps as `2022-01-01 00:00:00.0`, in UTC, the fraction without trailing zeros."""
    text = pc.strftime(pa.array(millis, pa.timestamp("ms")), "%Y-%m-%d %H:%M:%S")
    return pc.replace_substring_regex(text, r"(\.\d(?:\d*[1-9])?)0*$", r"\1")


def _from_text(values: Values, to: DataType) -> Values:
    if to is DataType.BOOLEAN:
        lowered = pc.utf8_lower(values)
        return pc.or_(pc.equal(lowered, "true"), pc.equal(lowered, "1")).to_numpy(zero_copy_only=False)
    if to in (DataType.INT, DataType.LONG, *_FLOATS):
        parsed = _parse_numbers(values, to)
        if parsed is not None:
            return parsed
    return by_distinct(values, lambda text: parse_text(text, to), to)


def _parse_numbers(values: Values, to: DataType) -> Values | None:
    """Parse plain numbers with Arrow, which is fast; None if any text is not a plain number."""
    trimmed = pc.utf8_trim_whitespace(values)
    pattern = r"^-?[0-9]{1,18}$" if to in (DataType.INT, DataType.LONG) else r"^-?[0-9.]+([eE][-+]?[0-9]+)?$"
    if not pc.all(pc.match_substring_regex(trimmed, pattern), min_count=0).as_py():
        return None
    try:
        return pc.cast(trimmed, pa.from_numpy_dtype(numpy_dtype(to))).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None


_HINTS = {
    DataType.TIMESTAMP: "; write 'yyyy-MM-dd HH:mm:ss.SSS' or milliseconds since 1970",
    DataType.BYTES: "; write two hexadecimal digits for each byte",
    DataType.UUID: "; write 32 hexadecimal digits, as 6ba7b810-9dad-11d1-80b4-00c04fd430c8",
}


def parse_text(text: str, to: DataType) -> LiteralValue:
    """Parse a text as a value of a type; raises QueryError."""
    try:
        return _PARSERS[to](text)
    except (ValueError, InvalidOperation, OverflowError):
        raise QueryError(ErrorCode.QUERY_EXECUTION, f"'{text}' cannot be read as {to.value}{_HINTS.get(to, '')}") from None


def _parse_integer(least: int, most: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            number = int(number_text(text))
        except ValueError:
            decimal = Decimal(number_text(text))
            number = _whole(decimal, least, most)
        if not least <= number <= most:
            raise ValueError
        return number

    return parse


def _parse_decimal(text: str) -> Decimal:
    number = Decimal(number_text(text))
    if not number.is_finite():
        raise ValueError
    return number.copy_abs() if number.is_zero() else number


def _parse_bytes(text: str) -> bytes:
    return bytes.fromhex(text)


_PARSERS: dict[DataType, Callable[[str], LiteralValue]] = {
    DataType.INT: _parse_integer(-(2**31), 2**31 - 1),
    DataType.LONG: _parse_integer(-(2**63), 2**63 - 1),
    DataType.FLOAT: lambda text: float(number_text(text)),
    DataType.DOUBLE: lambda text: float(number_text(text)),
    DataType.BIG_DECIMAL: _parse_decimal,
    DataType.TIMESTAMP: parse_timestamp,
    DataType.BYTES: _parse_bytes,
    DataType.UUID: lambda text: uuid.UUID(text).bytes,
    DataType.MAP: lambda text: null_value_from_json(text, DataType.MAP),
}
