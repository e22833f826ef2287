"""REST: how users log in, and what they may do."""

from typing import Annotated

from fastapi import APIRouter, Header, Query

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.cluster.access import AccessControl, Permission


def auth_router(access: AccessControl) -> APIRouter:
    """Return the routes; they need no log-in themselves."""
    router = APIRouter(tags=["Auth"])

    @router.get("/auth/info", summary="Tell how users log in")
    def info() -> dict[str, str]:
        return {"workflow": "NONE" if access.is_open else "BASIC"}

    @router.get("/auth/verify", summary="Tell whether a user may do something")
    @router.get("/auth/verify/v2", summary="Tell whether a user may do something")
    def verify(
        table: Annotated[str | None, Query(alias="tableName")] = None,
        kind: Annotated[str, Query(alias="accessType")] = Permission.READ.value,
        authorization: Annotated[str | None, Header()] = None,
    ) -> bool:
        if kind.upper() not in Permission.__members__:
            raise InvalidConfigError(f"accessType: '{kind}' must be one of {', '.join(Permission.__members__)}")
        try:
            access.principal(authorization).check(Permission[kind.upper()], table)
        except GamayError:
            return False
        return True

    return router
