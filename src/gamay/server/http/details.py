"""HTTP: aggregated details of a table's segments, and of the instance."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from gamay.server.http.describe import column_details, describe_segments, index_flags
from gamay.server.http.key_counts import instance_keys, upsert_keys
from gamay.server.instance.instance import ServerInstance
from gamay.server.loading.table import LoadedSegment

_MISSING_SHOWN = 10
_STALE = "stored with other encodings or indexes than the table config asks for now"
_Shown = Callable[[str, Mapping[str, LoadedSegment], Request], Any]


def detail_routes(instance: ServerInstance) -> list[Route]:
    """Return the routes."""

    def of_table(show: _Shown) -> Callable[[Request], Any]:
        async def answer(request: Request) -> Response:
            table = request.path_params["table"]
            data = instance.table(table)
            if data is None:
                return JSONResponse({"code": 404, "error": f"'{table}' is not loaded on this server"}, status_code=404)
            return JSONResponse(await run_in_threadpool(show, table, data.snapshot(), request))

        answer.__doc__ = show.__doc__
        return answer

    def all_loaded(table: str, loaded: Mapping[str, LoadedSegment], _: Request) -> dict[str, Any]:
        """Return whether every segment that should be ONLINE here is."""
        missing = instance.missing_segments(table)
        ends = [end for one in loaded.values() if (end := one.segment.info.end_time_ms) is not None]
        reason = f"not loaded: {', '.join(missing[:_MISSING_SHOWN])}" if missing else None
        return {"valid": not missing, "invalidReason": reason, "maxEndTimeMs": max(ends, default=-1)}

    def segments(table: str, _: Mapping[str, LoadedSegment], request: Request) -> dict[str, Any]:
        """Describe each segment, or the named ones."""
        wanted, columns = request.query_params.getlist("segments"), request.query_params.getlist("columns")
        return describe_segments(instance, table, wanted, columns)

    def tiers(table: str, loaded: Mapping[str, LoadedSegment], _: Request) -> dict[str, Any]:
        """Return the tier of each loaded segment, according to its record, and the consuming segments."""
        data, records = instance.table(table), instance.records(table, loaded)
        mutable = () if data is None else data.contents().consuming
        of_segments = {name: (records[name].tier if name in records else "") or None for name in sorted(loaded)}
        return {"tableName": table, "segmentTiers": of_segments, "mutableSegments": sorted(mutable)}

    def need_reload(table: str, _: Mapping[str, LoadedSegment], __: Request) -> dict[str, Any]:
        """Return whether the storage of any segment differs from the table config."""
        return {"needReload": bool(instance.stale_segments(table)), "instanceId": instance.id}

    def stale(table: str, _: Mapping[str, LoadedSegment], __: Request) -> list[dict[str, Any]]:
        """List the segments whose storage differs from the table config."""
        return [{"segmentName": name, "stale": True, "reason": _STALE} for name in instance.stale_segments(table)]

    def metadata(table: str, loaded: Mapping[str, LoadedSegment], request: Request) -> dict[str, Any]:
        """Return total sizes, rows and keys; for the requested columns (`*`: all), bytes and cardinalities over the
        segments."""
        keys = {partition: {instance.id: count} for partition, count in upsert_keys(instance, table).items()}
        return {**_metadata(table, loaded, request), "upsertPartitionToServerPrimaryKeyCountMap": keys}

    return [
        Route("/tables/{table}/segments/metadata", of_table(segments)),
        Route("/tables/{table}/tiers", of_table(tiers)),
        Route("/tables/{table}/segments/needReload", of_table(need_reload)),
        Route("/tables/{table}/segments/isStale", of_table(stale)),
        Route("/tables/{table}/allSegmentsLoaded", of_table(all_loaded)),
        Route("/tables/{table}/metadata", of_table(metadata)),
        Route("/tables/{table}/indexes", of_table(_indexes)),
        *_instance_routes(instance),
    ]


def _instance_routes(instance: ServerInstance) -> list[Route]:
    async def pools(_: Request) -> Response:
        """Return the pool of the instance by tag."""
        return JSONResponse(dict(instance.pools()))

    async def disk(_: Request) -> Response:
        """Return the usage of the segments' disk."""
        folder, total, used = await run_in_threadpool(instance.disk_usage)
        shown = {"instanceId": instance.id, "path": str(folder)}
        return JSONResponse({**shown, "totalSpaceBytes": total, "usedSpaceBytes": used})

    async def primary_keys(_: Request) -> Response:
        """Return the numbers of primary keys of upsert and dedup tables."""
        return JSONResponse(await run_in_threadpool(instance_keys, instance, instance.clock.now_ms()))

    return [
        Route("/instance/pools", pools),
        Route("/instance/diskUtilization", disk),
        Route("/instance/primaryKeyCount", primary_keys),
    ]


def _indexes(_: str, loaded: Mapping[str, LoadedSegment], __: Request) -> dict[str, Any]:
    """Count the segments that have each index of each column."""
    counts: dict[str, dict[str, int]] = {}
    for one in loaded.values():
        for name, column in one.segment.info.columns.items():
            flags = index_flags(one.segment, column)
            known = counts.setdefault(name, dict.fromkeys(flags, 0))
            for index, flag in flags.items():
                known[index] += flag == "YES"
    return {"totalOnlineSegments": len(loaded), "columnToIndexesCount": counts}


def _metadata(table: str, loaded: Mapping[str, LoadedSegment], request: Request) -> dict[str, Any]:
    columns = request.query_params.getlist("columns")
    details: dict[str, list[dict[str, Any]]] = {}
    for one in loaded.values():
        for name, column in one.segment.info.columns.items():
            if "*" in columns or name in columns:
                details.setdefault(name, []).append(column_details(one.segment, column))
    return {
        "tableName": table,
        "diskSizeInBytes": sum(one.size_bytes for one in loaded.values()),
        "numSegments": len(loaded),
        "numRows": sum(one.segment.num_docs for one in loaded.values()),
        "columnLengthMap": {name: sum(sum(d["indexSizeMap"].values()) for d in found) for name, found in details.items()},
        "columnCardinalityMap": {name: sum(d["cardinality"] for d in found) for name, found in details.items()},
        "maxNumMultiValuesMap": {
            name: max(d["maxNumberOfMultiValues"] for d in found)
            for name, found in details.items()
            if not found[0]["singleValue"]
        },
        "columnIndexSizeMap": {name: _added(d["indexSizeMap"] for d in found) for name, found in details.items()},
    }


def _added(sizes: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for one in sizes:
        for index, num_bytes in one.items():
            total[index] = total.get(index, 0) + num_bytes
    return total
