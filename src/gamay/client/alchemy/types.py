"""Mapping of Gamay's types to SQLAlchemy's."""

from typing import Any

from sqlalchemy import types

_TYPES: dict[str, type[types.TypeEngine[Any]]] = {
    "INT": types.Integer,
    "LONG": types.BigInteger,
    "FLOAT": types.Float,
    "DOUBLE": types.Double,
    "BIG_DECIMAL": types.Numeric,
    "BOOLEAN": types.Boolean,
    "STRING": types.String,
    "JSON": types.String,
    "MAP": types.String,
    "BYTES": types.LargeBinary,
    "UUID": types.Uuid,
}


def sqlalchemy_type(data_type: str, *, multi_value: bool = False) -> types.TypeEngine[Any]:
    """Return the type of a column. JSON and maps are strings, as in answers; timestamps are timezone-aware, in UTC."""
    if data_type == "TIMESTAMP":
        found: types.TypeEngine[Any] = types.TIMESTAMP(timezone=True)
    else:
        found = _TYPES.get(data_type, types.NullType)()
    return types.ARRAY(found) if multi_value else found
