"""Thread pool for work that mostly runs without the GIL."""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, TypeVar

from gamay.base import guard
from gamay.base.allocator import keep_freed_memory

T = TypeVar("T")


class _Local(threading.local):
    """State of one thread."""

    busy = False
    helped_ns = 0


class WorkPool:
    """Runs lists of tasks on a fixed number of threads, including the caller's.

    A single task, and tasks started from within a task, run on the caller's thread: a thread switch costs more than small
    work, and waiting for the pool from inside it could deadlock.
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"a pool needs at least one thread, not {threads}")
        keep_freed_memory()
        self.threads = threads
        self._local = _Local()
        self._executor = ThreadPoolExecutor(threads - 1, thread_name_prefix="gamay-work") if threads > 1 else None

    @property
    def usable_threads(self) -> int:
        """Number of threads that `run` would use when called here: 1 from within a task."""
        return 1 if self._local.busy else self.threads

    @property
    def helped_ns(self) -> int:
        """Total processor time that other threads have spent on tasks of this thread's calls of `run`."""
        return self._local.helped_ns

    def run(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Run all tasks and return their results in order; raises the error of the first failing task.

        Once a task fails, no further tasks are started.
        """
        if len(tasks) <= 1 or self._executor is None or self.usable_threads == 1:
            return [task() for task in tasks]
        job = _Job(tasks)
        watcher = guard.current()
        helpers: list[Future[None]] = [
            self._executor.submit(self._help, job, watcher) for _ in range(min(self.threads, len(tasks)) - 1)
        ]
        self._work(job)
        for helper in helpers:
            # A helper that has not started because of other queries has nothing left to do: all tasks are taken.
            if not helper.cancel():
                helper.result()
        self._local.helped_ns = self.helped_ns + job.helpers_ns
        return job.results()

    def close(self) -> None:
        """Stop the threads once their tasks are done."""
        if self._executor is not None:
            self._executor.shutdown()

    def __enter__(self) -> "WorkPool":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _help(self, job: "_Job[T]", watcher: guard.Guard) -> None:
        """Work on another thread's job, under that thread's guard."""
        begun_ns = time.thread_time_ns()
        before = guard.enter(watcher)
        try:
            self._work(job)
        finally:
            guard.enter(before)
            job.add_time(time.thread_time_ns() - begun_ns)

    def _work(self, job: "_Job[T]") -> None:
        self._local.busy = True
        try:
            while job.run_next():
                guard.settle()
        finally:
            self._local.busy = False


class _Job(Generic[T]):
    """The tasks of one call of `run`, which free threads take one by one."""

    def __init__(self, tasks: Sequence[Callable[[], T]]) -> None:
        self._tasks = tasks
        self._results: dict[int, T] = {}
        self._lock = threading.Lock()
        self._next = 0
        self._error: BaseException | None = None
        self.helpers_ns = 0

    def add_time(self, cpu_ns: int) -> None:
        """Add the processor time of a helper."""
        with self._lock:
            self.helpers_ns += cpu_ns

    def run_next(self) -> bool:
        """Run the next task; False if none is left."""
        with self._lock:
            index = self._next
            if self._error is not None or index >= len(self._tasks):
                return False
            self._next += 1
        try:
            self._results[index] = self._tasks[index]()
        except BaseException as error:  # noqa: BLE001 - raised again on the thread that waits for the job
            with self._lock:
                self._error = self._error or error
        return True

    def results(self) -> list[T]:
        if self._error is not None:
            raise self._error
        return [self._results[index] for index in range(len(self._tasks))]
