"""Planning of a read on the driver: a consistent snapshot of a table, split into parts for executors.

The controller returns the segments; servers return their valid rows and the rows of consuming segments. The two are
consistent only if nothing was committed in between; else both are requested again.
"""

import base64
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
import pyarrow as pa

from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError, nearest
from gamay.base.sql_names import quoted
from gamay.client.http import ServiceError
from gamay.client.literals import literal
from gamay.model.schema.schema import Schema
from gamay.model.table.stored import stored_schema, stored_table_config
from gamay.model.table.table_config import TableConfig
from gamay.spark.source_options import Cluster, ReadOptions

VIEW_KEY = b"gamay.view"
_ATTEMPTS = 30
_WAIT_S = 0.1
_LIMIT = 2**31 - 1


class MovedOnError(ConflictError):
    """The table changed between the requests of a snapshot."""


@dataclass(frozen=True, slots=True)
class SegmentPart:
    """A segment to read.

    uri: of its archive. size_bytes: -1 if unknown. rows: the valid rows, a serialized `BitMap`; None for all.
    """

    name: str
    crc: int
    uri: str
    size_bytes: int
    rows: bytes | None = None


@dataclass(frozen=True, slots=True)
class TablePart:
    """The part of a typed table that one Spark partition reads: segments with a selection, or rows returned by servers.

    config_json: of the table. arrow: an Arrow IPC stream of selected rows.
    """

    table: str
    config_json: bytes
    sql: str
    segments: tuple[SegmentPart, ...] = ()
    arrow: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Wanted:
    """A selection. columns: the columns to read. conditions: SQL conditions, all of which the rows must satisfy."""

    columns: tuple[str, ...]
    conditions: tuple[str, ...]

    def sql(self, table: str, null_handling: bool, more: Sequence[str] = ()) -> str:
        """Return the selection as SQL. more: additional conditions."""
        where = " AND ".join(f"({text})" for text in (*self.conditions, *more))
        options = "SET enableNullHandling = true; " if null_handling else ""
        shown = ", ".join(map(quoted, self.columns))
        chosen = f" WHERE {where}" if where else ""
        return f"{options}SELECT {shown} FROM {quoted(table)}{chosen} LIMIT {_LIMIT}"  # noqa: S608 - the user's own SQL


def table_schema(cluster: Cluster) -> Schema:
    """Return a table's schema. Raises NotFoundError and the errors of `HttpService.request`."""
    with cluster.client() as client:
        return Schema.from_json(client.table_schema(cluster.table)).value


def check_columns(names: Sequence[str], schema: Schema, table: str) -> None:
    """Raise InvalidConfigError for a column that the table does not have."""
    stored = [spec.name for spec in schema.stored_fields]
    for name in names:
        if name not in stored:
            raise InvalidConfigError(f"table '{table}' has no column '{name}'.{nearest(name, stored)}")


def plan(
    options: ReadOptions,
    wanted: Wanted,
    sleep: Callable[[float], object] = time.sleep,
    only: Mapping[str, int] | None = None,
) -> list[TablePart]:
    """Return the parts of a consistent snapshot of a table.

    only: the segments to read, with their CRCs; rows that delete their keys are then included in the valid rows.
    Raises NotFoundError for the table, MovedOnError if it changed during every attempt, and the errors of
    `HttpService.request`.
    """
    avoided: set[str] = set()
    for attempt in range(1, _ATTEMPTS + 1):
        with options.cluster.client() as client:
            snapshot = client.read_snapshot(options.cluster.table, options.cluster.table_type)
        planner = _Planner(options, wanted, snapshot, avoided, only)
        try:
            return planner.parts()
        except MovedOnError:
            if attempt == _ATTEMPTS:
                raise
        except _ServerFailedError as failed:
            avoided.add(failed.server)
            if attempt == _ATTEMPTS:
                raise failed.reason from None
        sleep(_WAIT_S * min(attempt, 10))
    raise AssertionError("the last attempt returns or raises")


def plan_named(
    options: ReadOptions, wanted: Wanted, snapshot: Mapping[str, Any], segments: Sequence[Mapping[str, Any]]
) -> list[TablePart]:
    """Return the parts of some segments of a snapshot of one typed table; all of their rows are valid."""
    (half,) = snapshot["halves"]
    sql = wanted.sql(half["table"], options.null_handling)
    part = TablePart(half["table"], orjson.dumps(half["config"]), sql)
    stored = _with_copies(segments, sql if wanted.conditions else None, stored_schema(snapshot["schema"]))
    return list(_groups(options, part, stored))


def plan_segments(snapshot: Mapping[str, Any], where: str) -> list[SegmentPart]:
    """Return the segments of a snapshot of one typed table that may have rows satisfying a condition."""
    (half,) = snapshot["halves"]
    sql = Wanted(("$docId",), (where,)).sql(half["table"], null_handling=False)
    return _with_copies(half["segments"], sql, stored_schema(snapshot["schema"]))


def _with_copies(segments: Sequence[Mapping[str, Any]], sql: str | None, schema: Schema) -> list[SegmentPart]:
    """Return the segments that have an archive and may have rows of a selection. sql: None for one without a condition."""
    with_copy = [segment for segment in segments if segment["uri"] is not None]
    if sql is not None and with_copy:
        from gamay.spark.reading.conditions import may_match  # loads the engine, see there

        with_copy = may_match(with_copy, sql, schema)
    return [SegmentPart(s["name"], s["crc"], s["uri"], s["sizeInBytes"]) for s in with_copy]


