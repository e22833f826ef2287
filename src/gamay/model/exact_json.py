"""Exact JSON of column values, for Gamay's own records: floats and decimals are texts, bytes are hexadecimal."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

from gamay.model.types import DataType

ExactValue: TypeAlias = int | float | str | bool | bytes | Decimal | None


def value_to_json(value: ExactValue, data_type: DataType) -> Any:
    """Return a lossless JSON form."""
    if value is None:
        return None
    if data_type in (DataType.FLOAT, DataType.DOUBLE):
        return repr(float(value))
    if isinstance(value, Decimal):
        return format(value, "f")
    return value.hex() if isinstance(value, bytes) else value


def value_from_json(value: Any, data_type: DataType) -> ExactValue:
    """Invert `value_to_json`."""
    read = reader_of(data_type)
    plain: ExactValue = value if value is None or read is None else read(value)
    return plain


def reader_of(data_type: DataType) -> Callable[[str], ExactValue] | None:
    """Return the function that parses a value's JSON form, None if both are the same."""
    if data_type in (DataType.FLOAT, DataType.DOUBLE):
        return float
    if data_type is DataType.BIG_DECIMAL:
        return Decimal
    return bytes.fromhex if data_type.is_binary else None
