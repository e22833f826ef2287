"""Sizes of tables on their servers."""

from collections.abc import Mapping, Sequence
from typing import Any

from gamay.base.errors import NotFoundError
from gamay.controller.context import ControllerContext
from gamay.model.table.table_name import TableType, raw_table_name, table_type_of

UNKNOWN = -1


def table_size(
    context: ControllerContext, tables: Sequence[str], *, verbose: bool = True, include_replaced: bool = True
) -> dict[str, Any]:
    """Return the size document of typed tables of one raw name; sizes that no server reports are -1."""
    halves = {table_type_of(table): _half(context, table, include_replaced) for table in tables}
    known = [half for half in halves.values() if half["reportedSizeInBytes"] != UNKNOWN]

    def total(key: str) -> int:
        return sum(half[key] for half in known) if known else UNKNOWN

    if not verbose:
        for half in halves.values():
            del half["segments"]
    return {
        "tableName": raw_table_name(tables[0]),
        "reportedSizeInBytes": total("reportedSizeInBytes"),
        "estimatedSizeInBytes": total("estimatedSizeInBytes"),
        "reportedSizePerReplicaInBytes": total("reportedSizePerReplicaInBytes"),
        "offlineSegments": halves.get(TableType.OFFLINE),
        "realtimeSegments": halves.get(TableType.REALTIME),
    }


def _half(context: ControllerContext, table: str, include_replaced: bool) -> dict[str, Any]:
    ideal = context.registry.must_get_ideal_state(table)
    hidden = frozenset[str]() if include_replaced else context.registry.get_lineage(table).hidden_segments()
    servers = {server for states in ideal.states.values() for server in states}
    sizes = {server: told_sizes(context, server, table) for server in sorted(servers)}
    segments = {name: _segment(name, states, sizes) for name, states in sorted(ideal.states.items()) if name not in hidden}
    missing = sum(1 for segment in segments.values() if segment["reportedSizeInBytes"] == UNKNOWN)
    all_missing = bool(segments) and missing == len(segments)

    def total(key: str) -> int:
        return UNKNOWN if all_missing else sum(max(0, segment[key]) for segment in segments.values())

    return {
        "reportedSizeInBytes": total("reportedSizeInBytes"),
        "estimatedSizeInBytes": total("estimatedSizeInBytes"),
        "missingSegments": missing,
        "reportedSizePerReplicaInBytes": total("maxReportedSizePerReplicaInBytes"),
        "segments": segments,
    }


def told_sizes(context: ControllerContext, server: str, table: str) -> Mapping[str, int]:
    """Return the sizes in bytes of a server's loaded segments; empty if it does not answer."""
    try:
        return context.servers.segment_sizes(server, table)
    except NotFoundError:
        return {}


def _segment(name: str, states: Mapping[str, str], sizes: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    told = {server: sizes[server].get(name, UNKNOWN) for server in sorted(states)}
    known = [size for size in told.values() if size != UNKNOWN]
    largest = max(known, default=UNKNOWN)
    return {
        "reportedSizeInBytes": sum(known) if known else UNKNOWN,
        # replicas that do not answer are assumed to be as large as the largest reported one
        "estimatedSizeInBytes": sum(known) + largest * (len(told) - len(known)) if known else UNKNOWN,
        "maxReportedSizePerReplicaInBytes": largest,
        "serverInfo": {server: {"segmentName": name, "diskSizeInBytes": size} for server, size in told.items()},
    }