class _ServerFailedError(Exception):
    def __init__(self, server: str, reason: ServiceError | NotFoundError) -> None:
        super().__init__(str(reason))
        self.server = server
        self.reason = reason


class _Planner:
    def __init__(
        self,
        options: ReadOptions,
        wanted: Wanted,
        snapshot: Mapping[str, Any],
        avoided: set[str],
        only: Mapping[str, int] | None,
    ) -> None:
        self._options = options
        self._wanted = wanted
        self._snapshot = snapshot
        self._avoided = avoided
        self._only = only
        self._schema = stored_schema(snapshot["schema"])

    def parts(self) -> list[TablePart]:
        parts: list[TablePart] = []
        for half, more in self._halves():
            config = stored_table_config(half["config"])
            sql = self._wanted.sql(half["table"], self._options.null_handling, more)
            part = TablePart(half["table"], orjson.dumps(half["config"]), sql)
            segments = [one for one in half["segments"] if self._only is None or self._only.get(one["name"]) == one["crc"]]
            stored = _with_copies(segments, sql if self._wanted.conditions or more else None, self._schema)
            on_servers = [segment["name"] for segment in segments if segment["uri"] is None]
            rows: dict[str, bytes] = {}
            if on_servers or (config.active_upsert is not None and stored):
                for arrow, counting in self._views(part, config, stored, on_servers, half):
                    rows |= counting
                    if arrow is not None:
                        parts.append(replace(part, arrow=arrow))
            parts += _groups(self._options, part, [replace(one, rows=rows.get(one.name)) for one in stored])
        return parts

    def _halves(self) -> Iterator[tuple[Mapping[str, Any], list[str]]]:
        """Yield each typed table to read, with the conditions by which each row of a hybrid table is read once."""
        halves, boundary = self._snapshot["halves"], self._snapshot["timeBoundary"]
        if len(halves) == 1:
            yield halves[0], []
            return
        for half in halves:
            is_offline = half["table"].endswith("_OFFLINE")
            if boundary is not None:
                comparison = "<=" if is_offline else ">"
                yield half, [f"{quoted(boundary['column'])} {comparison} {literal(boundary['value'])}"]
            elif not is_offline:
                yield half, []

    def _views(
        self, part: TablePart, config: TableConfig, stored: Sequence[SegmentPart], on_servers: Sequence[str],
        half: Mapping[str, Any],
    ) -> Iterator[tuple[bytes | None, dict[str, bytes]]]:  # fmt: skip
        """Yield each server's response: rows as an Arrow stream, None if there are none, and the valid rows of segments."""
        counting = {one.name: one.crc for one in stored} if config.active_upsert is not None else {}
        servers = {segment["name"]: segment["servers"] for segment in half["segments"]}
        known = {*servers, *half["hidden"]}
        asked: dict[str, tuple[list[str], list[str]]] = {}
        for name in (*on_servers, *counting):
            able = [server for server in servers[name] if server not in self._avoided] or servers[name]
            if not able:
                raise MovedOnError(f"no server has segment {name} of {part.table}")
            asked.setdefault(able[0], ([], []))[name in counting].append(name)
        for server, (rows, counted) in sorted(asked.items()):
            arrow = self._ask(server, part, rows, counted)
            with pa.ipc.open_stream(arrow) as reader:
                told = orjson.loads(reader.schema.metadata[VIEW_KEY])
                has_rows = any(batch.num_rows for batch in reader)
            if told["missing"]:
                raise MovedOnError(f"server {server} does not have segment {told['missing'][0]} of {part.table}")
            if config.active_upsert is not None:
                _check_same(told, server, part.table, counting, known)
            yield (arrow if has_rows else None), {n: base64.b64decode(c["rows"]) for n, c in told["counting"].items()}

    def _ask(self, server: str, part: TablePart, rows: Sequence[str], counting: Sequence[str]) -> bytes:
        try:
            with self._options.cluster.server(self._snapshot["servers"][server]) as client:
                return client.read_view(part.table, part.sql, rows, counting, deleting=self._only is not None)
        except (ServiceError, NotFoundError) as error:
            raise _ServerFailedError(server, error) from error


def _groups(options: ReadOptions, part: TablePart, segments: Sequence[SegmentPart]) -> Iterator[TablePart]:
    """Yield parts of about `bytes_per_partition` bytes each."""
    group: list[SegmentPart] = []
    size = 0
    for segment in segments:
        if group and size + max(segment.size_bytes, 0) > options.bytes_per_partition:
            yield replace(part, segments=tuple(group))
            group, size = [], 0
        group.append(segment)
        size += max(segment.size_bytes, 0)
    if group:
        yield replace(part, segments=tuple(group))


def _check_same(
    told: Mapping[str, Any], server: str, table: str, counting: Mapping[str, int], known: Collection[str]
) -> None:
    """Raise MovedOnError unless a server has the controller's segments and no others, to which keys may have moved."""
    for name, one in told["counting"].items():
        if one["crc"] != str(counting[name]):
            raise MovedOnError(f"server {server} has segment {name} of {table} with CRC {one['crc']}, not {counting[name]}")
    if begun := set(told["present"]) - set(known):
        raise MovedOnError(f"server {server} has segment {min(begun)} of {table}, which has come just now")
