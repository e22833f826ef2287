"""REST: how the consumption of a stream goes, gathered from all servers that consume it."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query

from gamay.base.errors import NotFoundError
from gamay.cluster.records import CONSUMING, Assignment, SegmentRecord
from gamay.controller.api.services import Services
from gamay.model.table_name import TableType

Limit = Annotated[int, Query(ge=0, le=10_000, description="How many entries to show, the last ones")]

# Pinot's controller names these four otherwise than its servers do.
_RENAMED = {
    "currentOffsets": "currentOffsetsMap",
    "latestUpstreamOffsets": "latestUpstreamOffsetMap",
    "recordsLag": "recordsLagMap",
    "availabilityLagMs": "availabilityLagMsMap",
}


def realtime_status_router(services: Services) -> APIRouter:
    """Return the routes."""
    router = APIRouter(tags=["Realtime"])
    registry, servers = services.context.registry, services.context.servers

    @router.get("/tables/{table}/consumingSegmentsInfo", summary="Show how far the consuming segments of a table are")
    def consuming_segments(table: str) -> dict[str, Any]:
        typed = services.tables.resolve_one(table, TableType.REALTIME.value)
        ideal = registry.must_get_ideal_state(typed)
        consuming = {name: states for name, states in sorted(ideal.states.items()) if CONSUMING in states.values()}
        answers, silent = _ask_all(_servers(ideal), lambda server: servers.consuming_segments(server, typed))
        found: dict[str, list[dict[str, Any]]] = {name: [] for name in consuming}
        for server, segments in answers.items():
            for info in segments:
                found.setdefault(info["segmentName"], []).append(_renamed(server, info))
        return {
            "serversFailingToRespond": len(silent),
            "serversUnparsableRespond": 0,
            "_segmentToConsumingInfoMap": found,
        }

    @router.get("/tables/{table}/realtimeStatus", summary="Show all that is known of the consumption of a table")
    def realtime_status(table: str) -> dict[str, Any]:
        typed = services.tables.resolve_one(table, TableType.REALTIME.value)
        ideal = registry.must_get_ideal_state(typed)
        answers, silent = _ask_all(_servers(ideal), lambda server: servers.consumption(server, typed))
        segments = [_segment(record, ideal, answers) for record in registry.segments(typed) if not record.complete]
        return {
            "tableName": typed,
            "consumingSegments": sorted(segments, key=lambda segment: segment["segmentName"]),
            "completedSegments": _completed(list(registry.segments(typed))),
            "servers": {server: _server(answer) for server, answer in answers.items()},
            "serversFailingToRespond": silent,
        }

    @router.get("/tables/{table}/deadLetters", summary="List messages of the stream that are no rows of the table")
    def dead_letters(table: str, limit: Limit = 100) -> dict[str, Any]:
        typed = services.tables.resolve_one(table, TableType.REALTIME.value)
        ideal = registry.must_get_ideal_state(typed)
        answers, silent = _ask_all(_servers(ideal), lambda server: servers.dead_letters(server, typed, limit))
        # replicas find the same messages
        entries = {(e["partition"], e["offset"]): e for found in answers.values() for e in found}
        ordered = sorted(entries.values(), key=lambda e: (e["timestampMs"], e["partition"], e["offset"]))
        return {"tableName": typed, "deadLetters": ordered[-limit:] if limit else [], "serversFailingToRespond": silent}

    return router


def _servers(ideal: Assignment) -> list[str]:
    return sorted({server for states in ideal.states.values() for server in states})


def _ask_all(servers: list[str], ask: Callable[[str], Any]) -> tuple[dict[str, Any], list[str]]:
    """Return the answers by server, and the servers that do not answer."""
    answers: dict[str, Any] = {}
    silent: list[str] = []
    for server in servers:
        try:
            answers[server] = ask(server)
        except NotFoundError:
            silent.append(server)
    return answers, silent


def _renamed(server: str, info: Mapping[str, Any]) -> dict[str, Any]:
    offsets = {_RENAMED[name]: value for name, value in info["partitionOffsetInfo"].items()}
    rest = {name: value for name, value in info.items() if name not in ("segmentName", "partitionOffsetInfo")}
    return {"serverName": server, **rest, "partitionOffsetInfo": offsets}


def _segment(record: SegmentRecord, ideal: Assignment, answers: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the records and each replica say of a segment that is not complete."""
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
    """Return how many segments are complete, and how large they are on average."""
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
