"""A data folder opened in this process: tables from data in one line, and SQL on them. No server, no Spark, no Java."""

from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from gamay.base.errors import ConflictError, ErrorCode, InvalidConfigError, NotFoundError, QueryError, nearest
from gamay.controller.writer import TableWriter
from gamay.embedded.core import LocalCluster
from gamay.embedded.result import Result
from gamay.embedded.sources import Source, open_source
from gamay.model.schema import Schema
from gamay.model.table_config import TableConfig
from gamay.model.table_name import TableType, raw_table_name, typed_table_name


def connect(path: str | Path, *, threads: int | None = None) -> "Database":
    """Open a data folder, or make one. threads: for queries, all cores by default.

    Raises InUseError when another process has it.
    """
    return Database(path, threads=threads)


class Database:
    """Tables in a data folder. Its methods may be called from any thread."""

    def __init__(self, path: str | Path, *, threads: int | None = None) -> None:
        self._cluster = LocalCluster(path, threads=threads)
        try:
            self._cluster.prepare()
            self._cluster.start()
        except BaseException:
            self._cluster.stop()
            raise
        self._writer = TableWriter(self._cluster.context, self._cluster.tables, self._cluster.segments)

    def create_table(
        self,
        name: str,
        data: Any = None,
        schema: Mapping[str, Any] | Schema | None = None,
        config: Mapping[str, Any] | TableConfig | None = None,
    ) -> None:
        """Create a table, and fill it when there is data: see `append` for what that can be.

        schema: inferred from the data unless given. config: a plain one unless given; both may be JSON documents as Pinot
        has them. When the data cannot be read, no table is left behind. Raises ConflictError when the table exists.
        """
        table = typed_table_name(name, TableType.OFFLINE)
        raw = raw_table_name(name)
        if table in self._cluster.tables.names():
            raise ConflictError(f"table '{raw}' exists already: append to it, or drop it first")
        source = None if data is None else open_source(data)
        schema_document = self._schema_document(raw, schema, source)
        existed = self._cluster.registry.get_schema(raw) is not None
        self._cluster.schemas.add(schema_document)
        try:
            self._cluster.tables.add(_config_document(raw, config))
            self._cluster.wait_until_routed(table)
            if source is not None:
                self._append(table, source)
        except BaseException:
            if table in self._cluster.tables.names():
                self.drop_table(raw)
            elif not existed:
                self._cluster.registry.delete_schema(raw)
            raise

    def append(self, name: str, data: Any) -> None:
        """Add rows: of an Arrow table or reader, a pandas or Polars DataFrame, or of files by path or glob.

        When this returns, the rows are durable and visible to queries; when it raises, none was added.
        Raises NotFoundError for an unknown table, RecordError for a row that does not fit the schema.
        """
        self._append(self._table(name), open_source(data))

    def sql(self, text: str, **options: Any) -> Result:
        """Answer a query. options: query options such as `timeoutMs=500`. Raises QueryError."""
        response = self._cluster.runner.run(text, {name: str(value) for name, value in options.items()})
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

    def drop_table(self, name: str) -> None:
        """Remove a table, its schema and all its rows; the space is freed at once. Raises NotFoundError."""
        table = self._table(name)
        self._cluster.tables.delete(table, retention="0d")
        self._cluster.registry.delete_schema(raw_table_name(table))
        self._cluster.wait_until_gone(table)

    def close(self) -> None:
        """Let go of the folder. Nothing is lost by not calling it."""
        self._cluster.stop()

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<gamay database {self._cluster.layout.root}, tables: {', '.join(self.tables()) or 'none'}>"

    def _table(self, name: str) -> str:
        table = typed_table_name(name, TableType.OFFLINE)
        if table not in self._cluster.tables.names():
            raise NotFoundError(f"there is no table '{name}'.{nearest(name, self.tables())}")
        return table

    def _append(self, table: str, source: Source) -> None:
        raw, registry = raw_table_name(table), self._cluster.registry
        stamp = self._cluster.clock.now_ms()
        taken = set(registry.segment_names(table))
        while any(name.startswith(f"{raw}_{stamp}_") for name in taken):
            stamp += 1
        records = self._writer.write(table, source.rows, lambda n: f"{raw}_{stamp}_{n}")
        self._cluster.wait_until_visible(table, [record.name for record in records])

    @staticmethod
    def _schema_document(name: str, schema: Mapping[str, Any] | Schema | None, source: Source | None) -> dict[str, Any]:
        if isinstance(schema, Schema):
            return {**schema.to_json(), "schemaName": name}
        if schema is not None:
            return {**schema, "schemaName": name}
        if source is None:
            raise InvalidConfigError(f"table '{name}' needs a schema or data to infer it from")
        return source.infer(name).to_json()


def _config_document(name: str, config: Mapping[str, Any] | TableConfig | None) -> dict[str, Any]:
    plain = TableConfig.offline(name).to_json()
    if config is None:
        return plain
    given = config.to_json() if isinstance(config, TableConfig) else dict(config)
    return {**plain, **given, "tableName": plain["tableName"], "tableType": plain["tableType"]}
