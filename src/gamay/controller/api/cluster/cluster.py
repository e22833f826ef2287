"""REST: instances, brokers, the state of the cluster, and its settings."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fastapi import Depends, Query, Request
from starlette.responses import PlainTextResponse, Response

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.base.process_info import VERSION
from gamay.cluster.records.broker_resource import BrokerResource, answering_instances
from gamay.cluster.records.records import Instance, Role
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.election import leader_of
from gamay.controller.api.cluster.tenants import tenants_of
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import (
    Services,
    body_docs,
    json_body,
    listed_for,
    optional_json_body,
    principal_of,
    status,
)
from gamay.controller.health.cluster_status import cluster_status
from gamay.controller.instances.instances import KEPT_PORTS
from gamay.model.cluster_settings import check_settings
from gamay.model.table.table_name import raw_table_name

_LEAD_PARTITIONS = 24
_MINION_STATES = ("ONLINE", "OFFLINE", "DRAINED")
_COMPONENTS = (
    "gamay",
    "pinot-controller",
    "pinot-broker",
    "pinot-server",
    "pinot-common",
    "pinot-core",
    "pinot-segment-local",
)


def cluster_router(services: Services) -> GuardedRouter:
    """Return the routes about the cluster as a whole."""
    router = GuardedRouter(tags=["Cluster"])
    registry = services.context.registry

    @router.get("/health", summary="Show whether the cluster is ready", response_class=PlainTextResponse)
    def health() -> Response:
        if services.is_ready():
            return PlainTextResponse("OK")
        return PlainTextResponse("Controller is not ready, status: STARTING", status_code=503)

    router.get("/health/readiness", summary="Show whether the cluster is ready", response_class=PlainTextResponse)(health)

    @router.get("/health/liveness", summary="Check that the process answers", response_class=PlainTextResponse)
    def liveness() -> str:
        return "OK"

    @router.get("/pinot-controller/admin", summary="Check that the controller runs", response_class=PlainTextResponse)
    def admin() -> str:
        return "GOOD"

    @router.get("/version", summary="Show the versions of all components")
    def version() -> dict[str, str]:
        return dict.fromkeys(_COMPONENTS, VERSION)

    @router.get("/cluster/info", summary="Show the cluster's name")
    def info() -> dict[str, str]:
        return {"clusterName": registry.cluster}

    @router.get("/cluster/status", summary="Describe what is wrong with the cluster")
    def diagnosis() -> dict[str, Any]:
        return cluster_status(services.context)

    @router.get("/cluster/configs", summary="Show the cluster's settings")
    def configs() -> dict[str, str]:
        return registry.cluster_config()

    @router.post("/cluster/configs", summary="Change the cluster's settings")
    def update_configs(body: Annotated[dict[str, Any], Depends(json_body)]) -> dict[str, Any]:
        removed = frozenset(key for key, value in body.items() if value is None)
        changed = {k: _setting_text(v) for k, v in body.items() if v is not None}
        check_settings(changed)
        registry.update_cluster_config(changed, removed)
        return status("Updated cluster config.")

    @router.delete("/cluster/configs/{name}", summary="Remove a setting of the cluster")
    def delete_config(name: str) -> dict[str, Any]:
        registry.update_cluster_config({}, frozenset({name}))
        return status(f"Deleted cluster config: {name}")

    @router.get("/leader/tables", summary="Show which controller leads which tables")
    def leaders(request: Request) -> dict[str, Any]:
        tables = sorted({raw_table_name(table) for table in listed_for(request, services.tables.names())})
        return _leaders(registry, services.context.instance_id, range(_LEAD_PARTITIONS), tables)

    @router.get("/leader/tables/{table}", summary="Show which controller leads a table")
    def leader(table: str) -> dict[str, Any]:
        raw = raw_table_name(services.tables.resolve(table)[0])
        return _leaders(registry, services.context.instance_id, [_lead_partition(raw)], [raw])

    _damage_routes(router, services)
    return router


def _damage_routes(router: GuardedRouter, services: Services) -> None:
    @router.get("/cluster/damage", summary="List the records that cannot be read, and how each is repaired")
    def damage() -> dict[str, Any]:
        return {"damaged": [found.to_json() for found in services.damage.damaged()]}

    @router.post(
        "/cluster/damage",
        summary="Repair a record that cannot be read",
        openapi_extra=body_docs("A schema, table config or record"),
    )
    def repair(path: str, body: Annotated[dict[str, Any], Depends(optional_json_body)]) -> dict[str, str]:
        return status(services.damage.repair(path, body or None))


def instance_router(services: Services) -> GuardedRouter:
    """Return the routes about instances and brokers."""
    router = GuardedRouter(tags=["Instance"])
    registry = services.context.registry

    @router.get("/instances", summary="List the instances")
    def instances(tag: str | None = None) -> dict[str, list[str]]:
        return {"instances": [i.id for i in registry.instances() if tag is None or tag in i.tags]}

    @router.get("/liveinstances", summary="List the instances that are alive")
    def live() -> dict[str, list[str]]:
        return {"instances": registry.live_instance_ids()}

    @router.get("/minions/status", summary="List the minions and their states")
    def minions(
        state: Annotated[str | None, Query(alias="status", description=", ".join(_MINION_STATES))] = None,
        with_counts: Annotated[bool, Query(alias="includeTaskCounts")] = False,
    ) -> dict[str, Any]:
        if state is not None and state.upper() not in _MINION_STATES:
            raise InvalidConfigError(f"Invalid status: '{state}', it must be one of {', '.join(_MINION_STATES)}")
        live = set(registry.live_instance_ids())
        running = services.tasks.running_by_minion() if with_counts else {}
        found = [_minion(i, i.id in live, running.get(i.id, 0)) for i in registry.instances() if i.role is Role.MINION]
        shown = [minion for minion in found if state is None or minion["status"] == state.upper()]
        return {"currentMinionCount": len(shown), "minionStatus": shown}

    @router.get("/instances/{name}", summary="Show an instance")
    def instance(name: str) -> dict[str, Any]:
        found = registry.get_instance(name)
        if found is None:
            raise NotFoundError(f"Failed to find instance config for instance: {name}")
        return {
            "instanceName": found.id,
            "hostName": found.host,
            "enabled": found.enabled,
            "port": str(found.port),
            "tags": list(found.tags),
            "pools": dict(found.pools) or None,
            "grpcPort": found.grpc_port,
            "adminPort": found.admin_port,
            **{name: int(found.extra.get(key, "-1")) for key, name in KEPT_PORTS.items()},
            "queriesDisabled": found.queries_disabled,
            "shutdownInProgress": found.shutting_down,
            "systemResourceInfo": None,
        }

    _broker_routes(router, services)
    return router


def _broker_routes(router: GuardedRouter, services: Services) -> None:
    registry = services.context.registry

    def brokers(state: str | None) -> list[Instance]:
        """Return the live brokers (ONLINE), those that are not live (OFFLINE), or all that are enabled (None)."""
        if state is not None and state.upper() not in ("ONLINE", "OFFLINE"):
            raise InvalidConfigError(f"Invalid state: '{state}', it must be ONLINE or OFFLINE")
        every = [i for i in registry.instances() if i.role is Role.BROKER]
        if state is None:
            return [i for i in every if i.enabled]
        answering = {i.id for i in answering_instances(registry)}
        return [i for i in every if (i.id in answering) == (state.upper() == "ONLINE")]

    def by_tenant(state: str | None, described: bool) -> dict[str, list[Any]]:
        found = brokers(state)
        return {t: _shown(_of_tenant(found, Role.BROKER, t), described) for t in tenants_of(found, Role.BROKER)}

    def by_table(request: Request, state: str | None, described: bool) -> dict[str, list[Any]]:
        """Return the brokers of each raw table name, as clients look them up; a hybrid table has those of both halves."""
        found, ids = brokers(state), dict[str, set[str]]()
        assigned = BrokerResource(registry).ideal() or {}
        for table in listed_for(request, services.tables.names()):
            ids.setdefault(raw_table_name(table), set()).update(assigned.get(table, {}))
        return {table: _shown((i for i in found if i.id in own), described) for table, own in ids.items()}

    def add(prefix: str, described: bool) -> None:
        @router.get(f"{prefix}/brokers", tags=["Broker"], summary="List brokers by tenant and by table")
        def all_brokers(request: Request, state: str | None = None) -> dict[str, Any]:
            return {"tenants": by_tenant(state, described), "tables": by_table(request, state, described)}

        @router.get(f"{prefix}/brokers/tenants", tags=["Broker"], summary="List brokers by tenant")
        def tenants(state: str | None = None) -> dict[str, Any]:
            return by_tenant(state, described)

        @router.get(f"{prefix}/brokers/tenants/{{name}}", tags=["Broker"], summary="List the brokers of a tenant")
        def tenant(name: str, state: str | None = None) -> list[Any]:
            return _must(by_tenant(state, described), name, f"Failed to find any broker for tenant: {name}")

        @router.get(f"{prefix}/brokers/tables", tags=["Broker"], summary="List brokers by table")
        def tables(request: Request, state: str | None = None) -> dict[str, Any]:
            return by_table(request, state, described)

        @router.get(f"{prefix}/brokers/tables/{{name}}", tags=["Broker"], summary="List the brokers of a table")
        def table(request: Request, name: str, state: str | None = None) -> list[Any]:
            raw = raw_table_name(services.tables.resolve(name)[0])
            return _must(by_table(request, state, described), raw, f"Failed to find any broker for table: {name}")

    add("", described=False)
    add("/v2", described=True)


def live_broker_router(services: Services) -> GuardedRouter:
    """Return the route by which clients find brokers; it must be added before the routes of single tables."""
    router = GuardedRouter(tags=["Broker"])
    registry = services.context.registry

    @router.get("/tables/livebrokers", summary="List the live brokers of tables")
    def live_brokers(
        request: Request, names: Annotated[list[str], Query(alias="tables", default_factory=list)]
    ) -> dict[str, list[Any]]:
        brokers, assigned = answering_instances(registry), BrokerResource(registry).ideal() or {}
        for name in names:
            principal_of(request).check_table(name)
        asked = services.tables.names() if not names else [t for name in names for t in services.tables.resolve(name)]
        wanted = [table for table in asked if principal_of(request).may_use(table)]
        return {table: _shown((i for i in brokers if i.id in assigned.get(table, {})), True) for table in wanted}

    return router


def _leaders(registry: Registry, instance_id: str, partitions: Iterable[int], tables: Iterable[str]) -> dict[str, Any]:
    """Return the leaders in the format of Pinot's clients, by table partition, though one controller leads all tables.

    instance_id: of this controller.
    """
    elects = registry.store.get(paths.EPOCH) is not None
    leader = leader_of(registry.store) if elects else instance_id  # a single controller is not elected
    names: dict[int, list[str]] = {partition: [] for partition in partitions}
    for table in tables:
        names[_lead_partition(table)].append(table)
    entries = {
        f"leadControllerResource_{partition}": {"leadControllerId": leader, "tableNames": own}
        for partition, own in names.items()
    }
    return {"leadControllerResourceEnabled": leader is not None, "leadControllerEntryMap": entries if leader else {}}


def _lead_partition(table: str) -> int:
    from gamay.segment.encode.partition import partition_function  # with it come kernels, which controllers seldom need

    return partition_function("Murmur", _LEAD_PARTITIONS).partition_of(table)


def _minion(instance: Instance, live: bool, running: int) -> dict[str, Any]:
    place = {"instanceId": instance.id, "host": instance.host, "port": instance.port}
    status = "DRAINED" if live and not instance.enabled else "ONLINE" if live else "OFFLINE"
    return {**place, "runningTaskCount": running, "status": status}


def _of_tenant(instances: Iterable[Instance], role: Role, tenant: str) -> list[Instance]:
    return [i for i in instances if i.role is role and any(tag.rpartition("_")[0] == tenant for tag in i.tags)]


def _shown(brokers: Iterable[Instance], described: bool) -> list[Any]:
    if not described:
        return [broker.id for broker in brokers]
    return [{"instanceName": b.id, "host": b.host, "port": b.port, "grpcPort": b.grpc_port} for b in brokers]


def _must(found: Mapping[str, list[Any]], name: str, missing: str) -> list[Any]:
    if name not in found:
        raise NotFoundError(missing)
    return found[name]


def _setting_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
