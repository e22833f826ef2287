"""The task operations behind REST."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from gamay.base.errors import GamayError, NotFoundError
from gamay.cluster.records.records import Role
from gamay.cluster.store import paths
from gamay.cluster.store.znrecord import decode
from gamay.cluster.tasks.queue import TaskQueues
from gamay.cluster.tasks.records import Job, JobState, Subtask, SubtaskState, Target
from gamay.controller.context import ControllerContext
from gamay.controller.tables.tables import TableManager
from gamay.controller.tasks import views
from gamay.controller.tasks.history import read_history
from gamay.controller.tasks.lead import schedules_of
from gamay.controller.tasks.minions import Minions
from gamay.controller.tasks.scheduling import TaskScheduler


@dataclass(frozen=True, slots=True)
class TaskManager:
    """Manager of the tasks of the cluster."""

    context: ControllerContext
    tables: TableManager
    queues: TaskQueues
    scheduler: TaskScheduler
    minions: Minions

    def queue_state(self, task_type: str) -> str:
        """Return the state of a queue. Raises NotFoundError."""
        target = self.queues.target(task_type)
        if target is Target.START:
            return str(JobState.IN_PROGRESS.value)
        running = any(s.state is SubtaskState.RUNNING for _, found in self.queues.unfinished(task_type) for s in found)
        state = JobState.STOPPING if running else JobState.STOPPED
        return str(state.value)

    def jobs(self, task_type: str, table: str | None = None) -> list[Job]:
        """Return the jobs of a type, of one typed table or of all. Raises NotFoundError if there is no such queue."""
        self.queues.target(task_type)
        return [job for job in self.queues.jobs(task_type) if table is None or table in job.tables]

    def unfinished(self, table: str) -> list[str]:
        """Return the names of a typed table's unfinished jobs, of all types."""
        return [job.name for task_type in self.queues.types() for job, _ in self.queues.unfinished(task_type, table)]

    def states(self, task_type: str, table: str | None = None) -> dict[str, str]:
        """Return the states of the jobs of a type. Raises NotFoundError."""
        return {job.name: self.queues.state(job).value for job in self.jobs(task_type, table)}

    def counts(self, task_type: str, states: Sequence[str], table: str | None) -> dict[str, dict[str, int]]:
        """Return the number of subtasks of each job by state. states: only jobs in these. Raises NotFoundError."""
        found = {}
        for job in self.jobs(task_type, table):
            if not states or self.queues.state(job).value in states:
                found[job.name] = views.counts_of(self.queues.subtasks(job))
        return found

    def debug(self, job: Job, verbosity: int, table: str | None = None) -> dict[str, Any]:
        """Return a job with its subtasks for debugging. table: only subtasks of this table."""
        subtasks = [s for s in self.queues.subtasks(job) if table is None or s.table == table]
        return views.debug_of(job, subtasks, self.queues.target(job.task_type), verbosity)

    def summary(self, tenant: str | None) -> dict[str, Any]:
        """Return the numbers of running and waiting subtasks."""
        return views.summary({kind: list(self.queues.unfinished(kind)) for kind in self.queues.types()}, tenant)

    def running_by_minion(self) -> dict[str, int]:
        """Return the number of running subtasks of each minion."""
        found: dict[str, int] = {}
        for task_type in self.queues.types():
            for _, subtasks in self.queues.unfinished(task_type):
                for subtask in subtasks:
                    if subtask.state is SubtaskState.RUNNING:
                        found[subtask.worker] = found.get(subtask.worker, 0) + 1
        return found

    def metadata(self, table: str, task_type: str) -> dict[str, Any]:
        """Return the metadata of a task type about a typed table. Raises NotFoundError."""
        node = self.context.registry.store.get(paths.task_metadata(table, task_type))
        if node is None:
            raise NotFoundError(f"No task metadata for task type: {task_type} from table: {table}")
        return decode(node.value).to_json()

    def delete_metadata(self, table: str, task_type: str) -> None:
        """Delete the metadata of a task type about a typed table."""
        self.context.registry.store.delete(paths.task_metadata(table, task_type))

    def release_lock(self, table: str) -> bool:
        """Release the lock of a typed table's task generation; return whether it was held."""
        store = self.context.registry.store
        held = store.get(paths.task_lock(table)) is not None
        store.delete(paths.task_lock(table))
        return held

    def generator_debug(self, table: str, task_type: str) -> dict[str, Any]:
        """Return the recent successes and failures of a typed table's task generation. Raises NotFoundError."""
        known = read_history(self.context.registry.store, table, task_type)
        if not known.succeeded and not known.failed:
            raise NotFoundError(f"No generator information for table: {table}, task type: {task_type}")
        return {
            "tableNameWithType": table,
            "taskType": task_type,
            "mostRecentSuccessRunTS": [views.readable(ms) for ms in known.succeeded],
            "mostRecentErrorRunMessages": {views.readable(ms): why for ms, why in known.failed},
        }

    def schedules(self) -> Iterator[tuple[str, str, str, int | None, int | None]]:
        """Yield typed table, task type, expression, next and previous time of every schedule, in milliseconds."""
        now_ms, store = self.context.clock.now_ms(), self.context.registry.store
        for (table, task_type), schedule in sorted(schedules_of(self.tables, self.scheduler).items()):
            fired = read_history(store, table, task_type).fired_ms
            yield table, task_type, schedule.text, schedule.next_after(now_ms), None if fired < 0 else fired

    def progress(self, job: Job, names: Sequence[str]) -> dict[str, Any]:
        """Return the progress that minions reported for a job's subtasks (default: all), by subtask."""
        chosen = [s for s in self.queues.subtasks(job) if not names or s.name in names]
        asked: dict[str, list[Subtask]] = {}
        for subtask in chosen:
            asked.setdefault(subtask.worker, []).append(subtask)
        found: dict[str, Any] = {}
        for worker, subtasks in asked.items():
            told: dict[str, Any] = {}
            reason = "No worker has run this subtask"
            if worker:
                try:
                    told = self.minions.progress(worker, [s.name for s in subtasks])
                except GamayError as error:
                    reason = str(error)
            for subtask in subtasks:
                found[subtask.name] = told.get(subtask.name) or (subtask.info or f"No status: {reason}")
        return {s.name: found[s.name] for s in chosen}

    def worker_progress(self, state: str, workers: Sequence[str]) -> dict[str, Any]:
        """Return the progress that minions reported for subtasks in a state, by minion."""
        live = set(self.context.registry.live_instance_ids())
        known = [i.id for i in self.context.registry.instances() if i.role is Role.MINION and i.id in live]
        found: dict[str, Any] = {}
        for worker in known:
            if not workers or worker in workers:
                try:
                    found[worker] = self.minions.all_progress(worker, state)
                except GamayError as error:
                    found[worker] = {"error": str(error)}
        return found
