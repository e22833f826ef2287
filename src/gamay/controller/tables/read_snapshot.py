"""A consistent snapshot of the cluster's records for clients that read a whole table without a broker."""

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from gamay.base.errors import ConflictError, NotFoundError
from gamay.cluster.records.records import CONSUMING, ONLINE, Assignment, Lineage, LineageState, SegmentRecord
from gamay.cluster.records.views import servers_of
from gamay.controller.context import ControllerContext
from gamay.controller.tables.hybrid_boundary import present_boundary
from gamay.model.table.table_name import raw_table_name

_ATTEMPTS = 20
_MERGED = ".mergedSegments"


def read_snapshot(context: ControllerContext, tables: Sequence[str]) -> dict[str, Any]:
    """Return the schema, the time boundary, and each typed table's config and visible segments.

    tables: of one raw name. `hidden`: the segments of each that queries do not see. Each other segment has `name`, `crc`,
    `totalDocs`, `sizeInBytes`, `columns` (statistics, see `gamay.cluster.records.column_stats`), `uri` of its copy
    (null if there is none: its rows are on servers only), `servers` (the ids of those that have it), and `mergedFrom`
    (the segments whose rows a task merged into it). `replacements`: the segments `from` that were replaced by those
    in `to`, as far as that is recorded. The top-level `servers`: the URLs of all of these servers. `timeBoundary`:
    {column, value}, or null if there is none: then only the REALTIME half of a hybrid table has rows to read.
    Raises NotFoundError for a deleted table, ConflictError if records change faster than they are read.
    """
    for _ in range(_ATTEMPTS):
        before = _versions(context, tables)
        document = _document(context, tables, before)
        if document is not None and _versions(context, tables) == before:
            return document
    raise ConflictError(f"the segments of {raw_table_name(tables[0])} change faster than they can be listed; try again")


_Versions = Mapping[str, tuple[Assignment, Lineage]]


def _versions(context: ControllerContext, tables: Sequence[str]) -> _Versions:
    registry = context.registry
    return {table: (registry.must_get_ideal_state(table), registry.get_lineage(table)) for table in tables}


def _document(context: ControllerContext, tables: Sequence[str], versions: _Versions) -> dict[str, Any] | None:
    """Return the snapshot, or None if a segment without a record is being added or removed."""
    registry, raw = context.registry, raw_table_name(tables[0])
    schema = registry.get_schema(raw)
    configs = {table: registry.get_table_config(table) for table in tables}
    if schema is None or None in configs.values():
        raise NotFoundError(f"table {raw} no longer has a schema and a config")
    halves: list[dict[str, Any]] = []
    used: set[str] = set()
    for table in tables:
        segments = _segments(context, table, *versions[table])
        if segments is None:
            return None
        used.update(server for segment in segments for server in segment["servers"])
        shown = {segment["name"] for segment in segments}
        hidden = sorted(set(versions[table][0].states) - shown)
        half = {"table": table, "config": configs[table], "segments": segments, "hidden": hidden}
        halves.append({**half, "replacements": _replacements(versions[table][1])})
    found = {name: registry.get_instance(name) for name in sorted(used)}
    boundary = present_boundary(registry, raw) if len(tables) > 1 else None
    return {
        "schema": schema,
        "timeBoundary": None if boundary is None else {"column": boundary.column, "value": boundary.value},
        "halves": halves,
        "servers": {name: instance.url for name, instance in found.items() if instance is not None},
    }


def _segments(context: ControllerContext, table: str, ideal: Assignment, lineage: Lineage) -> list[dict[str, Any]] | None:
    hidden, view = lineage.hidden_segments(), context.registry.get_external_view(table)
    shown = [name for name, states in sorted(ideal.states.items()) if name not in hidden and not _is_off(states)]
    records = context.registry.get_segments(table, shown)
    if len(records) < len(shown):
        return None
    live = context.registry.live_instance_ids()
    told = []
    for name in shown:
        record = records[name]
        servers = [server for server in servers_of(name, ideal, view) if server in live]
        told.append(_told(context, record, CONSUMING in ideal.states[name].values(), servers))
    return told


def _replacements(lineage: Lineage) -> list[dict[str, list[str]]]:
    ended = [entry for entry in lineage.entries.values() if entry.state is LineageState.COMPLETED]
    return [
        {"from": list(entry.segments_from), "to": list(entry.segments_to)}
        for entry in ended
        if entry.segments_from and entry.segments_to
    ]


def _is_off(states: Mapping[str, str]) -> bool:
    """Whether a segment is OFFLINE everywhere, so that queries do not see it."""
    return not {ONLINE, CONSUMING} & set(states.values())


def _told(context: ControllerContext, record: SegmentRecord, is_consuming: bool, servers: Sequence[str]) -> dict[str, Any]:
    url = record.download_url
    if is_consuming or not record.complete or not url:
        uri = None
    else:
        uri = context.deep_store.location(url) if context.deep_store.owns(url) else url
    return {
        "name": record.name,
        "crc": record.crc,
        "totalDocs": record.total_docs,
        "sizeInBytes": record.size_bytes,
        "columns": orjson.loads(record.column_stats) if record.column_stats else {},
        "uri": uri,
        "servers": list(servers),
        "mergedFrom": [name for key, names in record.custom.items() if key.endswith(_MERGED) for name in names.split(",")],
    }
