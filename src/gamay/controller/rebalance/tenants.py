"""Rebalance of all tables of a tenant, some at a time, and reassignment of a broker tenant's brokers."""

import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

from gamay.base.errors import GamayError, NotFoundError
from gamay.cluster.records.broker_resource import BrokerResource
from gamay.controller.context import ControllerContext
from gamay.controller.rebalance.options import RebalanceOptions
from gamay.controller.rebalance.rebalance import RebalanceManager
from gamay.controller.tables.tables import TableManager, server_tag

_POLL_S = 0.5


@dataclass(slots=True)
class _TenantJob:
    """The rebalance of one tenant. tables: typed name -> status. jobs: typed name -> id of the table's job."""

    id: str
    tenant: str
    started_ms: int
    tables: dict[str, str]
    jobs: dict[str, str] = field(default_factory=dict)
    stopped: threading.Event = field(default_factory=threading.Event)


class TenantRebalanceManager:
    """The rebalances of tenants that this controller runs."""

    def __init__(self, context: ControllerContext, tables: TableManager, rebalances: RebalanceManager) -> None:
        self._context = context
        self._tables = tables
        self._rebalances = rebalances
        self._lock = threading.Lock()
        self._jobs: dict[str, _TenantJob] = {}

    def rebalance(
        self,
        tenant: str,
        options: RebalanceOptions,
        *,
        include: Collection[str] = (),
        exclude: Collection[str] = (),
        parallel: int = 1,
        may_run_beside: Callable[[str], bool] = lambda table: True,
        verbose: bool = False,
    ) -> dict[str, Any]:
        """Plan the rebalance of every table of a tenant and, unless it is a dry run, start with `parallel` of them.

        Tables whose broker tenant it is get the brokers tagged for it at once. include, exclude: typed names; an empty
        `include` means all. may_run_beside: whether a table may be rebalanced in parallel; the others follow one by one.
        Raises NotFoundError for a tenant without tables.
        """
        configs = {
            t: self._tables.get(t) for t in self._tables.names() if (not include or t in include) and t not in exclude
        }
        chosen = [table for table, config in configs.items() if server_tag(config).rpartition("_")[0] == tenant]
        by_brokers = [table for table, config in configs.items() if config.tenants.broker == tenant]
        if not chosen and not by_brokers:
            raise NotFoundError(f"Tenant {tenant} has no tables to rebalance")
        dry = replace(options, dry_run=True)
        results = {table: self._rebalances.rebalance(table, dry) for table in chosen}
        statuses = {table: "NO_OP" if result.status == "NO_OP" else "IN_QUEUE" for table, result in results.items()}
        job = _TenantJob(self._context.ids.new(), tenant, self._context.clock.now_ms(), statuses)
        if options.dry_run:
            statuses.update({table: result.status for table, result in results.items()})
        elif by_brokers:
            BrokerResource(self._context.registry).rebuild(by_brokers)
        shown = {table: result.to_json() for table, result in results.items()}
        answer = {
            "jobId": job.id,
            "totalTables": len(chosen),
            "statusSummary": dict(Counter(statuses.values())),  # before the job changes them
            "rebalanceTableResults": shown if verbose else {t: _short(answer) for t, answer in shown.items()},
        }
        if not options.dry_run:
            with self._lock:
                self._jobs[job.id] = job
            threading.Thread(
                target=self._run, args=(job, options, parallel, may_run_beside), name=f"rebalance-{tenant}", daemon=True
            ).start()
        return answer

    def status(self, job_id: str) -> dict[str, Any]:
        """Return how far a job is. Raises NotFoundError."""
        job = self._jobs.get(job_id)
        if job is None:
            raise NotFoundError(f"Failed to find controller job id: {job_id}")
        elapsed_ms = self._context.clock.now_ms() - job.started_ms
        waiting = sum(status in ("IN_QUEUE", "IN_PROGRESS") for status in job.tables.values())
        return {
            "tenantRebalanceProgressStats": {
                "tableStatusMap": dict(job.tables),
                "tableRebalanceJobIdMap": dict(job.jobs),
                "totalTables": len(job.tables),
                "remainingTables": waiting,
                "startTimeMs": job.started_ms,
                "completionStatusMsg": None if waiting else "Tenant rebalance is over",
            },
            "timeElapsedSinceStartInSeconds": elapsed_ms // 1000,
        }

    def cancel(self, job_id: str) -> None:
        """Cancel a job: running tables stop after their current step, waiting ones do not start. Raises NotFoundError."""
        job = self._jobs.get(job_id)
        if job is None:
            raise NotFoundError(f"Failed to find controller job id: {job_id}")
        job.stopped.set()
        for table, status in list(job.tables.items()):
            if status == "IN_PROGRESS":
                self._rebalances.cancel(table)

    def jobs(self, tenant: str) -> dict[str, Mapping[str, Any]]:
        """Return the jobs of a tenant, by id."""
        return {job_id: self.status(job_id) for job_id, job in list(self._jobs.items()) if job.tenant == tenant}

    def _run(self, job: _TenantJob, options: RebalanceOptions, parallel: int, may_run_beside: Callable[[str], bool]) -> None:
        waiting = [table for table, status in job.tables.items() if status == "IN_QUEUE"]
        with ThreadPoolExecutor(max(1, parallel), thread_name_prefix=f"rebalance-{job.tenant}") as pool:
            list(pool.map(lambda table: self._run_one(job, table, options), filter(may_run_beside, waiting)))
        for table in waiting:
            if not may_run_beside(table):
                self._run_one(job, table, options)

    def _run_one(self, job: _TenantJob, table: str, options: RebalanceOptions) -> None:
        if job.stopped.is_set():
            job.tables[table] = "CANCELLED"
            return
        try:
            result = self._rebalances.rebalance(table, options)
        except GamayError:
            job.tables[table] = "FAILED"
            return
        job.jobs[table] = result.job_id
        job.tables[table] = result.status
        pause = threading.Event()  # also after a cancellation: the table's rebalance ends after its step
        while job.tables[table] == "IN_PROGRESS":
            pause.wait(_POLL_S)
            told = self._rebalances.status(result.job_id)
            job.tables[table] = told["tableRebalanceProgressStats"]["status"]


def _short(answer: Mapping[str, Any]) -> dict[str, Any]:
    return {key: answer[key] for key in ("jobId", "status", "description", "rebalanceSummaryResult")}
