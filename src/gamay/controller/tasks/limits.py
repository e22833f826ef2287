"""How subtasks are run, as the cluster's settings say: `<Task>.timeoutMs` and the like, with `<Task>.<tag>.` before it."""

from collections.abc import Mapping

from gamay.cluster.tasks.records import SubtaskLimits

_TIMEOUT = "timeoutMs"
_PER_MINION = "numConcurrentTasksPerInstance"
_ATTEMPTS = "maxAttemptsPerTask"


def limits_of(task_type: str, tag: str, settings: Mapping[str, str]) -> SubtaskLimits:
    """Return the limits of a job of a type whose minions have a tag; what is no positive number counts as absent."""
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
