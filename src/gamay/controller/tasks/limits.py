"""Limits of subtasks by the cluster's settings: `<Task>.timeoutMs` etc., overridden by `<Task>.<tag>.timeoutMs` etc."""

from collections.abc import Mapping

from gamay.cluster.tasks.records import SubtaskLimits

_TIMEOUT = "timeoutMs"
_PER_MINION = "numConcurrentTasksPerInstance"
_ATTEMPTS = "maxAttemptsPerTask"


def limits_of(task_type: str, tag: str, settings: Mapping[str, str]) -> SubtaskLimits:
    """Return the limits of a job by its type and minion tag; a setting that is no positive number is ignored."""
    default = SubtaskLimits()

    def read(key: str, otherwise: int) -> int:
        for name in (f"{task_type}.{tag}.{key}", f"{task_type}.{key}"):
            text = settings.get(name, "").strip()
            if text.isascii() and text.isdecimal() and int(text) > 0:
                return int(text)
        return otherwise

    return SubtaskLimits(
        read(_TIMEOUT, default.timeout_ms), read(_ATTEMPTS, default.attempts), read(_PER_MINION, default.per_minion), tag
    )
