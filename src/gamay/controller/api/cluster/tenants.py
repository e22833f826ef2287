"""REST: the tenants, their instances and their tables."""

from collections.abc import Iterable
from typing import Annotated, Any

from fastapi import Query, Request

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.records.records import Instance, Role
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, listed_for
from gamay.controller.tables.tables import parse_table_type, server_tag
from gamay.model.table.table_name import TableType

TenantKind = Annotated[str | None, Query(alias="type", description="SERVER or BROKER")]
TableTypeParam = Annotated[str | None, Query(alias="tableType", description="OFFLINE or REALTIME")]
WithProperties = Annotated[bool, Query(alias="withTableProperties", description="Not supported: names alone are listed")]
PartitionKind = Annotated[str, Query(alias="instancePartitionType", description="OFFLINE, CONSUMING or COMPLETED")]


def tenant_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Tenant"])
    instances = services.instances

    @router.get("/tenants", summary="List the tenants")
    def tenants(kind: TenantKind = None) -> dict[str, list[str]]:
        found = {
            "SERVER_TENANTS": tenants_of(instances.all(), Role.SERVER),
            "BROKER_TENANTS": tenants_of(instances.all(), Role.BROKER),
        }
        wanted = _role(kind)
        return {key: names for key, names in found.items() if wanted is None or key.startswith(wanted.name)}

    @router.get("/tenants/{name}", summary="List the instances of a tenant")
    def tenant(name: str, kind: TenantKind = None, table_type: TableTypeParam = None) -> dict[str, Any]:
        role, of_type = _role(kind), parse_table_type(table_type)
        shown: dict[str, Any] = {}
        if role is not Role.BROKER:
            by_type = {t: _servers(services, name, t) for t in TableType}
            shown["ServerInstances"] = sorted({i for t, ids in by_type.items() if of_type in (None, t) for i in ids})
            if role is Role.SERVER:
                shown["OfflineServerInstances"] = by_type[TableType.OFFLINE]
                shown["RealtimeServerInstances"] = by_type[TableType.REALTIME]
        if role is not Role.SERVER:
            shown["BrokerInstances"] = [i.id for i in instances.of_tenant(Role.BROKER, name)]
        if not any(shown.values()):
            raise NotFoundError(f"Failed to find instances for tenant: {name}")
        return {**shown, "tenantName": name}

    @router.get("/tenants/{name}/metadata", summary="List the instances of a tenant by role, with its tags")
    def metadata(name: str, kind: TenantKind = None) -> dict[str, Any]:
        shown = tenant(name, kind)
        tags = {tag for i in instances.all() for tag in i.tags if tag.rpartition("_")[0] == name}
        return {**shown, "tags": sorted(tags)}

    @router.get("/tenants/{name}/tables", summary="List the tables of a tenant")
    def tables(
        request: Request, name: str, kind: TenantKind = None, with_properties: WithProperties = False
    ) -> dict[str, list[str]]:
        if with_properties:
            raise InvalidConfigError("withTableProperties is not supported; GET /tables/{table} shows the config of each")
        by_broker = _role(kind) is Role.BROKER
        configs = {table: services.tables.get(table) for table in services.tables.names()}
        tenants = {t: c.tenants.broker if by_broker else server_tag(c).rpartition("_")[0] for t, c in configs.items()}
        return {"tables": listed_for(request, (table for table, tenant in tenants.items() if tenant == name))}

    return router


def instance_partitions(name: str, servers: list[str]) -> dict[str, Any]:
    """Return the document of an assignment in which any server may hold any segment."""
    return {"instancePartitionsName": name, "partitionToInstancesMap": {"0_0": servers}}


def partition_table_type(kind: str) -> TableType:
    """Return the type of the tables that instance partitions of a kind are for. Raises InvalidConfigError."""
    types = {"OFFLINE": TableType.OFFLINE, "CONSUMING": TableType.REALTIME, "COMPLETED": TableType.REALTIME}
    if kind.upper() not in types:
        raise InvalidConfigError(f"Illegal type of instance partitions: '{kind}', it must be one of {', '.join(types)}")
    return types[kind.upper()]


def tenants_of(instances: Iterable[Instance], role: Role) -> list[str]:
    """Return the names of the tenants that the instances of a role belong to."""
    suffixes = ("_BROKER",) if role is Role.BROKER else ("_OFFLINE", "_REALTIME")
    tags = {tag for i in instances if i.role is role for tag in i.tags if tag.endswith(suffixes)}
    return sorted({tag.rpartition("_")[0] for tag in tags})


def _servers(services: Services, tenant: str, table_type: TableType) -> list[str]:
    tag = f"{tenant}_{table_type.value}"
    return [i.id for i in services.instances.all() if i.role is Role.SERVER and tag in i.tags]


def _role(kind: str | None) -> Role | None:
    if kind is None:
        return None
    if kind.upper() not in ("SERVER", "BROKER"):
        raise InvalidConfigError(f"Invalid tenant type: '{kind}', it must be SERVER or BROKER")
    return Role[kind.upper()]
