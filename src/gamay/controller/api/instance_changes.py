"""REST: changing instances and tenants."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request

from gamay.base.errors import InvalidConfigError
from gamay.controller.api.services import Services, body_docs, json_body, status

_EXAMPLE = {"host": "server-2", "port": 8098, "type": "SERVER", "tags": ["DefaultTenant_OFFLINE"]}
_TENANT = {
    "tenantRole": "SERVER",
    "tenantName": "fast",
    "numberOfInstances": 1,
    "offlineInstances": 1,
    "realtimeInstances": 1,
}
Body = Annotated[dict[str, Any], Depends(json_body)]


def instance_change_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["Instance"])
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

    @router.post("/instances/{name}/state", summary="Switch an instance on or off, or drop it: the older form")
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

    _tenant_routes(router, services)
    return router


def _tenant_routes(router: APIRouter, services: Services) -> None:
    instances = services.instances

    @router.post("/tenants", tags=["Tenant"], summary="Create a tenant", openapi_extra=body_docs("A tenant", _TENANT))
    def create(body: Body) -> dict[str, Any]:
        instances.put_tenant(body, exists=False)
        return status("Successfully created tenant")

    @router.put("/tenants", tags=["Tenant"], summary="Change a tenant's size", openapi_extra=body_docs("A tenant", _TENANT))
    def update(body: Body) -> dict[str, Any]:
        instances.put_tenant(body, exists=True)
        return status("Updated tenant")

    @router.post("/tenants/{name}", tags=["Tenant"], summary="Switch the instances of a tenant on or off")
    def state(name: str, state: str, kind: Annotated[str | None, Query(alias="type")] = None) -> dict[str, Any]:
        instances.set_tenant_state(name, kind, state)
        return status(f"Changed state of tenant {name} to {state} successfully.")

    @router.delete("/tenants/{name}", tags=["Tenant"], summary="Delete a tenant that no table uses")
    def delete(name: str, kind: Annotated[str, Query(alias="type")]) -> dict[str, Any]:
        instances.delete_tenant(name, kind)
        return status(f"Successfully deleted tenant {name}")
