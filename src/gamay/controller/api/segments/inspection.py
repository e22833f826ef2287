"""REST: the schema and sample rows of a file or a topic that is to become a table. Nothing is stored."""

from typing import Annotated, Any

from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool

from gamay.base.errors import InvalidConfigError, RecordError
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.segments.multipart import stream_single
from gamay.controller.api.services import Services, body_docs, file_docs, json_body
from gamay.controller.realtime.streams import check_topic
from gamay.ingest.inspect import inspect_file, inspect_topic
from gamay.ingest.read.readers import format_of
from gamay.ingest.stream.config import StreamConfig
from gamay.ingest.stream.spi import PermanentStreamError
from gamay.web.guarded import sender_of

INSPECTED_BYTES_MAX = 64 << 20

_Table = Annotated[str, Query(alias="tableName", description="Name of the new table")]
_Format = Annotated[
    str, Query(alias="inputFormat", description="As in batchConfigMapStr; empty: by the extension of the file")
]
_Time = Annotated[str, Query(alias="timeColumn", description="The time column; empty for none")]


def inspection_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Ingest"])
    fetchers = services.context.fetchers

    def inspected(table: str, path: str, shown: str, data_format: str, time_column: str) -> dict[str, Any]:
        found = data_format or format_of(shown)
        try:
            answer = inspect_file(table, path, found, time_column=time_column or None).to_json()
        except (RecordError, InvalidConfigError) as error:
            raise InvalidConfigError(str(error).replace(path, shown)) from error
        return {"inputFormat": found, **answer}

    @router.post(
        "/inspectFile",
        summary="Propose a schema for a file, with a summary of its first rows",
        openapi_extra=file_docs("The file, or the first rows of one, 64 MiB at most"),
    )
    async def file(request: Request, table: _Table, data_format: _Format = "", time_column: _Time = "") -> dict[str, Any]:
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > INSPECTED_BYTES_MAX + 10_000:
            raise InvalidConfigError(
                f"a file of more than {INSPECTED_BYTES_MAX >> 20} MiB cannot be inspected: send its first rows, or use a job"
            )
        with services.uploads.scratch("look at a file") as scratch:
            part = await stream_single(request, scratch)
            return await run_in_threadpool(inspected, table, str(part.path), part.file_name, data_format, time_column)

    @router.post("/inspectURI", summary="Propose a schema for a file at a URI, with a summary of its first rows")
    def uri(
        table: _Table,
        source: Annotated[str, Query(alias="sourceURIStr", description="A URI that gamay.ingest.allowed_uris allows")],
        data_format: _Format = "",
        time_column: _Time = "",
    ) -> dict[str, Any]:
        with services.uploads.scratch("look at a file") as scratch:
            path = scratch / "fetched"
            fetchers.fetch_named(source, path)
            return inspected(table, str(path), source, data_format, time_column)

    @router.post(
        "/inspectTopic",
        summary="Propose a schema for a topic, with a summary of its first messages",
        openapi_extra=body_docs(
            "A topic, written as in streamConfigMaps",
            {"streamType": "log", "stream.log.topic.name": "trips", "stream.log.decoder.class.name": "json"},
        ),
    )
    async def topic(request: Request, table: _Table, time_column: _Time = "") -> dict[str, Any]:
        given = await json_body(request)
        config = StreamConfig.parse({key: str(value) for key, value in given.items()}, "the request body")
        check_topic(config, fetchers, sender_of(request.scope))
        streams = services.context.streams
        try:
            found = await run_in_threadpool(inspect_topic, table, config, streams, time_column or None)
        except PermanentStreamError as error:  # the request names a topic that does not exist or cannot be read
            raise InvalidConfigError(str(error)) from error
        return found.to_json()

    return router
