"""Metrics of a minion."""

from collections.abc import Iterator

from gamay.base.clock import Clock
from gamay.base.history import MetricsHistory, Reading, Series
from gamay.base.metrics import Measured, MetricKind
from gamay.minion.worker import TaskWorker

_SERIES = (
    Series("subtasksRunning", "pinot_minion_numberOfTasks", Reading.SUM),
    Series("subtasksFailedPerSecond", "pinot_minion_numberTasksFailed", Reading.RATE),
)


def minion_history(worker: TaskWorker, clock: Clock) -> MetricsHistory:
    """Return an empty metrics history of a minion."""
    return MetricsHistory([lambda: measure_minion(worker)], _SERIES, clock)


def measure_minion(worker: TaskWorker) -> Iterator[Measured]:
    """Yield the running subtasks, and counters since the start of the minion."""
    running: dict[str, int] = {}
    for progress in worker.running().values():
        running[progress.task_type] = running.get(progress.task_type, 0) + 1
    yield Measured("pinot_minion_numberOfTasks", sum(running.values()), "Subtasks that run now")
    for task_type, number in sorted(running.items()):
        yield Measured("pinot_minion_numberTasksRunning", number, "Subtasks that run now", {"taskType": task_type})
    counts = worker.counts
    for name, by_type, text in (
        ("numberTasksCompleted", counts.completed, "Subtasks completed"),
        ("numberTasksFailed", counts.failed, "Subtasks that failed or timed out"),
        ("numberTasksCancelled", counts.cancelled, "Subtasks cancelled or returned unfinished"),
    ):
        for task_type, number in sorted(by_type.items()):
            yield Measured(f"pinot_minion_{name}", number, text, {"taskType": task_type}, MetricKind.COUNTER)
