"""Creation of tasks: for one type and table or for all; by schedule, on demand, or with a user's settings."""

import logging
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from gamay.base.errors import ConflictError, GamayError, InvalidConfigError, NotFoundError, nearest
from gamay.cluster.records.llc_name import LlcName
from gamay.cluster.store import paths
from gamay.cluster.tasks.queue import TaskQueues
from gamay.cluster.tasks.records import Job, Trigger, job_name
from gamay.controller.context import ControllerContext
from gamay.controller.segments.segments import SegmentManager
from gamay.controller.tables.tables import TableManager
from gamay.controller.tasks.history import note_run
from gamay.controller.tasks.limits import limits_of
from gamay.controller.tasks.spi import GeneratorInput, TaskGenerator, TaskPlan
from gamay.model.cluster_settings import TASK_SUBTASKS_MAX
from gamay.model.task_settings import TaskSettings

_log = logging.getLogger(__name__)
_AT_ONCE = "0d"


class NothingToDoError(GamayError):
    """A task requested by a user for which there is nothing to do."""

    http_status = 400


@dataclass(slots=True)
class Scheduled:
    """The result of a round: the new jobs by task type, and the errors of their generation and submission."""

    jobs: dict[str, list[str]] = field(default_factory=dict)
    generation_errors: list[str] = field(default_factory=list)
    scheduling_errors: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TaskScheduler:
    """Scheduler of jobs. generators: by task type."""

    context: ControllerContext
    tables: TableManager
    segments: SegmentManager
    queues: TaskQueues
    generators: Mapping[str, TaskGenerator]

    def schedule(
        self,
        task_type: str | None = None,
        table: str | None = None,
        tag: str | None = None,
        trigger: Trigger = Trigger.MANUAL,
    ) -> Scheduled:
        """Create the tasks that table configs demand, of one type and typed table or of all.

        tag: overrides the minion tag of the configs. Raises NotFoundError for an unknown type or table, or a table
        without a task of the type.
        """
        done = Scheduled()
        if task_type is not None:
            self._generator(task_type)
        asked = False
        for name in self.tables.names() if table is None else [table]:
            config = self.tables.get(name)
            for found, given in (config.task.task_types if config.task else {}).items():
                if found in self.generators and task_type in (None, found):
                    asked = True
                    self._one(done, found, name, {**given, **({"minionInstanceTag": tag} if tag else {})}, trigger)
        if table is not None and task_type is not None and not asked:
            raise NotFoundError(f"Table {table} has no task of type {task_type} in its config")
        return done

    def execute(self, task_type: str, table: str, name: str, given: Mapping[str, str]) -> str:
        """Create a job of a typed table with settings that override its config, and return the job's name.

        name: the last part of the job's name; empty for a generated one. Raises NotFoundError, ConflictError if the name
        is taken, NothingToDoError, InvalidConfigError.
        """
        config = self.tables.get(table)
        generator = self._generator(task_type)
        own = config.task.task_types.get(task_type, {}) if config.task else {}
        with self._locked(table):
            plan = self._plan(generator, table, {**own, **given}, is_adhoc=True)
            if not plan.subtasks:
                extra = f"; {len(plan.deleted)} segments were deleted" if plan.deleted else ""
                raise NothingToDoError(f"No task was generated for table: {table}, task type: {task_type}{extra}")
            return self._submit(generator, table, {**own, **given}, plan, Trigger.ADHOC, name)

    def _generator(self, task_type: str) -> TaskGenerator:
        found = self.generators.get(task_type)
        if found is None:
            raise NotFoundError(f"Task type: {task_type} is not known.{nearest(task_type, self.generators)}")
        return found

    def _one(self, done: Scheduled, task_type: str, table: str, given: Mapping[str, str], trigger: Trigger) -> None:
        store, generator = self.queues.store, self.generators[task_type]
        now_ms = self.context.clock.now_ms()
        try:
            with self._locked(table):
                try:
                    plan = self._plan(generator, table, given)
                except Exception as error:  # noqa: BLE001 - the tasks of the other tables are still created
                    done.generation_errors.append(f"{table}, {task_type}: {error}")
                    _log.warning("tasks %s of %s cannot be generated: %s", task_type, table, error)
                    note_run(store, table, task_type, now_ms, _reason(error))
                    return
                note_run(store, table, task_type, now_ms, None)
                if plan.subtasks:
                    job = self._submit(generator, table, given, plan, trigger, "")
                    done.jobs.setdefault(task_type, []).append(job)
        except GamayError as error:
            done.scheduling_errors.append(f"{table}, {task_type}: {error}")
            _log.warning("tasks %s of %s cannot be submitted: %s", task_type, table, error)

    def _plan(self, generator: TaskGenerator, table: str, given: Mapping[str, str], *, is_adhoc: bool = False) -> TaskPlan:
        """Generate the plan of a task, and delete the segments that it lists for deletion."""
        context = self.context
        working = [
            subtask.config
            for _, subtasks in self.queues.unfinished(generator.task_type, table)
            for subtask in subtasks
            if not subtask.state.is_final
        ]
        wanted = GeneratorInput(
            self.tables.get(table), given, context.registry, context.servers, context.clock, working, context.fetchers,
            context.ids, is_adhoc,
        )  # fmt: skip
        plan = generator.plan(wanted)
        gone = _deletable(plan.deleted, [record.name for record in wanted.completed_segments()])
        if gone:
            _log.info("%s: %d segments of %s have no valid rows and are deleted", generator.task_type, len(gone), table)
            self.segments.delete(table, gone, _AT_ONCE)
        most = TaskSettings(generator.task_type, given).whole("tableMaxNumTasks", generator.max_tasks)
        return plan if most <= 0 else replace(plan, subtasks=plan.subtasks[:most])

    def _submit(
        self,
        generator: TaskGenerator,
        table: str,
        given: Mapping[str, str],
        plan: TaskPlan,
        trigger: Trigger,
        name: str,
    ) -> str:
        task_type, now_ms = generator.task_type, self.context.clock.now_ms()
        settings = self.context.registry.cluster_config()
        tag = TaskSettings(task_type, given).tag
        subtasks: Sequence[Mapping[str, str]] = plan.subtasks
        most = TASK_SUBTASKS_MAX.whole(settings)
        if 0 < most < len(subtasks):
            if trigger is not Trigger.CRON:
                raise InvalidConfigError(
                    f"Number of tasks generated for task type: {task_type} for table: {table} is {len(subtasks)}, which is "
                    f"greater than the maximum number of tasks to schedule: {most}. This is controlled by the cluster "
                    f"config {TASK_SUBTASKS_MAX.name} which is set based on controller's performance."
                )
            subtasks = subtasks[:most]
        job = Job(
            job_name(task_type, name or f"{self.context.ids.new()}_{now_ms}"), task_type, (table,), len(subtasks), now_ms,
            trigger, limits_of(task_type, tag, settings),
        )  # fmt: skip
        return self.queues.submit(job, [(table, config) for config in subtasks]).name

    @contextmanager
    def _locked(self, table: str) -> Iterator[None]:
        """Hold the lock of a table's task generation. Raises ConflictError if it is taken."""
        store, path = self.queues.store, paths.task_lock(table)
        try:
            store.create(path, self.context.instance_id.encode(), ephemeral=True)
        except ConflictError:
            raise ConflictError(f"Tasks of table {table} are being created by another process now") from None
        try:
            yield
        finally:
            store.delete(path)


def _deletable(names: Iterable[str], completed: Iterable[str]) -> list[str]:
    """Return the segments that may be deleted: not the last one of a partition, whose end offset is needed."""
    last: dict[int, LlcName] = {}
    for name in completed:
        parsed = LlcName.parse(name)
        if parsed is not None and (parsed.partition not in last or last[parsed.partition].sequence < parsed.sequence):
            last[parsed.partition] = parsed
    kept = {str(name) for name in last.values()}
    return [name for name in names if name not in kept]


def _reason(error: Exception) -> str:
    if isinstance(error, GamayError):
        return str(error)
    return "".join(traceback.format_exception(error))
