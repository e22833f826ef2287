"""The catalog: tables and their columns, read from `information_schema`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

COLUMNS_QUERY = (
    "SELECT table_schema, table_name, column_name, data_type, field_type, is_multi_value, date_time_format "
    "FROM information_schema.columns ORDER BY table_schema, table_name, ordinal_position LIMIT 1000000"
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column. data_type: as schemas write it; role: DIMENSION, METRIC, …; format: of a time column, else empty."""

    name: str
    data_type: str
    role: str
    is_multi_value: bool
    format: str = ""

    @property
    def shown_type(self) -> str:
        """The type, with `[]` for lists, and the format of times."""
        text = f"{self.data_type}[]" if self.is_multi_value else self.data_type
        return f"{text} ({self.format})" if self.format and self.format != "TIMESTAMP" else text


class Catalog:
    """Tables with their columns, by name; names are found in any case."""

    def __init__(self, tables: Mapping[str, Sequence[Column]]) -> None:
        self.tables = dict(tables)
        self._by_folded = {name.lower(): name for name in tables}

    def columns(self, table: str) -> Sequence[Column]:
        """Return the columns of a table, none for an unknown one."""
        return self.tables.get(self._by_folded.get(table.lower(), ""), ())

    def name(self, table: str) -> str | None:
        """Return the name of a table as it was created."""
        return self._by_folded.get(table.lower())


def read_catalog(ask: Callable[[str], Iterable[tuple[Any, ...]]]) -> Catalog:
    """Return the tables that the user may query. ask: returns the rows of a query. Raises QueryError."""
    found: dict[str, list[Column]] = {}
    for database, table, name, data_type, role, is_multi_value, written in ask(COLUMNS_QUERY):
        full = table if database == "default" else f"{database}.{table}"
        found.setdefault(full, []).append(Column(name, data_type, role, bool(is_multi_value), written))
    return Catalog(found)
