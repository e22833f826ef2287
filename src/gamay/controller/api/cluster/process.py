"""REST: version, uptime, settings and metrics of the controller's process."""

from functools import partial
from typing import Any

from fastapi import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from gamay.base.process_info import ProcessInfo
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services
from gamay.controller.metrics.gauges import measure_controller
from gamay.controller.metrics.jobs import measure_tasks
from gamay.web.metrics_page import metrics_page


def process_router(services: Services) -> GuardedRouter:
    """Return the routes; the uptime is counted from this call."""
    router = GuardedRouter(tags=["AppConfigs"])
    info = ProcessInfo(services.context.clock)

    @router.get("/api", include_in_schema=False)
    def help_page() -> Response:
        return RedirectResponse("/help")

    @router.get("/uptime", summary="Show for how many seconds the controller has run", response_class=PlainTextResponse)
    def uptime() -> Response:
        return PlainTextResponse(str(info.uptime_s))

    @router.get("/start-time", summary="Show when the controller started", response_class=PlainTextResponse)
    def started() -> Response:
        return PlainTextResponse(info.start_time)

    @router.get("/invalidconfigs", summary="List settings of the controller that are not valid")
    def invalid() -> list[str]:
        # a controller with invalid settings does not start
        return []

    @router.get("/appconfigs", summary="Show what the controller runs on and with which settings")
    def app_configs() -> dict[str, Any]:
        return info.to_json(services.context.registry.cluster_config())

    @router.get("/metrics", summary="Show the metrics of the controller, in the format of Prometheus or OpenMetrics")
    def metrics(request: Request) -> Response:
        measure = partial(measure_controller, services.context, services.tables)
        tasks = partial(measure_tasks, services.tasks.queues, services.tables, services.context.clock.now_ms())
        return metrics_page(request, [measure, tasks, services.periodic.measure])

    return router
