"""Rules for tables with `SegmentGenerationAndPushTask`, and its settings without effect."""

from collections.abc import Iterator

from gamay.base.errors import InvalidConfigError
from gamay.model.batch_settings import BatchSettings, unused_batch_keys
from gamay.model.rules.subject import TableSubject
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.task_settings import SEGMENT_GENERATION

BATCH_MAPS = "ingestionConfig.batchIngestionConfig.batchConfigMaps"


def segment_generation(subject: TableSubject) -> Iterator[str]:
    """Yield the problems of the settings."""
    config = subject.config
    if not _is_asked_for(config):
        return
    if config.table_type is not TableType.OFFLINE:
        yield f"{SEGMENT_GENERATION} is for OFFLINE tables: rows of others come from their stream"
    maps = config.ingestion.batch.batch_config_maps if config.ingestion.batch is not None else ()
    if not maps:
        yield f"{SEGMENT_GENERATION} needs {BATCH_MAPS}, a map for each folder of files, with inputDirURI and inputFormat"
    for position, given in enumerate(maps):
        try:
            settings = BatchSettings.of(given, f"{BATCH_MAPS}[{position}]")
        except InvalidConfigError as error:
            yield str(error)
            continue
        if settings.name_type == "fixed" or "segment.name" in settings.name_configs:
            yield (
                f"{BATCH_MAPS}[{position}] gives all segments the same name, so that only the last would remain; "
                "segmentNameGenerator.type must be simple, normalizedDate or inputFile"
            )


def unused_batch_settings(config: TableConfig) -> Iterator[str]:
    """Yield a sentence for each setting in `batchConfigMaps` without effect."""
    maps = config.ingestion.batch.batch_config_maps if config.ingestion.batch is not None else ()
    if maps and not _is_asked_for(config):
        yield f"{BATCH_MAPS}: nothing reads them unless task.taskTypeConfigsMap has {SEGMENT_GENERATION}; they are kept"
        return
    for position, given in enumerate(maps):
        yield from unused_batch_keys(given, f"{BATCH_MAPS}[{position}]")


def _is_asked_for(config: TableConfig) -> bool:
    return config.task is not None and SEGMENT_GENERATION in config.task.task_types
