"""REST: how users log in, and what they may do."""

from typing import Annotated

from fastapi import Query, Request

from gamay.base.errors import InvalidConfigError
from gamay.cluster.access.principals import AccessControl, Permission
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import principal_of


def auth_router(access: AccessControl) -> GuardedRouter:
    """Return the routes; they need no log-in themselves."""
    router = GuardedRouter(tags=["Auth"])

    @router.get("/auth/info", summary="Show how users log in")
    def info() -> dict[str, str]:
        return {"workflow": "NONE" if access.is_open else "BASIC"}

    @router.get("/auth/verify", summary="Show whether a user may do something")
    @router.get("/auth/verify/v2", summary="Show whether a user may do something")
    def verify(
        request: Request,
        table: Annotated[str | None, Query(alias="tableName")] = None,
        kind: Annotated[str, Query(alias="accessType")] = Permission.READ.value,
    ) -> bool:
        if kind.upper() not in Permission.__members__:
            raise InvalidConfigError(f"accessType: '{kind}' must be one of {', '.join(Permission.__members__)}")
        sender = principal_of(request)
        return bool(sender.name) and sender.may(Permission[kind.upper()]) and (table is None or sender.may_use(table))

    return router
