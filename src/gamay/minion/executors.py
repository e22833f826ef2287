"""What a minion can do, by task type: the modules of `gamay.minion.tasks`, each imported when the first such task comes."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING

from gamay.minion import tasks

if TYPE_CHECKING:
    from gamay.minion.context import Executor  # what it imports is heavy


@cache
def _modules() -> Mapping[str, str]:
    """Return the module of each task type, by the names alone: `upsert_compaction` does `UpsertCompactionTask`."""
    return {f"{module.name.title().replace('_', '')}Task": module.name for module in iter_modules(tasks.__path__)}


def task_types() -> tuple[str, ...]:
    """Return the task types whose subtasks a minion takes."""
    return tuple(_modules())


def load_executor(task_type: str) -> "Executor":
    """Return what does the subtasks of a type."""
    executor: Executor = import_module(f"{tasks.__name__}.{_modules()[task_type]}").run
    return executor
