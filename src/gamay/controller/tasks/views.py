"""Jobs and subtasks as documents for REST. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from gamay.cluster.tasks.machine import job_state
from gamay.cluster.tasks.records import Job, Subtask, SubtaskLimits, SubtaskState, Target

_COUNTED = {
    SubtaskState.INIT: "waiting",
    SubtaskState.STOPPED: "waiting",
    SubtaskState.RUNNING: "running",
    SubtaskState.COMPLETED: "completed",
    SubtaskState.TASK_ERROR: "error",
    SubtaskState.TIMED_OUT: "timedOut",
    SubtaskState.TASK_ABORTED: "aborted",
}
_COUNTS = ("total", "completed", "running", "waiting", "error", "unknown", "dropped", "timedOut", "aborted")
_SHOWN_BRIEFLY = (SubtaskState.RUNNING, SubtaskState.TASK_ERROR, SubtaskState.TIMED_OUT)


def counts_of(subtasks: Iterable[Subtask]) -> dict[str, int]:
    """Return the number of subtasks by state."""
    found = Counter(_COUNTED[subtask.state] for subtask in subtasks)
    return {name: found.total() if name == "total" else found[name] for name in _COUNTS}


def debug_of(job: Job, subtasks: Sequence[Subtask], target: Target, verbosity: int) -> dict[str, Any]:
    """Return a job with its subtasks; verbosity 0 lists only subtasks that run or failed."""
    starts = [subtask.started_ms for subtask in subtasks if subtask.started_ms >= 0]
    return {
        "taskState": job_state(job, subtasks, target).value,
        "subtaskCount": counts_of(subtasks),
        "startTime": readable(job.created_ms),
        "executionStartTime": readable(min(starts, default=-1)),
        "finishTime": readable(job.finished_ms),
        "triggeredBy": job.trigger.value,
        "subtaskInfos": [
            _subtask_info(job, subtask) for subtask in subtasks if verbosity > 0 or subtask.state in _SHOWN_BRIEFLY
        ],
    }


def _subtask_info(job: Job, subtask: Subtask) -> dict[str, Any]:
    return {
        "taskId": subtask.name,
        "state": subtask.state.value,
        "startTime": readable(subtask.started_ms),
        "finishTime": readable(subtask.finished_ms),
        "participant": subtask.worker or None,
        "info": subtask.info,
        "triggeredBy": job.trigger.value,
        "taskConfig": config_of(job, subtask),
    }


def config_of(job: Job, subtask: Subtask) -> dict[str, Any]:
    """Return the config that a subtask's minion gets."""
    return {"taskType": job.task_type, "configs": dict(subtask.config), "taskId": subtask.name, "tableName": subtask.table}


def runtime_config(limits: SubtaskLimits) -> dict[str, str]:
    """Return the limits of a job's subtasks."""
    return {
        "ConcurrentTasksPerWorker": str(limits.per_minion),
        "TaskTimeoutPerTask": str(limits.timeout_ms),
        "MaxAttemptsPerTask": str(limits.attempts),
        "InstanceGroupTag": limits.tag,
    }


def summary(unfinished: Mapping[str, Iterable[tuple[Job, Sequence[Subtask]]]], tenant: str | None) -> dict[str, Any]:
    """Return the numbers of running and waiting subtasks, by the tag of their minions and by type."""
    running: dict[str, Counter[str]] = {}
    waiting: dict[str, Counter[str]] = {}
    for task_type, jobs in unfinished.items():
        for job, subtasks in jobs:
            tag = job.limits.tag
            if tenant is not None and tag != tenant:
                continue
            counts = counts_of(subtasks)
            running.setdefault(tag, Counter())[task_type] += counts["running"]
            waiting.setdefault(tag, Counter())[task_type] += counts["waiting"]
    breakdown = [
        {
            "tenant": tag,
            "runningTasks": running[tag].total(),
            "waitingTasks": waiting[tag].total(),
            "taskTypeBreakdown": [
                {"taskType": kind, "runningCount": running[tag][kind], "waitingCount": waiting[tag][kind]}
                for kind in sorted(running[tag])
            ],
        }
        for tag in sorted(running)
    ]
    return {
        "totalRunningTasks": sum(entry["runningTasks"] for entry in breakdown),
        "totalWaitingTasks": sum(entry["waitingTasks"] for entry in breakdown),
        "taskBreakdown": breakdown,
    }


def readable(at_ms: int) -> str | None:
    """Return a time as text; None for a negative one."""
    return None if at_ms < 0 else datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
