"""The common parts of validation rules: their subject, and the lookup of columns."""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.table_config import TableConfig

# text of an expression -> the columns it reads; raises a GamayError if it cannot be parsed. `gamay.sql`, which is above
# this package, parses expressions, so the caller of the validation passes it in.
ColumnsOf: TypeAlias = Callable[[str], Collection[str]]


@dataclass(frozen=True)
class TableSubject:
    """A table config with its schema.

    columns_of, volatile_in: None to skip the check of expressions; the latter returns the functions of an expression that
    depend on time or randomness. stored: the table's present config, None for a new one.
    """

    config: TableConfig
    schema: Schema
    columns_of: ColumnsOf | None = None
    volatile_in: ColumnsOf | None = None
    stored: TableConfig | None = None


TableRule: TypeAlias = Callable[[TableSubject], Iterator[str]]


def missing_column(schema: Schema, column: str, where: str) -> str | None:
    """Return the sentence for a column that does not exist, None if it does."""
    if column in schema:
        return None
    return f"{where} names the column '{column}', which the schema does not have.{nearest(column, schema.column_names)}"


def known_columns(schema: Schema, columns: Iterable[str], where: str, problems: list[str]) -> Iterator[FieldSpec]:
    """Yield the specs of the columns that exist and record the others."""
    for column in columns:
        missing = missing_column(schema, column, where)
        if missing:
            problems.append(missing)
        else:
            yield schema.field(column)


def duplicates(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, in the order of their second occurrence."""
    seen: set[str] = set()
    twice: dict[str, None] = {}
    for name in names:
        if name in seen:
            twice[name] = None
        seen.add(name)
    return list(twice)


def complaint(check: Callable[[], object], where: str) -> Iterator[str]:
    """Yield the message of a parser that rejects a value."""
    try:
        check()
    except InvalidConfigError as error:
        yield f"{where}: {error}"
