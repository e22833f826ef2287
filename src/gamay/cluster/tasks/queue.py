"""The queues of tasks in the metadata store: every change is one compare-and-set of one node.

TASKS/<type>                     the queue: its target state
TASKS/<type>/<job>               a job; empty until all its subtasks are stored
TASKS/<type>/<job>/<number>      a subtask
TASK_LEASES/<lease>              ephemeral: the worker's process is alive

A queue whose record cannot be read is stopped; a job or subtask whose record cannot be read is skipped, so that a job
without all its subtasks never ends, and others continue. `damaged` lists them.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from gamay.base.clock import Clock
from gamay.base.errors import ConflictError, InvalidConfigError, NotFoundError
from gamay.cluster.records.invariants import name_problem
from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore, Node, VersionConflictError, update
from gamay.cluster.store.znrecord import CorruptRecordError, ZNRecord, encode, read_record
from gamay.cluster.tasks import machine
from gamay.cluster.tasks.machine import LeaseLostError
from gamay.cluster.tasks.records import Job, JobState, Subtask, SubtaskState, Target, queue_name, type_of

_log = logging.getLogger(__name__)

FINISHED_KEPT_MS = 24 * 3_600_000
FAILED_KEPT_MS = 72 * 3_600_000
UNFINISHED_CREATION_MS = 600_000
"""The time after which a job is removed if its creator died while storing the subtasks."""
_TARGET = "TargetState"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Leased:
    """A subtask leased to a worker, with its job."""

    job: Job
    subtask: Subtask


class TaskQueues:
    """All queues, as one process sees them. Its methods may be called from any thread."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self.store = store
        self._clock = clock

    # reads

    def types(self) -> list[str]:
        """Return the task types that have a queue, ascending."""
        return self.store.children(paths.TASKS)

    def target(self, task_type: str) -> Target:
        """Return the target state of a queue. Raises NotFoundError."""
        node = self.store.get(paths.task_queue(task_type))
        if node is None:
            raise _no_queue(task_type)
        return _target(task_type, node.value)

    def jobs(self, task_type: str) -> list[Job]:
        """Return the jobs of a queue whose subtasks are all stored, oldest first."""
        found, _ = self._read(paths.task_queue(task_type), _job)
        return sorted(found, key=lambda job: (job.created_ms, job.name))

    def find(self, name: str) -> Job:
        """Return a job. Raises NotFoundError."""
        path = paths.task_job(type_of(name) or "", name)
        node = None if type_of(name) is None else self.store.get(path)
        if node is None or not node.value:
            raise NotFoundError(f"Task: {name} does not exist")
        return _job(path, node.value)

    def subtasks(self, job: Job) -> list[Subtask]:
        """Return the subtasks of a job that are stored, by number."""
        found, _ = self._read(paths.task_job(job.task_type, job.name), _subtask)
        return sorted(found, key=lambda subtask: subtask.number)

    def damaged(self) -> Iterator[tuple[str, CorruptRecordError]]:
        """Yield path and error of each record of a queue, job or subtask that cannot be read."""
        for task_type in self.types():
            try:
                self._target_or_delete(task_type)
            except CorruptRecordError as error:
                yield paths.task_queue(task_type), error
            jobs, damaged = self._read(paths.task_queue(task_type), _job)
            yield from damaged.items()
            for job in jobs:
                yield from self._read(paths.task_job(task_type, job.name), _subtask)[1].items()

    def state(self, job: Job) -> JobState:
        """Return the state of a job."""
        return job.ended or machine.job_state(job, self.subtasks(job), self._target_or_delete(job.task_type))

    def unfinished(self, task_type: str, table: str | None = None) -> Iterator[tuple[Job, list[Subtask]]]:
        """Yield the unfinished jobs of a queue, of one typed table or of all, oldest first."""
        for job in self.jobs(task_type):
            if job.ended is None and (table is None or table in job.tables):
                subtasks = self.subtasks(job)
                if not machine.job_state(job, subtasks, Target.START).is_final:
                    yield job, subtasks

    # requests of users and generators

    def submit(self, job: Job, configs: Sequence[tuple[str, Mapping[str, str]]]) -> Job:
        """Store a job with a subtask for each (typed table, config); no minion takes one before all are stored.

        Raises ConflictError if the name is taken, InvalidConfigError.
        """
        if problem := name_problem(job.name):
            raise InvalidConfigError(f"task name: {problem}")
        self.ensure(job.task_type)
        folder = paths.task_job(job.task_type, job.name)
        try:
            self.store.create(folder, b"")
        except ConflictError:
            raise ConflictError(f"Task: {job.name} already exists") from None
        job = replace(job, num_subtasks=len(configs))
        for number, (table, config) in enumerate(configs):
            subtask = Subtask(f"{job.name}_{number}", table, dict(config))
            self.store.create(f"{folder}/{number}", encode(subtask.to_record()))
        self.store.set(folder, encode(job.to_record()), None)
        return job

    def ensure(self, task_type: str) -> None:
        """Create the queue of a type, unless it exists."""
        path = paths.task_queue(task_type)
        if self.store.get(path) is None:
            try:
                self.store.create(path, _encode_target(task_type, Target.START))
            except ConflictError:
                return  # another process created it

    def set_target(self, task_type: str, target: Target) -> None:
        """Set the target state of a queue. Raises NotFoundError."""
        if self.store.get(paths.task_queue(task_type)) is None:
            raise _no_queue(task_type)
        self.store.set(paths.task_queue(task_type), _encode_target(task_type, target), None)

    def delete(self, task_type: str, *, force: bool) -> None:
        """Delete a queue with its jobs: at once with `force`, or when none of its subtasks runs any more. Raises
        NotFoundError."""
        self.set_target(task_type, Target.DELETE)
        if force or not self._runs(task_type):
            self.store.delete(paths.task_queue(task_type), recursive=True)

    def delete_job(self, name: str) -> None:
        """Delete a job; minions abort its running subtasks. Raises NotFoundError."""
        job = self.find(name)
        self.cancel(job)
        self.store.delete(paths.task_job(job.task_type, name), recursive=True)

    def cancel(self, job: Job) -> None:
        """Cancel every unfinished subtask of a job; minions abort the running ones."""
        for subtask in self.subtasks(job):
            if not subtask.state.is_final:
                self._abort(job, subtask)

    def cancel_table(self, table: str) -> None:
        """Cancel every unfinished subtask of a typed table, because the table is deleted; minions abort the running
        ones."""
        for task_type in self.types():
            for job, subtasks in self.unfinished(task_type, table):
                for subtask in subtasks:
                    if subtask.table == table and not subtask.state.is_final:
                        self._abort(job, subtask)

    def clean_up(self, task_type: str) -> list[str]:
        """Remove the finished jobs of a queue, and return their names. Raises NotFoundError."""
        self.target(task_type)
        ended = [job.name for job in self.jobs(task_type) if self.state(job).is_final]
        for name in ended:
            self.store.delete(paths.task_job(task_type, name), recursive=True)
        return ended

    # requests of workers

    def lease(
        self,
        worker: str,
        lease: str,
        may_take: Callable[[Job], bool],
        *,
        running: Collection[str] = (),
        types: Sequence[str] | None = None,
    ) -> Leased | None:
        """Lease a worker the next subtask of a job that it may take, oldest first; return None if there is none.

        running: the subtasks it runs; one that is leased to it but not among these (the answer got lost) is returned
        again.
        """
        for task_type in self.types() if types is None else types:
            if not self._is_started(task_type):
                continue
            for job in self.jobs(task_type):
                if job.ended is not None or not may_take(job):
                    continue
                for subtask in self.subtasks(job):
                    if machine.holds(subtask, lease) and subtask.name not in running:
                        return Leased(job, subtask)
                    if machine.can_lease(subtask) and (taken := self._take(job, subtask, worker, lease)) is not None:
                        return Leased(job, taken)
        return None

    def is_held(self, leased: Leased) -> bool:
        """Whether a subtask is still leased to its worker and its queue is started; False if a record of either is
        damaged."""
        path = _path(leased.job, leased.subtask.number)
        node = self.store.get(path)
        try:
            held = node is not None and machine.holds(_subtask(path, node.value), leased.subtask.lease)
        except CorruptRecordError:
            return False
        return held and self._is_started(leased.job.task_type)

    def complete(self, leased: Leased, info: str = "") -> None:
        """Report that a subtask is completed. Raises LeaseLostError if the lease was lost."""
        lease = leased.subtask.lease
        self._finish(leased, lambda found: machine.completed(found, lease, self._clock.now_ms(), info))

    def fail(self, leased: Leased, reason: str) -> None:
        """Report that an attempt has failed. Raises LeaseLostError."""
        lease, attempts = leased.subtask.lease, leased.job.limits.attempts
        self._finish(leased, lambda found: machine.failed(found, lease, self._clock.now_ms(), reason, attempts))

    def time_out(self, leased: Leased) -> None:
        """Report that an attempt has timed out. Raises LeaseLostError."""

        def change(found: Subtask) -> Subtask:
            if not machine.holds(found, leased.subtask.lease):
                raise LeaseLostError(f"subtask {found.name} is no longer this minion's")
            return machine.timed_out(found, self._clock.now_ms(), leased.job.limits.attempts)

        self._finish(leased, change)

    def give_back(self, leased: Leased) -> None:
        """Return a subtask unfinished; any minion may take it once its queue is started. Raises LeaseLostError."""
        self._finish(leased, lambda found: machine.stopped(found, leased.subtask.lease, self._clock.now_ms()))

    # supervision by the lead controller

    def tend(self) -> None:
        """Revoke subtasks of dead minions and late ones, mark finished jobs, and remove old ones."""
        now_ms = self._clock.now_ms()
        for task_type in self.types():
            for job in self.jobs(task_type):
                if job.ended is None:
                    self._tend_job(job, now_ms)
            self._remove_old(task_type, now_ms)
            try:
                is_to_go = self._target_or_delete(task_type) is Target.DELETE
            except CorruptRecordError as error:
                _log.error("the queue of %s is stopped: %s", task_type, error)
                continue
            if is_to_go and not self._runs(task_type):
                self.store.delete(paths.task_queue(task_type), recursive=True)

    def leases(self) -> set[str]:
        """Return the leases of the live workers."""
        return set(self.store.children(paths.TASK_LEASES))

    # internals

    def _tend_job(self, job: Job, now_ms: int) -> None:
        subtasks = self.subtasks(job)
        alive = self.leases()  # read after the subtasks: a worker's lease exists before it takes any
        for subtask in subtasks:
            if machine.tended(subtask, job, alive, now_ms) != subtask:
                _log.warning("subtask %s is revoked from minion %s", subtask.name, subtask.worker)
                self._change(job, subtask.number, lambda found: machine.tended(found, job, alive, now_ms))
        state = machine.job_state(job, self.subtasks(job), Target.START)
        if state.is_final:
            ended = replace(job, ended=state, finished_ms=now_ms)
            try:
                self.store.set(paths.task_job(job.task_type, job.name), encode(ended.to_record()), None)
            except NotFoundError:
                return  # the job was deleted meanwhile

    def _remove_old(self, task_type: str, now_ms: int) -> None:
        for path, node in self._nodes(paths.task_queue(task_type)):
            try:
                job = _job(path, node.value) if node.value else None
            except CorruptRecordError:
                continue
            if self._is_old(job, node.created_ms, now_ms):
                self.store.delete(path, recursive=True)

    def _is_old(self, job: Job | None, created_ms: int, now_ms: int) -> bool:
        if job is None:
            return now_ms - created_ms > UNFINISHED_CREATION_MS
        if job.ended is None:
            return False
        return now_ms - job.finished_ms > (FINISHED_KEPT_MS if job.ended is JobState.COMPLETED else FAILED_KEPT_MS)

    def _runs(self, task_type: str) -> bool:
        return any(s.state is SubtaskState.RUNNING for _, found in self.unfinished(task_type) for s in found)

    def _target_or_delete(self, task_type: str) -> Target:
        node = self.store.get(paths.task_queue(task_type))
        return Target.DELETE if node is None else _target(task_type, node.value)

    def _is_started(self, task_type: str) -> bool:
        try:
            return self._target_or_delete(task_type) is Target.START
        except CorruptRecordError:
            return False

    def _nodes(self, folder: str) -> Iterator[tuple[str, Node]]:
        found = [f"{folder}/{name}" for name in self.store.children(folder)]
        return ((path, node) for path, node in zip(found, self.store.get_many(found), strict=True) if node is not None)

    def _read(self, folder: str, read: Callable[[str, bytes], T]) -> tuple[list[T], dict[str, CorruptRecordError]]:
        """Return the records of a folder's nodes, without empty ones, and path -> error for those that cannot be read."""
        found, damaged = list[T](), dict[str, CorruptRecordError]()
        for path, node in self._nodes(folder):
            try:
                if node.value:
                    found.append(read(path, node.value))
            except CorruptRecordError as error:
                damaged[path] = error
        return found, damaged

    def _take(self, job: Job, subtask: Subtask, worker: str, lease: str) -> Subtask | None:
        path = _path(job, subtask.number)
        node = self.store.get(path)
        if node is None:
            return None
        try:
            taken = machine.leased(_subtask(path, node.value), worker, lease, self._clock.now_ms())
            self.store.set(path, encode(taken.to_record()), node.version)
        except (LeaseLostError, VersionConflictError, NotFoundError):
            return None  # another worker was faster, or it was deleted
        return taken

    def _finish(self, leased: Leased, change: Callable[[Subtask], Subtask]) -> None:
        if not self._change(leased.job, leased.subtask.number, change):
            raise LeaseLostError(f"subtask {leased.subtask.name} was deleted")

    def _abort(self, job: Job, subtask: Subtask) -> None:
        self._change(job, subtask.number, lambda found: machine.aborted(found, self._clock.now_ms()))

    def _change(self, job: Job, number: int, change: Callable[[Subtask], Subtask]) -> bool:
        """Change a subtask atomically; return whether it exists."""

        def apply(value: bytes | None) -> bytes | None:
            return None if value is None else encode(change(_subtask(path, value)).to_record())

        path = _path(job, number)
        if self.store.get(path) is None:
            return False
        return update(self.store, path, apply) is not None


def _no_queue(task_type: str) -> NotFoundError:
    return NotFoundError(f"Task queue: {queue_name(task_type)} for task type: {task_type} does not exist")


def _path(job: Job, number: int) -> str:
    return f"{paths.task_job(job.task_type, job.name)}/{number}"


def _job(path: str, value: bytes) -> Job:
    def parse(record: ZNRecord) -> Job:
        job = Job.from_record(record)
        if type_of(job.name) != job.task_type:
            raise ValueError(f"its task type is '{job.task_type}'")
        return job

    return read_record(path, value, parse)


def _subtask(path: str, value: bytes) -> Subtask:
    job, number = path.split("/")[-2:]
    return read_record(path, value, Subtask.from_record, f"{job}_{number}")


def _target(task_type: str, value: bytes) -> Target:
    def parse(record: ZNRecord) -> Target:
        return Target(record.simple[_TARGET])

    return read_record(paths.task_queue(task_type), value, parse, queue_name(task_type)) if value else Target.START


def _encode_target(task_type: str, target: Target) -> bytes:
    return encode(ZNRecord(queue_name(task_type), {_TARGET: target.value}))
