"""REST: the assignment, loading state and size of tables."""

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query

from gamay.base.errors import NotFoundError
from gamay.cluster.records.broker_resource import BrokerResource
from gamay.cluster.records.records import Assignment, Role
from gamay.cluster.records.views import segment_status
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.not_offered import NotOfferedError
from gamay.controller.api.services import Services
from gamay.controller.completion.consuming_info import HEALTHY, ConsumingInfo, consuming_info, ingestion_status
from gamay.controller.tables.hybrid_boundary import fix_boundary, release_boundary
from gamay.controller.tables.primary_keys import told_keys
from gamay.controller.tables.read_snapshot import read_snapshot
from gamay.controller.tables.sizes import UNKNOWN, table_size, told_sizes
from gamay.controller.tables.tables import server_tag
from gamay.model.table.table_name import TableType, table_type_of

TypeParam = Annotated[str | None, Query(alias="type", description="OFFLINE or REALTIME")]
TableTypeParam = Annotated[str | None, Query(alias="tableType", description="OFFLINE or REALTIME")]
SegmentNames = Annotated[str, Query(alias="segmentNames", description="Separated by commas")]
Columns = Annotated[list[str], Query(alias="columns", default_factory=list, description="Names, or * for all")]


def view_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Table"])
    tables, registry = services.tables, services.context.registry

    @router.get("/tables/{table}/idealstate", summary="Show the ideal state")
    def ideal_state(table: str, table_type: TableTypeParam = None, names: SegmentNames = "") -> dict[str, Any]:
        found = tables.resolve(table, table_type)
        return _by_type({typed: registry.get_ideal_state(typed) for typed in found}, names)

    @router.get("/tables/{table}/externalview", summary="Show the external view")
    def external_view(table: str, table_type: TableTypeParam = None, names: SegmentNames = "") -> dict[str, Any]:
        found = tables.resolve(table, table_type)
        return _by_type({typed: registry.get_external_view(typed) or Assignment(typed, {}) for typed in found}, names)

    @router.get("/tables/{table}/segmentsStatus", summary="Compare the external view of segments with the ideal state")
    def segments_status(
        table: str,
        table_type: TableTypeParam = None,
        include_replaced: Annotated[bool, Query(alias="includeReplacedSegments")] = True,
    ) -> list[dict[str, str]]:
        return [
            entry for typed in tables.resolve(table, table_type) for entry in _statuses(services, typed, include_replaced)
        ]

    @router.get("/tables/{table}/size", summary="Show the size of a table on its servers")
    def size(
        table: str, verbose: bool = True, include_replaced: Annotated[bool, Query(alias="includeReplacedSegments")] = True
    ) -> dict[str, Any]:
        return table_size(services.context, tables.resolve(table), verbose=verbose, include_replaced=include_replaced)

    @router.get("/tables/{table}/stats", summary="Show when a table was created")
    def stats(table: str, table_type: TypeParam = None) -> dict[str, Any]:
        found = tables.resolve(table, table_type)
        return {_slot(t): {"creationTime": _iso_time(registry.table_times(t)[0])} for t in found}

    @router.get("/tables/{table}/status", summary="Show whether ingestion works")
    def status(table: str, table_type: Annotated[str, Query(alias="type")]) -> dict[str, Any]:
        return {"ingestionStatus": _ingestion_status(services, tables.resolve_one(table, table_type))}

    @router.get("/tables/{table}/instances", summary="List the brokers and servers of a table")
    def instances(table: str, table_type: TypeParam = None) -> dict[str, Any]:
        found = tables.resolve(table, table_type)
        return {
            "tableName": table,
            "brokers": [{"tableType": _slot(t).lower(), "instances": _brokers_of(services, t)} for t in found],
            "server": [{"tableType": _slot(t).lower(), "instances": _servers_of(services, t)} for t in found],
        }

    @router.get("/tables/{table}/readSnapshot", summary="Show a consistent snapshot of a table for readers of all rows")
    def snapshot(table: str, table_type: TypeParam = None) -> dict[str, Any]:
        return read_snapshot(services.context, tables.resolve(table, table_type))

    @router.post("/tables/{table}/timeBoundary", summary="Fix the time boundary of a hybrid table")
    def fix_time_boundary(table: str) -> dict[str, str]:
        boundary = fix_boundary(registry, table)
        return {"status": f"Time boundary of table {table} fixed at {boundary.column} = {boundary.value}"}

    @router.delete("/tables/{table}/timeBoundary", summary="Let the time boundary follow the OFFLINE segments again")
    def release_time_boundary(table: str) -> dict[str, str]:
        release_boundary(registry, table)
        return {"status": f"Time boundary of table {table} follows its segments"}

    _debug_routes(router, services)
    _content_routes(router, services)
    return router


