"""REST: reading segments."""

import shutil
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import Query, Request
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, RedirectResponse, Response

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.records.records import SegmentRecord
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, principal_of
from gamay.model.table.table_name import raw_table_name, table_type_of
from gamay.storage.archive import pack

_LONG = 2**63 - 1

TypeParam = Annotated[str | None, Query(alias="type", description="OFFLINE or REALTIME")]
RequiredType = Annotated[str, Query(alias="type", description="OFFLINE or REALTIME")]
Names = Annotated[list[str], Query(alias="segments", default_factory=list)]
Columns = Annotated[list[str], Query(alias="columns", default_factory=list, description="Names, or * for all")]
StartTime = Annotated[str, Query(alias="startTimestamp")]
EndTime = Annotated[str, Query(alias="endTimestamp")]
ExcludeOverlapping = Annotated[bool, Query(alias="excludeOverlapping")]
ExcludeReplaced = Annotated[bool, Query(alias="excludeReplacedSegments")]


def segment_read_router(services: Services) -> GuardedRouter:
    """Return the routes that read segments. More specific paths come first, since a segment may have any name."""
    router = GuardedRouter(tags=["Segment"])
    tables = services.tables

    def select(
        table: str,
        table_type: TypeParam = None,
        start: StartTime = "",
        end: EndTime = "",
        exclude_overlapping: ExcludeOverlapping = False,
        exclude_replaced: ExcludeReplaced = False,
    ) -> list[dict[str, list[str]]]:
        found = tables.resolve(table, table_type)
        return [
            {_type_name(t): select_segments(services, t, start, end, exclude_overlapping, exclude_replaced)} for t in found
        ]

    router.get("/segments/{table}", summary="List the segments of a table")(select)
    router.get("/segments/{table}/select", summary="List the segments of a table within a time range")(select)

    @router.get("/segments/segmentReloadStatus/{job_id}", summary="Show the progress of a reload")
    def reload_status(request: Request, job_id: str) -> dict[str, Any]:
        principal_of(request).check_table(services.reloads.table_of(job_id))
        return services.reloads.status(job_id)

    @router.get("/segments/{table}/servers", summary="Show which server holds which segments")
    def servers(table: str, table_type: TypeParam = None, verbose: bool = True) -> list[dict[str, Any]]:
        return [_servers(services, typed, verbose) for typed in tables.resolve(table, table_type)]

    @router.get("/segments/{table}/lineage", summary="Show the replacements of segments")
    def lineage(table: str, table_type: RequiredType) -> Response:
        document = services.replacements.document(tables.resolve_one(table, table_type))
        return Response(b"" if document is None else orjson.dumps(document), media_type="application/json")

    @router.get("/segments/{table}/crc", summary="List the CRCs of all segments")
    def crcs(table: str) -> dict[str, str]:
        return {r.name: str(r.crc) for r in services.context.registry.segments(tables.resolve_one(table, "OFFLINE"))}

    @router.get("/segments/{table}/zkmetadata", summary="Show the records of all segments")
    def records(table: str, table_type: TypeParam = None) -> dict[str, dict[str, str]]:
        typed = tables.resolve_one(table, table_type)
        return {record.name: public_record(services, typed, record) for record in services.context.registry.segments(typed)}

    _detail_routes(router, services)
    return router


