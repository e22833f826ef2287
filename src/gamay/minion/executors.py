"""What a minion can do, by task type. Executors are imported when the first such task comes."""

import importlib

from gamay.minion.context import Executor

EXECUTORS = {
    "UpsertCompactionTask": "gamay.minion.compaction:compact",
    "UpsertCompactMergeTask": "gamay.minion.compact_merge:merge",
}


def load_executor(task_type: str) -> Executor:
    """Return what does the subtasks of a type."""
    module, _, name = EXECUTORS[task_type].partition(":")
    executor: Executor = getattr(importlib.import_module(module), name)
    return executor
