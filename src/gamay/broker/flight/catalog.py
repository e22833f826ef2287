"""Answers of Flight SQL's catalog commands as Arrow tables: pure functions.

Databases are Flight's schemas; there is one catalog, with an empty name.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from gamay.functions.arrow import arrow_type
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_name import database_of
from gamay.query.answer.response import wire_type
from gamay.relational.information_schema import shown_columns

CATALOG = ""
TABLE_TYPE = "TABLE"

_TEXT, _SMALL = pa.string(), pa.uint8()
CATALOGS = pa.schema([pa.field("catalog_name", _TEXT, nullable=False)])
DB_SCHEMAS = pa.schema([("catalog_name", _TEXT), pa.field("db_schema_name", _TEXT, nullable=False)])
TABLES = pa.schema(
    [
        ("catalog_name", _TEXT),
        ("db_schema_name", _TEXT),
        pa.field("table_name", _TEXT, nullable=False),
        pa.field("table_type", _TEXT, nullable=False),
    ]
)
TABLES_WITH_SCHEMAS = TABLES.append(pa.field("table_schema", pa.binary(), nullable=False))
TABLE_TYPES = pa.schema([pa.field("table_type", _TEXT, nullable=False)])
PRIMARY_KEYS = pa.schema(
    [
        ("catalog_name", _TEXT),
        ("db_schema_name", _TEXT),
        pa.field("table_name", _TEXT, nullable=False),
        pa.field("column_name", _TEXT, nullable=False),
        ("key_name", _TEXT),
        pa.field("key_sequence", pa.int32(), nullable=False),
    ]
)
FOREIGN_KEYS = pa.schema(
    [
        *(
            pa.field(f"{side}_{name}", _TEXT, nullable=name in ("catalog_name", "db_schema_name"))
            for side in ("pk", "fk")
            for name in ("catalog_name", "db_schema_name", "table_name", "column_name")
        ),
        pa.field("key_sequence", pa.int32(), nullable=False),
        ("fk_key_name", _TEXT),
        ("pk_key_name", _TEXT),
        pa.field("update_rule", _SMALL, nullable=False),
        pa.field("delete_rule", _SMALL, nullable=False),
    ]
)


def rows_of(schema: pa.Schema, rows: Iterable[Sequence[Any]]) -> pa.Table:
    """Return rows as an Arrow table."""
    listed = list(rows)
    columns = [pa.array([row[i] for row in listed], field.type) for i, field in enumerate(schema)]
    return pa.Table.from_arrays(columns, schema=schema)


def like(pattern: str | None, name: str) -> bool:
    """Whether a name matches a pattern with `%` for any text and `_` for one character; None matches all.

    >>> like("tr_p%", "trips"), like("trip", "trips"), like(None, "x")
    (True, False, True)
    """
    if pattern is None:
        return True
    parts = (".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return re.fullmatch("".join(parts), name, re.DOTALL | re.IGNORECASE) is not None


def is_here(catalog: str | None) -> bool:
    """Whether a command refers to the only catalog, explicitly or by naming none."""
    return catalog in (None, CATALOG)


def catalogs() -> pa.Table:
    """Return the only catalog."""
    return rows_of(CATALOGS, [(CATALOG,)])


def db_schemas(databases: Iterable[str], catalog: str | None, pattern: str | None) -> pa.Table:
    """Return the databases whose names match."""
    found = sorted(name for name in set(databases) if is_here(catalog) and like(pattern, name))
    return rows_of(DB_SCHEMAS, [(CATALOG, name) for name in found])


def tables(
    schemas: Mapping[str, Schema],
    catalog: str | None,
    databases: str | None,
    names: str | None,
    types: Sequence[str],
    *,
    with_schemas: bool,
) -> pa.Table:
    """Return the tables that match. schemas: by raw name. databases, names: patterns."""
    rows: list[tuple[Any, ...]] = []
    if is_here(catalog) and (not types or TABLE_TYPE in types):
        for full in schemas:
            database, name = database_of(full), bare_name(full)
            if like(databases, database) and like(names, name):
                rows.append((CATALOG, database, name, TABLE_TYPE, full))
    rows.sort()
    if not with_schemas:
        return rows_of(TABLES, rows)
    shown = [(*row[:4], table_schema(row[2], schemas[row[4]]).serialize().to_pybytes()) for row in rows]
    return rows_of(TABLES_WITH_SCHEMAS, shown)


def bare_name(full: str) -> str:
    """Return the name of a table without its database."""
    return full.removeprefix(f"{database_of(full)}.")


def table_schema(name: str, schema: Schema) -> pa.Schema:
    """Return the columns of `SELECT *`, in its order, with Flight SQL's metadata of each."""
    return pa.schema([_column(name, schema.field(column)) for column in shown_columns(schema)])


def _column(table: str, spec: FieldSpec) -> pa.Field:
    metadata = {
        "ARROW:FLIGHT:SQL:TABLE_NAME": table,
        "ARROW:FLIGHT:SQL:TYPE_NAME": wire_type(spec.data_type, not spec.single_value),
        "ARROW:FLIGHT:SQL:IS_AUTO_INCREMENT": "0",
        "ARROW:FLIGHT:SQL:IS_READ_ONLY": "1",
        "ARROW:FLIGHT:SQL:IS_SEARCHABLE": "1",
    }
    return pa.field(spec.name, arrow_type(spec.data_type, spec.single_value), metadata=metadata)


def primary_keys(schemas: Mapping[str, Schema], catalog: str | None, database: str | None, table: str) -> pa.Table:
    """Return the columns of a table's primary key; empty for a table without one or an unknown table."""
    rows = [
        (CATALOG, database_of(full), bare_name(full), column, None, number)
        for full, schema in sorted(schemas.items())
        if is_here(catalog) and database in (None, database_of(full)) and bare_name(full).lower() == table.lower()
        for number, column in enumerate(schema.primary_key_columns, 1)
    ]
    return rows_of(PRIMARY_KEYS, rows)
