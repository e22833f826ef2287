"""A data folder opened in this process: tables from data in one line, and SQL on them. No server, no Spark, no Java."""

import warnings
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from gamay.base.errors import ConflictError, ErrorCode, GamayError, InvalidConfigError, NotFoundError, QueryError, nearest
from gamay.controller.periodic import PeriodicTask, PeriodicTasks
from gamay.embedded.core import LocalCluster
from gamay.embedded.memory import TRIM_S, trim
from gamay.embedded.result import Result
from gamay.model.parse import Parsed
from gamay.model.schema import Schema
from gamay.model.table_config import TableConfig
from gamay.model.table_name import TableType, raw_table_name, typed_table_name

if TYPE_CHECKING:
    from gamay.controller.writer import TableWriter
    from gamay.embedded.sources import Source


class ClosedError(GamayError):
    """The database was closed; open it again with `gamay.connect`."""


def connect(path: str | Path, *, threads: int | None = None) -> "Database":
    """Open a data folder, or make one.

        db = gamay.connect("data")
        db.create_table("trips", "trips/*.parquet")
        db.sql("SELECT city, COUNT(*) FROM trips GROUP BY city").to_pandas()

    threads: how many work on one query, as many as there are cores by default.
    Raises InUseError when another process has the folder, InvalidConfigError for a path or a number that cannot be.
    """
    return Database(path, threads=threads)


