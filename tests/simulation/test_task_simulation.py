"""Tasks in virtual time: minions and controllers die, responses are lost, sessions expire late; each subtask ends once."""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from tests.seeds import by_first, chunks, count_of
from tests.simulation.scheduler import Process, Scheduler, SimClock
from tests.simulation.store import SimStore, Tree

from gamay.base.errors import GamayError
from gamay.cluster.store import paths
from gamay.cluster.store.store import StoreUnavailableError
from gamay.cluster.store.znrecord import decode
from gamay.cluster.tasks.machine import LeaseLostError
from gamay.cluster.tasks.queue import Leased, TaskQueues
from gamay.cluster.tasks.records import Job, Subtask, SubtaskLimits, SubtaskState, Target, Trigger

SEEDS = count_of("GAMAY_TASK_SEEDS", 20)
KIND = "PurgeTask"
TIMEOUT_MS = 60_000
SESSION_MS = 8_000
POLL_MS = 1_000
JOBS, SUBTASKS, MINIONS = 3, 4, 3
CHAOS_MS, CALM_MS = 300_000, 900_000


@dataclass
class Attempt:
    """An execution, from a lease until the worker knows that it has ended."""

    subtask: str
    lease: str
    begun_ms: int
    ended_ms: int | None = None


class World:
    """The cluster: its contents, which minion runs what, and the invariants."""

    def __init__(self, seed: int) -> None:
        self.scheduler = Scheduler(random.Random(seed))
        self.clock = SimClock(self.scheduler)
        self.tree = Tree(self.scheduler, on_write=self.check)
        self.attempts: list[Attempt] = []
        self.completions: dict[str, int] = {}
        self.states: dict[str, SubtaskState] = {}
        self.lease_ended_ms: dict[str, int] = {}
        self.is_calm = False

    def check(self, path: str, value: bytes | None) -> None:
        """Check that no end is undone or written twice."""
        if not path.startswith(f"{paths.TASKS}/") or path.count("/") != paths.TASKS.count("/") + 3 or not value:
            return
        subtask = Subtask.from_record(decode(value))
        before = self.states.get(subtask.name, SubtaskState.INIT)
        assert not before.is_final or before is subtask.state, f"{subtask.name}: {before} became {subtask.state}"
        if subtask.state is SubtaskState.COMPLETED and before is not SubtaskState.COMPLETED:
            self.completions[subtask.name] = self.completions.get(subtask.name, 0) + 1
        self.states[subtask.name] = subtask.state

    def begin(self, attempt: Attempt) -> None:
        """Two may be at work on one subtask only when the lease of the first was lost, or its time over."""
        for other in self.attempts:
            if other.subtask == attempt.subtask and other.ended_ms is None:
                gone = other.lease in self.lease_ended_ms
                late = attempt.begun_ms - other.begun_ms > TIMEOUT_MS
                assert gone or late, f"{attempt.subtask} runs under {other.lease} and {attempt.lease}"
        self.attempts.append(attempt)


