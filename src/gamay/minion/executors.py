"""The executors of a minion by task type: the modules of `gamay.minion.tasks`, each imported for the first such task."""

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
    """Return the module of each task type, by its name: `upsert_compaction` executes `UpsertCompactionTask`."""
    return {f"{module.name.title().replace('_', '')}Task": module.name for module in iter_modules(tasks.__path__)}


def task_types() -> tuple[str, ...]:
    """Return the task types that a minion can execute."""
    return tuple(_modules())


def load_executor(task_type: str) -> "Executor":
    """Return the executor of a task type."""
    executor: Executor = import_module(f"{tasks.__name__}.{_modules()[task_type]}").run
    return executor
