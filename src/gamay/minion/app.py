"""The minion's HTTP interface."""

from collections.abc import Callable, Sequence

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gamay.cluster.access.audit import Audited
from gamay.cluster.access.logins import Logins
from gamay.cluster.access.principals import EVERYBODY, AccessControl
from gamay.minion.metrics import measure_minion
from gamay.minion.rights import MINION_RIGHTS
from gamay.minion.worker import TaskWorker
from gamay.web.error_answers import ERROR_ANSWERS, refusal
from gamay.web.guarded import AsgiApp, Guarded, guarded_routes
from gamay.web.help_page import help_routes
from gamay.web.metrics_page import metrics_page
from gamay.web.request_forms import UsualForm

_RUNNING = "IN_PROGRESS"

# query parameters by path, for /help
_PARAMETERS = {
    "/tasks/subtask/progress": ("subtaskNames",),
    "/tasks/subtask/state/progress": ("subTaskState",),
    "/tasks/subtask/progressStats": ("subtaskName",),
}


def minion_app(
    worker: TaskWorker,
    is_ready: Callable[[], bool],
    access: AccessControl = EVERYBODY,
    more: Sequence[Route] = (),
) -> AsgiApp:
    """Return the application. is_ready: whether the minion accepts tasks. more: routes of the process."""

    async def readiness(_: Request) -> Response:
        """Report whether the minion accepts tasks."""
        if is_ready():
            return PlainTextResponse("OK")
        return PlainTextResponse("Minion is not ready, status: STARTING", status_code=503)

    async def liveness(_: Request) -> Response:
        """Report that the process answers."""
        return PlainTextResponse("OK")

    async def metrics(request: Request) -> Response:
        """Return the metrics of the minion in the format of Prometheus, or OpenMetrics if accepted."""
        return metrics_page(request, [lambda: measure_minion(worker)])

    async def progress(request: Request) -> Response:
        """Return the last progress note of subtasks."""
        names = [name for name in request.query_params.get("subtaskNames", "").split(",") if name]
        found = {name: worker.progress(name) for name in names}
        return JSONResponse({name: p.last_note for name, p in found.items() if p is not None})

    async def progress_by_state(request: Request) -> Response:
        """Return the last progress note of the subtasks in a state."""
        running = worker.running()
        if request.query_params.get("subTaskState", _RUNNING).upper() == _RUNNING:
            shown = running
        else:
            shown = {name: progress for name, progress in worker.ended().items() if name not in running}
        return JSONResponse({name: one.last_note for name, one in shown.items()})

    async def progress_stats(request: Request) -> Response:
        """Return all progress notes of a subtask, with times."""
        name = request.query_params.get("subtaskName", "")
        found = worker.progress(name)
        if found is None:
            return refusal(404, f"subtask '{name}' is not known here")
        return JSONResponse({"taskId": name, "beginTs": found.begun_ms, "progressLogs": found.to_json()})

    routes = [
        Route("/health", readiness),
        Route("/health/readiness", readiness),
        Route("/health/liveness", liveness),
        Route("/metrics", metrics),
        Route("/tasks/subtask/progress", progress),
        Route("/tasks/subtask/state/progress", progress_by_state),
        Route("/tasks/subtask/progressStats", progress_stats),
        *more,
    ]
    routes += help_routes("minion", routes, _PARAMETERS, MINION_RIGHTS, {}, is_open=access.is_open)
    app = Audited(Starlette(routes=guarded_routes(routes, MINION_RIGHTS), exception_handlers=ERROR_ANSWERS))
    return UsualForm(app if access.is_open else Guarded(app, Logins(access), MINION_RIGHTS))