def _debug_routes(router: GuardedRouter, services: Services) -> None:
    tables, registry = services.tables, services.context.registry

    @router.get("/debug/segments/{table}/{segment}", tags=["Debug"], summary="Show the state of a segment, with errors")
    def debug_segment(table: str, segment: str) -> dict[str, Any]:
        for typed in tables.resolve(table):
            states = registry.must_get_ideal_state(typed).states
            if segment in states:
                return _debug_segment(services, typed, segment, states[segment], _consumers(services, typed))
        raise NotFoundError(f"Segment {segment} not found in table {table}")

    @router.get("/debug/tables/{table}", tags=["Debug"], summary="Show the state of every segment, with errors")
    def debug(table: str, table_type: TypeParam = None) -> list[dict[str, Any]]:
        return [_debug(services, typed) for typed in tables.resolve(table, table_type)]


def _content_routes(router: GuardedRouter, services: Services) -> None:
    tables = services.tables

    @router.get("/tables/{table}/indexes", summary="Count the indexes of a table's columns")
    def indexes(table: str, table_type: TypeParam = None) -> dict[str, Any]:
        counts: dict[str, dict[str, int]] = {}
        online = 0
        for details in _all_details(services, tables.resolve(table, table_type)[0]):
            online += 1
            for column, flags in details["indexes"].items():
                known = counts.setdefault(column, dict.fromkeys(flags, 0))
                for index, flag in flags.items():
                    known[index] += flag == "YES"
        return {"totalOnlineSegments": online, "columnToIndexesCount": counts}

    @router.get("/tables/{table}/metadata", summary="Aggregate the metadata of a table's segments")
    @router.get("/tables/{table}/aggregateMetadata", summary="Aggregate the metadata of a table's segments (older form)")
    def metadata(table: str, columns: Columns, table_type: TypeParam = None) -> dict[str, Any]:
        typed = tables.resolve(table, table_type)[0]
        if typed.endswith("_REALTIME"):
            raise NotOfferedError(f"Aggregated metadata exists for OFFLINE tables only, not for {typed}")
        return _aggregate(services, typed, columns)


def _by_type(states: dict[str, Assignment | None], names: str) -> dict[str, Any]:
    wanted = frozenset(name.strip() for name in names.split(",") if name.strip())
    shown: dict[str, Any] = {table_type.value: None for table_type in TableType}
    for table, assignment in states.items():
        if assignment is not None:
            segments = assignment.states.items()
            shown[_slot(table)] = {name: dict(states) for name, states in segments if not wanted or name in wanted}
    return shown


def _statuses(services: Services, table: str, include_replaced: bool) -> Iterator[dict[str, str]]:
    registry = services.context.registry
    ideal, view = registry.must_get_ideal_state(table), registry.get_external_view(table)
    actual = {} if view is None else view.states
    hidden = frozenset[str]() if include_replaced else registry.get_lineage(table).hidden_segments()
    for name, states in sorted(ideal.states.items()):
        if name not in hidden:
            yield {"segmentName": name, "segmentStatus": segment_status(states, actual.get(name)).value}


def _brokers_of(services: Services, table: str) -> list[str]:
    return BrokerResource(services.context.registry).brokers_of(table)


def _servers_of(services: Services, table: str) -> list[str]:
    tag = server_tag(services.tables.get(table))
    return sorted(i.id for i in services.instances.all() if i.role is Role.SERVER and tag in i.tags)


def _all_details(services: Services, table: str) -> Iterator[dict[str, Any]]:
    ideal = services.context.registry.must_get_ideal_state(table)
    for name, states in sorted(ideal.states.items()):
        for server in sorted(states):
            try:
                yield services.context.servers.segment_details(server, table, name, ["*"])
            except NotFoundError:
                continue
            break


