"""Rules for tables with `PurgeTask` or `ConvertToRawIndexTask`."""

from collections.abc import Iterator

from gamay.base.errors import InvalidConfigError
from gamay.model.rules.subject import TableSubject, missing_column
from gamay.model.segment_task_settings import PurgeSettings, columns_to_convert
from gamay.model.task_settings import CONVERT_TO_RAW, PURGE


def purge(subject: TableSubject) -> Iterator[str]:
    """Yield the problems of a PurgeTask."""
    tasks = subject.config.task.task_types if subject.config.task else {}
    if PURGE not in tasks:
        return
    try:
        settings = PurgeSettings.of(tasks[PURGE])
    except InvalidConfigError as error:
        yield str(error)
        return
    if settings.column is not None:
        missing = missing_column(subject.schema, settings.column, f"task.taskTypeConfigsMap.{PURGE}.purgeColumn")
        if missing:
            yield missing


def convert_to_raw(subject: TableSubject) -> Iterator[str]:
    """Yield the problems of a ConvertToRawIndexTask."""
    tasks = subject.config.task.task_types if subject.config.task else {}
    if CONVERT_TO_RAW in tasks:
        try:
            columns_to_convert(tasks[CONVERT_TO_RAW], subject.config, subject.schema)
        except InvalidConfigError as error:
            yield str(error)