class Database:
    """Tables in a data folder. Its methods may be called from any thread; after `close` they raise ClosedError."""

    def __init__(self, path: str | Path, *, threads: int | None = None) -> None:
        if threads is not None and (not isinstance(threads, int) or threads < 1):
            raise InvalidConfigError(f"threads must be a whole number from 1, not {threads!r}")
        # A folder may hold far more than what is asked for, so checksums are compared column by column, on first use.
        self._open_cluster: LocalCluster | None = LocalCluster(path, threads=threads, verify_on_use=True)
        self._path = self._cluster.layout.root
        try:
            self._cluster.prepare()
            self._cluster.start()
            memory = PeriodicTask("MemoryTrim", TRIM_S, trim)
            self._periodic = PeriodicTasks([memory], self._cluster.clock)
            self._periodic.start()
        except BaseException:
            self._cluster.stop()
            raise

    def create_table(
        self,
        name: str,
        data: Any = None,
        schema: Mapping[str, Any] | Schema | None = None,
        config: Mapping[str, Any] | TableConfig | None = None,
    ) -> None:
        """Create a table, and fill it when there is data: see `append` for what that can be.

            db.create_table("trips", frame)
            db.create_table("trips", frame, config={"tableIndexConfig": {"invertedIndexColumns": ["city"]}})

        schema: inferred from the data unless given. config: a plain one unless given; both may be JSON documents as Pinot
        has them; keys that mean nothing are told as a UserWarning. When the data cannot be read, no table is left behind.
        Raises ConflictError when the table exists, InvalidConfigError, RecordError.
        """
        cluster = self._cluster
        table = typed_table_name(name, TableType.OFFLINE)
        raw = raw_table_name(name)
        if table in cluster.tables.names():
            raise ConflictError(f"table '{raw}' exists already: append to it, or drop it first")
        source = None if data is None else _open_source(data)
        schema_document = self._schema_document(raw, schema, source)
        existed = cluster.registry.get_schema(raw) is not None
        _warn_of_unknown("schema", cluster.schemas.add(schema_document))
        try:
            _warn_of_unknown("table config", cluster.tables.add(_config_document(raw, config)))
            cluster.wait_until_routed(table)
            if source is not None:
                self._append(table, source)
        except BaseException:
            if table in cluster.tables.names():
                self.drop_table(raw)
            elif not existed:
                cluster.registry.delete_schema(raw)
            raise

    def append(self, name: str, data: Any) -> None:
        """Add rows.

        data: an Arrow table, batch or reader, a pandas or Polars (also lazy) DataFrame, or files: a path, a folder, a
        pattern like `trips/*.csv`, or a list of those. Columns are found by their names.
        When this returns, the rows are durable and visible to queries; when it raises, none was added.
        Raises NotFoundError for an unknown table, RecordError for a row that does not fit the schema.
        """
        self._append(self._table(name), _open_source(data))

    def sql(self, text: str, **options: Any) -> Result:
        """Answer a query, in Pinot's SQL. options: query options such as `timeoutMs=500`. Raises QueryError.

        The answer shows itself in a notebook; take it on with `rows`, `to_arrow`, `to_pandas` or `to_polars`.
        """
        if not isinstance(text, str):
            raise InvalidConfigError(f"a query is a text like 'SELECT COUNT(*) FROM trips', not {type(text).__name__}")
        named = {name: str(value) for name, value in options.items()} if options else None
        response = self._cluster.runner.run(text, named)
        if response.exceptions:
            code, message = response.exceptions[0]
            kind = next((known for known in ErrorCode if known.code == code), ErrorCode.UNKNOWN)
            raise QueryError(kind, message.removeprefix(f"{kind.label}: "))
        return Result(response)

    def tables(self) -> list[str]:
        """Return the names of all tables, ascending."""
        return sorted({raw_table_name(table) for table in self._cluster.tables.names()})

    def schema(self, name: str) -> Schema:
        """Return a table's schema. Raises NotFoundError."""
        return self._cluster.tables.schema_of(self._table(name))

    def segments(self, name: str) -> dict[str, int]:
        """Return the names of a table's segments with their numbers of rows, by name. Raises NotFoundError."""
        return {record.name: record.total_docs for record in self._cluster.registry.segments(self._table(name))}

    def drop_table(self, name: str) -> None:
        """Remove a table, its schema and all its rows; the space is freed at once. Raises NotFoundError."""
        table, cluster = self._table(name), self._cluster
        cluster.tables.delete(table, retention="0d")
        cluster.registry.delete_schema(raw_table_name(table))
        cluster.wait_until_gone(table)

    def close(self) -> None:
        """Let go of the folder. Nothing is lost by not calling it."""
        cluster, self._open_cluster = self._open_cluster, None
        if cluster is not None:
            self._periodic.stop()
            cluster.stop()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._open_cluster is None:
            return f"<gamay database {self._path}, closed>"
        return f"<gamay database {self._path}, tables: {', '.join(self.tables()) or 'none'}>"

    @property
    def _cluster(self) -> LocalCluster:
        if self._open_cluster is None:
            raise ClosedError(f"the database {self._path} is closed: open it again with gamay.connect('{self._path}')")
        return self._open_cluster

    @cached_property
    def _writer(self) -> "TableWriter":
        # Loaded on first use: who only asks must not wait for what only writing needs.
        from gamay.controller.writer import TableWriter

        return TableWriter(self._cluster.context, self._cluster.tables, self._cluster.segments)

    def _table(self, name: str) -> str:
        if not isinstance(name, str):
            raise InvalidConfigError(f"a table is named by a text, not by {type(name).__name__}")
        table = typed_table_name(name, TableType.OFFLINE)
        if table not in self._cluster.tables.names():
            known = self.tables()
            hint = nearest(name, known) or (f" There are: {', '.join(known)}" if known else " There is no table yet")
            raise NotFoundError(f"there is no table '{name}'.{hint}")
        return table

    def _append(self, table: str, source: "Source") -> None:
        raw, cluster = raw_table_name(table), self._cluster
        stamp = cluster.clock.now_ms()
        taken = set(cluster.registry.segment_names(table))
        while any(name.startswith(f"{raw}_{stamp}_") for name in taken):
            stamp += 1
        records = self._writer.write(table, source.rows, lambda n: f"{raw}_{stamp}_{n}")
        cluster.wait_until_visible(table, [record.name for record in records])

    @staticmethod
    def _schema_document(name: str, schema: Mapping[str, Any] | Schema | None, source: "Source | None") -> dict[str, Any]:
        if isinstance(schema, Schema):
            return {**schema.to_json(), "schemaName": name}
        if isinstance(schema, Mapping):
            return {**schema, "schemaName": name}
        if schema is not None:
            raise InvalidConfigError(f"a schema is a JSON document (dict) or a Schema, not {type(schema).__name__}")
        if source is None:
            raise InvalidConfigError(f"table '{name}' needs a schema or data to infer it from")
        return source.infer(name).to_json()


def _open_source(data: Any) -> "Source":
    from gamay.embedded.sources import open_source

    return open_source(data)


def _warn_of_unknown(what: str, parsed: Parsed[Any]) -> None:
    for pointer in parsed.unrecognized:
        known = parsed.suggestions.get(pointer)
        hint = "" if known is None else f". Did you mean '{known}'?"
        # at the caller of `create_table`
        warnings.warn(f"the {what} has the unknown key {pointer}, which means nothing{hint}", UserWarning, stacklevel=3)


def _config_document(name: str, config: Mapping[str, Any] | TableConfig | None) -> dict[str, Any]:
    plain = TableConfig.offline(name).to_json()
    if config is None:
        return plain
    if not isinstance(config, TableConfig | Mapping):
        raise InvalidConfigError(f"a table config is a JSON document (dict) or a TableConfig, not {type(config).__name__}")
    given = config.to_json() if isinstance(config, TableConfig) else dict(config)
    return {**plain, **given, "tableName": plain["tableName"], "tableType": plain["tableType"]}
