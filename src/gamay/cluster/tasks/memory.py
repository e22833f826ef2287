"""The metadata that a task type keeps about a table between runs: watermarks, by level or as a whole.

Written by compare-and-set, so that only one of two concurrent writers succeeds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gamay.cluster.store import paths
from gamay.cluster.store.store import MetadataStore
from gamay.cluster.store.znrecord import ZNRecord, encode, read_record

_WATERMARK = "watermarkMs"
_WATERMARKS = "watermarkMap"
_DELAYS = "delayInNumBuckets"
_WAITING = "numBucketsToProcess"


@dataclass(frozen=True, slots=True)
class TaskMemory:
    """Watermarks of a typed table, in milliseconds; everything before them is processed.

    whole: None if there is none. levels: by name. version: of the node that was read, None if there is none. delays,
    waiting: by level, at the last task generation, the buckets by which the watermark lagged, and the buckets with work
    to do.
    """

    table: str
    whole: int | None = None
    levels: Mapping[str, int] = field(default_factory=dict)
    version: int | None = None
    delays: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)

    def with_level(self, level: str, watermark_ms: int, delay: int = 0, waiting: int = 0) -> "TaskMemory":
        """Return a copy with the watermark of one level, its `delays` and `waiting`."""
        return replace(
            self,
            levels={**self.levels, level: watermark_ms},
            delays={**self.delays, level: delay},
            waiting={**self.waiting, level: waiting},
        )

    def to_record(self) -> ZNRecord:
        simple = {} if self.whole is None else {_WATERMARK: str(self.whole)}
        by_level = {_WATERMARKS: self.levels, _DELAYS: self.delays, _WAITING: self.waiting}
        maps = {name: {level: str(n) for level, n in found.items()} for name, found in by_level.items() if found}
        return ZNRecord(self.table, simple, maps)


def read_memory(store: MetadataStore, table: str, task_type: str) -> TaskMemory:
    """Return the metadata; empty if there is no node. Raises CorruptRecordError."""
    path = paths.task_metadata(table, task_type)
    node = store.get(path)
    if node is None:
        return TaskMemory(table)
    return replace(read_record(path, node.value, _memory_of, table), version=node.version)


def write_memory(store: MetadataStore, task_type: str, memory: TaskMemory) -> TaskMemory:
    """Replace the version that was read, and return the metadata with its new version.

    Raises ConflictError if another process has written since.
    """
    path = paths.task_metadata(memory.table, task_type)
    if memory.version is None:
        store.create(path, encode(memory.to_record()))
        return replace(memory, version=0)
    return replace(memory, version=store.set(path, encode(memory.to_record()), memory.version))


def forget_table(store: MetadataStore, table: str) -> None:
    """Delete the metadata of all task types about a typed table."""
    store.delete(f"{paths.TASK_METADATA}/{table}", recursive=True)


def _memory_of(record: ZNRecord) -> TaskMemory:
    whole = record.simple.get(_WATERMARK)
    levels, delays, waiting = (
        {level: int(text) for level, text in record.maps.get(name, {}).items()} for name in (_WATERMARKS, _DELAYS, _WAITING)
    )
    return TaskMemory(record.id, None if whole is None else int(whole), levels, None, delays, waiting)
