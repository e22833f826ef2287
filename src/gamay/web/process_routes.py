"""HTTP routes of brokers and servers about their process: uptime, environment, logs."""

from collections.abc import Callable, Mapping, Sequence

from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gamay.base.clock import Clock
from gamay.base.errors import GamayError, InvalidConfigError
from gamay.base.history import KEPT, MetricsHistory
from gamay.base.log_files import LOG_FILES
from gamay.base.log_memory import LINES_MAX, remember_log
from gamay.base.loggers import logger_names, set_logger_level, shown_logger
from gamay.base.process_info import VERSION, ProcessInfo, thread_usage
from gamay.cluster.records.registry import Registry

# of these routes, and of those that every role has in addition
PROCESS_RIGHTS = """
GET    /health                                        GetHealth             open        -
GET    /health/readiness                              GetHealth             open        -
GET    /health/liveness                               GetHealth             open        -
GET    /metrics                                       GetMetrics            read        all
GET    /metrics/history                               GetMetrics            read        all
GET    /uptime                                        GetAdminInfo          read        -
GET    /version                                       GetVersion            read        -
GET    /start-time                                    GetAdminInfo          read        -
GET    /appconfigs                                    GetAppConfig          read        -
GET    /instance/tags                                 GetInstance           read        -
GET    /debug/threads/resourceUsage                   GetThreadUsage        read        -
GET    /loggers                                       GetLogger             read        -
GET    /loggers/recent                                GetLogFile            instance    -
GET    /loggers/files                                 GetLogFile            read        -
GET    /loggers/download                              GetLogFile            instance    -
GET    /loggers/{name}                                GetLogger             read        -
PUT    /loggers/{name}                                UpdateLogger          administer  -
"""

# query parameters of these routes, for /help
PROCESS_PARAMETERS = {
    "/metrics/history": ("minutes", "points"),
    "/loggers/recent": ("level", "lines", "contains"),
    "/loggers/download": ("filePath",),
    "/loggers/{name}": ("level",),
}


def process_routes(registry: Registry, instance_id: str, clock: Clock, history: MetricsHistory) -> list[Route]:
    """Return the routes; uptime counts from now, and the log is recorded from now on."""
    log = remember_log()
    info = ProcessInfo(clock)

    def tags() -> Sequence[str]:
        found = registry.get_instance(instance_id)
        return () if found is None else found.tags

    def show(request: Request) -> Response:
        """Show a logger and its level."""
        return _answered(lambda: shown_logger(request.path_params["name"]))

    def change(request: Request) -> Response:
        """Set the `level` of a logger."""
        level = request.query_params.get("level", "")
        return _answered(lambda: set_logger_level(request.path_params["name"], level))

    def past(request: Request) -> Response:
        """Return the metrics of the last `minutes`, at most six hours."""
        return _answered(lambda: history.told(*history_bounds(request.query_params)))

    def lines(request: Request) -> Response:
        """Show the last `lines` of the log, with at least a `level`, that contain a text (`contains`)."""
        return _answered(lambda: log.told(*log_bounds(request.query_params)))

    def files(_: Request) -> Response:
        """List the log files of the process, if its configuration names a folder for them."""
        return _answered(LOG_FILES.names)

    def download(request: Request) -> Response:
        """Send a log file of the process, by its name (`filePath`)."""
        try:
            return log_file(request.query_params.get("filePath", ""))
        except GamayError as error:
            return _failure(error.http_status, str(error))

    return [
        Route(
            "/uptime", lambda _: PlainTextResponse(str(info.uptime_s)), name="Return the uptime of the process in seconds"
        ),
        Route("/version", lambda _: JSONResponse({"gamay": VERSION}), name="Return the version"),
        Route("/start-time", lambda _: PlainTextResponse(info.start_time), name="Return the start time of the process"),
        Route(
            "/appconfigs",
            lambda _: JSONResponse(info.to_json(registry.cluster_config())),
            name="Show the process, its machine and the settings of the cluster",
        ),
        Route("/instance/tags", lambda _: JSONResponse(list(tags())), name="List the tags of the instance"),
        Route("/loggers", lambda _: JSONResponse(logger_names()), name="List the loggers"),
        Route(
            "/debug/threads/resourceUsage",
            lambda _: JSONResponse(thread_usage()),
            name="List the threads of the process with their processor time",
        ),
        Route("/metrics/history", past),
        Route("/loggers/recent", lines),
        Route("/loggers/files", files),
        Route("/loggers/download", download),
        Route("/loggers/{name}", show),
        Route("/loggers/{name}", change, methods=["PUT"]),
    ]


def log_file(name: str) -> Response:
    """Return a log file of this process. Raises NotFoundError."""
    return FileResponse(LOG_FILES.must_get(name), media_type="text/plain; charset=utf-8", filename=name)


def history_bounds(given: Mapping[str, str]) -> tuple[int, int]:
    """Parse the minutes and the points of a request. Raises InvalidConfigError."""
    return _number(given, "minutes", 60, 6 * 60), _number(given, "points", 240, KEPT)


def log_bounds(given: Mapping[str, str]) -> tuple[str, int, str]:
    """Parse the level, the lines and the text of a request. Raises InvalidConfigError."""
    return given.get("level", "WARN"), _number(given, "lines", 200, LINES_MAX), given.get("contains", "")


def _number(given: Mapping[str, str], name: str, usual: int, most: int) -> int:
    text = given.get(name, str(usual))
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise InvalidConfigError(f"'{name}' must be a number from 1 to {most}, not '{text}'")
    return int(text)


def _answered(ask: Callable[[], object]) -> Response:
    try:
        return JSONResponse(ask())
    except GamayError as error:
        return _failure(error.http_status, str(error))


def _failure(status: int, text: str) -> Response:
    return JSONResponse({"code": status, "error": text}, status_code=status)
