"""REST: instance partitions, which map the partitions of a table to servers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

from fastapi import Depends, Query

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.records.partition_record import InstancePartitions
from gamay.controller.api.cluster.tenants import instance_partitions, partition_table_type
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, body_docs, json_body
from gamay.controller.placement import partitions_name
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType

PartitionKind = Annotated[str | None, Query(alias="type", description="OFFLINE, CONSUMING or COMPLETED, or a tier's name")]
_EXAMPLE = {
    "instancePartitionsName": "trips_OFFLINE",
    "partitionToInstancesMap": {"0_0": ["Server_a_8098"], "0_1": ["Server_b_8098"]},
}


def partition_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Table"])
    placement = services.placement

    @router.get("/tables/{table}/instancePartitions", summary="Show which servers hold which partitions of a table")
    def show(table: str, kind: PartitionKind = None) -> dict[str, Any]:
        return {name: _shown(placement.partitions(config, name)) for config, name in _kinds(services, table, kind)}

    @router.put(
        "/tables/{table}/instancePartitions",
        summary="Set which servers hold which partitions; a rebalance moves the segments",
        openapi_extra=body_docs("Instance partitions", _EXAMPLE),
    )
    def put(table: str, document: Annotated[dict[str, Any], Depends(json_body)]) -> dict[str, Any]:
        given = placement.parse(document)
        for config, name in _kinds(services, table, None):
            if partitions_name(config, name) == given.name:
                placement.store(given)
                return {name: _shown(given)}
        names = [partitions_name(config, name) for config, name in _kinds(services, table, None)]
        raise InvalidConfigError(f"Table {table} has the instance partitions {', '.join(names)}, not '{given.name}'")

    @router.delete(
        "/tables/{table}/instancePartitions", summary="Delete stored instance partitions: they follow from tags again"
    )
    def remove(table: str, kind: PartitionKind = None) -> dict[str, str]:
        for config, name in _kinds(services, table, kind):
            placement.remove(config, name)
        return {"status": "Instance partitions removed"}

    _choice_routes(router, services)
    _tenant_routes(router, services)
    return router


def _choice_routes(router: GuardedRouter, services: Services) -> None:
    placement = services.placement

    @router.post("/tables/{table}/assignInstances", summary="Choose the servers of a table again, as its config demands")
    def assign(
        table: str, kind: PartitionKind = None, dry_run: Annotated[bool, Query(alias="dryRun")] = False
    ) -> dict[str, Any]:
        found = {}
        for config, name in _kinds(services, table, kind):
            existing = placement.stored(partitions_name(config, name))
            found[name] = placement.computed(config, name, existing=existing)
            if not dry_run and name in config.effective_assignment:
                placement.store(found[name])
        return {name: _shown(partitions) for name, partitions in found.items()}

    @router.post("/tables/{table}/replaceInstance", summary="Replace one server by another in stored instance partitions")
    def replace_instance(
        table: str,
        old: Annotated[str, Query(alias="oldInstanceId")],
        new: Annotated[str, Query(alias="newInstanceId")],
        kind: PartitionKind = None,
    ) -> dict[str, Any]:
        services.instances.get(new)
        changed = {}
        for config, name in _kinds(services, table, kind):
            stored = placement.stored(partitions_name(config, name))
            if stored is not None and old in stored.instances:
                changed[name] = _replaced(stored, old, new)
        if not changed:
            raise NotFoundError(
                f"No stored instance partitions of table {table} name {old}. The servers of a table without "
                f"instanceAssignmentConfigMap follow from tags: give {new} that of {old} by PUT /instances/NAME/updateTags"
            )
        for partitions in changed.values():
            placement.store(partitions)
        return {name: _shown(partitions) for name, partitions in changed.items()}


def _tenant_routes(router: GuardedRouter, services: Services) -> None:
    placement = services.placement

    @router.get("/tenants/{name}/instancePartitions", tags=["Tenant"], summary="Show the instance partitions of a tenant")
    def of_tenant(name: str, kind: Annotated[str, Query(alias="instancePartitionType")]) -> dict[str, Any]:
        stored = placement.stored(f"{name}_{kind.upper()}")
        if stored is not None:
            return _shown(stored)
        tag = f"{name}_{partition_table_type(kind).value}"
        servers = [instance.id for instance in services.instances.all() if tag in instance.tags]
        if not servers:
            raise NotFoundError(f"Failed to find {kind} servers of tenant: {name}")
        return instance_partitions(f"{name}_{kind.upper()}", servers)

    @router.put(
        "/tenants/{name}/instancePartitions",
        tags=["Tenant"],
        summary="Store instance partitions that tables share by instancePartitionsMap",
        openapi_extra=body_docs("Instance partitions", _EXAMPLE),
    )
    def put_of_tenant(
        name: str,
        kind: Annotated[str, Query(alias="instancePartitionType")],
        document: Annotated[dict[str, Any], Depends(json_body)],
    ) -> dict[str, Any]:
        partition_table_type(kind)
        given = replace(placement.parse({"instancePartitionsName": name, **document}), name=f"{name}_{kind.upper()}")
        placement.store(given)
        return _shown(given)


def _kinds(services: Services, table: str, kind: str | None) -> Iterator[tuple[TableConfig, str]]:
    """Yield each config of a table with each kind of its instance partitions. Raises NotFoundError if there are none."""
    found = False
    for typed in services.tables.resolve(table):
        config = services.tables.get(typed)
        tiers = [tier.name for tier in config.tiers]
        if kind is not None and kind not in tiers and partition_table_type(kind) is not config.table_type:
            continue
        own = [*services.placement.kinds(config), *tiers]
        if config.table_type is TableType.REALTIME and kind is not None and kind.upper() == "COMPLETED":
            own = ["COMPLETED"]
        for name in own if kind is None else [kind if kind in tiers else kind.upper()]:
            if name in own:
                found = True
                yield config, name
    if not found:
        raise NotFoundError(f"Failed to find the {kind} instance partitions of table: {table}")


def _replaced(partitions: InstancePartitions, old: str, new: str) -> InstancePartitions:
    if new in partitions.instances:
        raise InvalidConfigError(f"{new} is already in the instance partitions {partitions.name}")
    groups = tuple(
        tuple(tuple(new if instance == old else instance for instance in group) for group in part)
        for part in partitions.groups
    )
    return replace(partitions, groups=groups)


def _shown(partitions: InstancePartitions) -> dict[str, Any]:
    return {"instancePartitionsName": partitions.name, "partitionToInstancesMap": partitions.to_map()}
