"""What a task type remembers of a table from one run to the next: how far it has come, by level or as a whole.

Written by compare-and-set, so that of two who read the same one alone is believed.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.store.znrecord import ZNRecord, encode, read_record

_WATERMARK = "watermarkMs"
_WATERMARKS = "watermarkMap"


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """Watermarks of a typed table, in milliseconds: before them all is done.

    whole: None where there is none. levels: by name. version: of the node that was read, None where there is none.
    """

    table: str
    whole: int | None = None
    levels: Mapping[str, int] = field(default_factory=dict)
    version: int | None = None

    def with_level(self, level: str, watermark_ms: int) -> "TaskMemory":
        """Return a copy with the watermark of one level."""
        return replace(self, levels={**self.levels, level: watermark_ms})

    def to_record(self) -> ZNRecord:
        simple = {} if self.whole is None else {_WATERMARK: str(self.whole)}
        maps = {_WATERMARKS: {level: str(ms) for level, ms in self.levels.items()}} if self.levels else {}
        return ZNRecord(self.table, simple, maps)


def read_memory(store: MetadataStore, table: str, task_type: str) -> TaskMemory:
    """Return what is remembered; nothing where there is no node. Raises CorruptRecordError."""
    path = paths.task_metadata(table, task_type)
    node = store.get(path)
    if node is None:
        return TaskMemory(table)
    return replace(read_record(path, node.value, _memory_of, table), version=node.version)


def write_memory(store: MetadataStore, task_type: str, memory: TaskMemory) -> TaskMemory:
    """Store it in place of the version that was read, and return it with its new one.

    Raises ConflictError when somebody else has written since.
    """
    path = paths.task_metadata(memory.table, task_type)
    if memory.version is None:
        store.create(path, encode(memory.to_record()))
        return replace(memory, version=0)
    return replace(memory, version=store.set(path, encode(memory.to_record()), memory.version))


def forget_table(store: MetadataStore, table: str) -> None:
    """Remove what task types remember of a typed table."""
    store.delete(f"{paths.TASK_METADATA}/{table}", recursive=True)


def _memory_of(record: ZNRecord) -> TaskMemory:
    whole = record.simple.get(_WATERMARK)
    levels = {level: int(text) for level, text in record.maps.get(_WATERMARKS, {}).items()}
    return TaskMemory(record.id, None if whole is None else int(whole), levels)
