"""The generators that there are, by task type."""

from collections.abc import Mapping

from gamay.controller.tasks.spi import TaskGenerator
from gamay.controller.tasks.upsert_compaction import UpsertCompactionGenerator
from gamay.controller.tasks.upsert_merge import UpsertMergeGenerator


def generators() -> Mapping[str, TaskGenerator]:
    """Return a generator for each task type."""
    made: tuple[TaskGenerator, ...] = (UpsertCompactionGenerator(), UpsertMergeGenerator())
    return {generator.task_type: generator for generator in made}
