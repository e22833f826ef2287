"""REST: deleting, reloading and replacing segments."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any

import orjson
from fastapi import Depends, Query
from starlette.responses import Response

from gamay.base.errors import InvalidConfigError, NotFoundError
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.segments.segments import (
    EndTime,
    ExcludeOverlapping,
    ExcludeReplaced,
    Names,
    StartTime,
    TypeParam,
    select_segments,
)
from gamay.controller.api.services import Services, json_body, names_body, optional_json_body, status
from gamay.controller.segments.reload import NothingToReloadError
from gamay.model.parse import load_json

_NAMES_SHOWN = 5
_REPLACE_TIMEOUT_S = 600

ByInstance = Annotated[str, Query(alias="instanceToSegmentsMap", description='JSON, {"Server_a_8098": ["segment"]}')]
RequiredType = Annotated[str, Query(alias="type", description="OFFLINE or REALTIME")]


def segment_change_router(services: Services) -> GuardedRouter:
    """Return the routes that delete, reload and replace."""
    router = GuardedRouter(tags=["Segment"])
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
        chosen = select_segments(services, typed, start, end, exclude_overlapping, exclude_replaced)
        segments.delete(typed, chosen)
        return status(_deleted(typed, chosen))

    @router.post("/segments/{table}/updateZKTimeInterval", summary="Recompute the time ranges of all segments")
    def update_times(table: str) -> dict[str, Any]:
        typed = tables.resolve_one(table)
        segments.update_times(typed)
        return status(f"Successfully updated time interval zk metadata for table: {typed}")

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

    _reload_routes(router, services)
    _replace_routes(router, services)
    return router


def _reload_routes(router: GuardedRouter, services: Services) -> None:
    tables = services.tables

    @router.post("/segments/{table}/{segment}/reload", summary="Reload a segment on its servers")
    def reload_one(
        table: str,
        segment: str,
        force: Annotated[bool, Query(alias="forceDownload")] = False,
        target: Annotated[str, Query(alias="targetInstance")] = "",
    ) -> dict[str, Any]:
        holding = [t for t in tables.resolve(table) if services.context.registry.get_segment(t, segment) is not None]
        if not holding:
            raise NotFoundError(f"Segment {segment} not found in table {table}")
        services.reloads.check(holding[:1])
        job = services.reloads.submit(holding[0], [segment], force_download=force, target=target)
        return status(
            f"Submitted reload job id: {job.id}, sent {job.num_messages} reload messages. "
            "Job meta ZK storage status: SUCCESS"
        )

    @router.post("/segments/{table}/reload", summary="Reload all segments of a table on their servers")
    def reload_all(
        table: str,
        table_type: TypeParam = None,
        force: Annotated[bool, Query(alias="forceDownload")] = False,
        target: Annotated[str, Query(alias="targetInstance")] = "",
        start: StartTime = "",
        end: EndTime = "",
        exclude_overlapping: ExcludeOverlapping = False,
        by_instance: ByInstance = "",
    ) -> dict[str, Any]:
        jobs, only = {}, _by_instance(by_instance)
        halves = tables.resolve(table, table_type)
        services.reloads.check(halves)
        for typed in halves:
            chosen = select_segments(services, typed, start, end, exclude_overlapping, False) if start or end else []
            if (start or end) and not chosen:
                continue
            with suppress(NothingToReloadError):  # the other half may have segments
                jobs[typed] = services.reloads.submit(typed, chosen, force_download=force, target=target, only=only)
        if not jobs:
            raise NotFoundError(f"Failed to find any segment of table {table} to reload")
        told = {
            typed: {
                "numMessagesSent": str(job.num_messages),
                "reloadJobId": job.id,
                "reloadJobMetaZKStorageStatus": "SUCCESS",
            }
            for typed, job in jobs.items()
        }
        return status(orjson.dumps(told).decode())


def _replace_routes(router: GuardedRouter, services: Services) -> None:
    tables, replacements = services.tables, services.replacements

    @router.post("/segments/{table}/startReplaceSegments", summary="Begin to replace segments atomically")
    def start(
        table: str,
        table_type: RequiredType,
        body: Annotated[dict[str, Any], Depends(json_body)],
        force: Annotated[bool, Query(alias="forceCleanup")] = False,
        of_table: Annotated[
            bool, Query(alias="replacesTable", description="Replace the whole table, whichever segments it has")
        ] = False,
    ) -> dict[str, str]:
        typed = tables.resolve_one(table, table_type)
        sides, notes = [_text_list(body, key) for key in ("segmentsFrom", "segmentsTo")], _custom_map(body)
        entry = replacements.start(typed, *sides, force=force, of_table=of_table)
        replacements.note(typed, notes)
        return {"segmentLineageEntryId": entry}

    @router.post("/segments/{table}/endReplaceSegments", summary="Make the new segments visible and hide the old ones")
    def end(
        table: str,
        table_type: RequiredType,
        entry: Annotated[str, Query(alias="segmentLineageEntryId")],
        body: Annotated[dict[str, Any], Depends(optional_json_body)],
        clean_up: Annotated[bool, Query(alias="cleanup", description="Delete the replaced segments at once")] = False,
    ) -> Response:
        typed, notes = tables.resolve_one(table, table_type), _custom_map(body)
        replacements.end(typed, entry, _text_list(body, "segmentsTo"), _REPLACE_TIMEOUT_S, services.sleep)
        replacements.note(typed, notes)
        if clean_up:
            replacements.clean_up(typed, entry)
        return Response(status_code=200)

    @router.post("/segments/{table}/endReplaceSegmentsTogether", summary="End several replacements in one step")
    def end_together(table: str, table_type: RequiredType, body: Annotated[dict[str, Any], Depends(json_body)]) -> Response:
        typed, entries = tables.resolve_one(table, table_type), _text_list(body, "segmentLineageEntryIds")
        if not entries:
            raise InvalidConfigError("'segmentLineageEntryIds' must be a list of at least one id")
        replacements.end_together(typed, entries, _REPLACE_TIMEOUT_S, services.sleep, _batch(body))
        return Response(status_code=200)

    @router.post("/segments/{table}/revertReplaceSegments", summary="Show the old segments again")
    def revert(
        table: str,
        table_type: RequiredType,
        entry: Annotated[str, Query(alias="segmentLineageEntryId")],
        body: Annotated[dict[str, Any], Depends(optional_json_body)],
        force: Annotated[bool, Query(alias="forceRevert")] = False,
        unless_ended: Annotated[
            bool, Query(alias="unlessEnded", description="Refuse to revert a replacement that has ended")
        ] = False,
    ) -> Response:
        typed, notes = tables.resolve_one(table, table_type), _custom_map(body)
        replacements.revert(typed, entry, force=force, unless_ended=unless_ended)
        replacements.note(typed, notes)
        return Response(status_code=200)


def _batch(body: Mapping[str, Any]) -> tuple[str, int] | None:
    """Return the streaming writer and the number of its batch, or None if the request has no `batch`. Raises
    InvalidConfigError."""
    given = body.get("batch")
    if given is None:
        return None
    writer, number = (given.get("writer"), given.get("number")) if isinstance(given, dict) else (None, None)
    if not isinstance(writer, str) or not writer or type(number) is not int or number < 0:
        raise InvalidConfigError(""""batch" must look like {"writer": "a name", "number": 0}""")
    return writer, number


def _by_instance(text: str) -> Mapping[str, list[str]] | None:
    """Return the segments to reload by instance, or None if the request has none. Raises InvalidConfigError."""
    if not text:
        return None
    given = load_json(text, "instanceToSegmentsMap")
    if not isinstance(given, dict) or not all(isinstance(names, list) for names in given.values()):
        raise InvalidConfigError('instanceToSegmentsMap must look like {"Server_a_8098": ["segment"]}')
    return given


def _deleted(table: str, names: list[str]) -> str:
    if len(names) > _NAMES_SHOWN:
        return f"Deleted {len(names)} segments from table: {table}"
    return f"Deleted segments: [{', '.join(names)}] from table: {table}"


def _custom_map(body: Mapping[str, Any]) -> dict[str, str]:
    """Return the custom notes of a request, kept with the lineage. Raises InvalidConfigError."""
    given = body.get("customMap") or {}
    if not isinstance(given, dict) or not all(isinstance(text, str) for text in given.values()):
        raise InvalidConfigError("'customMap' must be an object of texts")
    return given


def _text_list(body: dict[str, Any], key: str) -> list[str]:
    value = body.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InvalidConfigError(f"'{key}' must be a list of segment names")
    return value
