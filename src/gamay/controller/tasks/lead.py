"""The lead controller's work for tasks: it revokes the subtasks of dead minions, and creates tasks by schedule."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gamay.base.clock import Clock
from gamay.base.errors import GamayError
from gamay.cluster.records.registry import Registry
from gamay.cluster.store import paths
from gamay.cluster.tasks.queue import TaskQueues
from gamay.cluster.tasks.records import Trigger
from gamay.controller.tables.tables import TableManager
from gamay.controller.tasks.history import note_fired
from gamay.controller.tasks.scheduling import TaskScheduler
from gamay.model.cluster_settings import TASK_FREQUENCY, TASK_LATE_S, TASK_SCHEDULER, TASK_SKIP_LATE
from gamay.model.cron import CronSchedule
from gamay.model.task_settings import TaskSettings
from gamay.model.units import parse_period

_log = logging.getLogger(__name__)

_TEND_S = 5.0
_TEND_LEAST_S = 0.2  # minimum between two rounds, however much changes
_LOOK_S = 60.0


@dataclass(frozen=True, slots=True)
class _Entry:
    schedule: CronSchedule
    due_ms: int


class TaskTimes:
    """The due times of tasks. Pure: configs, settings and time are passed in; not thread-safe."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._round_due_ms: int | None = None
        self._frequency_ms = -1

    def update(self, schedules: Mapping[tuple[str, str], CronSchedule], frequency_ms: int, now_ms: int) -> None:
        """Set the schedules by (typed table, task type), and the period of rounds over all tasks (0 or less: never)."""
        entries = {}
        for key, schedule in schedules.items():
            known = self._entries.get(key)
            if known is not None and known.schedule.text == schedule.text:
                entries[key] = known
            elif (due := schedule.next_after(now_ms)) is not None:
                entries[key] = _Entry(schedule, due)
        self._entries = entries
        if frequency_ms != self._frequency_ms:
            self._frequency_ms = frequency_ms
            self._round_due_ms = None if frequency_ms <= 0 else now_ms + frequency_ms

    def take_due(self, now_ms: int, late_ms: int | None) -> tuple[list[tuple[str, str]], bool]:
        """Return the tables and types that are due, and whether a round over all tasks is; each is returned once.

        late_ms: due times longer ago are skipped; None for none.
        """
        due = []
        for key, entry in sorted(self._entries.items()):
            if entry.due_ms > now_ms:
                continue
            if late_ms is None or now_ms - entry.due_ms <= late_ms:
                due.append(key)
            following = entry.schedule.next_after(now_ms)
            if following is None:
                del self._entries[key]
            else:
                self._entries[key] = _Entry(entry.schedule, following)
        is_round = self._round_due_ms is not None and self._round_due_ms <= now_ms
        if is_round:
            self._round_due_ms = now_ms + self._frequency_ms
        return due, is_round

    def next_ms(self) -> int | None:
        """Return the next due time in milliseconds, or None."""
        times = [entry.due_ms for entry in self._entries.values()]
        if self._round_due_ms is not None:
            times.append(self._round_due_ms)
        return min(times, default=None)


class TaskLead:
    """Background work on the lead controller, between `start` and `stop`. queues, registry: fenced by the lead."""

    def __init__(
        self, queues: TaskQueues, registry: Registry, tables: TableManager, scheduler: TaskScheduler, clock: Clock
    ) -> None:
        self._queues = queues
        self._registry = registry
        self._tables = tables
        self._scheduler = scheduler
        self._clock = clock
        self._wake = threading.Condition()
        self._stopped = True
        self._changed = self._configs_changed = False
        self._threads: list[threading.Thread] = []
        self._cancels: list[Callable[[], None]] = []

    def start(self) -> None:
        """Start the background threads."""
        self._stopped = False
        self._changed = self._configs_changed = True
        store = self._registry.store
        self._cancels = [
            *(store.watch(path, lambda _: self._note(configs=False)) for path in (paths.TASKS, paths.TASK_LEASES)),
            *(store.watch(path, lambda _: self._note(configs=True)) for path in (paths.TABLE_CONFIGS, paths.CLUSTER_CONFIG)),
        ]
        loops = {"task-keeper": self._tend, "task-schedules": self._follow_schedules}
        self._threads = [threading.Thread(target=loop, name=name, daemon=True) for name, loop in loops.items()]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop after the current step."""
        for cancel in self._cancels:
            cancel()
        with self._wake:
            self._stopped = True
            self._wake.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()
        self._cancels, self._threads = [], []

    def _note(self, *, configs: bool) -> None:
        with self._wake:
            if configs:
                self._configs_changed = True
            else:
                self._changed = True
            self._wake.notify_all()

    def _tend(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._changed or self._stopped, _TEND_S)
                if self._stopped:
                    return
                self._changed = False
            try:
                self._queues.tend()
            except GamayError as error:
                _log.warning("tasks cannot be supervised now: %s", error)
            except Exception:  # noqa: BLE001 - one broken record must not affect the other tasks
                _log.exception("tasks cannot be supervised")
            with self._wake:
                self._wake.wait_for(lambda: self._stopped, _TEND_LEAST_S)

    def _follow_schedules(self) -> None:
        times = TaskTimes()
        while True:
            try:
                self._update(times)
                self._fire(times)
            except Exception:  # noqa: BLE001 - it is tried again at the next due time
                _log.exception("the schedules of tasks cannot be processed")
            following = times.next_ms()
            wait_s = _LOOK_S if following is None else min(_LOOK_S, max(0.0, following - self._clock.now_ms()) / 1000)
            with self._wake:
                self._wake.wait_for(lambda: self._configs_changed or self._stopped, wait_s)
                if self._stopped:
                    return
                self._configs_changed = False

    def _update(self, times: TaskTimes) -> None:
        settings = self._registry.cluster_config()
        schedules = schedules_of(self._tables, self._scheduler) if TASK_SCHEDULER.flag(settings) else {}
        times.update(schedules, parse_period(TASK_FREQUENCY.text(settings)), self._clock.now_ms())

    def _fire(self, times: TaskTimes) -> None:
        settings, now_ms = self._registry.cluster_config(), self._clock.now_ms()
        late_ms = TASK_LATE_S.whole(settings) * 1000 if TASK_SKIP_LATE.flag(settings) else None
        due, is_round = times.take_due(now_ms, late_ms)
        for table, task_type in due:
            if self._stopped:
                return
            note_fired(self._registry.store, table, task_type, now_ms)
            self._scheduler.schedule(task_type, table, trigger=Trigger.CRON)
        if is_round and not self._stopped:
            self._scheduler.schedule(trigger=Trigger.CRON)


def schedules_of(tables: TableManager, scheduler: TaskScheduler) -> dict[tuple[str, str], CronSchedule]:
    """Return the schedules of all tables, by typed table and task type; those that cannot be read are left out."""
    found: dict[tuple[str, str], CronSchedule] = {}
    for table in tables.names():
        try:
            config = tables.get(table)
            for task_type, given in (config.task.task_types if config.task else {}).items():
                schedule = TaskSettings(task_type, given).schedule if task_type in scheduler.generators else None
                if schedule is not None:
                    found[table, task_type] = schedule
        except GamayError as error:
            _log.warning("the schedules of table %s cannot be read: %s", table, error)
    return found