def _detail_routes(router: GuardedRouter, services: Services) -> None:
    tables = services.tables

    @router.get("/segments/{table}/metadata", summary="Show the segment metadata of servers")
    def all_metadata(
        table: str,
        names: Names,
        columns: Columns,
        table_type: TypeParam = None,
    ) -> dict[str, Any]:
        typed = tables.resolve(table, table_type)[0]
        ideal = services.context.registry.must_get_ideal_state(typed)
        told = {
            name: _details(services, typed, name, columns) for name in sorted(ideal.states) if not names or name in names
        }
        return {name: details for name, details in told.items() if details is not None}

    @router.get("/segments/{table}/{segment}/metadata", summary="Show the record of a segment, and its columns")
    def metadata(table: str, segment: str, columns: Columns) -> dict[str, Any]:
        for typed in tables.resolve(table):
            record = services.context.registry.get_segment(typed, segment)
            if record is not None:
                shown: dict[str, Any] = dict(public_record(services, typed, record))
                details = _details(services, typed, segment, columns) if columns else None
                if details is not None:
                    shown |= {"indexes": details["indexes"], "columns": details["columns"]}
                return shown
        raise NotFoundError(f"Failed to find segment: {segment} in table: {table}")

    @router.get("/segments/{table}/{segment}", summary="Download a segment", response_class=FileResponse)
    def download(table: str, segment: str) -> Response:
        for typed in tables.resolve(table):
            record = services.context.registry.get_segment(typed, segment)
            if record is not None and record.download_url:
                return _download(services, record)
        raise NotFoundError(f"Segment {segment} or table {table} not found")


def public_record(services: Services, table: str, record: SegmentRecord) -> dict[str, str]:
    """Return a segment's record as clients see it: all values are strings, and the URL is one that they can download
    from."""
    shown = record.to_record().simple
    shown.pop("gamay.segment.columns", None)
    if services.context.deep_store.owns(record.download_url):
        shown["segment.download.url"] = f"{services.context.url}/segments/{raw_table_name(table)}/{_quoted(record.name)}"
    return shown


def select_segments(
    services: Services, table: str, start: str, end: str, exclude_overlapping: bool, exclude_replaced: bool
) -> list[str]:
    if not start and not end:
        return services.segments.names(table, exclude_replaced=exclude_replaced)
    return services.segments.names_between(
        table,
        _millis(start, -_LONG),
        _millis(end, _LONG),
        exclude_overlapping=exclude_overlapping,
        exclude_replaced=exclude_replaced,
    )


def _millis(text: str, default: int) -> int:
    if not text:
        return default
    try:
        return int(text)
    except ValueError:
        raise InvalidConfigError(f"'{text}' is not a time in milliseconds") from None


def _servers(services: Services, table: str, verbose: bool) -> dict[str, Any]:
    by_server: dict[str, list[str]] = {}
    for segment, states in sorted(services.context.registry.must_get_ideal_state(table).states.items()):
        for server in states:
            by_server.setdefault(server, []).append(segment)
    return {
        "tableName": table,
        **({"serverToSegmentsMap": by_server} if verbose else {}),
        "serverToSegmentsCountMap": {server: len(names) for server, names in by_server.items()},
    }


def _details(services: Services, table: str, segment: str, columns: list[str]) -> dict[str, Any] | None:
    """Return a server's metadata of a segment, or None if no server has loaded it, as while it is consumed."""
    ideal = services.context.registry.must_get_ideal_state(table)
    for server in sorted(ideal.states.get(segment, {})):
        try:
            return services.context.servers.segment_details(server, table, segment, columns)
        except NotFoundError:
            continue
    return None


def _download(services: Services, record: SegmentRecord) -> Response:
    if not services.context.deep_store.owns(record.download_url):
        return RedirectResponse(record.download_url)
    scratch = services.context.work_dir / services.context.ids.new()
    scratch.mkdir()
    cleanup = partial(shutil.rmtree, scratch, ignore_errors=True)
    try:
        path = services.context.deep_store.get(record.download_url, scratch)
        if path.is_dir():
            path = pack(path, scratch / f"{record.name}.tar.gz")
    except BaseException:
        cleanup()
        raise
    return FileResponse(
        path,
        media_type="application/octet-stream",
        filename=f"{record.name}{''.join(Path(path.name).suffixes[-2:])}",
        background=BackgroundTask(cleanup),
    )


def _type_name(table: str) -> str:
    table_type = table_type_of(table)
    assert table_type is not None
    return table_type.value


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
