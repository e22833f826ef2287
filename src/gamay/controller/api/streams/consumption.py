"""REST: pausing, resuming and force-committing the consumption of streams."""

from typing import Annotated, Any

from fastapi import Query, Request

from gamay.base.errors import ConflictError, InvalidConfigError
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.records.records import COMMITTING, DONE
from gamay.controller.api.guarded_router import GuardedRouter
from gamay.controller.api.services import Services, principal_of, status
from gamay.controller.completion.consumption import Batches
from gamay.controller.completion.cut_back import segments_from
from gamay.model.table.table_name import TableType

Comment = Annotated[str | None, Query(description="Shown in the pause status")]
BatchSize = Annotated[int, Query(alias="batchSize", description="Segments that commit at once")]
CheckInterval = Annotated[int, Query(alias="batchStatusCheckIntervalSec")]
CheckTimeout = Annotated[int, Query(alias="batchStatusCheckTimeoutSec", description="Longest wait for a batch")]
Topics = Annotated[str, Query(alias="topicIndices", description="Separated by commas, from 0")]

_ALL = 2**31 - 1


def consumption_router(services: Services) -> GuardedRouter:
    """Return the routes."""
    router = GuardedRouter(tags=["Realtime"])
    consumption = services.realtime.consumption

    def typed(table: str) -> str:
        return _typed(services, table)

    @router.post("/tables/{table}/pauseConsumption", summary="Commit the consuming segments, and stop consuming")
    def pause(
        table: str, comment: Comment = None, batch_size: BatchSize = _ALL, interval: CheckInterval = 5,
        timeout: CheckTimeout = 180,
    ) -> dict[str, Any]:  # fmt: skip
        name = typed(table)
        consumption.pause(name, comment, Batches(batch_size, interval, timeout))
        return consumption.status(name)

    @router.post("/tables/{table}/resumeConsumption", summary="Resume consumption")
    def resume(
        table: str,
        comment: Comment = None,
        consume_from: Annotated[
            str | None, Query(alias="consumeFrom", description="lastConsumed (the default), smallest or largest")
        ] = None,
    ) -> dict[str, Any]:
        name = typed(table)
        consumption.resume(name, comment, consume_from)
        return consumption.status(name)

    @router.post("/tables/{table}/pauseTopicConsumption", summary="Stop consuming some topics of a table")
    def pause_topics(table: str, topics: Topics) -> dict[str, Any]:
        name = typed(table)
        consumption.set_topics_paused(name, _numbers("topicIndices", topics), True)
        return consumption.status(name)

    @router.post("/tables/{table}/resumeTopicConsumption", summary="Resume consumption of some topics of a table")
    def resume_topics(table: str, topics: Topics) -> dict[str, Any]:
        name = typed(table)
        consumption.set_topics_paused(name, _numbers("topicIndices", topics), False)
        return consumption.status(name)

    @router.get("/tables/{table}/pauseStatus", summary="Show whether a table is paused, and what it still consumes")
    def pause_status(table: str) -> dict[str, Any]:
        return consumption.status(typed(table))

    _add_force_commit(router, services)
    _add_records(router, services)
    _add_repairs(router, services)
    return router


def _add_force_commit(router: GuardedRouter, services: Services) -> None:
    consumption = services.realtime.consumption

    @router.post("/tables/{table}/forceCommit", summary="Commit consuming segments with the rows that they have")
    def force_commit(
        table: str,
        partitions: Annotated[str | None, Query(description="Separated by commas")] = None,
        segments: Annotated[str | None, Query(description="Separated by commas")] = None,
        batch_size: BatchSize = _ALL,
        interval: CheckInterval = 5,
        timeout: CheckTimeout = 180,
    ) -> dict[str, Any]:
        if partitions is not None and segments is not None:
            raise InvalidConfigError("give either partitions or segments, not both")
        job_id = consumption.force_commit(
            _typed(services, table),
            None if partitions is None else _numbers("partitions", partitions),
            None if segments is None else _names(segments),
            Batches(batch_size, interval, timeout),
        )
        return {"forceCommitStatus": "SUCCESS", "jobMetaZKWriteStatus": "SUCCESS", "forceCommitJobId": job_id}

    @router.get("/tables/forceCommitStatus/{job_id}", summary="Show which segments a forced commit has not committed yet")
    def force_commit_status(request: Request, job_id: str) -> dict[str, Any]:
        found = consumption.force_commit_status(job_id)
        principal_of(request).check_table(found["tableName"])
        return found


