"""The records of rebalances in the metadata store, shared by all controllers."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from gamay.base.errors import NotFoundError
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.store.znrecord import ZNRecord, decode, encode
from gamay.controller.rebalance.options import RebalanceOptions

_JOBS = f"/{paths.CLUSTER_NAME}/PROPERTYSTORE/CONTROLLER_JOBS/TABLE_REBALANCE"


@dataclass(frozen=True, slots=True)
class RebalanceJob:
    """One attempt at a rebalance. attempt: from 1."""

    id: str
    table: str
    options: RebalanceOptions
    attempt: int
    started_ms: int


@dataclass(frozen=True, slots=True)
class RebalanceJobs:
    """The records of all rebalances."""

    registry: Registry

    def write(self, job: RebalanceJob, told: Mapping[str, Any], version: int | None) -> int:
        """Create a job's record, or replace the one of that version; return its new version.

        told: its progress. Raises VersionConflictError if another controller has changed it: the one that runs the job
        must then stop.
        """
        context = {"jobId": job.id, "attemptId": job.attempt, "config": job.options.to_json()}
        simple = {
            "jobId": job.id,
            "jobType": "TABLE_REBALANCE",
            "tableName": job.table,
            "submissionTimeMs": str(job.started_ms),
            "REBALANCE_PROGRESS_STATS": orjson.dumps(dict(told)).decode(),
            "REBALANCE_CONTEXT": orjson.dumps(context).decode(),
        }
        value = encode(ZNRecord(job.id, simple))
        if version is not None:
            return self.registry.store.set(_path(job), value, version)
        self.registry.store.create(_path(job), value)
        return 0

    def fenced(self, job: RebalanceJob, version: int) -> Registry:
        """Return a registry whose writes fail once the job's record has another version; see `MetadataStore.fenced`."""
        registry = self.registry
        return Registry(registry.store.fenced(_path(job), version), registry.cluster, registry.failed)

    def fields(self, table: str) -> dict[str, dict[str, str]]:
        """Return the records of the jobs of a typed table, by id."""
        found = {job_id: self._fields(job_id) for job_id in self.registry.store.children(_JOBS)}
        return {job_id: simple for job_id, simple in found.items() if simple is not None and simple["tableName"] == table}

    def table_of(self, job_id: str) -> str:
        """Return the typed table of a job. Raises NotFoundError."""
        return self._must_get_fields(job_id)["tableName"]

    def status(self, job_id: str, now_ms: int) -> dict[str, Any]:
        """Return the progress of a job as a document for clients. Raises NotFoundError."""
        simple = self._must_get_fields(job_id)
        return {
            "tableRebalanceProgressStats": orjson.loads(simple["REBALANCE_PROGRESS_STATS"]),
            "timeElapsedSinceStartInSeconds": (now_ms - int(simple["submissionTimeMs"])) // 1000,
            "tableRebalanceContext": orjson.loads(simple["REBALANCE_CONTEXT"]),
        }

    def unfinished(self) -> Iterator[tuple[RebalanceJob, int, int]]:
        """Yield the unfinished jobs, each with the time of its last heartbeat in milliseconds and its record's
        version."""
        for job_id in self.registry.store.children(_JOBS):
            node = self.registry.store.get(f"{_JOBS}/{job_id}")
            if node is None:
                continue
            simple = decode(node.value).simple
            told, context = orjson.loads(simple["REBALANCE_PROGRESS_STATS"]), orjson.loads(simple["REBALANCE_CONTEXT"])
            if told["status"] == "IN_PROGRESS":
                options = RebalanceOptions.parse(context["config"])
                job = RebalanceJob(
                    job_id, simple["tableName"], options, int(context["attemptId"]), int(simple["submissionTimeMs"])
                )
                yield job, int(told["heartbeatMs"]), node.version

    def _fields(self, job_id: str) -> dict[str, str] | None:
        node = self.registry.store.get(f"{_JOBS}/{job_id}")
        return None if node is None else decode(node.value).simple

    def _must_get_fields(self, job_id: str) -> dict[str, str]:
        simple = self._fields(job_id)
        if simple is None:
            raise NotFoundError(f"Failed to find controller job id: {job_id}")
        return simple


def _path(job: RebalanceJob) -> str:
    return f"{_JOBS}/{job.id}"
