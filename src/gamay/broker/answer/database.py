"""The database of a query's tables: named by the request's header, the option `database`, or a prefix of the table name."""

from collections.abc import Mapping

from gamay.base.errors import ErrorCode, QueryError
from gamay.model.table.table_name import DEFAULT_DATABASE


def database_of_request(header: str | None, options: Mapping[str, str]) -> str | None:
    """Return the database that the request's header or the option `database` names, or None.

    Raises QueryError 700 when they name different ones.
    """
    option = options.get("database")
    if header and option and header.lower() != option.lower():
        raise _conflict(f"the header names the database '{header}', the query option '{option}'")
    return header or option or None


def full_table_name(name: str, database: str | None) -> str:
    """Return the full name of a table that a query refers to as `name`.

    >>> full_table_name("trips", "sales"), full_table_name("sales.trips", None), full_table_name("default.trips", None)
    ('sales.trips', 'sales.trips', 'trips')

    Raises QueryError 700 if the name's database differs from the request's; the database `default` has no prefix.
    """
    is_default = database is None or database.lower() == DEFAULT_DATABASE
    prefix, dot, rest = name.partition(".")
    if not dot:
        return name if is_default else f"{database}.{name}"
    if not is_default and database and prefix.lower() != database.lower():
        raise _conflict(f"the table '{name}' is not in the database '{database}' that the request names")
    return rest if prefix.lower() == DEFAULT_DATABASE else name


def _conflict(reason: str) -> QueryError:
    return QueryError(ErrorCode.QUERY_VALIDATION, f"Database conflict: {reason}")
