"""The controller's periodic tasks."""

import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from gamay.base.clock import Clock
from gamay.base.errors import GamayError, InvalidConfigError, NotFoundError, nearest
from gamay.base.metrics import Measure, Measured, MetricKind
from gamay.model.cluster_settings import ClusterSetting
from gamay.model.units import parse_period

_log = logging.getLogger(__name__)
_LOOK_S = 60.0


@dataclass(frozen=True, slots=True)
class PeriodicTask:
    """One periodic task.

    run: runs it once; interval: from the end of one run to the start of the next, in seconds, or the cluster's setting
    with this period (0 or less: never). run_for: runs it once for one typed table; None if it cannot run for a single
    table. measure: the metrics of the last run.
    """

    name: str
    interval: float | ClusterSetting
    run: Callable[[], object]
    run_for: Callable[[str], object] | None = None
    measure: Measure | None = None

    def interval_s(self, settings: Mapping[str, str]) -> float:
        """Return the interval by the cluster's settings; infinite if the task only runs on demand."""
        if not isinstance(self.interval, ClusterSetting):
            return self.interval
        period_ms = parse_period(self.interval.text(settings))
        return period_ms / 1000 if period_ms > 0 else math.inf


class PeriodicTasks:
    """Runner of periodic tasks, one at a time, between `start` and `stop`, and on demand.

    settings: the cluster's settings, read every minute.
    """

    def __init__(
        self, tasks: Sequence[PeriodicTask], clock: Clock, settings: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        self._tasks = {task.name: task for task in tasks}
        self._clock = clock
        self._settings = settings
        self._known: Mapping[str, str] = {}
        self._running = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._errors = dict.fromkeys(self._tasks, 0)

    def names(self) -> list[str]:
        """Return the names of all tasks, ascending."""
        return sorted(self._tasks)

    def run(self, name: str, table: str | None = None) -> None:
        """Run a task now, for one typed table if given, and wait for its end.

        Raises NotFoundError, InvalidConfigError for a task that cannot run for a single table, and the task's errors.
        """
        task = self._tasks.get(name)
        if task is None:
            raise NotFoundError(f"Periodic task '{name}' not found.{nearest(name, self._tasks)}")
        if table is not None and task.run_for is None:
            raise InvalidConfigError(f"Periodic task '{name}' cannot run for a single table: leave out tableName")
        with self._running:
            if table is None or task.run_for is None:
                task.run()
            else:
                task.run_for(table)

    def measure(self) -> Iterator[Measured]:
        """Yield the failures of tasks and, while tasks run on this controller, their own metrics."""
        for name, errors in self._errors.items():
            text = "Runs of a periodic task that failed"
            yield Measured("pinot_controller_controllerPeriodicTaskError", errors, text, {"task": name}, MetricKind.COUNTER)
        for task in self._tasks.values():
            if task.measure is not None and not self._stopped.is_set():
                yield from task.measure()

    def start(self) -> None:
        """Start, also after a `stop`; each task runs first one interval from now."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._loop, name="periodic-tasks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the running task has finished."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _loop(self) -> None:
        ended_s = dict.fromkeys(self._tasks, self._clock.monotonic_s())
        while self._tasks and not self._stopped.is_set():
            due_s = {name: ended_s[name] + interval_s for name, interval_s in self._intervals().items()}
            name = min(due_s, key=lambda task: due_s[task])
            wait_s = due_s[name] - self._clock.monotonic_s()
            if wait_s > 0:
                self._stopped.wait(min(wait_s, _LOOK_S))
                continue
            try:
                self.run(name)
            except Exception:  # noqa: BLE001 - it is tried again in the next interval, and the other tasks continue
                self._errors[name] += 1
                _log.exception("periodic task %s failed", name)
            ended_s[name] = self._clock.monotonic_s()

    def _intervals(self) -> dict[str, float]:
        try:
            self._known = self._settings()
        except GamayError as error:
            _log.warning("the cluster's settings cannot be read, periodic tasks continue with the last ones: %s", error)
        return {name: task.interval_s(self._known) for name, task in self._tasks.items()}
