"""Rebalance of a table: its segments are moved to the servers where they should be, while it serves queries.

A rebalance computes the target once, then changes the ideal state step by step
(`gamay.cluster.place.rebalance_steps`), waiting each time until the servers have executed the previous step. Every
change is a compare-and-set on the ideal state; if another process changed it meanwhile, the target is computed again.
A controller that dies leaves the ideal state between two steps, where the minimum of replicas is available; the
checker starts the rebalance again. It ends the record of the old attempt first, and the store checks with each write
of an attempt that its record is unchanged: a controller that was merely suspended cannot write when it resumes.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from gamay.base.errors import ConflictError, GamayError
from gamay.cluster.place.rebalance_steps import next_step
from gamay.cluster.records.records import CONSUMING, ERROR, OFFLINE, Assignment
from gamay.cluster.store.store import FencedError, VersionConflictError
from gamay.controller.context import ControllerContext
from gamay.controller.placement import PlacementManager
from gamay.controller.rebalance.aim import Aim, RebalanceAims, same
from gamay.controller.rebalance.jobs import RebalanceJob, RebalanceJobs
from gamay.controller.rebalance.options import RebalanceOptions
from gamay.controller.rebalance.report import RebalanceResult, moves_left, progress

_log = logging.getLogger(__name__)
_SHOWN_DESCRIPTION = 4_000


_CANCELLED = "Rebalance was cancelled; segments that were moved stay where they are"


class _CancelledError(Exception):
    """The rebalance was cancelled."""


class _OvertakenError(Exception):
    """Another controller has ended the rebalance."""


class Commits(Protocol):
    """Forced commits of consuming segments."""

    def begin(self, table: str, segments: Sequence[str], batch_size: int, interval_s: int, timeout_s: int) -> str:
        """Have servers commit consuming segments; return the id of the job. Raises GamayError."""
        ...

    def left(self, job_id: str) -> int:
        """Return how many of a job's segments are not committed yet."""
        ...