def _add_records(router: GuardedRouter, services: Services) -> None:
    @router.get(
        "/tables/{table}/pauselessDebugInfo", summary="Show segments that are built or have no copy in the deep store"
    )
    def pauseless(table: str) -> dict[str, Any]:
        records = list(services.context.registry.segments(_typed(services, table)))
        return {
            "committingSegments": [record.name for record in records if record.status == COMMITTING],
            "segmentsWithoutDownloadUrl": [r.name for r in records if r.status == DONE and not r.download_url],
        }

    @router.get("/tables/{table}/lostOffsets", summary="List the offsets that the stream deleted before they were consumed")
    def lost_offsets(table: str) -> dict[str, Any]:
        gaps = []
        for record in services.context.registry.segments(_typed(services, table)):
            name = LlcName.parse(record.name)
            if name is not None and record.lost_offsets:
                first, _, until = record.lost_offsets.partition(",")
                gaps.append(
                    {"partition": name.partition, "fromOffset": first, "toOffset": until, "segmentName": record.name,
                     "foundTimeMs": record.creation_time_ms}
                )  # fmt: skip
        return {"lostOffsets": gaps}


def _add_repairs(router: GuardedRouter, services: Services) -> None:
    @router.delete(
        "/deleteSegmentsFromSequenceNum/{table}", summary="Delete the segments of partitions from a sequence number on"
    )
    def cut_back(
        table: str,
        segments: Annotated[str, Query(description="Separated by commas; the first segment to delete of each partition")],
        dry_run: Annotated[bool, Query(alias="dryRun", description="Only list the segments that would be deleted")] = False,
        force: Annotated[bool, Query(description="Also while the table is not paused")] = False,
    ) -> dict[str, Any]:
        typed = _typed(services, table)
        found = segments_from(services.segments.names(typed), _names(segments))
        names = [name for group in found.values() for name in group]
        told = {"partitionToSegments": {str(partition): group for partition, group in found.items()}}
        if dry_run:
            return {**status(f"Would delete {len(names)} segments from table: {typed}"), **told}
        paused = services.realtime.consumption.status(typed)
        if not force and not (paused["pauseFlag"] and set(names).isdisjoint(paused["consumingSegments"])):
            raise ConflictError(
                f"Table {typed} must be paused and its segments committed before segments are deleted; force=true deletes "
                "them regardless"
            )
        services.segments.delete(typed, names)
        return {**status(f"Deleted {len(names)} segments from table: {typed}"), **told}

    @router.post(
        "/segments/{table}/uploadFromServerToDeepstore", summary="Copy segments to the deep store that it has no copy of"
    )
    def store_copies(
        table: str,
        names: Annotated[str | None, Query(alias="segmentNames", description="Separated by commas; default: all")] = None,
        force: Annotated[bool, Query(alias="forceMode", description="Also those that have a copy")] = False,
    ) -> dict[str, Any]:
        typed = _typed(services, table)
        chosen = None if names is None else _names(names)
        stored, left = services.realtime.store_copies(typed, chosen, force=force)
        return {**status(f"Stored {len(stored)} segments of table: {typed}"), "stored": stored, "failed": left}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _typed(services: Services, table: str) -> str:
    return services.tables.resolve_one(table, TableType.REALTIME.value)


def _numbers(name: str, text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise InvalidConfigError(f"{name}: '{text}' must be whole numbers, separated by commas") from None
