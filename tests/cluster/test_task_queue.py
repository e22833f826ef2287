"""The task queues on every store: who gets which subtask, and which reports are accepted afterwards."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from gamay.base.clock import ManualClock
from gamay.base.errors import ConflictError, NotFoundError
from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.store.znrecord import encode
from gamay.cluster.tasks.machine import GRACE_MS, LOSSES_MAX, LeaseLostError
from gamay.cluster.tasks.queue import FAILED_KEPT_MS, FINISHED_KEPT_MS, Leased, TaskQueues
from gamay.cluster.tasks.records import Job, JobState, SubtaskLimits, SubtaskState, Target, Trigger

KIND = "PurgeTask"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queues(store: MetadataStore, clock: ManualClock) -> TaskQueues:
    return TaskQueues(store, clock)


def submit(queues: TaskQueues, clock: ManualClock, number: int, name: str = "a", **limits: int) -> Job:
    job = Job(f"Task_{KIND}_{name}", KIND, ("t_OFFLINE",), number, clock.now_ms(), Trigger.MANUAL, SubtaskLimits(**limits))
    clock.advance(1)
    return queues.submit(job, [("t_OFFLINE", {"segmentName": f"s{i}"}) for i in range(number)])


def join(queues: TaskQueues, lease: str) -> Callable[[], Leased | None]:
    queues.store.create(paths.task_lease(lease), b"", ephemeral=True)
    running: list[str] = []

    def take() -> Leased | None:
        leased = queues.lease(f"Minion_{lease}", lease, lambda job: True, running=running)
        if leased is not None:
            running.append(leased.subtask.name)
        return leased

    return take


def taken(take: Callable[[], Leased | None]) -> Leased:
    found = take()
    assert found is not None
    return found


def states(queues: TaskQueues, job: Job) -> list[SubtaskState]:
    return [subtask.state for subtask in queues.subtasks(job)]


def test_each_subtask_is_given_once_and_ends(queues: TaskQueues, clock: ManualClock) -> None:
    job = submit(queues, clock, 3)
    assert queues.types() == [KIND]
    assert queues.state(job) is JobState.NOT_STARTED
    one, two = join(queues, "one"), join(queues, "two")
    got = [taken(one), taken(two), taken(one)]
    assert sorted(leased.subtask.number for leased in got) == [0, 1, 2]
    assert two() is None
    assert queues.state(job) is JobState.IN_PROGRESS
    queues.complete(got[0], "done")
    queues.complete(got[0], "done again")  # an answer that was lost is asked for again
    queues.complete(got[1])
    queues.fail(got[2], "no room")
    assert states(queues, job) == [SubtaskState.COMPLETED, SubtaskState.COMPLETED, SubtaskState.TASK_ERROR]
    assert [subtask.info for subtask in queues.subtasks(job)] == ["done", "", "no room"]
    queues.tend()
    assert queues.find(job.name).ended is JobState.FAILED
    assert list(queues.unfinished(KIND)) == []


def test_attempts_are_counted(queues: TaskQueues, clock: ManualClock) -> None:
    job = submit(queues, clock, 1, attempts=2)
    take = join(queues, "one")
    queues.fail(taken(take), "first")
    assert states(queues, job) == [SubtaskState.INIT]
    queues.fail(taken(take), "second")
    assert states(queues, job) == [SubtaskState.TASK_ERROR]
    with pytest.raises(ConflictError, match="already exists"):
        submit(queues, clock, 1)


def test_what_a_dead_minion_had_goes_back(queues: TaskQueues, clock: ManualClock) -> None:
    job = submit(queues, clock, 1)
    for death in range(LOSSES_MAX):
        lease = f"lease{death}"
        leased = taken(join(queues, lease))
        queues.tend()
        assert queues.is_held(leased)
        queues.store.delete(paths.task_lease(lease))
        queues.tend()
        assert not queues.is_held(leased)
        with pytest.raises(LeaseLostError):
            queues.complete(leased)
    assert states(queues, job) == [SubtaskState.TASK_ERROR]
    assert "died" in queues.subtasks(job)[0].info


def test_what_takes_too_long_is_taken_back(queues: TaskQueues, clock: ManualClock) -> None:
    job = submit(queues, clock, 1, timeout_ms=1000, attempts=2)
    take = join(queues, "one")
    leased = taken(take)
    clock.advance(1 + GRACE_MS / 1000)
    queues.tend()
    assert queues.is_held(leased)
    clock.advance(1)
    queues.tend()
    assert states(queues, job) == [SubtaskState.INIT]
    with pytest.raises(LeaseLostError):
        queues.complete(leased)
    queues.time_out(taken(take))
    queues.tend()
    assert queues.find(job.name).ended is JobState.TIMED_OUT


def test_a_queue_stops_and_goes_on(queues: TaskQueues, clock: ManualClock) -> None:
    job = submit(queues, clock, 2)
    take = join(queues, "one")
    leased = taken(take)
    queues.set_target(KIND, Target.STOP)
    assert not queues.is_held(leased)
    assert take() is None
    assert queues.state(job) is JobState.STOPPING
    queues.give_back(leased)
    assert queues.state(job) is JobState.STOPPED
    queues.set_target(KIND, Target.START)
    assert taken(take).subtask.number == 0
    assert queues.subtasks(job)[0].attempts == 1


def test_a_cancelled_job_is_gone(queues: TaskQueues, clock: ManualClock) -> None:
    job = submit(queues, clock, 1)
    leased = taken(join(queues, "one"))
    queues.delete_job(job.name)
    assert not queues.is_held(leased)
    with pytest.raises(LeaseLostError):
        queues.complete(leased)
    with pytest.raises(NotFoundError):
        queues.find(job.name)


def test_what_was_to_be_done_for_a_table_ends_with_it(queues: TaskQueues, clock: ManualClock) -> None:
    both = Job(f"Task_{KIND}_both", KIND, ("t_OFFLINE", "u_OFFLINE"), 3, clock.now_ms(), Trigger.MANUAL, SubtaskLimits())
    both = queues.submit(both, [("t_OFFLINE", {}), ("u_OFFLINE", {}), ("t_OFFLINE", {})])
    leased = taken(join(queues, "one"))
    queues.cancel_table("t_OFFLINE")
    assert not queues.is_held(leased)
    assert states(queues, both) == [SubtaskState.TASK_ABORTED, SubtaskState.INIT, SubtaskState.TASK_ABORTED]


def test_a_queue_is_deleted_when_nothing_runs(queues: TaskQueues, clock: ManualClock) -> None:
    submit(queues, clock, 1)
    leased = taken(join(queues, "one"))
    queues.delete(KIND, force=False)
    assert queues.types() == [KIND]
    assert not queues.is_held(leased)
    queues.give_back(leased)
    queues.tend()
    assert queues.types() == []
    submit(queues, clock, 1)
    taken(join(queues, "two"))
    queues.delete(KIND, force=True)
    assert queues.types() == []


def test_old_jobs_are_removed(queues: TaskQueues, clock: ManualClock) -> None:
    good, bad = submit(queues, clock, 1, "good"), submit(queues, clock, 1, "bad")
    submit(queues, clock, 1, "waiting")
    queues.store.create(paths.task_job(KIND, f"Task_{KIND}_half"), b"")  # its maker died
    take = join(queues, "one")
    queues.complete(taken(take))
    queues.fail(taken(take), "no")
    queues.tend()
    clock.advance(FINISHED_KEPT_MS / 1000 + 1)
    queues.tend()
    assert [job.name for job in queues.jobs(KIND)] == [bad.name, f"Task_{KIND}_waiting"]
    assert good.name not in queues.store.children(paths.task_queue(KIND))
    clock.advance((FAILED_KEPT_MS - FINISHED_KEPT_MS) / 1000)
    queues.tend()
    assert [job.name for job in queues.jobs(KIND)] == [f"Task_{KIND}_waiting"]


def test_ended_jobs_are_cleaned_up(queues: TaskQueues, clock: ManualClock) -> None:
    job = submit(queues, clock, 1)
    submit(queues, clock, 1, "b")
    queues.complete(taken(join(queues, "one")))
    assert queues.clean_up(KIND) == [job.name]
    with pytest.raises(NotFoundError):
        queues.clean_up("NoSuchTask")


def test_a_lease_whose_answer_was_lost_is_found_again(queues: TaskQueues, clock: ManualClock) -> None:
    submit(queues, clock, 1)
    leased = queues.lease("Minion_one", "one", lambda job: True)
    assert leased is not None
    assert queues.lease("Minion_one", "one", lambda job: True) == leased
    assert queues.lease("Minion_one", "one", lambda job: True, running=[leased.subtask.name]) is None


@pytest.mark.parametrize("value", [b"garbage", b"{}", b'{"id": "x", "simpleFields": {}, "mapFields": {}, "listFields": {}}'])
def test_a_damaged_record_stops_what_it_is_of_and_nothing_else(queues: TaskQueues, clock: ManualClock, value: bytes) -> None:
    damaged, partly, sound = (submit(queues, clock, 2, name) for name in "abc")
    take = join(queues, "one")
    held = taken(take)
    assert held.job == damaged
    job, subtask = paths.task_job(KIND, damaged.name), f"{paths.task_job(KIND, partly.name)}/0"
    for path in (job, subtask):
        queues.store.set(path, value, None)
    got = [taken(take) for _ in range(3)]
    assert sorted((leased.job.name, leased.subtask.number) for leased in got) == [
        (partly.name, 1),
        (sound.name, 0),
        (sound.name, 1),
    ]
    assert take() is None
    for leased in got:
        queues.complete(leased)
    queues.tend()
    assert [found.name for found, _ in queues.unfinished(KIND)] == [partly.name]
    assert queues.find(sound.name).ended is JobState.COMPLETED
    assert [path for path, _ in queues.damaged()] == [job, subtask]
    for path, error in queues.damaged():
        assert path in str(error)
    clock.advance(FAILED_KEPT_MS + 1)
    queues.tend()
    assert [path for path, _ in queues.damaged()] == [job, subtask], "what is damaged is kept for who repairs it"


def test_a_queue_whose_record_is_damaged_stands_still(queues: TaskQueues, clock: ManualClock) -> None:
    submit(queues, clock, 2)
    take = join(queues, "one")
    held = taken(take)
    queues.store.set(paths.task_queue(KIND), b"garbage", None)
    assert take() is None
    assert not queues.is_held(held)
    queues.give_back(held)
    queues.tend()
    queues.set_target(KIND, Target.START)
    assert list(queues.damaged()) == []
    assert taken(join(queues, "two"))


def test_what_a_minion_has_of_a_damaged_subtask_is_not_its_own(queues: TaskQueues, clock: ManualClock) -> None:
    job = submit(queues, clock, 1)
    held = taken(join(queues, "one"))
    queues.store.set(f"{paths.task_job(KIND, job.name)}/0", b"{}", None)
    assert not queues.is_held(held)


def test_a_job_belongs_into_the_queue_of_its_type(queues: TaskQueues, clock: ManualClock) -> None:
    job = submit(queues, clock, 1)
    path = paths.task_job(KIND, job.name)
    queues.store.set(path, encode(replace(job, task_type="Other").to_record()), None)
    ((found, error),) = queues.damaged()
    assert found == path
    assert "its task type is 'Other'" in str(error)
    assert queues.jobs(KIND) == []
