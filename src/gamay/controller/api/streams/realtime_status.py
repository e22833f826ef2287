"""REST: the state of a stream's consumption, gathered from all servers that consume it."""

from collections.abc import Mapping
from typing import Any

from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import Assignment, SegmentRecord
from gamay.cluster.records.views import SegmentStatus, segment_status
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services
from gamay.controller.completion.consuming_info import ask_servers, consuming_info
from gamay.controller.realtime.ideal_steps import latest_segments
from gamay.model.table.table_name import TableType


def realtime_status_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Realtime"])
    registry, servers = services.context.registry, services.context.servers

    @router.get(
        "/tables/{table}/consumingSegmentsInfo", summary="Show the offsets and states of a table's consuming segments"
    )
    def consuming_segments(table: str) -> dict[str, Any]:
        typed = services.tables.resolve_one(table, TableType.REALTIME.value)
        found = consuming_info(services.context, typed)
        return {
            "serversFailingToRespond": len(found.silent),
            "serversUnparsableRespond": 0,
            "_segmentToConsumingInfoMap": found.segments,
        }

    @router.get("/tables/{table}/realtimeStatus", summary="Show the complete state of a table's consumption")
    def realtime_status(table: str) -> dict[str, Any]:
        typed = services.tables.resolve_one(table, TableType.REALTIME.value)
        ideal = registry.must_get_ideal_state(typed)
        answers, silent = ask_servers(ideal, lambda server: servers.consumption(server, typed))
        segments = [_segment(record, ideal, answers) for record in registry.segments(typed) if not record.complete]
        return {
            "tableName": typed,
            "consumingSegments": sorted(segments, key=lambda segment: segment["segmentName"]),
            "completedSegments": _completed(list(registry.segments(typed))),
            "servers": {server: _server(answer) for server, answer in answers.items()},
            "serversFailingToRespond": silent,
        }

    _partition_routes(router, services)
    return router


def _partition_routes(router: GuardedRouter, services: Services) -> None:
    registry = services.context.registry

    @router.get(
        "/tables/{table}/badLLCSegmentsPerPartition",
        summary="List the segments whose external view differs from the ideal state",
    )
    def bad_segments(table: str) -> dict[str, list[str]]:
        typed = services.tables.resolve_one(table, TableType.REALTIME.value)
        ideal, view = registry.must_get_ideal_state(typed), registry.get_external_view(typed)
        actual = {} if view is None else view.states
        names = [name for segment in ideal.states if (name := LlcName.parse(segment)) is not None]
        found: dict[str, list[str]] = {}
        for name in sorted(names):
            segment = str(name)
            if segment_status(ideal.states[segment], actual.get(segment)) is not SegmentStatus.GOOD:
                found.setdefault(str(name.partition), []).append(segment)
        return found

    @router.get(
        "/tables/{table}/consumerWatermarks",
        summary="Show the offset from which each partition of the stream would continue",
    )
    def watermarks(table: str) -> dict[str, Any]:
        typed = services.tables.resolve_one(table, TableType.REALTIME.value)
        latest = latest_segments(registry.must_get_ideal_state(typed))
        records = registry.get_segments(typed, [str(name) for name in latest.values()])
        return {"watermarks": [_watermark(LlcName.must_parse(name), record) for name, record in sorted(records.items())]}


def _watermark(name: LlcName, record: SegmentRecord) -> dict[str, Any]:
    if record.end_offset:
        return {"partitionGroupId": name.partition, "sequenceNumber": name.sequence + 1, "startOffset": record.end_offset}
    return {"partitionGroupId": name.partition, "sequenceNumber": name.sequence, "startOffset": record.start_offset}


def _segment(record: SegmentRecord, ideal: Assignment, answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return the state of an incomplete segment by its record and by each replica."""
    replicas = {
        server: consumer
        for server, answer in answers.items()
        for consumer in answer["consumers"]
        if consumer["segmentName"] == record.name
    }
    return {
        "segmentName": record.name,
        "status": record.status,
        "startOffset": record.start_offset,
        "endOffset": record.end_offset or None,
        "lostOffsets": record.lost_offsets or None,
        "creationTimeMs": record.creation_time_ms,
        "rowLimit": record.flush_threshold_rows if record.flush_threshold_rows > 0 else None,
        "idealState": dict(ideal.states.get(record.name, {})),
        "replicas": replicas,
    }


def _completed(records: list[SegmentRecord]) -> dict[str, Any]:
    """Return the number and the mean size of the complete segments."""
    done = [record for record in records if record.complete]
    sizes = [record.size_bytes for record in done if record.size_bytes >= 0]
    rows = [record.total_docs for record in done]
    return {
        "number": len(done),
        "meanSizeBytes": round(sum(sizes) / len(sizes)) if sizes else None,
        "meanRows": round(sum(rows) / len(rows)) if rows else None,
    }


def _server(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return a server's part without its consumers, which are shown with their segments."""
    return {name: value for name, value in answer.items() if name not in ("consumers", "tableName", "instance")}
