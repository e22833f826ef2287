"""What the controller does from time to time."""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gamay.base.clock import Clock
from gamay.base.errors import InvalidConfigError, NotFoundError, nearest
from gamay.base.metrics import Kind, Measure, Measured

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """One kind of work. run: does it once; interval_s: from the end of one run to the start of the next.

    run_for: does it once for one typed table; None where it is not done by table. measure: what the last run found, for
    `/metrics`.
    """

    name: str
    interval_s: float
    run: Callable[[], object]
    run_for: Callable[[str], object] | None = None
    measure: Measure | None = None


class PeriodicTasks:
    """Runs every task at its interval between `start` and `stop`, one at a time, and on demand."""

    def __init__(self, tasks: Sequence[PeriodicTask], clock: Clock) -> None:
        self._tasks = {task.name: task for task in tasks}
        self._clock = clock
        self._running = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._errors = dict.fromkeys(self._tasks, 0)

    def names(self) -> list[str]:
        """Return the names of all tasks, ascending."""
        return sorted(self._tasks)

    def run(self, name: str, table: str | None = None) -> None:
        """Run a task now, for one typed table if given, and wait for its end.

        Raises NotFoundError, InvalidConfigError for a task that is not done by table, and what the task raises.
        """
        task = self._tasks.get(name)
        if task is None:
            raise NotFoundError(f"Periodic task '{name}' not found.{nearest(name, self._tasks)}")
        if table is not None and task.run_for is None:
            raise InvalidConfigError(f"Periodic task '{name}' is not done by table: leave out tableName")
        with self._running:
            if table is None or task.run_for is None:
                task.run()
            else:
                task.run_for(table)

    def measure(self) -> Iterator[Measured]:
        """Yield how often tasks failed, and while they run here what those found that look at tables."""
        for name, errors in self._errors.items():
            text = "Runs of a periodic task that failed"
            yield Measured("pinot_controller_controllerPeriodicTaskError", errors, text, {"task": name}, Kind.COUNTER)
        for task in self._tasks.values():
            if task.measure is not None and not self._stopped.is_set():
                yield from task.measure()

    def start(self) -> None:
        """Begin, also after a `stop`; the first run of each task comes one interval from now."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._loop, name="periodic-tasks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End, once the task that runs is done."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _loop(self) -> None:
        due = {name: self._clock.monotonic_s() + task.interval_s for name, task in self._tasks.items()}
        while due:
            name = min(due, key=lambda task: due[task])
            if self._stopped.wait(max(0.0, due[name] - self._clock.monotonic_s())):
                return
            try:
                self.run(name)
            except Exception:  # noqa: BLE001 - it is tried again in the next interval, and the other tasks go on
                self._errors[name] += 1
                _log.exception("periodic task %s failed", name)
            due[name] = self._clock.monotonic_s() + self._tasks[name].interval_s
