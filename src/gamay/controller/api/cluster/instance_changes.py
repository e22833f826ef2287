"""REST: changing instances and tenants."""

from typing import Annotated, Any

from fastapi import Depends, Query, Request

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.broker_resource import BrokerResource
from gamay.cluster.records.records import Role
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, body_docs, json_body, status
from gamay.model.parse import load_json

_EXAMPLE = {"host": "server-2", "port": 8098, "type": "SERVER", "tags": ["DefaultTenant_OFFLINE"]}
_TENANT = {
    "tenantRole": "SERVER",
    "tenantName": "fast",
    "numberOfInstances": 1,
    "offlineInstances": 1,
    "realtimeInstances": 1,
}
_TAGS_EXAMPLE = '[{"instanceName": "Server_a_1", "newTags": ["x_OFFLINE"]}]'
Body = Annotated[dict[str, Any], Depends(json_body)]
InstanceNames = Annotated[list[str], Query(alias="instanceNames", default_factory=list)]


def instance_change_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Instance"])
    instances = services.instances

    @router.post("/instances", summary="Add an instance", openapi_extra=body_docs("An instance", _EXAMPLE))
    def add(body: Body) -> dict[str, Any]:
        return status(f"Added instance: {instances.add(body).id}")

    @router.put("/instances/{name}", summary="Change an instance", openapi_extra=body_docs("An instance", _EXAMPLE))
    def update(name: str, body: Body) -> dict[str, Any]:
        instances.update(name, body)
        return status(f"Updated instance: {name}")

    @router.put("/instances/{name}/state", summary="Switch an instance on or off")
    def put_state(name: str, state: str) -> dict[str, Any]:
        instances.set_state(name, state)
        return status(f"Request to {state} instance '{name}' is successful")

    @router.post("/instances/{name}/state", summary="Switch an instance on or off, or drop it (older form)")
    async def post_state(name: str, request: Request) -> dict[str, Any]:
        word = (await request.body()).decode(errors="replace").strip()
        if word.upper() not in ("ENABLE", "DISABLE", "DROP"):
            raise InvalidConfigError(f"Unknown state: '{word}', the body must be ENABLE, DISABLE or DROP")
        if word.upper() == "DROP":
            instances.drop(name)
        else:
            instances.set_state(name, word)
        return status(f"Request to {word} instance '{name}' is successful")

    @router.put("/instances/{name}/updateTags", summary="Replace the tags of an instance")
    def put_tags(name: str, tags: str) -> dict[str, Any]:
        names = [tag.strip() for tag in tags.split(",") if tag.strip()]
        instances.set_tags(name, names)
        return status(f"Updated tags: [{', '.join(names)}] for instance: {name}")

    @router.delete("/instances/{name}", summary="Drop an instance")
    def drop(name: str) -> dict[str, Any]:
        instances.drop(name)
        return status("Successfully dropped instance")

    @router.post("/brokers/instances/{name}/qps", tags=["Broker"], summary="Switch the query quotas of a broker on or off")
    def limit_rates(name: str, state: str) -> dict[str, Any]:
        instances.set_rate_limited(name, state)
        return status(f"Request to {state} query rate limiting for broker {name} is successful")

    _check_routes(router, services)
    _tenant_routes(router, services)
    return router


def _check_routes(router: GuardedRouter, services: Services) -> None:
    instances = services.instances

    @router.post("/instances/{name}/updateBrokerResource", summary="Bring the tables of a broker in line with its tags")
    def update_broker_resource(name: str) -> dict[str, Any]:
        if instances.get(name).role is not Role.BROKER:
            raise InvalidConfigError(f"Cannot update broker resource for non-broker instance: {name}")
        changed = BrokerResource(services.context.registry).rebuild()
        of_tables = f", of tables: {', '.join(changed)}" if changed else ""
        return status(f"Broker resource is up to date for broker: {name}{of_tables}")

    @router.post(
        "/tables/{table}/rebuildBrokerResourceFromHelixTags",
        tags=["Table"],
        summary="Bring a table's brokers in line with tags",
    )
    def rebuild_broker_resource(table: str) -> dict[str, Any]:
        typed = services.tables.resolve_one(table)
        if not BrokerResource(services.context.registry).rebuild([typed]):
            return status(f"Broker resource is not rebuilt because ideal state is the same for table: {typed}")
        return status(f"Successfully rebuilt brokerResource for table: {typed}")

    @router.get("/instances/dropInstance/validate", summary="Show which instances could be dropped")
    def validate_drop(
        names: Annotated[list[str], Query(alias="instanceNames", default_factory=list)],
    ) -> list[dict[str, Any]]:
        return [_safety(name, instances.drop_problems(name)) for name in names]

    @router.post("/instances/updateTags/validate", summary="Show which instances could get other tags")
    async def validate_tags(request: Request) -> list[dict[str, Any]]:
        wanted = _tag_changes(load_json(await request.body(), "request body"))
        problems = instances.tag_problems(wanted)
        return [_safety(name, problems[name]) for name in wanted]


def _safety(name: str, problems: list[tuple[str, str]]) -> dict[str, Any]:
    issues = [{"code": code, "message": message} for code, message in problems]
    return {"instanceName": name, "isSafe": not issues, "issues": issues}


def _tag_changes(body: Any) -> dict[str, list[str]]:
    changes = {}
    for entry in body if isinstance(body, list) else [None]:
        name, tags = (entry.get("instanceName"), entry.get("newTags")) if isinstance(entry, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(tags, list) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidConfigError(f"the request body must be a list like {_TAGS_EXAMPLE}")
        changes[name] = tags
    return changes


def _tenant_routes(router: GuardedRouter, services: Services) -> None:
    instances = services.instances

    @router.post("/tenants", tags=["Tenant"], summary="Create a tenant", openapi_extra=body_docs("A tenant", _TENANT))
    def create(body: Body) -> dict[str, Any]:
        instances.put_tenant(body, exists=False)
        return status("Successfully created tenant")

    @router.put("/tenants", tags=["Tenant"], summary="Change a tenant's size", openapi_extra=body_docs("A tenant", _TENANT))
    def update(body: Body) -> dict[str, Any]:
        instances.put_tenant(body, exists=True)
        return status("Updated tenant")

    @router.post("/tenants/{name}/metadata", tags=["Tenant"], summary="Switch the instances of a tenant on or off")
    @router.post("/tenants/{name}", tags=["Tenant"], summary="Switch the instances of a tenant on or off")
    def state(name: str, state: str, kind: Annotated[str | None, Query(alias="type")] = None) -> dict[str, Any]:
        instances.set_tenant_state(name, kind, state)
        return status(f"Changed state of tenant {name} to {state} successfully.")

    @router.delete("/tenants/{name}", tags=["Tenant"], summary="Delete a tenant that no table uses")
    def delete(name: str, kind: Annotated[str, Query(alias="type")]) -> dict[str, Any]:
        instances.delete_tenant(name, kind)
        return status(f"Successfully deleted tenant {name}")
