"""Reload jobs: messages to servers to reload segments, and the progress for users.

A consuming segment is committed to apply a changed schema and table config: it is loaded again then, and later rows
have the new columns and indexes.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import orjson

from gamay.base.errors import NotFoundError
from gamay.cluster.records import messages
from gamay.cluster.records.records import CONSUMING, ONLINE
from gamay.cluster.store import paths
from gamay.cluster.store.znrecord import ZNRecord, decode, encode
from gamay.controller.context import ControllerContext
from gamay.controller.segments.consistency import refuse_restricted
from gamay.model.table.stored import stored_table_config

_JOBS = f"/{paths.CLUSTER_NAME}/PROPERTYSTORE/CONTROLLER_JOBS/RELOAD_SEGMENT"


class NothingToReloadError(NotFoundError):
    """No server has a segment that is to be reloaded."""


@dataclass(frozen=True, slots=True)
class ReloadJob:
    """A request to reload segments. servers: server -> the segments to reload."""

    id: str
    table: str
    submitted_ms: int
    servers: dict[str, list[str]]

    @property
    def num_messages(self) -> int:
        """The number of servers that got a message."""
        return len(self.servers)


@dataclass(frozen=True, slots=True)
class ReloadManager:
    """Manager of the reload jobs of all tables."""

    context: ControllerContext

    def submit(
        self,
        table: str,
        segments: Sequence[str] = (),
        *,
        force_download: bool = False,
        target: str = "",
        only: Mapping[str, Collection[str]] | None = None,
        commit: bool = True,
    ) -> ReloadJob:
        """Have the servers of a typed table reload segments (default: all).

        target: the only server; '' for all. only: server -> the only segments; None for all. commit: whether consuming
        segments are committed; otherwise they are left alone. Raises NotFoundError for an unknown segment,
        NothingToReloadError if no server has one of them.
        """
        ideal = self.context.registry.must_get_ideal_state(table)
        if missing := [name for name in segments if name not in ideal.states]:
            raise NotFoundError(f"Segment {', '.join(missing)} not found in table {table}")
        sealed, consuming = dict[str, list[str]](), dict[str, list[str]]()
        told = {ONLINE: sealed, CONSUMING: consuming} if commit else {ONLINE: sealed}
        for name in segments or sorted(ideal.states):
            for server, state in ideal.states[name].items():
                if state in told and target in ("", server) and (only is None or name in only.get(server, ())):
                    told[state].setdefault(server, []).append(name)
        servers = {server: sealed.get(server, []) + consuming.get(server, []) for server in {**sealed, **consuming}}
        if not servers:
            raise NothingToReloadError(f"Failed to find any server to send the reload of table {table} to")
        job = ReloadJob(self.context.ids.new(), table, self.context.clock.now_ms(), servers)
        self._store(job)
        store, more = self.context.registry.store, {"forceDownload": str(force_download).lower(), "reloadJobId": job.id}
        for server, names in sealed.items():
            named = names if segments or only is not None else []
            messages.send(store, server, messages.RELOAD, table, named, more)
        for server, names in consuming.items():
            messages.send(store, server, messages.FORCE_COMMIT, table, names)
        return job

    def follow(self, tables: Iterable[str]) -> None:
        """Have servers apply a stored schema or config to the segments that they hold of typed tables, if any."""
        for table in tables:
            with suppress(NothingToReloadError):
                self.submit(table)

    def check(self, tables: Iterable[str]) -> None:
        """Raise ConflictError if the segments of one of the typed tables may not be reloaded on demand.

        Segments that failed to load always may: that is a reset.
        """
        for table in tables:
            document = self.context.registry.get_table_config(table)
            if document is not None:
                refuse_restricted(self.context.registry, stored_table_config(document), "a reload")

    def jobs(self, table: str) -> dict[str, dict[str, str]]:
        """Return the fields of all jobs of a typed table, by id."""
        store = self.context.registry.store
        nodes = [store.get(f"{_JOBS}/{job_id}") for job_id in store.children(_JOBS)]
        fields = [decode(node.value).simple for node in nodes if node is not None]
        return {
            simple["jobId"]: {**simple, "messageCount": str(len(orjson.loads(simple["servers"])))}
            for simple in fields
            if simple["tableName"] == table
        }

    def table_of(self, job_id: str) -> str:
        """Return the typed table of a job. Raises NotFoundError."""
        return self._fields(job_id)["tableName"]

    def status(self, job_id: str) -> dict[str, Any]:
        """Return the progress of a job. Raises NotFoundError."""
        simple = self._fields(job_id)
        job = ReloadJob(job_id, simple["tableName"], int(simple["submissionTimeMs"]), orjson.loads(simple["servers"]))
        done, failures, unanswered = 0, dict[str, str](), 0
        for server, names in job.servers.items():
            try:
                loaded, failed = self.context.servers.reload_progress(server, job.table, names, job.submitted_ms)
            except NotFoundError:
                unanswered += 1
                continue
            done += loaded
            failures |= failed
        total = sum(len(names) for names in job.servers.values())
        elapsed_min = (self.context.clock.now_ms() - job.submitted_ms) / 60_000
        remaining = elapsed_min / done * (total - done - len(failures)) if done else -1.0
        return {
            "status": "COMPLETED" if done + len(failures) >= total else "IN_PROGRESS",
            "timeElapsedInMinutes": elapsed_min,
            "estimatedTimeRemainingInMinutes": remaining if done < total else 0.0,
            "totalSegmentCount": total,
            "successCount": done,
            "failureCount": len(failures),
            "totalServersQueried": len(job.servers),
            "totalServerCallsFailed": unanswered,
            "metadata": {
                "jobId": job.id,
                "jobType": "RELOAD_SEGMENT",
                "tableName": job.table,
                "submissionTimeMs": str(job.submitted_ms),
                "messageCount": str(job.num_messages),
            },
            "segmentReloadFailures": [{"segmentName": name, "errorMessage": text} for name, text in failures.items()],
        }

    def _store(self, job: ReloadJob) -> None:
        simple = {
            "jobId": job.id,
            "jobType": "RELOAD_SEGMENT",
            "tableName": job.table,
            "submissionTimeMs": str(job.submitted_ms),
            "servers": orjson.dumps(job.servers).decode(),
        }
        self.context.registry.store.create(f"{_JOBS}/{job.id}", encode(ZNRecord(job.id, simple)))

    def _fields(self, job_id: str) -> Mapping[str, str]:
        node = self.context.registry.store.get(f"{_JOBS}/{job_id}")
        if node is None:
            raise NotFoundError(f"Failed to find controller job id: {job_id}")
        return decode(node.value).simple