def _aggregate(services: Services, table: str, columns: list[str]) -> dict[str, Any]:
    """Return the size and rows of a table, and per-segment means of the requested columns (`*`: all)."""
    size = rows = segments = 0
    chosen: dict[str, list[dict[str, Any]]] = {}
    sizes: dict[str, dict[str, int]] = {}
    for details in _all_details(services, table):
        segments += 1
        rows += details["totalDocs"]
        for column in details["columns"]:
            name = column["columnName"]
            if "*" not in columns and name not in columns:
                continue
            chosen.setdefault(name, []).append(column)
            known = sizes.setdefault(name, {})
            for index, num_bytes in column["indexSizeMap"].items():
                known[index] = known.get(index, 0) + num_bytes
    for server in _servers_of(services, table):
        size += sum(told_sizes(services.context, server, table).values())

    def mean(name: str, of: Callable[[dict[str, Any]], float]) -> float:
        return sum(of(column) for column in chosen[name]) / len(chosen[name])

    multi_value = [name for name, parts in chosen.items() if not parts[0]["singleValue"]]
    return {
        "tableName": table,
        "diskSizeInBytes": size,
        "numSegments": segments,
        "numRows": rows,
        "columnLengthMap": {name: sum(sizes[name].values()) / max(1, rows) for name in chosen},
        "columnCardinalityMap": {name: mean(name, lambda c: c["cardinality"]) for name in chosen},
        "maxNumMultiValuesMap": {name: mean(name, lambda c: c["maxNumberOfMultiValues"]) for name in multi_value},
        "columnIndexSizeMap": {name: {k: v / segments for k, v in sizes[name].items()} for name in chosen},
        "upsertPartitionToServerPrimaryKeyCountMap": _upsert_keys(services, table),
    }


def _upsert_keys(services: Services, table: str) -> dict[str, dict[str, int]]:
    """Return the number of primary keys by partition and server, for a table with upsertConfig."""
    found: dict[str, dict[str, int]] = {}
    if services.tables.get(table).active_upsert is not None:
        for server in _servers_of(services, table):
            for partition, count in told_keys(services.context, server, table).items():
                found.setdefault(partition, {})[server] = count
    return found


def _ingestion_status(services: Services, table: str) -> dict[str, str]:
    return ingestion_status(services.context, table) if table_type_of(table) is TableType.REALTIME else HEALTHY


def _debug(services: Services, table: str) -> dict[str, Any]:
    ideal = services.context.registry.must_get_ideal_state(table)
    consumers = _consumers(services, table)
    infos = [_debug_segment(services, table, name, states, consumers) for name, states in sorted(ideal.states.items())]
    return {
        "tableName": table,
        "ingestionStatus": _ingestion_status(services, table),
        "tableSize": _debug_size(services, table),
        "numSegments": len(ideal.states),
        "numServers": len(_servers_of(services, table)),
        "numBrokers": len(_brokers_of(services, table)),
        "segmentDebugInfos": infos,
        "serverDebugInfos": [],
        "brokerDebugInfos": [],
    }


def _debug_size(services: Services, table: str) -> dict[str, str]:
    size = table_size(services.context, [table], verbose=False)
    reported, replica = size["reportedSizeInBytes"], size["reportedSizePerReplicaInBytes"]
    return {"reportedSize": f"{reported} bytes", "reportedSizePerReplica": f"{replica} bytes"}


def _consumers(services: Services, table: str) -> ConsumingInfo:
    if table_type_of(table) is TableType.REALTIME:
        return consuming_info(services.context, table)
    return ConsumingInfo({}, {}, [])


def _debug_segment(
    services: Services, table: str, name: str, states: Mapping[str, str], consumers: ConsumingInfo
) -> dict[str, Any]:
    view = services.context.registry.get_external_view(table)
    consumer_of = {info["serverName"]: info for info in consumers.segments.get(name, ())}
    by_server = {}
    for server, state in states.items():
        reason = _error_of(services, server, table, name)
        by_server[server] = {
            "idealState": state,
            "externalView": None if view is None else view.states.get(name, {}).get(server),
            "segmentSize": told_sizes(services.context, server, table).get(name, UNKNOWN),
            "consumerInfo": _consumer(name, consumer_of.get(server)),
            "errorInfo": None if reason is None else {"errorMessage": reason},
        }
    return {"segmentName": name, "serverState": by_server}


def _consumer(segment: str, told: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if told is None:
        return None
    shown = ("consumerState", "lastConsumedTimestamp", "partitionToOffsetMap", "partitionOffsetInfo")
    return {"segmentName": segment, **{key: told[key] for key in shown}}


def _error_of(services: Services, server: str, table: str, segment: str) -> str | None:
    try:
        return services.context.servers.segment_errors(server, table).get(segment)
    except NotFoundError as error:
        return str(error)


def _slot(table: str) -> str:
    table_type = table_type_of(table)
    assert table_type is not None
    return table_type.value


def _iso_time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
