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

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.access.audit import Audited
from gamay.cluster.access.logins import Logins
from gamay.cluster.access.principals import EVERYBODY, AccessControl
from gamay.model.parse import load_json
from gamay.server.answering.running import RunningQueries
from gamay.server.http.copies import StoredCopy, store_copy
from gamay.server.http.dead_letters import dead_letter_routes
from gamay.server.http.describe import describe_segments
from gamay.server.http.details import detail_routes
from gamay.server.http.read_view import read_view
from gamay.server.http.rights import SERVER_RIGHTS
from gamay.server.http.valid_docs import valid_doc_bitmap, valid_doc_counts
from gamay.server.instance.instance import ServerInstance
from gamay.server.metrics.gauges import measure_server
from gamay.web.error_answers import ERROR_ANSWERS, refusal
from gamay.web.guarded import AsgiApp, Guarded, guarded_routes, sender_of
from gamay.web.help_page import help_routes
from gamay.web.metrics_page import metrics_page
from gamay.web.openapi import ARROW, FILE, LIST, TEXT
from gamay.web.request_forms import UsualForm

# query parameters of paths, for /help
_PARAMETERS = {
    "/health": ("checkType",),
    "/tables/{table}/segments/metadata": ("segments", "columns"),
    "/tables/{table}/segments/{segment}/metadata": ("columns",),
    "/segments/{table}/{segment}/validDocIdsBitmap": ("validDocIdsType",),
    "/tables/{table}/deadLetters": ("limit",),
    "/tables/{table}/deadLetters/replayable": ("limit",),
    "/controllerJob/reloadStatus/{table}": ("reloadJobTimestamp", "segmentName"),
    "/tables/{table}/size": ("detailed",),
    "/table/{table}/size": ("detailed",),
}
# responses that are not JSON objects
_ANSWERS = {
    "/segments/{table}/{segment}": FILE,
    "/segments/{table}/{segment}/upload": TEXT,
    "/query/{query_id}": TEXT,
    "/queries/id": LIST,
    "/debug/queries/resourceUsage": LIST,
    "/tables/{table}/readView": ARROW,
}
# parameters that may be repeated
_REPEATABLE = {
    "/tables/{table}/segments/metadata": ("segments", "columns"),
    "/tables/{table}/metadata": ("columns",),
    "/tables/{table}/segments/{segment}/metadata": ("columns",),
    "/controllerJob/reloadStatus/{table}": ("segmentName",),
}


