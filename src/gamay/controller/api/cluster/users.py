"""REST: the users in the metadata store. They have no effect while principals come from a properties file."""

from typing import Annotated, Any, TypeAlias

from fastapi import Depends, Query

from gamay.cluster.access.principals import AccessControl
from gamay.cluster.access.users import User, Users, changed_user
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, body_docs, json_body, status

_EXAMPLE = {
    "username": "bob",
    "password": "secret",
    "component": "BROKER",
    "role": "USER",
    "tables": ["trips"],
    "permissions": ["READ"],
}
_Body: TypeAlias = Annotated[dict[str, Any], Depends(json_body)]
_Component: TypeAlias = Annotated[str, Query(description="CONTROLLER, BROKER, SERVER, MINION or PROXY")]


def user_router(services: Services, access: AccessControl) -> GuardedRouter:
    """Return the routes, which are for administrators. access: the controller's own, refreshed at once after each
    change."""
    router = GuardedRouter(tags=["User"])
    users = Users(services.context.registry.store)

    @router.get("/users", summary="List the users")
    def list_users() -> dict[str, Any]:
        return {"users": {key: user.to_json() for key, user in users.all().items()}}

    @router.get("/users/{name}", summary="Show a user")
    def show(name: str, component: _Component) -> dict[str, Any]:
        user = users.get(name, component)
        return {user.key: user.to_json()}

    @router.post("/users", summary="Add a user", openapi_extra=body_docs("A user", _EXAMPLE))
    def add(body: _Body) -> dict[str, Any]:
        user = User.from_json(body)
        users.add(user)
        access.forget()
        return status(f"User {user.key} has been successfully added!")

    @router.put("/users/{name}", summary="Change a user", openapi_extra=body_docs("A user", _EXAMPLE))
    def change(
        name: str,
        component: _Component,
        body: _Body,
        password_changed: Annotated[bool, Query(alias="passwordChanged")] = False,
    ) -> dict[str, Any]:
        user = changed_user(users.get(name, component), body, password_changed=password_changed)
        users.replace(user)
        access.forget()
        return status(f"User config update for {user.key}")

    @router.delete("/users/{name}", summary="Delete a user")
    def delete(name: str, component: _Component) -> dict[str, Any]:
        key = users.delete(name, component)
        access.forget()
        return status(f"User: {key} has been successfully deleted")

    return router
