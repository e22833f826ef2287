"""Metrics of a controller about jobs: rebalances, and tasks of minions."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain

from gamay.base.metrics import Measured
from gamay.cluster.records.registry import Registry
from gamay.cluster.tasks.memory import read_memory
from gamay.cluster.tasks.queue import TaskQueues
from gamay.cluster.tasks.records import SubtaskState
from gamay.controller.context import TableConfigs
from gamay.controller.rebalance.jobs import RebalanceJobs
from gamay.controller.tasks.history import read_history
from gamay.model.table.table_config import TableConfig
from gamay.model.task_settings import MERGE_ROLLUP

_FAILED = (SubtaskState.TASK_ERROR, SubtaskState.TIMED_OUT)


def measure_rebalances(registry: Registry) -> Iterator[Measured]:
    """Yield 1 for each table that is being rebalanced."""
    for table in sorted({job.table for job, _, _ in RebalanceJobs(registry).unfinished()}):
        yield Measured("pinot_controller_tableRebalanceInProgress", 1, "1 while it is rebalanced", {"table": table})


def measure_tasks(queues: TaskQueues, tables: TableConfigs, now_ms: int) -> Iterator[Measured]:
    """Yield the state of each type's tasks, and the time since the last successful generation for each table."""
    if not queues.store.connected:
        return
    for task_type in queues.types():
        yield from _queue(task_type, _states(queues, task_type))
    for table in tables.names():
        config = tables.get(table)
        yield from _generation(queues, config, now_ms)
        yield from _merging(queues, config)


def _states(queues: TaskQueues, task_type: str) -> Mapping[SubtaskState, int]:
    """Count the subtasks of unfinished jobs and of the last finished one, by state."""
    under_way = list(queues.unfinished(task_type))
    names = {job.name for job, _ in under_way}
    ended = [job for job in queues.jobs(task_type) if job.name not in names][-1:]
    counted = chain((subtasks for _, subtasks in under_way), (queues.subtasks(job) for job in ended))
    return Counter(subtask.state for subtasks in counted for subtask in subtasks)


def _queue(task_type: str, states: Mapping[SubtaskState, int]) -> Iterator[Measured]:
    labels = {"taskType": task_type}
    failed = sum(states[state] for state in _FAILED)
    total = sum(states.values())
    for name, value, text in (
        ("numMinionSubtasksWaiting", states[SubtaskState.INIT], "Subtasks that no minion has taken yet"),
        ("numMinionSubtasksRunning", states[SubtaskState.RUNNING], "Subtasks that minions run"),
        ("numMinionSubtasksError", failed, "Subtasks that failed for good, of unfinished jobs and of the last finished one"),
        (
            "percentMinionSubtasksInError",
            100 * failed / total if total else 0,
            "Percentage of failed subtasks of these jobs",
        ),
    ):
        yield Measured(f"pinot_controller_{name}", value, text, labels)


def _merging(queues: TaskQueues, config: TableConfig) -> Iterator[Measured]:
    """Yield the backlog of a table's merge levels, as of the last task generation."""
    if config.task is None or MERGE_ROLLUP not in config.task.task_types:
        return
    table = config.typed_name
    memory = read_memory(queues.store, table, MERGE_ROLLUP)
    for name, text, found in (
        ("mergeRollupTaskDelayInNumBuckets", "Buckets by which a level's watermark lags", memory.delays),
        ("mergeRollupTaskNumBucketsToProcess", "Buckets of a level with something to merge", memory.waiting),
    ):
        for level, value in sorted(found.items()):
            yield Measured(f"pinot_controller_{name}", value, text, {"table": table, "mergeLevel": level})


def _generation(queues: TaskQueues, config: TableConfig, now_ms: int) -> Iterator[Measured]:
    table = config.typed_name
    for task_type in sorted(config.task.task_types if config.task else ()):
        succeeded = read_history(queues.store, table, task_type).succeeded
        if succeeded:
            labels = {"table": table, "taskType": task_type}
            text = "Milliseconds since tasks were last generated for the table, or found to be unnecessary"
            name = "pinot_controller_timeMsSinceLastSuccessfulMinionTaskGeneration"
            yield Measured(name, max(0, now_ms - succeeded[-1]), text, labels)
