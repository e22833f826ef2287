"""REST: segments that differ from what the table config demands, and jobs that reload segments."""

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any

import orjson
from fastapi import Query

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.records.records import ERROR
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, status
from gamay.model.index.indexing import PartitionConfig

TypeParam = Annotated[str | None, Query(alias="type", description="OFFLINE or REALTIME")]
RequiredType = Annotated[str, Query(alias="type", description="OFFLINE or REALTIME")]
Target = Annotated[str, Query(alias="targetInstance")]
JobTypes = Annotated[str, Query(alias="jobTypes", description="By commas; RELOAD_SEGMENT, FORCE_COMMIT")]

_STALE = "stored with other encodings or indexes than the table config demands now"


def segment_check_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Segment"])
    tables = services.tables

    @router.get("/segments/{table}/needReload", summary="Show whether a reload would change how segments are stored")
    def need_reload(table: str, verbose: bool = False) -> dict[str, Any]:
        stale = {server: bool(names) for server, names in _stale(services, tables.resolve_one(table)).items()}
        shown = {server: {"needReload": flag, "instanceId": server} for server, flag in stale.items()}
        return {"needReload": any(stale.values()), "serverToSegmentsCheckReloadList": shown if verbose else {}}

    @router.get("/segments/{table}/isStale", summary="List the segments that are not stored as the table config demands")
    def is_stale(table: str) -> dict[str, Any]:
        return {
            server: {
                "staleSegmentList": [{"segmentName": name, "stale": True, "reason": _STALE} for name in names or []],
                "validResponse": names is not None,
                "errorMessage": None if names is not None else f"server '{server}' does not answer",
            }
            for server, names in _stale(services, tables.resolve_one(table)).items()
        }

    @router.get("/segments/{table}/tiers", summary="Show the tiers of a table's segments")
    def tiers(table: str, table_type: RequiredType) -> dict[str, Any]:
        typed = tables.resolve_one(table, table_type)
        return _tiers(services, typed, services.segments.names(typed))

    @router.get("/segments/{table}/{segment}/tiers", summary="Show the tier of a segment")
    def tiers_of_one(table: str, segment: str, table_type: RequiredType) -> dict[str, Any]:
        typed = tables.resolve_one(table, table_type)
        return _tiers(services, typed, [services.segments.record(typed, segment).name])

    @router.get(
        "/segments/{table}/invalidPartitionMetadata",
        summary="List the segments whose rows are not of a single partition by the table config",
    )
    def invalid_partitions(
        table: str, table_type: TypeParam = None, column: Annotated[str | None, Query(alias="partitionColumn")] = None
    ) -> dict[str, str]:
        return _invalid_partitions(services, tables.resolve_one(table, table_type), column)

    @router.post("/segments/{table}/{segment}/reset", summary="Load a segment again, whether it failed to load or not")
    def reset_one(table: str, segment: str, target: Target = "") -> dict[str, Any]:
        typed = tables.resolve_one(table)
        services.reloads.submit(typed, [segment], target=target, commit=False)
        return status(f"Successfully reset segment: {segment} of table: {typed}")

    @router.post("/segments/{table}/reset", summary="Load all segments of a table again, or those that failed to load")
    def reset_all(
        table: str, errors_only: Annotated[bool, Query(alias="errorSegmentsOnly")] = False, target: Target = ""
    ) -> dict[str, Any]:
        typed = tables.resolve_one(table)
        view = services.context.registry.get_external_view(typed)
        failed = [] if view is None else [name for name, states in view.states.items() if ERROR in states.values()]
        if failed or not errors_only:
            services.reloads.submit(typed, failed if errors_only else (), target=target, commit=False)
        return status(f"Successfully reset segments of table: {typed}")

    @router.get("/table/{table}/jobs", tags=["Table"], summary="List the jobs that were submitted for a table")
    def jobs(table: str, table_type: TypeParam = None, kinds: JobTypes = "") -> dict[str, Any]:
        wanted = {kind.strip().upper() for kind in kinds.split(",") if kind.strip()}
        return {i: job for typed in tables.resolve(table, table_type) for i, job in _jobs(services, typed, wanted).items()}

    return router


def _jobs(services: Services, table: str, kinds: Collection[str]) -> dict[str, Any]:
    """Return a table's jobs of the given kinds, or of all kinds if none is given."""
    managers = {
        "RELOAD_SEGMENT": services.reloads.jobs,
        "FORCE_COMMIT": services.realtime.consumption.jobs,
        "TABLE_REBALANCE": services.rebalances.jobs,
    }
    return {i: job for kind, jobs in managers.items() if not kinds or kind in kinds for i, job in jobs(table).items()}


def _stale(services: Services, table: str) -> dict[str, list[str] | None]:
    """Return the stale segments by server; None for one that does not answer."""
    ideal = services.context.registry.must_get_ideal_state(table)
    found: dict[str, list[str] | None] = {}
    for server in sorted({server for states in ideal.states.values() for server in states}):
        try:
            found[server] = list(services.context.servers.stale_segments(server, table))
        except NotFoundError:
            found[server] = None
    return found


def _tiers(services: Services, table: str, segments: Sequence[str]) -> dict[str, Any]:
    """Return the tier of each segment by server, and the target tier that the last rebalance found; null means no tier.

    A server of the target tier has the segment on that tier; other servers hold it until it is moved.
    """
    registry = services.context.registry
    states = registry.must_get_ideal_state(table).states
    tags = {tier.name: tier.server_tag for tier in services.tables.get(table).tiers}
    tags_of = {instance.id: instance.tags for instance in registry.instances()}
    targets = {name: record.tier or None for name, record in registry.get_segments(table, segments).items()}

    def told(name: str) -> dict[str, str | None]:
        target = targets.get(name)
        tag = None if target is None else tags.get(target)
        servers = {server: target if tag in tags_of.get(server, ()) else None for server in states.get(name, {})}
        return {**servers, "targetTier": target}

    return {"tableName": table, "segmentTiers": {name: told(name) for name in segments}}


def _invalid_partitions(services: Services, table: str, column: str | None) -> dict[str, str]:
    partitioning = services.tables.get(table).indexing.segment_partition
    columns = {} if partitioning is None else partitioning.columns
    if column is None and len(columns) == 1:
        column = next(iter(columns))
    if column is None or column not in columns:
        what = "the parameter partitionColumn is missing" if column is None else f"'{column}' is not one of them"
        raise InvalidConfigError(f"Table {table} has the partition columns [{', '.join(columns)}], and {what}")
    problems = {}
    for name in services.segments.names(table):
        metadata = services.segments.record(table, name).partition_metadata
        partitions = orjson.loads(metadata)["columnPartitionMap"] if metadata else {}
        if problem := _partition_problem(partitions.get(column), columns[column]):
            problems[name] = problem
    return problems


def _partition_problem(partition: Mapping[str, Any] | None, wanted: PartitionConfig) -> str | None:
    if partition is None:
        return "its partition is not recorded"
    if (partition["functionName"], partition["numPartitions"]) != (wanted.function_name, wanted.num_partitions):
        return f"it was partitioned by {partition['functionName']} into {partition['numPartitions']}"
    found = partition["partitions"]
    return None if len(found) == 1 else f"it has rows of {len(found)} partitions"
