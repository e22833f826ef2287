"""REST: uploading segments, and ingesting single files."""

from functools import partial
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.concurrency import run_in_threadpool

from gamay.base.errors import InvalidConfigError
from gamay.cluster.records.records import SegmentRecord
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.segments.multipart import stream_single
from gamay.controller.api.services import Services, file_docs, principal_of, status
from gamay.controller.segments.ingest_file import batch_config, ingest_file, ingest_uri
from gamay.controller.segments.segments import PushOptions
from gamay.model.parse import load_json
from gamay.segment.encode.metadata import SegmentMetadata

_CUSTOM_MAP = "Pinot-SegmentZKMetadataCustomMapModifier"
TableName = Annotated[str, Query(alias="tableName", description="Raw or typed name of the table")]
TableType = Annotated[str, Query(alias="tableType")]
AllowRefresh = Annotated[bool, Query(alias="allowRefresh")]
Protection = Annotated[bool, Query(alias="enableParallelPushProtection")]


def upload_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Segment"])
    docs = file_docs("A segment archive, or with UPLOAD_TYPE METADATA an archive of its metadata")

    async def upload(
        request: Request,
        table_name: TableName = "",
        table_type: TableType = "OFFLINE",
        allow_refresh: AllowRefresh = True,
        protection: Protection = False,
    ) -> dict[str, Any]:
        target = _Target(services, request, table_name, table_type)
        options = _options(request, allow_refresh)
        record = await _upload(services, request, target, options, keep_url=request.url.path == "/segments")
        return status(f"Successfully uploaded segment: {record.name} of table: {target.table}")

    for path in ("/v2/segments", "/segments"):
        router.post(path, summary="Upload a segment", openapi_extra=docs)(upload)

    @router.post("/segments/batchUpload", summary="Upload the metadata of many segments", openapi_extra=docs)
    async def batch_upload(
        request: Request, table_name: TableName = "", table_type: TableType = "OFFLINE", allow_refresh: AllowRefresh = True
    ) -> dict[str, Any]:
        table = _table(services, table_name, table_type)
        options = _options(request, allow_refresh)
        if request.headers.get("UPLOAD_TYPE", "METADATA").upper() != "METADATA":
            raise InvalidConfigError("batchUpload takes only UPLOAD_TYPE METADATA")
        with services.uploads.scratch(f"add segments to table '{table}'") as scratch:
            part = await stream_single(request, scratch)
            upload_all = partial(services.uploads.metadata_batch, copy=_copies(request))
            records = await run_in_threadpool(upload_all, table, part.path, scratch, options)
        names = ", ".join(record.name for record in records)
        return status(f"Successfully uploaded segments: [{names}] of table: {table}")

    return router


def ingest_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Ingest"])

    @router.post("/ingestFromFile", summary="Build a segment from a file and add it", openapi_extra=file_docs("The file"))
    async def from_file(
        request: Request,
        table: Annotated[str, Query(alias="tableNameWithType")],
        config_text: Annotated[str, Query(alias="batchConfigMapStr")],
    ) -> dict[str, Any]:
        config = batch_config(config_text)
        with services.uploads.scratch(f"ingest into table '{table}'") as scratch:
            part = await stream_single(request, scratch)
            name = await run_in_threadpool(ingest_file, services.writer, table, part.path, part.file_name, config)
        return status(f"Successfully ingested file into table: {table} as segment: {name}")

    @router.post("/ingestFromURI", summary="Build a segment from a file at a URI and add it")
    def from_uri(
        table: Annotated[str, Query(alias="tableNameWithType")],
        config_text: Annotated[str, Query(alias="batchConfigMapStr")],
        source: Annotated[str, Query(alias="sourceURIStr")],
    ) -> dict[str, Any]:
        with services.uploads.scratch(f"ingest into table '{table}'") as scratch:
            name = ingest_uri(services.writer, table, source, batch_config(config_text), scratch)
        return status(f"Successfully ingested file into table: {table} as segment: {name}")

    return router


class _Target:
    """The table of an upload: the one that the request names, or else the one that the segment was built for.

    table: its name with type; empty until the segment is known if the request names none.
    Raises NotFoundError, and ForbiddenError for a segment of a table that its sender may not use.
    """

    def __init__(self, services: Services, request: Request, name: str, table_type: str) -> None:
        self._tables, self._type = services.tables, table_type
        self._sender = principal_of(request)
        if name:
            self._sender.check_table(name)
        self.table = self._tables.resolve_one(name, table_type) if name else ""

    def __call__(self, info: SegmentMetadata) -> str:
        if not self.table:
            self._sender.check_table(info.table)
            self.table = self._tables.resolve_one(info.table, self._type)
        return self.table


async def _upload(
    services: Services, request: Request, target: _Target, options: PushOptions, *, keep_url: bool
) -> SegmentRecord:
    kind = request.headers.get("UPLOAD_TYPE", "SEGMENT").upper()
    uri = request.headers.get("DOWNLOAD_URI", "")
    if kind in ("URI", "METADATA") and not uri:
        raise InvalidConfigError(f"The header DOWNLOAD_URI is missing, which UPLOAD_TYPE {kind} needs")
    uploads = services.uploads
    purpose = f"add a segment to table '{target.table}'" if target.table else "add a segment"
    if kind == "URI":
        return await run_in_threadpool(uploads.uri, target, uri, options, purpose, keep_url=keep_url)
    if kind not in ("SEGMENT", "METADATA"):
        raise InvalidConfigError(f"Unsupported UPLOAD_TYPE: {kind}, it must be SEGMENT, URI or METADATA")
    with uploads.scratch(purpose) as scratch:
        part = await stream_single(request, scratch)
        if kind == "SEGMENT":
            return await run_in_threadpool(uploads.archive, target, part.path, scratch, options)
        return await run_in_threadpool(uploads.metadata, target, part.path, scratch, uri, options, copy=_copies(request))


def _copies(request: Request) -> bool:
    return request.headers.get("COPY_SEGMENT_TO_DEEP_STORE", "false").lower() == "true"


def _table(services: Services, name: str, table_type: str) -> str:
    if not name:
        raise InvalidConfigError("The parameter tableName is missing")
    return services.tables.resolve_one(name, table_type)


def _options(request: Request, allow_refresh: bool) -> PushOptions:
    if name := request.headers.get("CRYPTER"):
        raise InvalidConfigError(f"Encrypted segments are not supported (CRYPTER: {name})")
    custom_map = None
    if text := request.headers.get(_CUSTOM_MAP):
        modifier = load_json(text, f"header {_CUSTOM_MAP}")
        entries = modifier.get("map") if isinstance(modifier, dict) else None
        if not isinstance(entries, dict):
            raise InvalidConfigError(f"The header {_CUSTOM_MAP} must look like {{'mapModifyMode': 'UPDATE', 'map': {{}}}}")
        custom_map = (str(modifier.get("mapModifyMode", "UPDATE")), {str(k): str(v) for k, v in entries.items()})
    return PushOptions(
        allow_refresh=allow_refresh,
        refresh_only=request.headers.get("REFRESH_ONLY", "false").lower() == "true",
        if_match=request.headers.get("If-Match"),
        custom_map=custom_map,
    )
