"""REST: reading, deleting, reloading and replacing segments."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Query
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, RedirectResponse, Response

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.cluster.records import SegmentRecord
from gamay.controller.api.services import Services, json_body, names_body, optional_json_body, status
from gamay.model.table_name import raw_table_name, table_type_of
from gamay.storage.archive import pack

_LONG = 2**63 - 1
_NAMES_SHOWN = 5
_REPLACE_TIMEOUT_S = 600

TypeParam = Annotated[str | None, Query(alias="type", description="OFFLINE or REALTIME")]
RequiredType = Annotated[str, Query(alias="type", description="OFFLINE or REALTIME")]
Names = Annotated[list[str], Query(alias="segments", default_factory=list)]
Columns = Annotated[list[str], Query(alias="columns", default_factory=list, description="Names, or * for all")]
StartTime = Annotated[str, Query(alias="startTimestamp")]
EndTime = Annotated[str, Query(alias="endTimestamp")]
ExcludeOverlapping = Annotated[bool, Query(alias="excludeOverlapping")]
ExcludeReplaced = Annotated[bool, Query(alias="excludeReplacedSegments")]


def segment_read_router(services: Services) -> APIRouter:
    """Return the routes that read. More specific paths come first: a segment may have any name."""
    router = APIRouter(tags=["Segment"])
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
        return [{_type_name(t): _select(services, t, start, end, exclude_overlapping, exclude_replaced)} for t in found]

    router.get("/segments/{table}", summary="List the segments of a table")(select)
    router.get("/segments/{table}/select", summary="List the segments of a table within a time range")(select)

    @router.get("/segments/segmentReloadStatus/{job_id}", summary="Tell how far a reload is")
    def reload_status(job_id: str) -> dict[str, Any]:
        return services.reloads.status(job_id)

    @router.get("/segments/{table}/servers", summary="Tell which server holds which segments")
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

    @router.get("/segments/{table}/metadata", summary="Show what servers tell of segments")
    def all_metadata(
        table: str,
        names: Names,
        columns: Columns,
        table_type: TypeParam = None,
    ) -> dict[str, Any]:
        typed = tables.resolve(table, table_type)[0]
        ideal = services.context.registry.must_get_ideal_state(typed)
        return {
            name: _details(services, typed, name, columns) for name in sorted(ideal.states) if not names or name in names
        }

    @router.get("/segments/{table}/{segment}/metadata", summary="Show the record of a segment, and its columns")
    def metadata(table: str, segment: str, columns: Columns) -> dict[str, Any]:
        for typed in tables.resolve(table):
            record = services.context.registry.get_segment(typed, segment)
            if record is not None:
                shown: dict[str, Any] = dict(public_record(services, typed, record))
                if columns:
                    details = _details(services, typed, segment, columns)
                    shown |= {"indexes": details["indexes"], "columns": details["columns"]}
                return shown
        raise NotFoundError(f"Failed to find segment: {segment} in table: {table}")

    @router.get("/segments/{table}/{segment}", summary="Download a segment", response_class=FileResponse)
    def download(table: str, segment: str) -> Response:
        for typed in tables.resolve(table):
            record = services.context.registry.get_segment(typed, segment)
            if record is not None:
                return _download(services, record)
        raise NotFoundError(f"Segment {segment} or table {table} not found")

    return router


def segment_change_router(services: Services) -> APIRouter:
    """Return the routes that delete, reload and replace."""
    router = APIRouter(tags=["Segment"])
    tables, segments = services.tables, services.segments

    @router.delete("/segments/{table}/choose", summary="Delete the segments of a time range")
    def delete_between(
        table: str,
        start: StartTime,
        end: EndTime,
        table_type: TypeParam = None,
        exclude_replaced: ExcludeReplaced = False,
        exclude_overlapping: ExcludeOverlapping = False,
    ) -> dict[str, Any]:
        typed = tables.resolve_one(table, table_type)
        chosen = _select(services, typed, start, end, exclude_overlapping, exclude_replaced)
        segments.delete(typed, chosen)
        return status(_deleted(typed, chosen))

    @router.delete("/segments/{table}/{segment}", summary="Delete a segment")
    def delete_one(table: str, segment: str, retention: str | None = None) -> dict[str, Any]:
        holding = [t for t in tables.resolve(table) if services.context.registry.get_segment(t, segment) is not None]
        if not holding:
            raise NotFoundError(f"Segment {segment} not found in table {table}")
        segments.delete(holding[0], [segment], retention)
        return status("Segment deleted")

    @router.delete("/segments/{table}", summary="Delete all segments of a table, or the named ones")
    def delete_many(
        table: str,
        table_type: RequiredType,
        names: Names,
        retention: str | None = None,
    ) -> dict[str, Any]:
        typed = tables.resolve_one(table, table_type)
        segments.delete(typed, names or segments.names(typed), retention)
        return status(_deleted(typed, names) if names else f"All segments of table {typed} deleted")

    @router.post("/segments/{table}/delete", summary="Delete the named segments")
    def delete_listed(
        table: str, names: Annotated[list[str], Depends(names_body)], retention: str | None = None
    ) -> dict[str, Any]:
        typed = tables.resolve_one(table)
        segments.delete(typed, names, retention)
        return status(_deleted(typed, names))

    @router.post("/segments/{table}/{segment}/reload", summary="Let servers load a segment again")
    def reload_one(
        table: str,
        segment: str,
        force: Annotated[bool, Query(alias="forceDownload")] = False,
        target: Annotated[str, Query(alias="targetInstance")] = "",
    ) -> dict[str, Any]:
        holding = [t for t in tables.resolve(table) if services.context.registry.get_segment(t, segment) is not None]
        if not holding:
            raise NotFoundError(f"Segment {segment} not found in table {table}")
        job = services.reloads.submit(holding[0], [segment], force_download=force, target=target)
        return status(
            f"Submitted reload job id: {job.id}, sent {job.num_messages} reload messages. "
            "Job meta ZK storage status: SUCCESS"
        )

    @router.post("/segments/{table}/reload", summary="Let servers load all segments of a table again")
    def reload_all(
        table: str,
        table_type: TypeParam = None,
        force: Annotated[bool, Query(alias="forceDownload")] = False,
        target: Annotated[str, Query(alias="targetInstance")] = "",
    ) -> dict[str, Any]:
        jobs = {
            t: services.reloads.submit(t, force_download=force, target=target) for t in tables.resolve(table, table_type)
        }
        told = {
            typed: {
                "numMessagesSent": str(job.num_messages),
                "reloadJobId": job.id,
                "reloadJobMetaZKStorageStatus": "SUCCESS",
            }
            for typed, job in jobs.items()
        }
        return status(orjson.dumps(told).decode())

    _replace_routes(router, services)
    return router


def _replace_routes(router: APIRouter, services: Services) -> None:
    tables, replacements = services.tables, services.replacements

    @router.post("/segments/{table}/startReplaceSegments", summary="Begin to replace segments atomically")
    def start(
        table: str,
        table_type: RequiredType,
        body: Annotated[dict[str, Any], Depends(json_body)],
        force: Annotated[bool, Query(alias="forceCleanup")] = False,
    ) -> dict[str, str]:
        typed = tables.resolve_one(table, table_type)
        sides = [_text_list(body, key) for key in ("segmentsFrom", "segmentsTo")]
        return {"segmentLineageEntryId": replacements.start(typed, *sides, force=force)}

    @router.post("/segments/{table}/endReplaceSegments", summary="Make the new segments visible and hide the old ones")
    def end(
        table: str,
        table_type: RequiredType,
        entry: Annotated[str, Query(alias="segmentLineageEntryId")],
        body: Annotated[dict[str, Any], Depends(optional_json_body)],
    ) -> Response:
        typed = tables.resolve_one(table, table_type)
        replacements.end(typed, entry, _text_list(body, "segmentsTo"), _REPLACE_TIMEOUT_S, services.sleep)
        return Response(status_code=200)

    @router.post("/segments/{table}/revertReplaceSegments", summary="Show the old segments again")
    def revert(
        table: str,
        table_type: RequiredType,
        entry: Annotated[str, Query(alias="segmentLineageEntryId")],
        force: Annotated[bool, Query(alias="forceRevert")] = False,
    ) -> Response:
        replacements.revert(tables.resolve_one(table, table_type), entry, force=force)
        return Response(status_code=200)


def public_record(services: Services, table: str, record: SegmentRecord) -> dict[str, str]:
    """Return a segment's record as clients see it: all texts, with a URL that they can download from."""
    shown = record.to_record().simple
    shown.pop("gamay.segment.columns", None)
    if services.context.deep_store.owns(record.download_url):
        shown["segment.download.url"] = f"{services.context.url}/segments/{raw_table_name(table)}/{_quoted(record.name)}"
    return shown


