"""REST: the controller's periodic tasks."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from gamay.controller.api.services import Services


def periodic_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["PeriodicTask"])

    @router.get("/periodictask/names", summary="List the periodic tasks")
    def names() -> list[str]:
        return services.periodic.names()

    @router.get("/periodictask/run", summary="Run a periodic task now")
    @router.post("/periodictask/run", summary="Run a periodic task now")
    def run(name: Annotated[str, Query(alias="taskname")]) -> dict[str, Any]:
        services.periodic.run(name)
        return {"taskId": f"api-{services.context.ids.new()}", "isSuccessful": True}

    return router
