"""Table names: raw (`trips`) and typed (`trips_OFFLINE`), optionally after a database (`sales.trips`)."""

from collections.abc import Iterator
from enum import Enum

from gamay.base.errors import InvalidConfigError

# of tables whose names say none
DEFAULT_DATABASE = "default"


class TableType(Enum):
    """How a table is fed: from files, or from a stream."""

    OFFLINE = "OFFLINE"
    REALTIME = "REALTIME"


_SUFFIXES = tuple(f"_{table_type.value}" for table_type in TableType)


def table_type_of(name: str) -> TableType | None:
    """Return the type that the name's suffix says, None for a raw name.

    >>> table_type_of("trips_OFFLINE"), table_type_of("trips")
    (<TableType.OFFLINE: 'OFFLINE'>, None)
    """
    return next((t for t in TableType if name.endswith(f"_{t.value}")), None)


def raw_table_name(name: str) -> str:
    """Return the name without its type suffix, if it has one."""
    for suffix in _SUFFIXES:
        if name.endswith(suffix):
            return name.removesuffix(suffix)
    return name


def typed_table_name(name: str, table_type: TableType) -> str:
    """Return the typed name of a raw name, or of a name that is typed so already.

    Raises InvalidConfigError when the name carries the other type.
    """
    suffix_type = table_type_of(name)
    if suffix_type not in (None, table_type):
        raise InvalidConfigError(
            f"the table name '{name}' ends with the other type's suffix than its type {table_type.value}"
        )
    return f"{raw_table_name(name)}_{table_type.value}"


def database_of(name: str) -> str:
    """Return the database of a table or schema.

    >>> database_of("sales.trips_OFFLINE"), database_of("trips")
    ('sales', 'default')
    """
    database, dot, _ = name.partition(".")
    return database if dot else DEFAULT_DATABASE


def in_database(name: str, database: str) -> str:
    """Return the full name of what a request about a database calls by `name`.

    >>> in_database("trips", "sales"), in_database("sales.trips", "sales"), in_database("trips", "default")
    ('sales.trips', 'sales.trips', 'trips')

    Raises InvalidConfigError when the name is of another database.
    """
    if "." in name:
        named, _, rest = name.partition(".")
        if named != database:
            raise InvalidConfigError(f"'{name}' is not in the database '{database}' that the request's header names")
        return rest if named == DEFAULT_DATABASE else name
    return name if database == DEFAULT_DATABASE else f"{database}.{name}"


def name_problems(raw_name: str, what: str = "table name") -> Iterator[str]:
    """Yield what is wrong with a raw table or schema name, one sentence each."""
    if not raw_name:
        yield f"the {what} is empty"
    if any(c.isspace() for c in raw_name):
        yield f"the {what} '{raw_name}' contains white space"
    if "__" in raw_name:
        yield f"the {what} '{raw_name}' contains '__', which separates the parts of segment names"
    if raw_name.count(".") > 1 or raw_name.startswith(".") or raw_name.endswith("."):
        yield f"the {what} '{raw_name}' may contain one dot at most, between database and table"
    if any(c in raw_name for c in "/\\") or not raw_name.isprintable():
        yield f"the {what} '{raw_name}' contains a slash, a backslash or a control character"