class ServerApp:
    """The handlers. is_ready: whether all segments assigned at the start are loaded, and the kernels of queries compiled."""

    def __init__(
        self,
        instance: ServerInstance,
        is_ready: Callable[[], bool],
        access: AccessControl = EVERYBODY,
        more: Sequence[Route] = (),
        queries: RunningQueries | None = None,
    ) -> None:
        """access: who may use it. more: routes of the process, besides those of the role. queries: those of other
        processes."""
        self._queries = queries or RunningQueries()
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
            Route("/segments/{table}/{segment}/upload", self.upload, methods=["POST"]),
            Route("/segments/{table}/{segment}/uploadLLCSegment", self.upload_described, methods=["POST"]),
            Route("/controllerJob/reloadStatus/{table}", self.reload_status),
            Route("/queries/id", self.running),
            Route("/query/{query_id}", self.cancel, methods=["DELETE"]),
            Route("/debug/queries/resourceUsage", self.resource_usage),
            Route("/tables/{table}/validDocIdsMetadata", self.valid_doc_counts, methods=["POST"]),
            Route("/tables/{table}/readView", self.read_view, methods=["POST"]),
            Route("/tables/{table}/consumingSegmentsInfo", self.consuming_segments),
            Route("/tables/{table}/realtimeStatus", self.realtime_status),
            Route("/tables/{table}/size", self.size),
            Route("/table/{table}/size", self.size),
            *dead_letter_routes(self._instance),
            *detail_routes(self._instance),
            *self._more,
        ]
        routes += help_routes("server", routes, _PARAMETERS, SERVER_RIGHTS, _ANSWERS, is_open=self._access.is_open)
        handlers = {404: _not_found, **ERROR_ANSWERS}
        app = Audited(Starlette(routes=guarded_routes(routes, SERVER_RIGHTS, _REPEATABLE), exception_handlers=handlers))
        return UsualForm(app if self._access.is_open else Guarded(app, Logins(self._access), SERVER_RIGHTS))

    async def liveness(self, _: Request) -> Response:
        """Return whether the process is alive."""
        return PlainTextResponse("OK")

    async def readiness(self, request: Request) -> Response:
        """Return whether the server is ready."""
        if self._is_ready() or request.query_params.get("checkType") == "liveness":
            return PlainTextResponse("OK")
        return PlainTextResponse("Server is not ready, status: STARTING", status_code=503)

    async def metrics(self, request: Request) -> Response:
        """Return the server's metrics in the format of Prometheus, or as OpenMetrics if that is accepted."""
        return metrics_page(request, [lambda: measure_server(self._instance)])

    async def tables(self, request: Request) -> Response:
        """List the tables with loaded segments."""
        sender = sender_of(request.scope)
        return JSONResponse({"tables": [table for table in self._instance.tables() if sender.may_use(table)]})

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
        """Return the metadata of a segment."""
        table, segment = request.path_params["table"], request.path_params["segment"]
        columns = request.query_params.getlist("columns")
        found = await run_in_threadpool(describe_segments, self._instance, table, [segment], columns)
        return JSONResponse(found[segment]) if segment in found else _no_table(request)

    async def archive(self, request: Request) -> Response:
        """Return the archive of a loaded segment, for other servers, and for the controller if the deep store does not
        have it."""
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
                return refusal(404, str(error))
            raise
        return FileResponse(archive, filename=f"{segment}.tar.gz", background=cleanup)

    async def consuming_segments(self, request: Request) -> Response:
        """List the consuming segments of a table with their offsets."""
        consumers, table = self._instance.consumers, request.path_params["table"]
        if consumers is None or self._instance.table(table) is None:
            return _no_table(request)
        return JSONResponse(await run_in_threadpool(consumers.consuming_info, table))

    async def realtime_status(self, request: Request) -> Response:
        """Return offsets, lag, rates, memory, builds and errors of a table's consumers."""
        consumers, table = self._instance.consumers, request.path_params["table"]
        if consumers is None or self._instance.table(table) is None:
            return _no_table(request)
        return JSONResponse(await run_in_threadpool(consumers.status, table))

    async def stale(self, request: Request) -> Response:
        """List the segments of a table whose storage differs from its config."""
        stale = await run_in_threadpool(self._instance.stale_segments, request.path_params["table"])
        return JSONResponse({"segments": stale})

    async def errors(self, request: Request) -> Response:
        """Return the reasons why segments of a table are in the ERROR state."""
        failures = self._instance.failures(request.path_params["table"])
        return JSONResponse({"errors": {name: failure.reason for name, failure in sorted(failures.items())}})

    async def reload_progress(self, request: Request) -> Response:
        """Return how many of the `segments` in the body were loaded since `sinceMs`, and the failures of others."""
        document = load_json(await request.body(), "body")
        since_ms = document.get("sinceMs") if isinstance(document, dict) else None
        if isinstance(since_ms, bool) or not isinstance(since_ms, int):
            raise InvalidConfigError('the body must be {"segments": [names of segments], "sinceMs": milliseconds}')
        table, names = request.path_params["table"], _segments_in(document)
        loaded, failures = self._instance.reload_progress(table, names, since_ms)
        return JSONResponse({"loaded": loaded, "failures": dict(failures)})

    async def reload_status(self, request: Request) -> Response:
        """Return how many of a table's segments, or of the named ones, were loaded since a time in milliseconds."""
        table, since = request.path_params["table"], request.query_params.get("reloadJobTimestamp", "")
        data = self._instance.table(table)
        if data is None:
            return _no_table(request)
        if not since.isascii() or not since.isdecimal():
            text = f"reloadJobTimestamp must be the time of the reload in milliseconds, not '{since}'"
            return refusal(400, text)
        named = [name for text in request.query_params.getlist("segmentName") for name in text.split(",") if name]
        names = named or sorted(data.snapshot())
        loaded, failures = self._instance.reload_progress(table, names, int(since))
        told = [{"segmentName": name, "errorMessage": text} for name, text in sorted(failures.items())]
        return JSONResponse({"totalSegmentCount": len(names), "successCount": loaded, "segmentReloadFailures": told})

    async def upload(self, request: Request) -> Response:
        """Upload a loaded segment to the deep store, and return the URL of the copy; its record is not changed."""
        return await self._uploaded(request, lambda copy: PlainTextResponse(copy.url))

    async def upload_described(self, request: Request) -> Response:
        """Upload a loaded segment to the deep store, and describe the copy."""
        name = request.path_params["segment"]
        return await self._uploaded(
            request,
            lambda copy: JSONResponse({"segmentName": name, "crc": copy.crc, "dataCrc": None, "downloadUrl": copy.url}),
        )

    async def _uploaded(self, request: Request, answer: Callable[[StoredCopy], Response]) -> Response:
        table, segment = request.path_params["table"], request.path_params["segment"]
        try:
            return answer(await run_in_threadpool(store_copy, self._instance, table, segment))
        except OSError as error:
            return refusal(500, f"the deep store does not take segment '{segment}': {error}")

    async def running(self, _: Request) -> Response:
        """List the ids of the queries that other processes wait for: brokers, and readers by gRPC."""
        return JSONResponse(self._queries.ids())

    async def resource_usage(self, _: Request) -> Response:
        """List the memory and the processor time of the queries that other processes wait for."""
        return JSONResponse(self._queries.usage())

    async def cancel(self, request: Request) -> Response:
        """Cancel a query; its client gets error 503."""
        query_id = request.path_params["query_id"]
        if not self._queries.cancel(query_id):
            return PlainTextResponse(f"Query: {query_id} not found on the server: {self._instance.id}", status_code=404)
        return PlainTextResponse(f"Cancelled query: {query_id}")

    async def valid_docs(self, request: Request) -> Response:
        """Return the valid docs of a segment of an upsert table."""
        table, segment = request.path_params["table"], request.path_params["segment"]
        kind = request.query_params.get("validDocIdsType", "SNAPSHOT")
        return JSONResponse(await run_in_threadpool(valid_doc_bitmap, self._instance, table, segment, kind))

    async def valid_doc_counts(self, request: Request) -> Response:
        """Return the number of valid docs of the `segments` in the body, or of all."""
        table, kind = request.path_params["table"], request.query_params.get("validDocIdsType", "SNAPSHOT")
        names = _named_in(await request.body())
        return JSONResponse(await run_in_threadpool(valid_doc_counts, self._instance, table, names, kind))

    async def read_view(self, request: Request) -> Response:
        """Return rows of segments as an Arrow stream, together with valid docs, as of one moment."""
        body = await run_in_threadpool(read_view, self._instance, request.path_params["table"], await request.body())
        return Response(body, media_type="application/vnd.apache.arrow.stream")

    async def size(self, request: Request) -> Response:
        """Return the bytes of a table's loaded segments on disk."""
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
    return _segments_in(load_json(body, "body") if body.strip() else {})


def _segments_in(document: Any) -> list[str]:
    names = document.get("segments") or [] if isinstance(document, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InvalidConfigError('the body must be {"segments": [names of segments]}')
    return names


def _no_table(request: Request) -> Response:
    what = "/".join(request.path_params.values())
    return refusal(404, f"'{what}' is not loaded on this server")


async def _not_found(request: Request, _: Exception) -> Response:
    return refusal(404, f"HTTP 404 Not Found: {request.url.path}")