@dataclass
class Minion:
    """A worker that is killed and started again; it does one subtask at a time, as the real one does of each type."""

    world: World
    name: str
    lives: int = 0
    process: Process = field(init=False)
    store: SimStore = field(init=False)
    lease: str = ""
    current: tuple[Leased, Attempt, int] | None = None
    report: Callable[[], None] | None = None

    def start(self) -> None:
        world, rng = self.world, self.world.scheduler.rng
        self.lives += 1
        self.process = Process(world.scheduler, f"{self.name}-{self.lives}")
        if not world.is_calm and rng.random() < 0.7:
            self.process.kill_in = rng.randrange(1, 60)
        self.store = SimStore(world.tree, self.process, 0.0 if world.is_calm else 0.05)
        self.queues = TaskQueues(self.store, world.clock)
        self.lease = f"{self.name}-{self.lives}"
        self.current = self.report = None
        SimStore(world.tree).create(paths.task_lease(self.lease), b"")
        self.poll()

    def poll(self) -> None:
        """Run one step, and schedule the next; a process that died is restarted."""
        world, rng = self.world, self.world.scheduler.rng
        if self.process.alive:
            self.process.start(self.step, lambda _: None)
        if self.process.alive:
            world.scheduler.after(POLL_MS * (10 if world.is_calm else 1) * rng.random(), self.poll)
            return
        if self.current is not None:
            self.current[1].ended_ms = world.scheduler.now_ms
        lease = self.lease

        def end_session() -> None:
            world.lease_ended_ms[lease] = world.scheduler.now_ms
            world.tree.drop(paths.task_lease(lease))

        world.scheduler.after(SESSION_MS * rng.random(), end_session)
        world.scheduler.after(20_000 * rng.random(), self.start)

    def step(self) -> None:
        try:
            if self.report is not None:
                self._tell(self.report)
            elif self.current is None:
                self._look()
            else:
                self._work_on(*self.current)
        except StoreUnavailableError:
            return  # it is tried again

    def _look(self) -> None:
        world, rng = self.world, self.world.scheduler.rng
        leased = self.queues.lease(self.name, self.lease, lambda job: True)
        if leased is not None:
            attempt = Attempt(leased.subtask.name, self.lease, world.scheduler.now_ms)
            world.begin(attempt)
            takes_ms = rng.choice((10, 1_000, 20_000, 90_000)) * rng.random()
            self.current = (leased, attempt, world.scheduler.now_ms + round(takes_ms))

    def _work_on(self, leased: Leased, attempt: Attempt, until_ms: int) -> None:
        now_ms, rng = self.world.scheduler.now_ms, self.world.scheduler.rng
        if not self.queues.is_held(leased):
            self.report = lambda: self.queues.give_back(leased)
        elif now_ms - leased.subtask.started_ms > TIMEOUT_MS:
            self.report = lambda: self.queues.time_out(leased)
        elif now_ms < until_ms:
            return
        elif rng.random() < 0.2:
            self.report = lambda: self.queues.fail(leased, "bad luck")
        else:
            self.report = lambda: self.queues.complete(leased)
        attempt.ended_ms = now_ms  # the work is over before anybody hears of it
        self._tell(self.report)

    def _tell(self, report: Callable[[], None]) -> None:
        """Report until there is a response."""
        with suppress(LeaseLostError):  # then it does not count
            report()
        self.current = self.report = None


def tend(world: World) -> None:
    """Run the lead controller, which sometimes dies midway; another takes over immediately."""
    rng = world.scheduler.rng
    process = Process(world.scheduler, "controller")
    if not world.is_calm and rng.random() < 0.2:
        process.kill_in = rng.randrange(1, 30)
    queues = TaskQueues(SimStore(world.tree, process, 0.0 if world.is_calm else 0.03), world.clock)

    def work() -> None:
        try:
            queues.tend()
        except GamayError:
            return  # the next round comes

    process.start(work, lambda _: None)
    world.scheduler.after(5_000, lambda: tend(world))


def stop_and_go(world: World) -> None:
    """A user who stops the queue for a while."""
    queues, rng = TaskQueues(SimStore(world.tree), world.clock), world.scheduler.rng
    if world.is_calm:
        queues.set_target(KIND, Target.START)
        return
    queues.set_target(KIND, rng.choice((Target.START, Target.STOP, Target.START)))
    world.scheduler.after(60_000 * rng.random(), lambda: stop_and_go(world))


@pytest.mark.parametrize("some", chunks(SEEDS, 20), ids=by_first)
def test_each_subtask_ends_once_whatever_dies(some: range) -> None:
    for seed in some:
        world = World(seed)
        queues = TaskQueues(SimStore(world.tree), world.clock)
        for number in range(JOBS):
            limits = SubtaskLimits(TIMEOUT_MS, attempts=1 + number)
            job = Job(f"Task_{KIND}_{number}", KIND, ("t",), 0, world.clock.now_ms() + number, Trigger.CRON, limits)
            queues.submit(job, [("t", {}) for _ in range(SUBTASKS)])
        minions = [Minion(world, f"m{number}") for number in range(MINIONS)]
        for minion in minions:
            minion.start()
        tend(world)
        stop_and_go(world)
        begin_ms = world.scheduler.now_ms
        world.scheduler.run_until(begin_ms + CHAOS_MS)
        world.is_calm = True
        stop_and_go(world)
        world.scheduler.run_until(begin_ms + CHAOS_MS + CALM_MS)
        assert len(world.states) == JOBS * SUBTASKS, seed
        assert all(state.is_final for state in world.states.values()), (seed, world.states)
        assert all(job.ended is not None for job in queues.jobs(KIND)), seed
        assert set(world.completions.values()) <= {1}, seed
        done = [name for name, state in world.states.items() if state is SubtaskState.COMPLETED]
        assert sorted(done) == sorted(world.completions), seed
