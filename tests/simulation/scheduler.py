"""Virtual time, and processes that can be paused or killed between any two of their accesses to the metadata store.

A controller's work runs on a separate thread, but never concurrently with anything else: the thread and the scheduler
alternate. So a run is a function of its seed.
"""

import heapq
import queue
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar


class Killed(BaseException):
    """The process died at this point; none of its code continues."""


class Scheduler:
    """Runs scheduled actions in the order of virtual time."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now_ms = 1_700_000_000_000
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def after(self, delay_ms: float, action: Callable[[], None]) -> None:
        """Run an action after a number of milliseconds."""
        self._count += 1
        heapq.heappush(self._queue, (self.now_ms + max(0, int(delay_ms)), self._count, action))

    def run_until(self, end_ms: int) -> None:
        """Run everything up to a point in time."""
        while self._queue and self._queue[0][0] <= end_ms:
            at, _, action = heapq.heappop(self._queue)
            self.now_ms = max(self.now_ms, at)
            action()
        self.now_ms = end_ms


@dataclass
class SimClock:
    """The clock of all processes."""

    scheduler: Scheduler

    def now_ms(self) -> int:
        return self.scheduler.now_ms

    def monotonic_s(self) -> float:
        return self.scheduler.now_ms / 1000

    def thread_cpu_ns(self) -> int:
        return 0


class _Worker:
    """A thread that runs one task after another; idle ones are kept for the next task of any run."""

    idle: ClassVar[list["_Worker"]] = []

    def __init__(self) -> None:
        self.tasks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        threading.Thread(target=self._loop, daemon=True).start()

    def _loop(self) -> None:
        while True:
            self.tasks.get()()

    @classmethod
    def take(cls) -> "_Worker":
        return cls.idle.pop() if cls.idle else cls()


@dataclass
class Process:
    """A process of the simulated cluster: alive until it is killed. pause_chance: of a long stop at a store access."""

    scheduler: Scheduler
    name: str
    alive: bool = True
    running: list["Task"] = field(default_factory=list)
    kill_in: int | None = None  # accesses to the store until it dies
    pause_chance: float = 0.0

    def start(self, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Start some work, with any number of pauses in it, then pass its result on, unless the process dies."""
        if not self.alive:
            return
        if self.pause_chance and self.scheduler.rng.random() < 0.3:
            Task(self, work, done).resume()
            return
        before, Task.current = Task.current, None
        try:
            result = work()
        except Killed:
            self.kill()
            return
        finally:
            Task.current = before
        done(result)

    def kill(self) -> None:
        """End the process, in the middle of any work."""
        self.alive = False
        for task in list(self.running):
            task.resume()

    def at_store(self) -> None:
        """Called at each access to the store: the place where a process may die or rest."""
        if not self.alive:
            raise Killed(self.name)
        if self.kill_in is not None:
            self.kill_in -= 1
            if self.kill_in <= 0:
                self.kill_in = None
                self.alive = False
                raise Killed(self.name)
        task = Task.current
        if task is not None and self.pause_chance and self.scheduler.rng.random() < self.pause_chance:
            rng = self.scheduler.rng
            task.rest(rng.choice((50, 500, 5_000, 40_000, 400_000)) * rng.random())
            if not self.alive:
                raise Killed(self.name)


class Task:
    """Work of a process, on a separate thread that runs only while the scheduler waits for it."""

    current: "Task | None" = None

    def __init__(self, process: Process, work: Callable[[], Any], done: Callable[[Any], None]) -> None:
        self._process = process
        self._work = work
        self._done = done
        self._worker: _Worker | None = None
        self._to_task, self._to_scheduler = threading.Lock(), threading.Lock()  # held until the other side lets go
        self._to_task.acquire()
        self._to_scheduler.acquire()
        self._outcome: tuple[bool, Any] | None = None
        self._error: BaseException | None = None

    def resume(self) -> None:
        """Let the work go on until it rests or ends."""
        if self._outcome is not None:
            return
        before, Task.current = Task.current, self
        if self._worker is None:
            self._process.running.append(self)
            self._worker = _Worker.take()
            self._worker.tasks.put(self._body)
        else:
            self._to_task.release()
        self._to_scheduler.acquire()
        Task.current = before
        if self._outcome is None:
            return
        _Worker.idle.append(self._worker)
        if self in self._process.running:
            self._process.running.remove(self)
        if self._error is not None:
            raise self._error
        finished, result = self._outcome
        if finished and self._process.alive:
            self._done(result)
        elif not self._process.alive:
            for other in list(self._process.running):
                other.resume()

    def rest(self, delay_ms: float) -> None:
        """Called by the work: let time pass."""
        self._process.scheduler.after(delay_ms, self.resume)
        self._to_scheduler.release()
        self._to_task.acquire()

    def _body(self) -> None:
        try:
            self._outcome = (True, self._work())
        except Killed:
            self._outcome = (False, None)
        except BaseException as error:  # noqa: BLE001 - handed to the scheduler's thread, which raises it
            self._error = error
            self._outcome = (False, None)
        self._to_scheduler.release()
