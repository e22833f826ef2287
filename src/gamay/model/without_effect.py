"""What a table config may say that this version keeps and shows, but does not act on.

Such keys are accepted, because configs are shared with clusters that do act on them; whoever stores one is told.
"""

from collections.abc import Iterator

from gamay.model.ingestion import IngestionConfig
from gamay.model.search_settings import TEXT_SETTINGS
from gamay.model.table_config import TableConfig
from gamay.model.task_settings import TASK_TYPES, unknown_task_keys
from gamay.model.unused_index_settings import unused_index_settings

_INDEXES = {
    "text": "text index",
    "json": "JSON index",
    "fst": "FST index",
    "ifst": "FST index",
    "h3": "H3 index",
    "vector": "vector index",
    "open_struct": "OPEN_STRUCT index",
    "timestamp": "timestamp index",
}


# what there is without an index
_INSTEAD = {
    "text index": f"TEXT_MATCH reads the texts; {', '.join(TEXT_SETTINGS)} hold for it, nothing else does",
    "vector index": "VECTOR_SIMILARITY looks at every vector; vectorDistanceFunction holds for it, nothing else does",
}


def without_effect(config: TableConfig) -> list[str]:
    """Return a sentence for each part of a table config that has no effect, with the key that it stands under."""
    found = [*_unbuilt_indexes(config), *unused_index_settings(config), *_unused_sections(config)]
    return [*found, *_constraints(config), *_tasks(config)]


def _constraints(config: TableConfig) -> Iterator[str]:
    """Pinot's key has no built-in constraint either: instances are chosen by tags, pools and replica groups."""
    for kind, given in config.instance_assignment.items():
        if given.constraint is not None and given.constraint.constraints:
            names = ", ".join(given.constraint.constraints)
            yield (
                f"instanceAssignmentConfigMap.{kind}.constraintConfig: no constraint is known by the name {names}; the "
                "setting is kept, and instances are chosen by tag, pool and replica group alone"
            )


def _tasks(config: TableConfig) -> Iterator[str]:
    for task_type, given in (config.task.task_types if config.task else {}).items():
        if task_type in TASK_TYPES:
            yield from unknown_task_keys(task_type, given)
        else:
            yield f"task.taskTypeConfigsMap.{task_type}: this version does not do such tasks; the settings are kept"


def _unbuilt_indexes(config: TableConfig) -> Iterator[str]:
    indexing = config.indexing
    if indexing.star_tree_configs or indexing.enable_default_star_tree:
        key = "starTreeIndexConfigs" if indexing.star_tree_configs else "enableDefaultStarTree"
        yield _unbuilt(f"tableIndexConfig.{key}", "star-tree")
    if indexing.json_index_columns:
        yield _unbuilt("tableIndexConfig.jsonIndexColumns", "JSON index")
    if indexing.json_index_configs:
        yield _unbuilt("tableIndexConfig.jsonIndexConfigs", "JSON index")
    if indexing.multi_column_text_index is not None:
        yield _unbuilt("tableIndexConfig.multiColumnTextIndexConfig", "text index of several columns")
    for field in config.field_configs:
        where = f"fieldConfigList of column '{field.name}'"
        asked = {kind.lower() for kind in field.all_index_types}
        for kind in ("text", "json", "fst", "ifst", "h3", "vector", "open_struct"):
            settings = getattr(field.indexes, kind)
            if settings is not None and not settings.get("disabled"):
                asked.add(kind)
        if field.timestamp is not None:
            asked.add("timestamp")
        for name in sorted({_INDEXES[kind] for kind in asked if kind in _INDEXES}):
            yield _unbuilt(where, name)


def _unbuilt(where: str, what: str) -> str:
    return f"{where}: this version builds no {what}; the setting is kept, and {_INSTEAD.get(what, 'queries do without it')}"


_LOG_RATE_DEFAULT = IngestionConfig().ingestion_exception_log_rate_limit_per_min
_KEPT = "this version does not act on it; the setting is kept"
_IN_ORDER = (
    "parallelSegmentConsumptionPolicy says what a segment waits for, where rows depend on those before; the setting is kept"
)
_RECOVERY = "rows of a segment that no server could store are consumed again, in order, in either mode; the setting is kept"
_MEMORY = "rows that are consumed lie in files, not in a heap that could run full; the setting is kept"

_BUILDS = "a segment that cannot be built stops its partition, whose error says why; the setting is kept"
_READERS = "continueOnError says whether records that cannot be read fail a job or are left out; the setting is kept"
_LOGGED = "bad records are counted and listed, and few of them logged; the setting is kept"

_PRELOAD = (
    "columns of a dimension table are read when a query first asks for them, so nothing is preloaded; the setting is kept"
)


def _unused_sections(config: TableConfig) -> Iterator[str]:
    unused = {
        "tunerConfigs": bool(config.tuners),
        "tableSamplers": bool(config.samplers),
        "query.disableGroovy": config.query.disable_groovy is False,
        "query.useApproximateFunction": bool(config.query.use_approximate_function),
        "query.expressionOverrideMap": bool(config.query.expression_override_map),
    }
    for key, is_set in unused.items():
        if is_set:
            yield f"{key}: {_KEPT}"
    if config.dimension_table is not None and config.dimension_table.disable_preload:
        yield f"dimensionTableConfig.disablePreload: {_PRELOAD}"
    yield from _unused_of_keys(config)
    yield from _unused_of_ingestion(config.ingestion)
    yield from _unused_of_stream(config)


def _unused_of_ingestion(ingestion: IngestionConfig) -> Iterator[str]:
    if ingestion.retry_on_segment_build_precheck_failure:
        yield f"ingestionConfig.retryOnSegmentBuildPrecheckFailure: {_BUILDS}"
    if ingestion.max_consecutive_record_fetch_failures_allowed > 0:
        yield f"ingestionConfig.maxConsecutiveRecordFetchFailuresAllowed: {_READERS}"
    if ingestion.ingestion_exception_log_rate_limit_per_min != _LOG_RATE_DEFAULT:
        yield f"ingestionConfig.ingestionExceptionLogRateLimitPerMin: {_LOGGED}"


def _unused_of_keys(config: TableConfig) -> Iterator[str]:
    upsert, dedup = config.active_upsert, config.active_dedup
    if upsert is not None and upsert.preload == "ENABLE" and upsert.snapshot == "DISABLE":
        yield "upsertConfig.preload: without snapshots there is nothing to load first; the setting is kept"
    if dedup is not None and dedup.preload != "DEFAULT":
        yield "dedupConfig.preload: the keys of all segments are there before rows are consumed; the setting is kept"


def _unused_of_stream(config: TableConfig) -> Iterator[str]:
    stream, where = config.ingestion.stream, "ingestionConfig.streamIngestionConfig"
    if stream is None:
        return
    if stream.track_filtered_message_offsets:
        yield f"{where}.trackFilteredMessageOffsets: {_KEPT}"
    if stream.realtime_offset_auto_reset_handler_class is not None:
        yield f"{where}.realtimeOffsetAutoResetHandlerClass: {_KEPT}"
    if stream.enforce_consumption_in_order:
        yield f"{where}.enforceConsumptionInOrder: {_IN_ORDER}"
    if stream.use_ideal_state_to_calculate_previous_segment:
        yield f"{where}.useIdealStateToCalculatePreviousSegment: {_IN_ORDER}"
    if stream.disaster_recovery_mode == "ALWAYS":
        yield f"{where}.disasterRecoveryMode: {_RECOVERY}"
    if stream.oom_protection == "ENABLE":
        yield f"{where}.oomProtection: {_MEMORY}"
