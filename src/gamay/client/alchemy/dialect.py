"""The dialect: its URLs, and the inspection of tables and columns."""

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from sqlalchemy import exc, pool
from sqlalchemy.engine import default
from sqlalchemy.engine.url import URL

from gamay.client.alchemy.compiler import DEFAULT_SCHEMA, LIMIT_MAX, GamayCompiler, GamayIdentifiers, GamayTypeCompiler
from gamay.client.alchemy.types import sqlalchemy_type

_TABLES = "SELECT table_schema, table_name FROM information_schema.tables LIMIT 2147483647"
_COLUMNS = (
    "SELECT column_name, data_type, is_multi_value FROM information_schema.columns "
    "WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position LIMIT 2147483647"
)
_KEYS = (
    "SELECT column_name FROM information_schema.key_column_usage "
    "WHERE table_schema = ? AND table_name = ? ORDER BY ordinal_position LIMIT 2147483647"
)
_FLAGS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_NUMBERS = ("timeout_s", "connect_timeout_s")
_TEXTS = ("options", "sql_path", "auth_token")
_KNOWN = ("tls", "verify", "ca", "controller", "row_limit", *_NUMBERS, *_TEXTS)


class GamayDialect(default.DefaultDialect):
    """Dialect for `gamay://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?…]`; HOST is a broker's.

    After `?`: `tls=true` for https, `ca=FILE` for the trusted authorities, `verify=false` to skip the check of certificates;
    `controller=URL` instead of HOST, to look up the brokers; `timeout_s`, `connect_timeout_s`; `options=k=v;k2=v2` for every
    query; `row_limit`, the LIMIT of a SELECT without one. `connect_args` are the fields of
    `gamay.client.connection.Settings`.
    """

    name = "gamay"
    driver = "http"
    default_paramstyle = "pyformat"
    statement_compiler = GamayCompiler
    type_compiler_cls = GamayTypeCompiler
    preparer = GamayIdentifiers
    poolclass = pool.QueuePool
    supports_statement_cache = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_uuid = True
    supports_alter = False
    supports_sequences = False
    supports_default_values = False
    supports_sane_rowcount = False
    supports_sane_multi_rowcount = False
    postfetch_lastrowid = False
    preexecute_autoincrement_sequences = False
    insert_returning = False
    supports_multivalues_insert = False
    supports_simple_order_by_label = True
    returns_native_bytes = True
    div_is_floordiv = False
    row_limit = LIMIT_MAX
    default_schema_name = DEFAULT_SCHEMA

    @classmethod
    def import_dbapi(cls) -> ModuleType:
        """Return the module of DB-API."""
        import gamay.client

        return gamay.client

    def create_connect_args(self, url: URL) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments of `gamay.client.connect`. Raises ArgumentError for an unknown or malformed URL parameter."""
        given = {name: value if isinstance(value, str) else value[-1] for name, value in url.query.items()}
        if unknown := sorted(set(given) - set(_KNOWN)):
            raise exc.ArgumentError(f"gamay:// has no parameter '{unknown[0]}'; it has {', '.join(_KNOWN)}")
        settings: dict[str, Any] = {name: given[name] for name in _TEXTS if name in given}
        settings |= {name: _number(name, given[name]) for name in _NUMBERS if name in given}
        if "row_limit" in given:
            self.row_limit = int(_number("row_limit", given["row_limit"]))
        if url.username is not None:
            settings |= {"user": url.username, "password": url.password or ""}
        if url.database:
            settings["database"] = self.default_schema_name = url.database
        settings |= _verification(given)
        if "controller" in given:
            return [], {**settings, "controller": given["controller"]}
        scheme = "https" if _flag("tls", given.get("tls", "false")) else "http"
        return [], {**settings, "host": url.host or "localhost", "port": url.port or 8099, "scheme": scheme}

    def initialize(self, connection: Any) -> None:
        """Do nothing: the dialect does not depend on the broker."""

    def do_ping(self, dbapi_connection: Any) -> bool:
        """Check that the connection works, by a query of one row."""
        dbapi_connection.cursor().execute("SELECT 1")
        return True

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Do nothing: queries change nothing."""

    def do_commit(self, dbapi_connection: Any) -> None:
        """Do nothing: queries change nothing."""

    def get_schema_names(self, connection: Any, **_: Any) -> list[str]:
        """Return the databases."""
        return sorted({DEFAULT_SCHEMA, *(schema for schema, _ in _rows(connection, _TABLES))})

    def get_table_names(self, connection: Any, schema: str | None = None, **_: Any) -> list[str]:
        """Return the tables of a database that the user may query."""
        wanted = schema or self.default_schema_name
        return sorted(name for found, name in _rows(connection, _TABLES) if found == wanted)

    def has_table(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> bool:
        """Whether there is a table."""
        return table_name in self.get_table_names(connection, schema)

    def get_columns(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> list[Any]:
        """Return the columns of a table. Raises NoSuchTableError."""
        found = _rows(connection, _COLUMNS, (schema or self.default_schema_name, table_name))
        if not found:
            raise exc.NoSuchTableError(table_name)
        return [
            {
                "name": name,
                "type": sqlalchemy_type(data_type, multi_value=is_list),
                "nullable": True,
                "default": None,
                "autoincrement": False,
            }
            for name, data_type, is_list in found
        ]

    def get_pk_constraint(self, connection: Any, table_name: str, schema: str | None = None, **_: Any) -> Any:
        """Return the primary key of a table."""
        found = _rows(connection, _KEYS, (schema or self.default_schema_name, table_name))
        return {"constrained_columns": [name for (name,) in found], "name": None}

    def get_foreign_keys(self, *_: Any, **__: Any) -> list[Any]:
        """Return an empty list: there are no foreign keys."""
        return []

    get_view_names = get_indexes = get_unique_constraints = get_check_constraints = get_foreign_keys

    def get_table_comment(self, *_: Any, **__: Any) -> Any:
        """Return none: tables have no comments."""
        return {"text": None}


def _rows(connection: Any, sql: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    from gamay.client.literals import filled

    return [tuple(row) for row in connection.exec_driver_sql(filled(sql, parameters) if parameters else sql)]


def _verification(given: Mapping[str, str]) -> dict[str, Any]:
    if "ca" in given:
        import ssl

        try:
            return {"verify": ssl.create_default_context(cafile=given["ca"])}
        except OSError as error:
            raise exc.ArgumentError(f"ca={given['ca']}: cannot read the authorities: {error.strerror or error}") from error
    return {"verify": _flag("verify", given["verify"])} if "verify" in given else {}


def _flag(name: str, text: str) -> bool:
    if text.lower() not in _FLAGS:
        raise exc.ArgumentError(f"{name}={text}: it must be true or false")
    return _FLAGS[text.lower()]


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise exc.ArgumentError(f"{name}={text}: it must be a number") from None
