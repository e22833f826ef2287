"""The worker of a minion: it leases subtasks, runs each on a thread, and reports the results.

The lease is an ephemeral node of this process. When the session with the metadata store is lost, all running subtasks are
aborted, because they are given to other minions; their reports would be refused.
"""

import logging
import shutil
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gamay.base.clock import Clock
from gamay.base.errors import ConflictError, GamayError
from gamay.base.ids import Ids
from gamay.cluster.records.records import Instance
from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.tasks.machine import LeaseLostError
from gamay.cluster.tasks.queue import Leased, TaskQueues
from gamay.cluster.tasks.records import Job
from gamay.minion.progress import AttemptProgress, TaskCancelledError, TaskTimeoutError

_log = logging.getLogger(__name__)

POLL_S = 10.0
"""The interval at which a minion looks for work, besides whenever a queue changes."""
_REPORT_RETRY_S = 1.0
_REMEMBERED = 200  # finished subtasks

Run = Callable[[Leased, AttemptProgress, Path], str]
"""Executes a subtask in its own folder, and returns a sentence about the result."""


@dataclass
class _Running:
    leased: Leased
    progress: AttemptProgress
    thread: threading.Thread | None = None


@dataclass(slots=True)
class WorkerCounts:
    """Counters of a worker since its start, by task type."""

    completed: dict[str, int] = field(default_factory=dict)
    failed: dict[str, int] = field(default_factory=dict)
    cancelled: dict[str, int] = field(default_factory=dict)


