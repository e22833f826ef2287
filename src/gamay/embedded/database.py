"""The in-process database: a data folder with tables and SQL, without servers, Spark or Java."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gamay.base.errors import (
    ClosedError,
    ConflictError,
    ErrorCode,
    InvalidConfigError,
    NotFoundError,
    QueryError,
    nearest,
)
from gamay.base.telling import tell
from gamay.broker.answer.options import keyword_options
from gamay.cluster.access.principals import ANYONE
from gamay.embedded.opened import IN_MEMORY, OpenFolder, open_folder
from gamay.embedded.result import Result
from gamay.model.parse import Parsed
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType, raw_table_name, typed_table_name
from gamay.sql.parser import parse_query

if TYPE_CHECKING:
    from gamay.client.tables import Expression, Table
    from gamay.client.tables.profile import Profile
    from gamay.embedded.core import LocalCluster
    from gamay.embedded.sources import Source
    from gamay.relational.names import Frame

IfExists: TypeAlias = Literal["fail", "replace", "append"]
_IF_EXISTS = ("fail", "replace", "append")


def connect(path: str | Path, *, threads: int | None = None) -> "Database":
    """Open a data folder, or create one.

        db = gamay.connect("data")
        db.create_table("trips", "trips/*.parquet")
        db.sql("SELECT city, COUNT(*) FROM trips GROUP BY city").to_pandas()

    path: `":memory:"` is a new temporary folder, which is removed when it is closed or the process ends. A folder that this
    process already has open is shared, and released when all its databases are closed.
    threads: the number of threads for one query, by default the number of cores.
    Raises InUseError when another process has the folder open, InvalidConfigError for an invalid path or number of threads,
    ConflictError when this process has the folder open with another number of threads.
    """
    return Database(path, threads=threads)


class Settings:
    """Settings for all queries of a `Database`: `db.settings.null_handling = False`.

    null_handling: whether NULL is unknown, as in standard SQL: aggregates skip it, and no comparison with it holds.
    If False, a missing value is the default value of its column (0, 'null', …), as for queries to a cluster; a query's
    option `enableNullHandling` overrides it.
    """

    null_handling: bool

    def __init__(self) -> None:
        self.null_handling = True

    def __setattr__(self, name: str, value: Any) -> None:
        known = list(type(self).__annotations__)
        if name not in known:
            raise InvalidConfigError(f"there is no setting '{name}'.{nearest(name, known) or f' There is: {known[0]}'}")
        if not isinstance(value, bool):
            raise InvalidConfigError(f"the setting {name} is True or False, not {value!r}")
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"Settings(null_handling={self.null_handling})"


class Database:
    """Tables in a data folder. Thread-safe; after `close`, its methods raise ClosedError."""

    def __init__(self, path: str | Path, *, threads: int | None = None) -> None:
        """path, threads: as for `connect`."""
        self._is_closed = False
        self._is_in_memory = path == IN_MEMORY
        self.settings = Settings()
        self._folder: OpenFolder = open_folder(path, threads, self)

    def create_table(
        self,
        name: str,
        data: Any = None,
        schema: Mapping[str, Any] | Schema | None = None,
        config: Mapping[str, Any] | TableConfig | None = None,
        *,
        if_exists: IfExists = "fail",
        reader: Mapping[str, Any] | None = None,
    ) -> None:
        """Create a table, optionally with data; see `append` for `data` and `reader`.

            db.create_table("trips", frame)
            db.create_table("trips", frame, config={"tableIndexConfig": {"invertedIndexColumns": ["city"]}})
            db.create_table("trips", frame, if_exists="replace")

        schema: by default inferred from the data. config: by default a plain one. Both may be JSON documents as in Pinot;
        unknown keys give a UserWarning. If the data cannot be read, no table is created.
        if_exists: how to treat an existing table of that name. "fail": raise ConflictError. "replace": replace its
        rows, schema and config atomically: queries see either the old or the new ones, even if the process
        dies in between. "append": add the rows; schema and config must then be omitted or equal those of the table.
        Raises ConflictError, InvalidConfigError, RecordError.
        """
        if if_exists not in _IF_EXISTS:
            hint = nearest(str(if_exists), _IF_EXISTS)
            raise InvalidConfigError(f"if_exists must be 'fail', 'replace' or 'append', not {if_exists!r}.{hint}")
        cluster = self._cluster
        table, raw = typed_table_name(name, TableType.OFFLINE), raw_table_name(name)
        exists = table in cluster.tables.names()
        if exists and if_exists == "fail":
            raise ConflictError(
                f"table '{raw}' exists already: append to it, drop it first, or pass if_exists='replace' or 'append'"
            )
        if exists and if_exists == "append":
            self._check_same(table, schema, config)
            if data is not None:
                self.append(raw, data, reader=reader)
            return
        source = None if data is None else _open_source(data, reader)
        config_document = _config_document(raw, config)
        schema_document = _schema_document(raw, schema, source, config_document)
        if exists:
            self._replace(table, schema_document, config_document, source)
        else:
            self._create(table, schema_document, config_document, source)

    def append(self, name: str, data: Any, *, reader: Mapping[str, Any] | None = None) -> None:
        """Add rows.

        data: an Arrow table, batch or reader, a pandas or Polars (also lazy) DataFrame, a dict of columns, a list of dicts,
        a NumPy array with named fields, any other object with `__arrow_c_stream__`, or files: a path, a folder, a pattern
        like `trips/*.csv`, or a list of those. Columns are matched by name; those that the table does not have
        are skipped with a UserWarning.
        reader: options for reading files, such as {"delimiter": ";"}: the keys of a job's `recordReaderSpec.configs`.
        On return, the rows are durable and visible to queries; if it raises, none was added.
        Raises NotFoundError for an unknown table, RecordError for a row that does not fit the schema.
        """
        self._append(self._table(name), _open_source(data, reader))

    def sql(self, text: str, params: Sequence[Any] | Mapping[str, Any] | None = None, **options: Any) -> Result:
        """Run a query in Pinot's SQL. Raises QueryError.

            db.sql("SELECT COUNT(*) FROM trips WHERE city = ? AND fare > ?", ["Oslo", 10])
            db.sql("SELECT COUNT(*) FROM trips WHERE city IN (:cities)", {"cities": ["Oslo", "Lima"]}, timeoutMs=500)

        params: a list for `?`, a dict for `:name`; each value becomes exactly one literal (a list several, for IN);
        see `gamay.client.literals.literal`. options: query options, named as in `docs/guide/sql.md`.
        Options without effect give a UserWarning, also in `Result.warnings`.
        FROM accepts DataFrames and files like tables, by the name of a variable of the caller, or by a path in quotes:

            db.sql("SELECT z.name, COUNT(*) FROM trips t JOIN zones z ON t.zone = z.id GROUP BY 1")
            db.sql("SELECT COUNT(*) FROM 'more/*.parquet' m WHERE m.id NOT IN (SELECT id FROM trips)")

        Notebooks display the answer as a table; convert it with `rows`, `to_arrow`, `to_pandas`, `to_polars` or `to_numpy`.
        """
        caller = sys._getframe(1)
        return self.sql_with(lambda: {**caller.f_globals, **caller.f_locals}, text, params, **options)

    def sql_with(
        self,
        variables: Callable[[], Mapping[str, Any]],
        text: str,
        params: Sequence[Any] | Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Result:
        """Run a query like `sql`, with DataFrames looked up in `variables` instead of the caller's. Raises QueryError."""
        if not isinstance(text, str):
            raise InvalidConfigError(f"a query is a text like 'SELECT COUNT(*) FROM trips', not {type(text).__name__}")
        if params is not None:
            from gamay.client.literals import filled  # imported here: other queries do not need the client

            text = filled(text, params)
        named = keyword_options(options, null_handling=self.settings.null_handling)
        runner = self._cluster.runner
        response = runner.run(text, named)
        if response.exceptions and response.exceptions[0][0] == ErrorCode.TABLE_DOES_NOT_EXIST.code:
            frames = self._frames(text, variables())
            response = runner.run_with_frames(text, named, frames) if frames else response
        if response.exceptions:
            code, message = response.exceptions[0]
            kind = next((known for known in ErrorCode if known.code == code), ErrorCode.UNKNOWN)
            raise QueryError(kind, message.removeprefix(f"{kind.label}: ") + _placeholder_hint(kind, text, params))
        for sentence in response.warnings:
            tell(sentence)
        return Result(response)

    def cancel(self, client_query_id: str) -> bool:
        """Cancel a query that another thread runs with the option `clientQueryId`; return whether there is one.

        The query raises QueryError in that thread.
        """
        return self._cluster.runner.running.cancel(client_query_id, by_client_id=True)

    def _frames(self, text: str, variables: Mapping[str, Any]) -> "Mapping[str, Frame]":
        """Return the DataFrames and files that a query refers to by names that are not tables."""
        from gamay.embedded.frames import frames_of

        known = {name.lower() for name in self.tables()}
        return frames_of((name for name in parse_query(text).tables if name.lower() not in known), variables)

    def table(self, name: str) -> "Table":
        """Return a table to query without SQL; see `gamay.client.tables.Table`. Raises NotFoundError.

        trips = db.table("trips")
        trips.filter(trips.fare > 5).group_by("city").agg(fares=trips.fare.sum()).order_by("-fares").to_pandas()
        """
        from gamay.client.tables import Table

        self._table(name)
        return Table(self.sql, raw_table_name(name))

    def profile(self, name: str, columns: Sequence[str] | None = None, where: "Expression | None" = None) -> "Profile":
        """Return a profile of a table's columns: nulls, distinct values, ranges, common values, histograms.

        columns: the columns to profile, by default all. where: a condition on rows, as for `Table.filter`. Raises
        NotFoundError.
        """
        from gamay.client.tables.profile import profile

        self._table(name)
        return profile(self.sql, raw_table_name(name), columns, where)

    def tables(self) -> list[str]:
        """Return the names of all tables, ascending."""
        return sorted({raw_table_name(table) for table in self._cluster.tables.names()})

    def schema(self, name: str) -> Schema:
        """Return a table's schema. Raises NotFoundError."""
        return self._cluster.tables.schema_of(self._table(name))

    def segments(self, name: str) -> dict[str, int]:
        """Return the names of a table's segments with their numbers of rows, by name. Raises NotFoundError."""
        table, cluster = self._table(name), self._cluster
        records = cluster.registry.get_segments(table, cluster.segments.names(table, exclude_replaced=True))
        return {name: record.total_docs for name, record in sorted(records.items())}

    def drop_table(self, name: str) -> None:
        """Remove a table, its schema and all its rows; the disk space is freed immediately. Raises NotFoundError."""
        table, cluster = self._table(name), self._cluster
        cluster.tables.delete(table, retention="0d")
        cluster.registry.delete_schema(raw_table_name(table))
        cluster.wait_until_gone(table)

    def close(self) -> None:
        """Release the folder, unless other databases share it. No data is lost without it."""
        if not self._is_closed:
            self._is_closed = True
            self._folder.leave(self)

    def __enter__(self) -> "Database":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        shown = "in memory" if self._is_in_memory else str(self._folder.path)
        try:
            tables = ", ".join(self.tables()) or "none"
        except ClosedError:
            return f"<gamay database {shown}, closed>"
        return f"<gamay database {shown}, tables: {tables}>"

    @property
    def _cluster(self) -> "LocalCluster":
        if self._is_closed:
            raise self._folder.closed_error()
        return self._folder.cluster

    def _table(self, name: str) -> str:
        if not isinstance(name, str):
            raise InvalidConfigError(f"a table is named by a text, not by {type(name).__name__}")
        table = typed_table_name(name, TableType.OFFLINE)
        if table not in self._cluster.tables.names():
            known = self.tables()
            hint = nearest(name, known) or (f" There are: {', '.join(known)}" if known else " There is no table yet")
            raise NotFoundError(f"there is no table '{name}'.{hint}")
        return table

    def _create(self, table: str, schema: Mapping[str, Any], config: Mapping[str, Any], source: "Source | None") -> None:
        cluster, raw = self._cluster, raw_table_name(table)
        existed = cluster.registry.get_schema(raw) is not None
        _warn_of_unknown("schema", cluster.schemas.add(schema))
        try:
            _warn_of_unknown("table config", cluster.tables.add(config, by=ANYONE))
            cluster.wait_until_routed(table)
            if source is not None:
                self._append(table, source)
        except BaseException:
            if table in cluster.tables.names():
                self.drop_table(raw)
            elif not existed:
                cluster.registry.delete_schema(raw)
            raise

    def _replace(self, table: str, schema: Mapping[str, Any], config: Mapping[str, Any], source: "Source | None") -> None:
        from gamay.embedded.replacing import replace_table  # imported here, as it is rarely needed

        _warn_of_unknown("schema", Schema.from_json(schema))
        _warn_of_unknown("table config", TableConfig.from_json(config))
        rows = None if source is None else source.rows
        replace_table(self._cluster, self._folder.writer, table, schema, config, rows)

    def _append(self, table: str, source: "Source") -> None:
        raw, cluster = raw_table_name(table), self._cluster
        stamp = cluster.clock.now_ms()
        taken = set(cluster.registry.segment_names(table))
        while any(name.startswith(f"{raw}_{stamp}_") for name in taken):
            stamp += 1
        records = self._folder.writer.write(table, source.rows, lambda n: f"{raw}_{stamp}_{n}")
        cluster.wait_until_visible(table, [record.name for record in records])

    def _check_same(
        self,
        table: str,
        schema: Mapping[str, Any] | Schema | None,
        config: Mapping[str, Any] | TableConfig | None,
    ) -> None:
        """Raise InvalidConfigError if a schema or config given with if_exists='append' differs from the table's."""
        cluster, raw = self._cluster, raw_table_name(table)
        differs = []
        if schema is not None:
            given = Schema.from_json(_schema_document(raw, schema, None, {})).value
            differs += ["schema"] if given != cluster.tables.schema_of(table) else []
        if config is not None:
            found = cluster.tables.parse(_config_document(raw, config), by=ANYONE).value
            differs += ["config"] if found != cluster.tables.get(table) else []
        if differs:
            raise InvalidConfigError(
                f"table '{raw}' exists with another {' and '.join(differs)}, which if_exists='append' does not change: "
                "omit it, or pass if_exists='replace'"
            )


