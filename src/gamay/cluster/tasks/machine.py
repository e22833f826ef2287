"""The states of a subtask, and the state of a job by its subtasks. Pure: time and the live minions are passed in.

    INIT, STOPPED --lease--> RUNNING --completed--> COMPLETED
                             RUNNING --failed-----> TASK_ERROR, or INIT while attempts are left
                             RUNNING --timed out--> TIMED_OUT, or INIT while attempts are left
                             RUNNING --lost-------> INIT; TASK_ERROR after `LOSSES_MAX` minions have died of it
                             RUNNING --stopped----> STOPPED
    everything but an end    --aborted------------> TASK_ABORTED

Only the holder of the lease may report the result of a subtask. A lease ends with its minion's session, or by time; a
minion that has lost it cannot report a result, and another one repeats the work.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from gamay.base.errors import ConflictError
from gamay.cluster.tasks.records import Job, JobState, Subtask, SubtaskState, Target

LOSSES_MAX = 5
GRACE_MS = 30_000
"""A minion stops an attempt at its timeout by itself; the lead controller does so this much later."""
INFO_MAX = 4000
_WAITING = (SubtaskState.INIT, SubtaskState.STOPPED)


class LeaseLostError(ConflictError):
    """A subtask that is no longer leased to this worker: it timed out, was cancelled, or was given to another one."""


def can_lease(subtask: Subtask) -> bool:
    """Whether a minion may take a subtask of a started queue."""
    return subtask.state in _WAITING


def leased(subtask: Subtask, worker: str, lease: str, now_ms: int) -> Subtask:
    """Return the subtask as leased to a worker. Raises LeaseLostError if another one has it already."""
    if not can_lease(subtask):
        raise LeaseLostError(f"subtask {subtask.name} is {subtask.state.value}")
    return replace(
        subtask, state=SubtaskState.RUNNING, attempts=subtask.attempts + 1, worker=worker, lease=lease, started_ms=now_ms,
        finished_ms=-1, info="",
    )  # fmt: skip


def holds(subtask: Subtask, lease: str) -> bool:
    """Whether the subtask is running under this lease."""
    return subtask.state is SubtaskState.RUNNING and subtask.lease == lease


def completed(subtask: Subtask, lease: str, now_ms: int, info: str) -> Subtask:
    """Return the subtask as completed; idempotent. Raises LeaseLostError."""
    if subtask.state is SubtaskState.COMPLETED and subtask.lease == lease:
        return subtask
    _check(subtask, lease)
    return replace(subtask, state=SubtaskState.COMPLETED, finished_ms=now_ms, info=info[:INFO_MAX])


def failed(subtask: Subtask, lease: str, now_ms: int, reason: str, attempts: int) -> Subtask:
    """Return the subtask after a failed attempt. attempts: their maximum. Raises LeaseLostError."""
    _check(subtask, lease)
    return _ended(subtask, SubtaskState.TASK_ERROR, now_ms, reason, again=subtask.attempts < attempts)


def stopped(subtask: Subtask, lease: str, now_ms: int) -> Subtask:
    """Return the subtask after its minion returned it unfinished, which does not count as an attempt. Raises
    LeaseLostError."""
    _check(subtask, lease)
    return replace(
        subtask, state=SubtaskState.STOPPED, attempts=subtask.attempts - 1, finished_ms=now_ms, info="given back unfinished"
    )


def lost(subtask: Subtask, now_ms: int) -> Subtask:
    """Return the subtask after its minion died, which does not count as an attempt; after `LOSSES_MAX` deaths it has
    failed."""
    if subtask.state is not SubtaskState.RUNNING:
        return subtask
    losses = subtask.losses + 1
    counted = replace(subtask, losses=losses, attempts=subtask.attempts - 1)
    reason = f"minion {subtask.worker} died, or lost its session, while it worked on this ({losses} times so far)"
    return _ended(counted, SubtaskState.TASK_ERROR, now_ms, reason, again=losses < LOSSES_MAX)


def is_late(subtask: Subtask, now_ms: int, timeout_ms: int) -> bool:
    """Whether an attempt has run longer than its minion should have allowed."""
    return subtask.state is SubtaskState.RUNNING and now_ms - subtask.started_ms > timeout_ms + GRACE_MS


def timed_out(subtask: Subtask, now_ms: int, attempts: int) -> Subtask:
    """Return the subtask after an attempt that timed out. attempts: their maximum."""
    if subtask.state is not SubtaskState.RUNNING:
        return subtask
    reason = f"no end after {(now_ms - subtask.started_ms) / 1000:.0f} s"
    return _ended(subtask, SubtaskState.TIMED_OUT, now_ms, reason, again=subtask.attempts < attempts)


def aborted(subtask: Subtask, now_ms: int) -> Subtask:
    """Return the subtask as cancelled, unless it has ended."""
    if subtask.state.is_final:
        return subtask
    return replace(subtask, state=SubtaskState.TASK_ABORTED, finished_ms=now_ms, info="cancelled")


def tended(subtask: Subtask, job: Job, alive: Collection[str], now_ms: int) -> Subtask:
    """Return a subtask after the lead controller's supervision. alive: the valid leases."""
    if subtask.state is SubtaskState.RUNNING and subtask.lease not in alive:
        return lost(subtask, now_ms)
    if is_late(subtask, now_ms, job.limits.timeout_ms):
        return timed_out(subtask, now_ms, job.limits.attempts)
    return subtask


def job_state(job: Job, subtasks: Sequence[Subtask], target: Target) -> JobState:
    """Return the state of a job. A job has failed if any of its subtasks has ended without completion."""
    if job.ended is not None:
        return job.ended
    states = [subtask.state for subtask in subtasks]
    if len(states) == job.num_subtasks and all(state.is_final for state in states):
        for found, meaning in (
            (SubtaskState.TASK_ABORTED, JobState.ABORTED),
            (SubtaskState.TASK_ERROR, JobState.FAILED),
            (SubtaskState.TIMED_OUT, JobState.TIMED_OUT),
        ):
            if found in states:
                return meaning
        return JobState.COMPLETED
    if target is not Target.START:
        return JobState.STOPPING if SubtaskState.RUNNING in states else JobState.STOPPED
    begun = any(state is not SubtaskState.INIT or subtask.losses for state, subtask in zip(states, subtasks, strict=True))
    return JobState.IN_PROGRESS if begun else JobState.NOT_STARTED


def _check(subtask: Subtask, lease: str) -> None:
    if not holds(subtask, lease):
        raise LeaseLostError(f"subtask {subtask.name} is {subtask.state.value} and no longer this minion's")


def _ended(subtask: Subtask, state: SubtaskState, now_ms: int, reason: str, *, again: bool) -> Subtask:
    return replace(subtask, state=SubtaskState.INIT if again else state, finished_ms=now_ms, info=reason[:INFO_MAX])
