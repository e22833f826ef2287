"""The tables a sender may query, as views: standard SQL's `information_schema.tables`, `.columns` and
`.key_column_usage`."""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from gamay.functions.expression import Literal
from gamay.functions.registry import ValueType
from gamay.model.schema.schema import Schema
from gamay.model.table.table_name import database_of
from gamay.model.types import DataType
from gamay.sql.relational import INFORMATION_SCHEMA

_Row: TypeAlias = tuple[str | int | bool, ...]

_STRING: ValueType = (DataType.STRING, False)
_INT: ValueType = (DataType.INT, False)
_BOOLEAN: ValueType = (DataType.BOOLEAN, False)

_COLUMNS: dict[str, dict[str, ValueType]] = {
    "tables": {"table_schema": _STRING, "table_name": _STRING, "table_type": _STRING},
    "columns": {
        "table_schema": _STRING,
        "table_name": _STRING,
        "column_name": _STRING,
        "ordinal_position": _INT,
        "data_type": _STRING,
        "field_type": _STRING,
        "is_multi_value": _BOOLEAN,
        "date_time_format": _STRING,
    },
    "key_column_usage": {
        "constraint_name": _STRING,
        "table_schema": _STRING,
        "table_name": _STRING,
        "column_name": _STRING,
        "ordinal_position": _INT,
    },
}


def view_columns(table: str) -> dict[str, ValueType] | None:
    """Return the columns of a view named `information_schema.x`; None if it does not exist."""
    database, _, name = table.lower().partition(".")
    return _COLUMNS.get(name) if database == INFORMATION_SCHEMA else None


def view_rows(table: str, schemas: Mapping[str, Schema]) -> tuple[tuple[Literal, ...], ...]:
    """Return the rows of a view. schemas: of all visible tables, by raw name."""
    rows = _ROWS[table.lower().partition(".")[2]]
    types = [data_type for data_type, _ in (view_columns(table) or {}).values()]
    return tuple(
        tuple(Literal(cell, data_type) for cell, data_type in zip(row, types, strict=True))
        for name in sorted(schemas)
        for row in rows(database_of(name), name.removeprefix(f"{database_of(name)}."), schemas[name])
    )


def shown_columns(schema: Schema) -> list[str]:
    """Return the columns of `*`, in its order."""
    return sorted(name for name in schema.column_names if not name.startswith("$"))


def _tables(database: str, name: str, schema: Schema) -> Iterator[_Row]:
    yield database, name, "BASE TABLE"


def _columns(database: str, name: str, schema: Schema) -> Iterator[_Row]:
    for position, column in enumerate(shown_columns(schema), 1):
        spec = schema.field(column)
        written = "" if spec.format is None else spec.format.text
        yield database, name, column, position, spec.data_type.value, spec.role.name, not spec.single_value, written


def _key_columns(database: str, name: str, schema: Schema) -> Iterator[_Row]:
    for position, column in enumerate(schema.primary_key_columns, 1):
        yield "PRIMARY", database, name, column, position


_ROWS: dict[str, Callable[[str, str, Schema], Iterator[_Row]]] = {
    "tables": _tables,
    "columns": _columns,
    "key_column_usage": _key_columns,
}
