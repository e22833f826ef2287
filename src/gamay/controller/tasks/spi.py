"""The interface of task generators, one per task type."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gamay.base.clock import Clock
from gamay.base.errors import NotFoundError
from gamay.base.ids import RANDOM_IDS, Ids
from gamay.cluster.records.records import CONSUMING, SegmentRecord
from gamay.cluster.records.registry import Registry
from gamay.controller.context import Servers
from gamay.model.schema.schema import Schema
from gamay.model.table.stored import stored_schema
from gamay.model.table.table_config import TableConfig
from gamay.storage.fetchers import Fetchers


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The plan of a generator. subtasks: a config for each; deleted: segments without valid rows."""

    subtasks: Sequence[Mapping[str, str]] = ()
    deleted: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GeneratorInput:
    """The input of a generator. given: the task's settings of the table. working: the configs of the table's
    unfinished subtasks of this type. fetchers: check which files users may read. is_adhoc: whether a user requested
    the task, with own settings in `given`.
    """

    config: TableConfig
    given: Mapping[str, str]
    registry: Registry
    servers: Servers
    clock: Clock
    working: Sequence[Mapping[str, str]] = field(default=())
    fetchers: Fetchers = field(default_factory=Fetchers)
    ids: Ids = RANDOM_IDS
    is_adhoc: bool = False

    @property
    def table(self) -> str:
        """The typed name of the table."""
        return self.config.typed_name

    def schema(self) -> Schema:
        """Return the table's schema. Raises NotFoundError."""
        document = self.registry.get_schema(self.config.raw_name)
        if document is None:
            raise NotFoundError(f"schema '{self.config.raw_name}' does not exist")
        return stored_schema(document)

    def completed_segments(self) -> list[SegmentRecord]:
        """Return the complete, visible segments of the ideal state that no server consumes, by name."""
        ideal = self.registry.must_get_ideal_state(self.table)
        names = [name for name, states in ideal.states.items() if CONSUMING not in states.values()]
        hidden = self.registry.get_lineage(self.table).hidden_segments()
        records = self.registry.get_segments(self.table, sorted(set(names) - hidden))
        return [record for record in records.values() if record.complete]


def segment_config(table: str, record: SegmentRecord) -> dict[str, str]:
    """Return the config of a subtask on one segment."""
    return {
        "tableName": table,
        "segmentName": record.name,
        "downloadURL": record.download_url,
        "crc": str(record.crc),
    }


class TaskGenerator(Protocol):
    """A generator of the tasks of one type.

    keys: the keys of its settings in a table config, besides `gamay.model.task_settings.COMMON_KEYS`. max_tasks:
    default limit of the subtasks of a table at a time; 0 for no limit.
    """

    task_type: str
    keys: Sequence[str]
    max_tasks: int

    def plan(self, wanted: GeneratorInput) -> TaskPlan:
        """Return the current plan. Raises GamayError if it cannot be determined."""
        ...
