"""Settings of a table config that this version stores and shows, but does not act on.

Such keys are accepted, because configs are shared with clusters that do act on them; a warning is returned to the author.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from gamay.model.parse import keys_of
from gamay.model.rules.segment_generation import unused_batch_settings
from gamay.model.rules.unused_index_settings import unused_index_settings
from gamay.model.table.secondary_indexes import is_declared
from gamay.model.table.sections import BALANCED_STRATEGY, REPLICA_GROUP_STRATEGY
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.task_settings import is_task_type, unknown_task_keys

# the module that an index needs, and the extra that installs it
_LIBRARIES = {"h3": ("h3", "geo")}


def without_effect(config: TableConfig) -> list[str]:
    """Return a sentence for each setting of a table config without effect, with its key."""
    found = [
        *_unbuilt_indexes(config),
        *unused_index_settings(config),
        *unused_keys(config, NO_EFFECT, _AS_IT_IS),
        *_unused_beside_others(config),
    ]
    return [*found, *_constraints(config), *_tasks(config), *unused_batch_settings(config)]


def _constraints(config: TableConfig) -> Iterator[str]:
    """Yield a sentence for each constraint: Pinot has none built in either; instances are chosen by tags and pools."""
    for kind, given in config.instance_assignment.items():
        if given.constraint is not None and given.constraint.constraints:
            names = ", ".join(given.constraint.constraints)
            yield (
                f"instanceAssignmentConfigMap.{kind}.constraintConfig: there is no constraint named {names}; the "
                "setting is kept, and instances are chosen by tag, pool and replica group alone"
            )


def _tasks(config: TableConfig) -> Iterator[str]:
    for task_type, given in (config.task.task_types if config.task else {}).items():
        if is_task_type(task_type):
            yield from unknown_task_keys(task_type, given)
        else:
            yield f"task.taskTypeConfigsMap.{task_type}: this version does not support such tasks; the settings are kept"


def _unbuilt_indexes(config: TableConfig) -> Iterator[str]:
    for field in config.field_configs:
        where = f"fieldConfigList of column '{field.name}'"
        if is_declared(field, "open_struct"):
            yield f"{where}: this version has no OPEN_STRUCT index; the setting is kept, and queries work without it"
        for kind, (library, extra) in _LIBRARIES.items():
            if is_declared(field, kind) and find_spec(library) is None:
                yield (
                    f"{where}: the {kind.upper()} index needs the package {library}, which is not installed here; run: "
                    f"pip install 'gamay[{extra}]'. Without it, queries do not use the index"
                )


_FREQUENCIES = ("HOURLY", "DAILY")
_ORDER = "parallelSegmentConsumptionPolicy decides what a segment waits for if rows depend on earlier ones"
_PLAIN = "this version does not act on it"
_STREAM = "ingestionConfig.streamIngestionConfig"

NO_EFFECT: Mapping[str, str] = {
    "isMaterializedView": "this version has no MaterializedViewTask, so nothing fills the view",
    "tableSamplers": _PLAIN,
    "segmentsConfig.timeType": "the schema declares the unit of the time column",
    "query.disableGroovy": "there is no Groovy",
    "task.concurrentSchedulingEnabled": "tasks of a table are generated one at a time",
    "tierConfigs.tierBackend": "segments of a tier are on the servers of its serverTag",
    "tierConfigs.tierBackendProperties": "segments of a tier are on the servers of its serverTag",
    "instanceAssignmentConfigMap.replicaGroupPartitionConfig.minimizeDataMovement": (
        "minimizeDataMovement beside replicaGroupPartitionConfig is used instead"
    ),
    "dimensionTableConfig.disablePreload": (
        "columns of a dimension table are read when a query first asks for them, so nothing is preloaded"
    ),
    "ingestionConfig.retryOnSegmentBuildPrecheckFailure": (
        "a segment that cannot be built stops its partition, whose error says why"
    ),
    "ingestionConfig.maxConsecutiveRecordFetchFailuresAllowed": (
        "continueOnError decides whether records that cannot be read fail a job or are skipped"
    ),
    "ingestionConfig.ingestionExceptionLogRateLimitPerMin": "bad records are counted and listed, and few of them logged",
    f"{_STREAM}.columnMajorSegmentBuilderEnabled": "segments are always built column by column",
    f"{_STREAM}.trackFilteredMessageOffsets": _PLAIN,
    f"{_STREAM}.realtimeOffsetAutoResetHandlerClass": _PLAIN,
    f"{_STREAM}.enforceConsumptionInOrder": _ORDER,
    f"{_STREAM}.useIdealStateToCalculatePreviousSegment": _ORDER,
    f"{_STREAM}.disasterRecoveryMode": (
        "rows of a segment that no server could store are consumed again, in order, in either mode"
    ),
    f"{_STREAM}.oomProtection": "consumed rows are kept in files, not on a heap that could fill up",
}
"""Keys of a table config that are stored without effect, and why; those of indexes are in `unused_index_settings`."""

_AS_IT_IS: Mapping[str, Any] = {"query.disableGroovy": True, f"{_STREAM}.oomProtection": "DISABLE"}
"""Values that request the actual behaviour."""


def unused_keys(
    document: Any, no_effect: Mapping[str, str], as_it_is: Mapping[str, Any] = MappingProxyType({})
) -> Iterator[str]:
    """Yield a sentence for each key that a document sets and that has no effect.

    no_effect: JSON path, without positions and free keys -> why. as_it_is: values that request the actual behaviour.
    """
    for path, why in no_effect.items():
        for value, default in _values_at(document, path.split(".")):
            if value not in (default, as_it_is.get(path, default)):
                yield f"{path}: {why}; the setting is kept"
                break


def _values_at(holder: Any, steps: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """Yield the value and the default of a key wherever its section occurs."""
    if isinstance(holder, Mapping):
        holder = tuple(holder.values())
    if isinstance(holder, tuple):
        for one in holder:
            yield from _values_at(one, steps)
    elif holder is not None:
        attribute = next(attribute for attribute, key in keys_of(type(holder)).items() if key.name == steps[0])
        value = getattr(holder, attribute)
        if len(steps) > 1:
            yield from _values_at(value, steps[1:])
        else:
            field = next(field for field in dataclasses.fields(holder) if field.name == attribute)
            yield value, {} if field.default is dataclasses.MISSING else field.default


def _unused_beside_others(config: TableConfig) -> Iterator[str]:
    """Yield a sentence for each setting that has no effect because of others."""
    upsert, dedup, segments = config.active_upsert, config.active_dedup, config.segments
    if upsert is not None and upsert.preload == "ENABLE" and upsert.snapshot == "DISABLE":
        yield "upsertConfig.preload: without snapshots there is nothing to preload; the setting is kept"
    if upsert is not None and upsert.is_skip_late_event and not upsert.metadata_ttl:
        yield "upsertConfig.isSkipLateEvent: without metadataTTL no row is late; the setting is kept"
    if upsert is not None and upsert.mode != "PARTIAL":
        merging = {
            "partialUpsertMergerClass": upsert.partial_upsert_merger_class is not None,
            "partialUpsertStrategies": bool(upsert.partial_upsert_strategies),
            "defaultPartialUpsertStrategy": upsert.default_partial_upsert_strategy != "OVERWRITE",
        }
        for name in (name for name, is_given in merging.items() if is_given):
            yield f"upsertConfig.{name}: mode {upsert.mode} merges nothing; the setting is kept"
    if dedup is not None and dedup.preload != "DEFAULT":
        yield "dedupConfig.preload: the keys of all segments are always loaded before rows are consumed; the setting is kept"
    if config.ingestion.stream is not None and config.table_type is TableType.OFFLINE:
        yield f"{_STREAM}: an OFFLINE table consumes no stream; the setting is kept"
    if any(tuner.type is not None or tuner.properties for tuner in config.tuners):
        yield "tunerConfigs: the existing tuners take neither type nor properties; the settings are kept"
    if (frequency := segments.segment_push_frequency) and frequency.strip().upper() not in _FREQUENCIES:
        yield (
            f"segmentsConfig.segmentPushFrequency: '{frequency}' is none of {', '.join(_FREQUENCIES)} and is treated as "
            "DAILY; the setting is kept"
        )
    yield from _unused_retention(config)
    yield from _unused_pruners(config)
    strategy, is_offline = segments.segment_assignment_strategy, config.table_type is TableType.OFFLINE
    if strategy is not None and strategy.lower() != BALANCED_STRATEGY.lower():
        if not segments.asks_for_replica_groups:
            yield (
                f"segmentsConfig.segmentAssignmentStrategy: '{strategy}' is neither {BALANCED_STRATEGY} nor "
                f"{REPLICA_GROUP_STRATEGY}; segments are assigned balanced, or by segmentAssignmentConfigMap"
            )
        elif not is_offline:
            yield f"segmentsConfig.segmentAssignmentStrategy: '{strategy}' is for OFFLINE tables; the setting is kept"
    if segments.replica_group_strategy is not None and not (segments.asks_for_replica_groups and is_offline):
        yield (
            "segmentsConfig.replicaGroupStrategyConfig.numInstancesPerPartition: it applies only to OFFLINE tables whose "
            f"segmentAssignmentStrategy is {REPLICA_GROUP_STRATEGY}; the setting is kept"
        )


def _unused_retention(config: TableConfig) -> Iterator[str]:
    segments, where = config.segments, "segmentsConfig.retentionTimeUnit, retentionTimeValue"
    unit, value = segments.retention_time_unit, segments.retention_time_value
    if unit is None and value is None:
        return
    if unit is None or value is None:
        yield f"{where}: one is given without the other, so segments are kept for ever"
    elif config.replaces_all:
        yield f"{where}: segments of a table that is refreshed are kept until they are replaced"
    elif config.time_column is None:
        yield (
            f"{where}: the table has no timeColumnName, so its segments have no end time and are kept for ever, unless the "
            "cluster's controller.retentionManager.enableCreationTimeFallback is true"
        )


def _unused_pruners(config: TableConfig) -> Iterator[str]:
    pruners = config.routing.segment_pruner_types or ()
    if "time" in pruners and config.time_column is None:
        yield "routing.segmentPrunerTypes: 'time' needs segmentsConfig.timeColumnName"
    if "partition" in pruners and config.indexing.segment_partition is None:
        yield "routing.segmentPrunerTypes: 'partition' needs tableIndexConfig.segmentPartitionConfig"
