"""The records of jobs and subtasks, each with its two-way conversion to the stored ZNRecord."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from gamay.cluster.store.znrecord import ZNRecord

JOB_PREFIX = "Task_"
QUEUE_PREFIX = "TaskQueue_"
_JOB_NAME = re.compile(r"Task_([A-Za-z0-9]+)_(.+)")
_SUBTASK_NAME = re.compile(r"(.+)_(\d+)")
_CONFIG = "taskConfig"


class SubtaskState(Enum):
    """The state of a subtask. INIT waits for a minion, STOPPED for the start of its queue; the last four are final."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    STOPPED = "STOPPED"
    COMPLETED = "COMPLETED"
    TIMED_OUT = "TIMED_OUT"
    TASK_ERROR = "TASK_ERROR"
    TASK_ABORTED = "TASK_ABORTED"

    @property
    def is_final(self) -> bool:
        """Whether the state is final."""
        return self in _ENDS


_ENDS = frozenset({SubtaskState.COMPLETED, SubtaskState.TIMED_OUT, SubtaskState.TASK_ERROR, SubtaskState.TASK_ABORTED})


class JobState(Enum):
    """The state of a job, by its subtasks and its queue."""

    NOT_STARTED = "NOT_STARTED"
    IN_PROGRESS = "IN_PROGRESS"
    STOPPED = "STOPPED"
    STOPPING = "STOPPING"
    FAILED = "FAILED"
    COMPLETED = "COMPLETED"
    ABORTED = "ABORTED"
    TIMED_OUT = "TIMED_OUT"

    @property
    def is_final(self) -> bool:
        """Whether the state is final."""
        return self in (JobState.FAILED, JobState.COMPLETED, JobState.ABORTED, JobState.TIMED_OUT)


class Target(Enum):
    """The target state of a queue."""

    START = "START"
    STOP = "STOP"
    DELETE = "DELETE"


class Trigger(Enum):
    """The reason for which a job was created."""

    CRON = "CRON_TRIGGER"
    MANUAL = "MANUAL_TRIGGER"
    ADHOC = "ADHOC_TRIGGER"


@dataclass(frozen=True, slots=True)
class SubtaskLimits:
    """Limits of the subtasks of a job.

    timeout_ms: of one attempt. attempts: maximum per subtask. per_minion: subtasks of the task type that a minion runs at
    a time. tag: the tag that a minion must have.
    """

    timeout_ms: int = 3_600_000
    attempts: int = 1
    per_minion: int = 1
    tag: str = "minion_untagged"


@dataclass(frozen=True, slots=True)
class Job:
    """A job, once all its subtasks are stored. ended: its final state, None until the lead controller has recorded
    its end."""

    name: str
    task_type: str
    tables: tuple[str, ...]
    num_subtasks: int
    created_ms: int
    trigger: Trigger = Trigger.MANUAL
    limits: SubtaskLimits = field(default_factory=SubtaskLimits)
    ended: JobState | None = None
    finished_ms: int = -1

    def to_record(self) -> ZNRecord:
        simple = {
            "taskType": self.task_type,
            "numSubtasks": str(self.num_subtasks),
            "createdMs": str(self.created_ms),
            "triggeredBy": self.trigger.value,
            "timeoutMs": str(self.limits.timeout_ms),
            "maxAttemptsPerTask": str(self.limits.attempts),
            "numConcurrentTasksPerInstance": str(self.limits.per_minion),
            "minionInstanceTag": self.limits.tag,
        }
        if self.ended is not None:
            simple |= {"state": self.ended.value, "finishedMs": str(self.finished_ms)}
        return ZNRecord(self.name, simple, lists={"tables": list(self.tables)})

    @classmethod
    def from_record(cls, record: ZNRecord) -> "Job":
        simple = record.simple
        ended = simple.get("state")
        return cls(
            record.id,
            simple["taskType"],
            tuple(record.lists.get("tables", ())),
            int(simple["numSubtasks"]),
            int(simple["createdMs"]),
            Trigger(simple["triggeredBy"]),
            SubtaskLimits(
                int(simple["timeoutMs"]),
                int(simple["maxAttemptsPerTask"]),
                int(simple["numConcurrentTasksPerInstance"]),
                simple["minionInstanceTag"],
            ),
            None if ended is None else JobState(ended),
            int(simple.get("finishedMs", "-1")),
        )


@dataclass(frozen=True, slots=True)
class Subtask:
    """A unit of work for one minion.

    name: `<job>_<number>`. table: typed. config: for the minion. attempts: started ones that count; losses: how often
    its minion died. worker: the minion that has or last had it; lease: of that minion's process. info: a sentence
    about the result.
    """

    name: str
    table: str
    config: Mapping[str, str]
    state: SubtaskState = SubtaskState.INIT
    attempts: int = 0
    losses: int = 0
    worker: str = ""
    lease: str = ""
    started_ms: int = -1
    finished_ms: int = -1
    info: str = ""

    @property
    def job(self) -> str:
        """The name of its job."""
        return self.name.rpartition("_")[0]

    @property
    def number(self) -> int:
        """Its number in the job, from 0."""
        return int(self.name.rpartition("_")[2])

    def to_record(self) -> ZNRecord:
        simple = {
            "table": self.table,
            "state": self.state.value,
            "attempts": str(self.attempts),
            "losses": str(self.losses),
            "worker": self.worker,
            "lease": self.lease,
            "startedMs": str(self.started_ms),
            "finishedMs": str(self.finished_ms),
            "info": self.info,
        }
        return ZNRecord(self.name, simple, {_CONFIG: dict(self.config)})

    @classmethod
    def from_record(cls, record: ZNRecord) -> "Subtask":
        simple = record.simple
        return cls(
            record.id,
            simple["table"],
            record.maps[_CONFIG],
            SubtaskState(simple["state"]),
            int(simple["attempts"]),
            int(simple["losses"]),
            simple["worker"],
            simple["lease"],
            int(simple["startedMs"]),
            int(simple["finishedMs"]),
            simple["info"],
        )


def job_name(task_type: str, rest: str) -> str:
    """Return the name of a job."""
    return f"{JOB_PREFIX}{task_type}_{rest}"


def queue_name(task_type: str) -> str:
    """Return the name of a type's queue, as in Pinot's tools."""
    return f"{QUEUE_PREFIX}{task_type}"


def type_of(job: str) -> str | None:
    """Return the task type in the name of a job, or None if it is not such a name.

    >>> type_of("Task_PurgeTask_1700000000000")
    'PurgeTask'
    """
    match = _JOB_NAME.fullmatch(job)
    return None if match is None else match[1]


def job_of(subtask: str) -> str | None:
    """Return the job in the name of a subtask, or None if it is not such a name."""
    match = _SUBTASK_NAME.fullmatch(subtask)
    return None if match is None else match[1]
