"""The server's HTTP interface for administrators."""

import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from gamay.base.errors import GamayError, InvalidConfigError, NotFoundError
from gamay.base.metrics import CONTENT_TYPE, exposition
from gamay.cluster.access import EVERYBODY, AccessControl
from gamay.cluster.guarded import AsgiApp, Guarded
from gamay.cluster.help_page import help_routes
from gamay.model.parse import load_json
from gamay.server.describe import describe_segment
from gamay.server.details import detail_routes
from gamay.server.instance import ServerInstance
from gamay.server.metrics import measure_server
from gamay.server.valid_docs import valid_doc_bitmap, valid_doc_counts

DEAD_LETTERS_SHOWN = 100

# what paths take behind `?`, for /help
_PARAMETERS = {
    "/health": ("checkType",),
    "/tables/{table}/segments/metadata": ("segments", "columns"),
    "/tables/{table}/segments/{segment}/metadata": ("columns",),
    "/segments/{table}/{segment}/validDocIdsBitmap": ("validDocIdsType",),
    "/tables/{table}/deadLetters": ("limit",),
    "/tables/{table}/size": ("detailed",),
    "/table/{table}/size": ("detailed",),
}


class ServerApp:
    """The handlers. is_ready: whether everything assigned at the start is loaded, and what queries run is compiled."""

    def __init__(
        self,
        instance: ServerInstance,
        is_ready: Callable[[], bool],
        access: AccessControl = EVERYBODY,
        more: Sequence[Route] = (),
    ) -> None:
        """access: who may ask. more: routes of the process, beside those of the role."""
        self._more = more
        self._instance = instance
        self._is_ready = is_ready
        self._access = access

    def asgi(self) -> AsgiApp:
        """Return the application."""
        routes = [
            Route("/health", self.readiness),
            Route("/health/readiness", self.readiness),
            Route("/health/liveness", self.liveness),
            Route("/metrics", self.metrics),
            Route("/tables", self.tables),
            Route("/tables/{table}/segments", self.segments),
            Route("/tables/{table}/segments/crc", self.crcs),
            Route("/tables/{table}/segments/stale", self.stale),
            Route("/tables/{table}/segments/errors", self.errors),
            Route("/tables/{table}/segments/reloadProgress", self.reload_progress, methods=["POST"]),
            Route("/tables/{table}/segments/{segment}/metadata", self.metadata),
            Route("/segments/{table}/{segment}", self.archive),
            Route("/segments/{table}/{segment}/validDocIdsBitmap", self.valid_docs),
            Route("/tables/{table}/validDocIdsMetadata", self.valid_doc_counts, methods=["POST"]),
            Route("/tables/{table}/consumingSegmentsInfo", self.consuming_segments),
            Route("/tables/{table}/realtimeStatus", self.realtime_status),
            Route("/tables/{table}/deadLetters", self.dead_letters),
            Route("/tables/{table}/size", self.size),
            Route("/table/{table}/size", self.size),
            *detail_routes(self._instance),
            *self._more,
        ]
        routes += help_routes("server", routes, _PARAMETERS)
        app = Starlette(routes=routes, exception_handlers={404: _not_found})
        return app if self._access.is_open else Guarded(app, self._access)

    async def liveness(self, _: Request) -> Response:
        """Say that the process answers."""
        return PlainTextResponse("OK")

    async def readiness(self, request: Request) -> Response:
        """Say whether the server is ready."""
        if self._is_ready() or request.query_params.get("checkType") == "liveness":
            return PlainTextResponse("OK")
        return PlainTextResponse("Server is not ready, status: STARTING", status_code=503)

    async def metrics(self, _: Request) -> Response:
        """Tell what the server measures, in the format of Prometheus."""
        return Response(exposition([lambda: measure_server(self._instance)]), media_type=CONTENT_TYPE)

    async def tables(self, _: Request) -> Response:
        """List the tables with loaded segments."""
        return JSONResponse({"tables": self._instance.tables()})

    async def segments(self, request: Request) -> Response:
        """List the loaded and the consuming segments of a table."""
        data = self._instance.table(request.path_params["table"])
        if data is None:
            return _no_table(request)
        contents = data.contents()
        return JSONResponse({"segments": sorted({*contents.loaded, *contents.consuming})})

    async def crcs(self, request: Request) -> Response:
        """List the CRCs of the loaded segments of a table."""
        data = self._instance.table(request.path_params["table"])
        if data is None:
            return _no_table(request)
        return JSONResponse({name: str(loaded.crc) for name, loaded in sorted(data.snapshot().items())})

    async def metadata(self, request: Request) -> Response:
        """Show what is known of a loaded segment."""
        data = self._instance.table(request.path_params["table"])
        loaded = None if data is None else data.snapshot().get(request.path_params["segment"])
        if loaded is None:
            return _no_table(request)
        return JSONResponse(describe_segment(loaded, request.query_params.getlist("columns")))

    async def archive(self, request: Request) -> Response:
        """Send the archive of a loaded segment: to other servers, and to the controller where the deep store lacks it."""
        table, segment = request.path_params["table"], request.path_params["segment"]
        data = self._instance.table(table)
        if data is None:
            return _no_table(request)
        folder = tempfile.mkdtemp(prefix="gamay-archive-")
        cleanup = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
        archive = Path(folder) / "segment.tar.gz"
        try:
            await run_in_threadpool(data.pack, segment, archive)
        except BaseException as error:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, NotFoundError):
                return JSONResponse({"code": 404, "error": str(error)}, status_code=404)
            raise
        return FileResponse(archive, filename=f"{segment}.tar.gz", background=cleanup)

    async def consuming_segments(self, request: Request) -> Response:
        """List the consuming segments of a table with their offsets."""
        consumers, table = self._instance.consumers, request.path_params["table"]
        if consumers is None or self._instance.table(table) is None:
            return _no_table(request)
        return JSONResponse(await run_in_threadpool(consumers.consuming_info, table))

    async def realtime_status(self, request: Request) -> Response:
        """Show offsets, lag, rates, memory, builds and errors of a table's consumers."""
        consumers, table = self._instance.consumers, request.path_params["table"]
        if consumers is None or self._instance.table(table) is None:
            return _no_table(request)
        return JSONResponse(await run_in_threadpool(consumers.status, table))

    async def dead_letters(self, request: Request) -> Response:
        """List the last messages of a table's stream that are no rows."""
        consumers, table = self._instance.consumers, request.path_params["table"]
        limit = request.query_params.get("limit", str(DEAD_LETTERS_SHOWN))
        if consumers is None or self._instance.table(table) is None:
            return _no_table(request)
        if not limit.isascii() or not limit.isdecimal():
            return JSONResponse({"code": 400, "error": f"limit must be a number, not '{limit}'"}, status_code=400)
        return JSONResponse(await run_in_threadpool(consumers.dead_letters(table).entries, int(limit)))

    async def stale(self, request: Request) -> Response:
        """List the segments of a table that are not stored as its config asks for."""
        stale = await run_in_threadpool(self._instance.stale_segments, request.path_params["table"])
        return JSONResponse({"segments": stale})

    async def errors(self, request: Request) -> Response:
        """Tell why segments of a table are in the ERROR state."""
        failures = self._instance.failures(request.path_params["table"])
        return JSONResponse({"errors": {name: failure.reason for name, failure in sorted(failures.items())}})

    async def reload_progress(self, request: Request) -> Response:
        """Tell how many of the `segments` in the body were loaded since `sinceMs`, and why others could not be."""
        body = await request.json()
        table, names, since_ms = request.path_params["table"], body["segments"], body["sinceMs"]
        loaded, failures = self._instance.reload_progress(table, names, since_ms)
        return JSONResponse({"loaded": loaded, "failures": dict(failures)})

    async def valid_docs(self, request: Request) -> Response:
        """Tell which rows of a segment count, where rows replace each other."""
        table, segment = request.path_params["table"], request.path_params["segment"]
        kind = request.query_params.get("validDocIdsType", "SNAPSHOT")
        return await _answered(lambda: valid_doc_bitmap(self._instance, table, segment, kind))

    async def valid_doc_counts(self, request: Request) -> Response:
        """Tell how many rows of the `segments` in the body, or of all, count."""
        table, kind = request.path_params["table"], request.query_params.get("validDocIdsType", "SNAPSHOT")
        body = await request.body()
        return await _answered(lambda: valid_doc_counts(self._instance, table, _named_in(body), kind))

    async def size(self, request: Request) -> Response:
        """Tell how many bytes a table's loaded segments have on disk."""
        table = request.path_params["table"]
        data = self._instance.table(table)
        if data is None:
            return _no_table(request)
        sizes = {name: loaded.size_bytes for name, loaded in sorted(data.snapshot().items())}
        detailed = request.query_params.get("detailed", "true").lower() != "false"
        return JSONResponse(
            {
                "tableName": table,
                "diskSizeInBytes": sum(sizes.values()),
                "segments": [{"segmentName": n, "diskSizeInBytes": s} for n, s in sizes.items()] if detailed else [],
                "metadataVersion": "v1",
            }
        )


def _named_in(body: bytes) -> list[str]:
    """Return the `segments` that a request names, none without a body. Raises InvalidConfigError."""
    document = load_json(body, "body") if body.strip() else {}
    names = document.get("segments") or [] if isinstance(document, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidConfigError('the body must be {"segments": [names of segments]}')
    return names


async def _answered(ask: Callable[[], Any]) -> Response:
    try:
        return JSONResponse(await run_in_threadpool(ask))
    except GamayError as error:
        return JSONResponse({"code": error.http_status, "error": str(error)}, status_code=error.http_status)


def _no_table(request: Request) -> Response:
    what = "/".join(request.path_params.values())
    return JSONResponse({"code": 404, "error": f"'{what}' is not loaded on this server"}, status_code=404)


async def _not_found(request: Request, _: Exception) -> Response:
    return JSONResponse({"code": 404, "error": f"HTTP 404 Not Found: {request.url.path}"}, status_code=404)
