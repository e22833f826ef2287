"""Default null values: the stored values of missing ones, by role and type, and their JSON form."""

import json
import math
import uuid
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias

from gamay.model.number_text import number_text
from gamay.model.types import DataType, FieldRole
from gamay.model.zones import format_timestamp, parse_timestamp

NullValue: TypeAlias = int | float | str | bool | bytes | Decimal

_INT_MIN, _LONG_MIN = -(2**31), -(2**63)

_DIMENSION: Mapping[DataType, NullValue] = {
    DataType.INT: _INT_MIN,
    DataType.LONG: _LONG_MIN,
    DataType.FLOAT: -math.inf,
    DataType.DOUBLE: -math.inf,
    DataType.BIG_DECIMAL: Decimal(0),
    DataType.BOOLEAN: False,
    DataType.TIMESTAMP: 0,
    DataType.STRING: "null",
    DataType.JSON: "null",
    DataType.BYTES: b"",
    DataType.UUID: bytes(16),
}
_METRIC: Mapping[DataType, NullValue] = {
    DataType.INT: 0,
    DataType.LONG: 0,
    DataType.FLOAT: 0.0,
    DataType.DOUBLE: 0.0,
    DataType.BIG_DECIMAL: Decimal(0),
    DataType.BYTES: b"",
}

_COMPLEX: Mapping[DataType, NullValue] = {DataType.MAP: "{}"}

COLUMN_TYPES = tuple(_DIMENSION)  # the types that a column can have
METRIC_TYPES = tuple(_METRIC)  # the types that a metric can have


def default_null_value(data_type: DataType, role: FieldRole) -> NullValue:
    """Return the default null value of a column of a type and role, in its Python form.

    INT, LONG, TIMESTAMP (milliseconds): int. FLOAT, DOUBLE: float. BIG_DECIMAL: Decimal. BOOLEAN: bool. STRING, JSON,
    MAP: str. BYTES, UUID: bytes.
    """
    if data_type in _COMPLEX:
        return _COMPLEX[data_type]
    by_role = _METRIC if role is FieldRole.METRIC else _DIMENSION
    return by_role.get(data_type, _DIMENSION[data_type])


def null_value_from_json(value: Any, data_type: DataType) -> NullValue:
    """Return the Python form of a `defaultNullValue`; raises ValueError that says what is expected."""
    if data_type.is_text and isinstance(value, list | dict):
        value = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        return value if data_type is not DataType.MAP else _object(value)
    if isinstance(value, list | dict):
        raise ValueError(f"a list or object cannot be a default of type {data_type.value}")
    text = ("true" if value else "false") if isinstance(value, bool) else str(value)
    if data_type.is_numeric and "_" in text:
        raise ValueError(f"'{text}' is not a number")  # only Python allows 1_000
    return _READERS[data_type](text)


def null_value_to_json(value: NullValue, data_type: DataType) -> Any:
    """Return the JSON form, which `null_value_from_json` parses to the same value."""
    if isinstance(value, bytes):
        return str(uuid.UUID(bytes=value)) if data_type is DataType.UUID else value.hex()
    if isinstance(value, Decimal):
        return f"{value:f}"  # as text, because JSON parsers turn numbers into doubles
    if isinstance(value, float) and math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if data_type is DataType.TIMESTAMP and isinstance(value, int):
        return format_timestamp(value)
    return value


def _integer(low: int, high: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(number_text(text))
        except ValueError:
            raise ValueError(f"'{text}' is not a whole number") from None
        if not low <= value <= high:
            raise ValueError(f"{value} is outside {low} to {high}")
        return value

    return read


def _floating(text: str) -> float:
    try:
        value = float(number_text(text))
    except ValueError:
        raise ValueError(f"'{text}' is not a number") from None
    if math.isnan(value):
        raise ValueError("NaN cannot be a default: it equals nothing, not even itself")
    return value


def _decimal(text: str) -> Decimal:
    try:
        value = Decimal(number_text(text))
    except (ValueError, InvalidOperation):
        raise ValueError(f"'{text}' is not a decimal number") from None
    if not value.is_finite():
        raise ValueError(f"'{text}' is not a finite decimal number")
    return value


def _flag(text: str) -> bool:
    folded = text.strip().lower()
    if folded not in ("true", "false", "1", "0"):
        raise ValueError(f"'{text}' is not one of true, false, 1, 0")
    return folded in ("true", "1")


def _object(text: str) -> str:
    """Return the text of a JSON object in the canonical form that maps are stored in."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"'{text}' is not a JSON object")
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def _timestamp(text: str) -> int:
    value = parse_timestamp(text)
    format_timestamp(value)  # raises outside the years that can be written back
    return value


_READERS: Mapping[DataType, Callable[[str], NullValue]] = {
    DataType.INT: _integer(_INT_MIN, -_INT_MIN - 1),
    DataType.LONG: _integer(_LONG_MIN, -_LONG_MIN - 1),
    DataType.FLOAT: _floating,
    DataType.DOUBLE: _floating,
    DataType.BIG_DECIMAL: _decimal,
    DataType.BOOLEAN: _flag,
    DataType.TIMESTAMP: _timestamp,
    DataType.STRING: str,
    DataType.JSON: str,
    DataType.MAP: _object,
    DataType.BYTES: lambda text: bytes.fromhex(text.strip()),
    DataType.UUID: lambda text: uuid.UUID(text.strip()).bytes,
}