class TaskWorker:
    """The worker of one minion.

    instance: returns the current configuration of the minion, or None. run: executes a subtask. folder: scratch
    space, emptied at the start. types: the task types that it can execute.
    """

    def __init__(
        self,
        instance_id: str,
        store: MetadataStore,
        instance: Callable[[], Instance | None],
        run: Run,
        types: Sequence[str],
        folder: Path,
        clock: Clock,
        ids: Ids,
        poll_s: float = POLL_S,
    ) -> None:
        self.id = instance_id
        self._store = store
        self._queues = TaskQueues(store, clock)
        self._instance = instance
        self._run = run
        self._types = tuple(types)
        self._folder = folder
        self._clock = clock
        self._ids = ids
        self._poll_s = poll_s
        self._wake = threading.Condition()
        self._looked_at = False
        self._draining = self._stopping = False
        self._lease = ""
        self._running: dict[str, _Running] = {}
        self._ended: dict[str, AttemptProgress] = {}
        self._threads: list[threading.Thread] = []
        self._cancels: list[Callable[[], None]] = []
        self.counts = WorkerCounts()

    # reads

    def running(self) -> dict[str, AttemptProgress]:
        """Return the progress of the running subtasks, by name."""
        with self._wake:
            return {name: running.progress for name, running in self._running.items()}

    def progress(self, subtask: str) -> AttemptProgress | None:
        """Return the progress of a subtask that this process runs or has run, or None."""
        with self._wake:
            running = self._running.get(subtask)
            return self._ended.get(subtask) if running is None else running.progress

    def ended(self) -> dict[str, AttemptProgress]:
        """Return the progress of the last finished subtasks of this process, by name."""
        with self._wake:
            return dict(self._ended)

    # life cycle

    def start(self) -> None:
        """Start to look for work."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        self._begin_session()
        self._cancels = [
            self._store.watch(paths.TASKS, lambda _: self.look()),
            self._store.on_new_session(self._on_new_session),
        ]
        for name, loop in (("look", self._look_for_work), ("watch", self._watch_over)):
            thread = threading.Thread(target=loop, name=f"minion-{name}", daemon=True)
            self._threads.append(thread)
            thread.start()

    def look(self) -> None:
        """Look for work soon."""
        with self._wake:
            self._looked_at = False
            self._wake.notify_all()

    def drain(self) -> None:
        """Take no more work; running subtasks continue."""
        with self._wake:
            self._draining = True
            self._wake.notify_all()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no subtask runs; return False after the timeout."""
        with self._wake:
            return self._wake.wait_for(lambda: not self._running, timeout_s)

    def stop(self) -> None:
        """Stop; running subtasks are returned unfinished."""
        for cancel in self._cancels:
            cancel()
        with self._wake:
            self._draining = self._stopping = True
            for running in self._running.values():
                running.progress.cancel()
            self._wake.notify_all()
        for thread in [*self._threads, *(r.thread for r in list(self._running.values()) if r.thread is not None)]:
            thread.join()
        if self._lease:
            self._store.delete(paths.task_lease(self._lease))

    # internals

    def _begin_session(self) -> None:
        lease = self._ids.new()
        self._store.create(paths.task_lease(lease), self.id.encode(), ephemeral=True)
        with self._wake:
            self._lease = lease

    def _on_new_session(self) -> None:
        """Handle a new session: the old lease is gone, so the subtasks under it go to other minions."""
        with self._wake:
            for running in self._running.values():
                running.progress.cancel()
        self._begin_session()
        self.look()

    def _look_for_work(self) -> None:
        while True:
            with self._wake:
                if self._looked_at:
                    self._wake.wait(self._poll_s)
                if self._draining:
                    return
                self._looked_at = True
            try:
                while not self._draining and (leased := self._lease_next()) is not None:
                    self._begin(leased)
            except GamayError as error:
                _log.warning("%s cannot look for tasks: %s", self.id, error)

    def _lease_next(self) -> Leased | None:
        instance = self._instance()
        if instance is None or not instance.enabled:
            return None
        with self._wake:
            lease, names = self._lease, list(self._running)
            busy = [running.leased.job.task_type for running in self._running.values()]

        def may_take(job: Job) -> bool:
            is_free = busy.count(job.task_type) < job.limits.per_minion
            return is_free and job.task_type in self._types and job.limits.tag in instance.tags

        return self._queues.lease(self.id, lease, may_take, running=names)

    def _begin(self, leased: Leased) -> None:
        limit_s = leased.job.limits.timeout_ms / 1000
        progress = AttemptProgress(leased.subtask.name, self._clock, limit_s)
        running = _Running(leased, progress)
        running.thread = threading.Thread(
            target=self._work, args=(running,), name=f"task-{leased.subtask.name}", daemon=True
        )
        with self._wake:
            self._running[leased.subtask.name] = running
            if self._stopping or leased.subtask.lease != self._lease:
                progress.cancel()
        running.thread.start()

    def _work(self, running: _Running) -> None:
        leased, progress = running.leased, running.progress
        name, task_type = leased.subtask.name, leased.job.task_type
        folder = self._folder / self._ids.new()
        _log.info("task %s starts", name)
        report: Callable[[], None]
        try:
            folder.mkdir(parents=True)
            info = self._run(leased, progress, folder)
            progress.note(info or "done")
            report, counts = (lambda: self._queues.complete(leased, info)), self.counts.completed
        except TaskCancelledError:
            progress.note("cancelled")
            report, counts = (lambda: self._queues.give_back(leased)), self.counts.cancelled
        except TaskTimeoutError as error:
            progress.note(str(error))
            report, counts = (lambda: self._queues.time_out(leased)), self.counts.failed
        except Exception as error:  # noqa: BLE001 - any error is reported, and the minion continues
            reason = str(error) if isinstance(error, GamayError | OSError) else repr(error)
            _log.exception("task %s failed", name)
            progress.note(f"failed: {reason}")
            report, counts = (lambda: self._queues.fail(leased, reason)), self.counts.failed
        shutil.rmtree(folder, ignore_errors=True)
        self._report(name, report)
        counts[task_type] = counts.get(task_type, 0) + 1
        with self._wake:
            self._running.pop(name, None)
            self._ended[name] = progress
            while len(self._ended) > _REMEMBERED:
                self._ended.pop(next(iter(self._ended)))
            self._looked_at = False
            self._wake.notify_all()

    def _report(self, name: str, report: Callable[[], None]) -> None:
        """Report the result of a subtask, until the store has accepted it or the lease is lost."""
        while True:
            try:
                report()
            except LeaseLostError as error:
                _log.warning("the result of task %s is discarded: %s", name, error)
            except ConflictError as error:
                _log.warning("the report of task %s met too many conflicts and is repeated: %s", name, error)
                threading.Event().wait(_REPORT_RETRY_S)
                continue
            except GamayError as error:
                _log.warning("the end of task %s cannot be reported yet: %s", name, error)
                if self._stopping:
                    return  # the end of the session returns it
                threading.Event().wait(_REPORT_RETRY_S)
                continue
            return

    def _watch_over(self) -> None:
        """Cancel subtasks that are no longer leased to this minion."""
        while True:
            with self._wake:
                self._wake.wait(self._poll_s if self._running else None)
                if self._stopping:
                    return
                running = list(self._running.values())
            for one in running:
                try:
                    if not self._queues.is_held(one.leased):
                        one.progress.cancel()
                except GamayError as error:
                    _log.warning("%s cannot check whether its leases are still valid: %s", self.id, error)
                    break