def _select(
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


def _details(services: Services, table: str, segment: str, columns: list[str]) -> dict[str, Any]:
    ideal = services.context.registry.must_get_ideal_state(table)
    for server in sorted(ideal.states.get(segment, {})):
        try:
            return services.context.servers.segment_details(server, table, segment, columns)
        except NotFoundError:
            continue
    raise NotFoundError(f"No server has loaded segment {segment} of table {table}")


def _download(services: Services, record: SegmentRecord) -> Response:
    if not services.context.deep_store.owns(record.download_url):
        return RedirectResponse(record.download_url)
    path = services.context.deep_store.path_of(record.download_url)
    cleanup: Callable[[], None] | None = None
    if path.is_dir():
        packed = services.context.work_dir / f"{services.context.ids.new()}.tar.gz"
        pack(path, packed)
        path, cleanup = packed, packed.unlink
    return FileResponse(
        path,
        media_type="application/octet-stream",
        filename=f"{record.name}{''.join(Path(path.name).suffixes[-2:])}",
        background=None if cleanup is None else BackgroundTask(cleanup),
    )


def _deleted(table: str, names: list[str]) -> str:
    if len(names) > _NAMES_SHOWN:
        return f"Deleted {len(names)} segments from table: {table}"
    return f"Deleted segments: [{', '.join(names)}] from table: {table}"


def _text_list(body: dict[str, Any], key: str) -> list[str]:
    value = body.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidConfigError(f"'{key}' must be a list of segment names")
    return value


def _type_name(table: str) -> str:
    table_type = table_type_of(table)
    assert table_type is not None
    return table_type.value


def _quoted(name: str) -> str:
    from urllib.parse import quote

    return quote(name, safe="")