def _schema_document(
    name: str, schema: Mapping[str, Any] | Schema | None, source: "Source | None", config: Mapping[str, Any]
) -> dict[str, Any]:
    if isinstance(schema, Schema):
        return {**schema.to_json(), "schemaName": name}
    if isinstance(schema, Mapping):
        return {**schema, "schemaName": name}
    if schema is not None:
        raise InvalidConfigError(f"a schema is a JSON document (dict) or a Schema, not {type(schema).__name__}")
    if source is None:
        raise InvalidConfigError(f"table '{name}' needs a schema or data to infer it from")
    time_column = TableConfig.from_json(config).value.time_column
    inferred = source.infer(name, time_column)
    if time_column is not None:
        source.tell_of_time(inferred.field(time_column))
    return inferred.to_json()


def _open_source(data: Any, reader: Mapping[str, Any] | None) -> "Source":
    from gamay.embedded.sources import open_source

    return open_source(data, reader)


def _placeholder_hint(kind: ErrorCode, text: str, params: Any) -> str:
    """Return a hint to append to the error of a query that cannot be parsed because it has placeholders."""
    if kind is not ErrorCode.SQL_PARSING or params is not None:
        return ""
    from gamay.client.literals import placeholders

    marks = placeholders(text).marks
    example = "[…]" if marks and marks[0] == "?" else "{…}"
    return f"\nGive the values of {', '.join(dict.fromkeys(marks))} as in db.sql(text, {example})." if marks else ""


def _warn_of_unknown(what: str, parsed: Parsed[Any]) -> None:
    for pointer in parsed.unrecognized:
        known = parsed.suggestions.get(pointer)
        hint = "" if known is None else f". Did you mean '{known}'?"
        tell(f"the {what} has the unknown key {pointer}, which has no effect{hint}")


def _config_document(name: str, config: Mapping[str, Any] | TableConfig | None) -> dict[str, Any]:
    plain = TableConfig.offline(name).to_json()
    if config is None:
        return plain
    if not isinstance(config, TableConfig | Mapping):
        raise InvalidConfigError(f"a table config is a JSON document (dict) or a TableConfig, not {type(config).__name__}")
    given = config.to_json() if isinstance(config, TableConfig) else dict(config)
    return {**plain, **given, "tableName": plain["tableName"], "tableType": plain["tableType"]}
