"""REST: the controller's periodic tasks."""

from typing import Annotated, Any

from fastapi import Query

from gamay.base.errors import GamayError
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services


class AmbiguousTableError(GamayError):
    """A table name without type that stands for two tables; Pinot's clients expect status 500."""

    http_status = 500


def periodic_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["PeriodicTask"])

    @router.get("/periodictask/names", summary="List the periodic tasks")
    def names() -> list[str]:
        return services.periodic.names()

    @router.get("/periodictask/run", summary="Run a periodic task now")
    @router.post("/periodictask/run", summary="Run a periodic task now")
    def run(
        name: Annotated[str, Query(alias="taskname")],
        table: Annotated[str | None, Query(alias="tableName")] = None,
        table_type: Annotated[str | None, Query(alias="type", description="OFFLINE or REALTIME")] = None,
    ) -> dict[str, Any]:
        services.periodic.run(name, None if table is None else _typed(services, table, table_type))
        return {"taskId": f"api-{services.context.ids.new()}", "isSuccessful": True}

    return router


def _typed(services: Services, table: str, table_type: str | None) -> str:
    found = services.tables.resolve(table, table_type)
    if len(found) > 1:
        raise AmbiguousTableError(f"More than one table matches: {', '.join(found)}. Say which with the 'type' parameter")
    return found[0]
