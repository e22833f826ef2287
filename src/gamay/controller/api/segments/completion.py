"""REST: the calls of servers that commit their consuming segments. The HTTP status of the answers is always 200."""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from gamay.base.errors import DiskFullError, InvalidConfigError
from gamay.cluster.records.completion import Call, CompletionRequest, CompletionResponse, MalformedMessageError, Status
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.segments.multipart import stream_single
from gamay.controller.api.services import Services, file_docs

_SUMMARIES = {
    Call.CONSUMED: "Report that a replica has consumed a segment to its end criterion",
    Call.STOPPED_CONSUMING: "Report that a replica cannot continue to consume a segment",
    Call.EXTEND_BUILD_TIME: "Ask for more time to build a segment",
    Call.COMMIT_START: "Begin to commit a segment",
    Call.UPLOAD: "Upload a segment that is to be committed",
    Call.COMMIT_END: "Commit a segment that was uploaded",
    Call.COMMIT_END_WITH_METADATA: "Commit a segment that was uploaded, with its metadata",
    Call.COMMIT: "Upload and commit a segment in one step",
    Call.BUILD_FAILURE: "Report that no segment can be built from the consumed rows",
}
_FAILED = CompletionResponse(Status.FAILED)


def completion_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["SegmentCompletion"])
    realtime = services.realtime

    def plain(call: Call) -> Callable[[Request], Awaitable[dict[str, Any]]]:
        async def handle(request: Request) -> dict[str, Any]:
            asked = _read(call, request)
            response = _FAILED if asked is None else await run_in_threadpool(realtime.completion.ask, call, asked)
            return response.to_json()

        return handle

    def with_file(call: Call) -> Callable[[Request], Awaitable[dict[str, Any]]]:
        async def handle(request: Request) -> dict[str, Any]:
            asked = _read(call, request)
            response = _FAILED if asked is None else await _take(services, call, asked, request)
            return response.to_json()

        return handle

    for call in Call:
        takes_file = call in (Call.UPLOAD, Call.COMMIT, Call.COMMIT_END, Call.COMMIT_END_WITH_METADATA)
        docs = file_docs("The segment's archive, or its metadata") if takes_file else None
        router.add_api_route(
            f"/{call.value}",
            with_file(call) if takes_file else plain(call),
            methods=[call.http_method],
            summary=_SUMMARIES[call],
            openapi_extra=docs,
        )
    return router


def _read(call: Call, request: Request) -> CompletionRequest | None:
    try:
        return CompletionRequest.from_params(call, dict(request.query_params))
    except MalformedMessageError:
        return None


async def _take(services: Services, call: Call, asked: CompletionRequest, request: Request) -> CompletionResponse:
    realtime = services.realtime
    try:
        with services.uploads.scratch(f"receive segment '{asked.segment}'") as scratch:
            path: Path | None = None
            if call is not Call.COMMIT_END:
                path = (await stream_single(request, scratch)).path
            work: Callable[[], CompletionResponse]
            if path is None or call is Call.COMMIT_END_WITH_METADATA:
                work = partial(realtime.commit_end, asked, path, scratch)
            elif call is Call.UPLOAD:
                work = partial(realtime.upload, asked, path, scratch)
            else:
                work = partial(realtime.commit, asked, path, scratch)
            return await run_in_threadpool(work)
    except (InvalidConfigError, DiskFullError):
        return _FAILED
