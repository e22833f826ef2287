"""The task generators by task type: those of the modules of `gamay.controller.tasks.types`."""

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from gamay.controller.tasks import types
from gamay.controller.tasks.spi import TaskGenerator
from gamay.model.task_settings import declare_task_type


@cache
def generators() -> Mapping[str, TaskGenerator]:
    """Return the generator of each task type, and register the types with the validation of table configs."""
    found: dict[str, TaskGenerator] = {}
    for module in iter_modules(types.__path__):
        generator: TaskGenerator = import_module(f"{types.__name__}.{module.name}").GENERATOR
        declare_task_type(generator.task_type, generator.keys)
        found[generator.task_type] = generator
    return found