class RebalanceManager:
    """Manager of the rebalances of all tables; each runs on its own thread, at most one per table."""

    def __init__(self, context: ControllerContext, placement: PlacementManager, commits: Commits | None = None) -> None:
        """Create the manager. commits: commits consuming segments that are to move; None if no streams are consumed."""
        self._commits = commits
        self._context = context
        self._aims = RebalanceAims(context, placement)
        self._lock = threading.Lock()
        self._jobs = RebalanceJobs(context.registry)
        self._running: dict[str, tuple[RebalanceJob, threading.Event]] = {}
        self._versions: dict[str, int] = {}  # of the records of the jobs that run here

    # requests

    def rebalance(self, table: str, options: RebalanceOptions) -> RebalanceResult:
        """Plan a rebalance and, unless it is a dry run, start it.

        Raises NotFoundError for an unknown table, ConflictError while another one runs. Other errors are reported in the
        result, with the status FAILED.
        """
        job = RebalanceJob(self._context.ids.new(), table, options, 1, self._context.clock.now_ms())
        ideal = self._context.registry.must_get_ideal_state(table)
        with self._lock:
            if table in self._running and not options.dry_run:
                raise ConflictError(f"Table {table} is being rebalanced by the job {self._running[table][0].id}")
        try:
            result, aim = self._aims.work_out(job, ideal)
        except GamayError as error:
            return RebalanceResult(job.id, "FAILED", str(error))
        if options.dry_run or result.status != "IN_PROGRESS":
            return result
        return self._begin(job, result, aim)

    def cancel(self, table: str) -> list[str]:
        """Cancel the rebalances of a table after the current step; return the ids of their jobs.

        Those that run on another controller are cancelled through their records, after which they cannot write any more.
        """
        with self._lock:
            if table in self._running:
                job, stopped = self._running[table]
                stopped.set()
                return [job.id]
        elsewhere = [(job, version) for job, _, version in self._jobs.unfinished() if job.table == table]
        return [job.id for job, version in elsewhere if self._end(job, version, "CANCELLED", _CANCELLED)]

    def table_of(self, job_id: str) -> str:
        """Return the typed table of a job. Raises NotFoundError."""
        return self._jobs.table_of(job_id)

    def status(self, job_id: str) -> dict[str, Any]:
        """Return the progress of a job. Raises NotFoundError."""
        return self._jobs.status(job_id, self._context.clock.now_ms())

    def jobs(self, table: str) -> dict[str, dict[str, str]]:
        """Return the fields of all jobs of a typed table, by id."""
        return self._jobs.fields(table)

    def check(self) -> None:
        """Abort rebalances whose controller died, and start them again up to their maximum of attempts."""
        now_ms = self._context.clock.now_ms()
        for job, heard_ms, version in list(self._jobs.unfinished()):
            with self._lock:
                is_here = any(running.id == job.id for running, _ in self._running.values())
            silent_ms = now_ms - heard_ms
            if is_here or silent_ms < job.options.heartbeat_timeout_in_ms:
                continue
            _log.warning("rebalance %s of %s has sent no heartbeat for %d s", job.id, job.table, silent_ms // 1000)
            ended = self._end(job, version, "ABORTED", "The controller that ran this rebalance died")
            if ended and job.attempt < job.options.max_attempts:
                self._retry(job)

    def stop(self) -> None:
        """Cancel all rebalances."""
        with self._lock:
            for _, stopped in self._running.values():
                stopped.set()

    # the work

    def _begin(self, job: RebalanceJob, result: RebalanceResult, aim: Aim) -> RebalanceResult:
        with self._lock:
            if job.table in self._running:
                raise ConflictError(f"Table {job.table} is being rebalanced by the job {self._running[job.table][0].id}")
            stopped = threading.Event()
            self._running[job.table] = job, stopped
        self._note(job, "IN_PROGRESS", result.description, aim)
        if job.options.downtime:
            self._run(job, aim, stopped)
            told = self.status(job.id)["tableRebalanceProgressStats"]
            return replace(result, status=told["status"], description=told["completionStatusMsg"])
        threading.Thread(target=self._run, args=(job, aim, stopped), name=f"rebalance-{job.table}", daemon=True).start()
        return result

    def _run(self, job: RebalanceJob, aim: Aim, stopped: threading.Event) -> None:
        status, text = "FAILED", ""
        try:
            if job.options.force_commit and self._commits is not None:
                self._commit(job, aim, self._commits, stopped)
            aim = self._move(job, aim, stopped)
            status, text = "DONE", "Rebalance succeeded"
        except _CancelledError:
            status, text = "CANCELLED", _CANCELLED
        except (FencedError, _OvertakenError):
            status, text = "", "ended by another controller"
        except GamayError as error:
            text = str(error)
        except Exception as error:
            _log.exception("rebalance %s of %s failed", job.id, job.table)
            status, text = "UNKNOWN_ERROR", f"Rebalance failed because of a defect in Gamay: {error!r}"
            raise
        finally:
            with self._lock:
                self._running.pop(job.table, None)
            _log.info("rebalance %s of %s: %s %s", job.id, job.table, status, text)
            self._finish(job, status, text, aim)

    def _commit(self, job: RebalanceJob, aim: Aim, commits: Commits, stopped: threading.Event) -> None:
        """Commit the consuming segments that are to move, so that no server consumes their rows again."""
        moving = sorted(
            segment
            for segment, states in aim.seen.items()
            if CONSUMING in states.values() and aim.target[segment].keys() != states.keys()
        )
        if not moving:
            return
        options, clock = job.options, self._context.clock
        interval_s = max(1, options.force_commit_batch_status_check_interval_ms // 1000)
        timeout_s = max(1, options.force_commit_batch_status_check_timeout_ms // 1000)
        begun = commits.begin(job.table, moving, options.force_commit_batch_size, interval_s, timeout_s)
        batches = -(-len(moving) // options.force_commit_batch_size)
        late_s = clock.monotonic_s() + timeout_s * batches
        while (
            commits.left(begun) and clock.monotonic_s() < late_s
        ):  # segments not committed in time are moved while consuming
            if stopped.wait(options.external_view_check_interval_in_ms / 1000):
                raise _CancelledError

    def _move(self, job: RebalanceJob, aim: Aim, stopped: threading.Event) -> Aim:
        """Execute steps until the ideal state is the target."""
        downtime = job.options.downtime
        while True:
            if not downtime:
                self._await_view(job, aim, stopped)
            aim = self._step(job, aim)
            self._note(job, "IN_PROGRESS", "Rebalance is in progress", aim)
            if same(aim.seen, {**aim.seen, **aim.target}):
                if not downtime:
                    self._await_view(job, aim, stopped)
                return aim

    def _step(self, job: RebalanceJob, aim: Aim) -> Aim:
        """Write the next ideal state; return the aim from there, computed again if another process changed the ideal
        state."""
        made: list[Aim] = []

        def change(ideal: Assignment) -> Assignment:
            current = aim if same(ideal.states, aim.seen) else self._aims.aim(job, ideal, [])
            target = {segment: states for segment, states in current.target.items() if segment in ideal.states}
            states = {**ideal.states, **target} if job.options.downtime else next_step(ideal.states, target, current.rules)
            made.append(replace(current, seen=states))
            return replace(ideal, states=states)

        self._jobs.fenced(job, self._versions[job.id]).update_ideal_state(job.table, change)
        return made[-1]

    def _await_view(self, job: RebalanceJob, aim: Aim, stopped: threading.Event) -> None:
        """Wait until the external view matches the ideal state; the time limit restarts with every replica that arrives.

        Raises _CancelledError, GamayError for a segment that cannot be loaded or if there is no progress.
        """
        clock, options = self._context.clock, job.options
        limit_s = options.external_view_stabilization_timeout_in_ms / 1000
        fewest, since_s, noted_s = None, clock.monotonic_s(), clock.monotonic_s()
        while True:
            missing, failed = self._differences(job.table, aim)
            if failed and not options.best_efforts:
                raise ConflictError(f"Segments of {job.table} are in the ERROR state: {', '.join(sorted(failed)[:5])}")
            if not missing:
                return
            if fewest is None or missing < fewest:
                fewest, since_s = missing, clock.monotonic_s()
            if clock.monotonic_s() - since_s > limit_s:
                if options.best_efforts:
                    return
                raise ConflictError(f"{missing} replicas of {job.table} did not become available within {limit_s:.0f} s")
            if clock.monotonic_s() - noted_s > options.heartbeat_interval_in_ms / 1000:
                noted_s = clock.monotonic_s()
                self._note(job, "IN_PROGRESS", f"Waiting for {missing} replicas", aim)
            if stopped.wait(options.external_view_check_interval_in_ms / 1000):
                raise _CancelledError

    def _differences(self, table: str, aim: Aim) -> tuple[int, list[str]]:
        """Return how many replicas differ from the current ideal state, and the segments that cannot be loaded.

        The current state, not that of the last step: consuming segments may have been committed since, and others
        deleted.
        """
        registry = self._context.registry
        ideal, view = registry.get_ideal_state(table), registry.get_external_view(table)
        wanted = {} if ideal is None else ideal.states
        actual = {} if view is None else view.states
        missing, failed = 0, []
        for segment in aim.seen.keys() & wanted.keys():
            there, states = actual.get(segment, {}), wanted[segment]
            for instance, state in states.items():
                if there.get(instance) == ERROR and state not in (ERROR, OFFLINE):
                    failed.append(segment)
                elif state != OFFLINE and there.get(instance) != state:
                    missing += 1
            missing += sum(instance not in states for instance in there)
        return missing, failed

    # records of jobs

    def _retry(self, old: RebalanceJob) -> None:
        job = RebalanceJob(self._context.ids.new(), old.table, old.options, old.attempt + 1, self._context.clock.now_ms())
        try:
            ideal = self._context.registry.must_get_ideal_state(job.table)
            result, aim = self._aims.work_out(job, ideal)
            if result.status == "IN_PROGRESS":
                self._begin(job, result, aim)
        except GamayError as error:
            _log.warning("rebalance of %s cannot be tried again: %s", old.table, error)

    def _finish(self, job: RebalanceJob, status: str, text: str, aim: Aim) -> None:
        try:
            if status:
                self._note(job, status, text, aim)
        except _OvertakenError:
            _log.info("rebalance %s of %s was ended by another controller", job.id, job.table)
        finally:
            self._versions.pop(job.id, None)

    def _end(self, job: RebalanceJob, version: int, status: str, text: str) -> bool:
        """End a job that does not run here; return False if its record has another version."""
        now_ms = self._context.clock.now_ms()
        try:
            self._jobs.write(job, progress(status, text, job.started_ms, now_ms), version)
        except VersionConflictError:
            return False
        return True

    def _note(self, job: RebalanceJob, status: str, text: str, aim: Aim) -> None:
        """Write the progress of a job of this controller. Raises _OvertakenError if another controller has ended it."""
        now_ms = self._context.clock.now_ms()
        view = self._context.registry.get_external_view(job.table)
        told = progress(status, text[:_SHOWN_DESCRIPTION], job.started_ms, now_ms)
        told |= {
            "externalViewToIdealStateConvergence": moves_left({} if view is None else view.states, aim.seen),
            "currentToTargetConvergence": moves_left(aim.seen, aim.target),
        }
        try:
            self._versions[job.id] = self._jobs.write(job, told, self._versions.get(job.id))
        except VersionConflictError as error:
            raise _OvertakenError from error
