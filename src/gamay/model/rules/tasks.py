"""Rules for the `task` section of a table config."""

from collections.abc import Iterator

from gamay.base.errors import InvalidConfigError
from gamay.model.rules.merge_tasks import MERGE_TASK_RULES
from gamay.model.rules.segment_generation import segment_generation
from gamay.model.rules.segment_tasks import convert_to_raw, purge
from gamay.model.rules.subject import TableRule, TableSubject, complaint
from gamay.model.table.table_name import TableType
from gamay.model.task_settings import (
    UPSERT_COMPACT_MERGE,
    UPSERT_COMPACTION,
    CompactionSettings,
    MergeSettings,
    TaskSettings,
    is_task_type,
)


def _common(subject: TableSubject) -> Iterator[str]:
    task = subject.config.task
    for task_type, given in (task.task_types if task else {}).items():
        if is_task_type(task_type):
            settings = TaskSettings(task_type, given)
            yield from _complaints(lambda settings=settings: settings.schedule)
            yield from _complaints(lambda settings=settings: settings.whole("tableMaxNumTasks", 0))


def _upsert_tasks(subject: TableSubject) -> Iterator[str]:
    config = subject.config
    tasks = config.task.task_types if config.task else {}
    upsert = config.active_upsert
    for task_type in (UPSERT_COMPACTION, UPSERT_COMPACT_MERGE):
        if task_type not in tasks:
            continue
        if upsert is None or config.table_type is not TableType.REALTIME:
            yield f"{task_type} is for REALTIME tables with upsertConfig"
        elif upsert.metadata_ttl > 0:
            yield f"{task_type} and upsertConfig.metadataTTL exclude each other: expired keys cannot be looked up"
    if UPSERT_COMPACTION in tasks:
        try:
            settings = CompactionSettings.of(tasks[UPSERT_COMPACTION])
        except InvalidConfigError as error:
            yield str(error)
        else:
            where = f"task.taskTypeConfigsMap.{UPSERT_COMPACTION}.validDocIdsType {settings.kind}"
            if upsert is not None and settings.kind.startswith("SNAPSHOT") and upsert.snapshot == "DISABLE":
                yield f"{where} needs snapshots: set upsertConfig.snapshot to ENABLE"
            if upsert is not None and settings.kind.endswith("_WITH_DELETE") and upsert.delete_record_column is None:
                yield f"{where} needs upsertConfig.deleteRecordColumn"
    if UPSERT_COMPACT_MERGE in tasks:
        try:
            merge = MergeSettings.of(tasks[UPSERT_COMPACT_MERGE])
        except InvalidConfigError as error:
            yield str(error)
            return
        if upsert is not None and upsert.snapshot == "DISABLE":
            yield f"{UPSERT_COMPACT_MERGE} needs snapshots: set upsertConfig.snapshot to ENABLE"
        if UPSERT_COMPACTION in tasks and merge.segments_min <= 1:
            yield (
                f"{UPSERT_COMPACT_MERGE}.minNumSegmentsPerTask must be 2 or more beside {UPSERT_COMPACTION}: "
                "both would work on the same single segments"
            )


def _complaints(check: object) -> Iterator[str]:
    assert callable(check)
    for problem in complaint(check, ""):
        yield problem.removeprefix(": ")


TASK_RULES: tuple[TableRule, ...] = (_common, _upsert_tasks, segment_generation, purge, convert_to_raw, *MERGE_TASK_RULES)
