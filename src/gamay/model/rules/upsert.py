"""Rules for `upsertConfig` and `dedupConfig`; each yields a sentence for every violation."""

from collections.abc import Iterator, Sequence

from gamay.base.errors import GamayError, InvalidConfigError
from gamay.model.rules.subject import TableRule, TableSubject, duplicates, known_columns, missing_column
from gamay.model.rules.upsert_changes import partition_columns
from gamay.model.schema.datetime_format import DateTimeKind
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.ingestion import UpsertConfig
from gamay.model.table.sections import TierConfig
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.types import DataType, FieldRole
from gamay.model.units import TimeUnit, parse_period

TTL_REMOVAL, AT_COMMITS, GENERATIONS = "ttlRemoval", "COMMIT", "GENERATIONS"
_STRICT = ("strictReplicaGroup", "multiStageReplicaGroup")
_COMPARED = (
    DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BOOLEAN, DataType.TIMESTAMP,
)  # fmt: skip
_SUMMED = (DataType.INT, DataType.LONG, DataType.FLOAT, DataType.DOUBLE, DataType.BIG_DECIMAL)
_STRATEGIES = ("OVERWRITE", "IGNORE", "INCREMENT", "APPEND", "UNION", "MAX", "MIN", "FORCE_OVERWRITE")


def comparison_columns(subject: TableSubject) -> tuple[str, ...]:
    """Return the columns that decide which row is the latest: those declared, else the time column."""
    upsert, time = subject.config.upsert, subject.config.time_column
    named = () if upsert is None else upsert.comparison_columns
    return named or (() if time is None else (time,))


def _tables_with_keys(subject: TableSubject) -> Iterator[str]:
    upsert, dedup = subject.config.active_upsert, subject.config.active_dedup
    if upsert is None and dedup is None:
        return
    config, schema = subject.config, subject.schema
    section = "upsertConfig" if upsert is not None else "dedupConfig"
    if upsert is not None and dedup is not None:
        yield "upsertConfig and dedupConfig exclude each other"
    if not schema.primary_key_columns:
        yield f"{section} needs primaryKeyColumns in the schema"
    problems: list[str] = []
    for spec in known_columns(schema, schema.primary_key_columns, "primaryKeyColumns", problems):
        if not spec.single_value:
            yield f"the primary-key column '{spec.name}' is multi-value; primary keys must be single-value"
    yield from problems
    selector = config.routing.instance_selector_type
    if selector not in _STRICT:
        yield (
            f"{section} needs routing.instanceSelectorType strictReplicaGroup or multiStageReplicaGroup, not "
            f"'{selector or 'balanced'}': all segments of a partition must be queried on one server"
        )
    if upsert is not None and config.tiers:
        yield "upsertConfig and tierConfigs exclude each other"
    override = config.tenants.tag_override
    if override is not None and (override.realtime_consuming or override.realtime_completed):
        yield f"{section} and tenants.tagOverrideConfig exclude each other: segments of a partition may not move"
    if "COMPLETED" in config.instance_assignment:
        yield f"{section} and instanceAssignmentConfigMap.COMPLETED exclude each other: segments of a partition may not move"
    stream = config.ingestion.stream
    if stream is not None and len(stream.stream_config_maps) > 1:
        yield f"{section} allows one stream only; streamConfigMaps has {len(stream.stream_config_maps)}"
    if dedup is not None and config.table_type is TableType.OFFLINE:
        yield "dedupConfig is for REALTIME tables only"


def _offline(subject: TableSubject) -> Iterator[str]:
    upsert, config = subject.config.active_upsert, subject.config
    if upsert is None or config.table_type is not TableType.OFFLINE:
        return
    if upsert.mode != "FULL":
        yield f"upsertConfig.mode is {upsert.mode}; an OFFLINE table supports FULL only"
    partitioned = partition_columns(config)
    if not partitioned:
        yield "upsertConfig on an OFFLINE table needs tableIndexConfig.segmentPartitionConfig by a primary-key column"
    elif not set(partitioned) & set(subject.schema.primary_key_columns):
        yield (
            f"tableIndexConfig.segmentPartitionConfig partitions by {', '.join(sorted(partitioned))}, none of which is a "
            "primary-key column: rows of one key would be in several partitions"
        )


def _comparison(subject: TableSubject) -> Iterator[str]:
    upsert = subject.config.active_upsert
    if upsert is None:
        return
    names = comparison_columns(subject)
    if not names:
        yield "upsertConfig needs comparisonColumns or a time column: without them no row is the latest"
    for name in duplicates(upsert.comparison_columns):
        yield f"upsertConfig.comparisonColumns names '{name}' more than once"
    problems: list[str] = []
    for spec in known_columns(subject.schema, upsert.comparison_columns, "upsertConfig.comparisonColumns", problems):
        if not spec.single_value or (spec.data_type not in _COMPARED and not is_time_text(spec)):
            kind = spec.data_type.value if spec.single_value else "multi-value"
            yield (
                f"the comparison column '{spec.name}' is {kind}; it must be a single INT, LONG, FLOAT, DOUBLE, BOOLEAN or "
                "TIMESTAMP, or a date-time column: convert others by a transform"
            )
        elif is_time_text(spec) and len(names) > 1:
            yield f"the comparison column '{spec.name}' is text; of several comparison columns each must be a number"
    yield from problems
    if upsert.metadata_ttl < 0 or upsert.deleted_keys_ttl < 0:
        yield "upsertConfig.metadataTTL and deletedKeysTTL must not be negative"
    removal = upsert.metadata_manager_configs.get(TTL_REMOVAL, AT_COMMITS)
    if removal not in (AT_COMMITS, GENERATIONS):
        yield f"upsertConfig.metadataManagerConfigs.{TTL_REMOVAL} must be '{AT_COMMITS}' or '{GENERATIONS}', not '{removal}'"
    for key, ttl in (("metadataTTL", upsert.metadata_ttl), ("deletedKeysTTL", upsert.deleted_keys_ttl)):
        if ttl > 0 and len(names) > 1:
            yield f"upsertConfig.{key} does not work with several comparison columns ({', '.join(names)})"
        elif ttl > 0 and names and _type_of(subject, names[0]) not in (*_COMPARED, None):
            yield f"upsertConfig.{key} needs a numeric comparison column, which '{names[0]}' is not"


def is_time_text(spec: FieldSpec) -> bool:
    """Whether a column holds times as text in a pattern that sorts like time."""
    return spec.data_type is DataType.STRING and spec.format is not None


def _type_of(subject: TableSubject, name: str) -> DataType | None:
    return subject.schema.field(name).data_type if name in subject.schema else None


def unusual_columns(config: TableConfig, schema: Schema) -> list[str]:
    """Return a sentence for a delete column that Pinot would not accept, and that works here like a BOOLEAN."""
    upsert = config.active_upsert
    name = None if upsert is None else upsert.delete_record_column
    if name is None or name not in schema or schema.field(name).data_type is DataType.BOOLEAN:
        return []
    kind = schema.field(name).data_type.name
    rule = "'true'" if schema.field(name).data_type is DataType.STRING else "not 0"
    return [f"upsertConfig.deleteRecordColumn '{name}' is of type {kind}, not BOOLEAN: rows delete where it is {rule}"]


def _columns(subject: TableSubject) -> Iterator[str]:
    upsert = subject.config.active_upsert
    if upsert is None:
        return
    if upsert.delete_record_column is not None:
        name = upsert.delete_record_column
        missing = missing_column(subject.schema, name, "upsertConfig.deleteRecordColumn")
        if missing:
            yield missing
        else:
            spec = subject.schema.field(name)
            is_number = spec.data_type.is_numeric or spec.data_type in (DataType.BOOLEAN, DataType.STRING)
            if not (spec.single_value and is_number):
                yield f"upsertConfig.deleteRecordColumn '{name}' must be a single BOOLEAN, STRING or number"
    if upsert.out_of_order_record_column is not None:
        name = upsert.out_of_order_record_column
        missing = missing_column(subject.schema, name, "upsertConfig.outOfOrderRecordColumn")
        if missing:
            yield missing
        elif not _is_flag(subject.schema.field(name)):
            yield f"upsertConfig.outOfOrderRecordColumn '{name}' must be a single BOOLEAN"
        if upsert.drop_out_of_order_record:
            yield "upsertConfig.dropOutOfOrderRecord and outOfOrderRecordColumn exclude each other"


def _is_flag(spec: FieldSpec) -> bool:
    return spec.single_value and spec.data_type is DataType.BOOLEAN


def _modes(subject: TableSubject) -> Iterator[str]:
    upsert = subject.config.active_upsert
    if upsert is None:
        return
    if upsert.consistency_mode != "NONE":
        if upsert.drop_out_of_order_record or upsert.out_of_order_record_column is not None:
            yield "upsertConfig.dropOutOfOrderRecord and outOfOrderRecordColumn need consistencyMode NONE"
        if upsert.new_segment_tracking_time_ms <= 0:
            yield f"upsertConfig.consistencyMode {upsert.consistency_mode} needs newSegmentTrackingTimeMs above 0"
    if upsert.upsert_view_refresh_interval_ms < 0 or upsert.new_segment_tracking_time_ms < 0:
        yield "upsertConfig.upsertViewRefreshIntervalMs and newSegmentTrackingTimeMs must not be negative"
    if upsert.metadata_ttl > 0 and upsert.snapshot == "DISABLE":
        yield "upsertConfig.metadataTTL needs snapshots: set snapshot to ENABLE"
    if upsert.deleted_keys_ttl > 0 and upsert.delete_record_column is None:
        yield "upsertConfig.deletedKeysTTL needs a deleteRecordColumn"
    if upsert.enable_deleted_keys_compaction_consistency:
        tasks = subject.config.task.task_types if subject.config.task else {}
        for breach, what in (
            (upsert.metadata_ttl > 0, "excludes metadataTTL"),
            (upsert.preload == "ENABLE", "excludes preload ENABLE"),
            (upsert.deleted_keys_ttl <= 0, "needs deletedKeysTTL"),
            (upsert.snapshot == "DISABLE", "needs snapshots"),
            (
                not {"UpsertCompactionTask", "UpsertCompactMergeTask"} & set(tasks),
                "needs an UpsertCompactionTask or UpsertCompactMergeTask",
            ),
        ):
            if breach:
                yield f"upsertConfig.enableDeletedKeysCompactionConsistency {what}"


def _partial(subject: TableSubject) -> Iterator[str]:
    upsert = subject.config.active_upsert
    if upsert is None or upsert.mode != "PARTIAL":
        if upsert is not None and upsert.post_partial_upsert_transforms:
            yield "upsertConfig.postPartialUpsertTransformConfigs is for mode PARTIAL only"
        return
    schema, config = subject.schema, subject.config
    if not (schema.enable_column_based_null_handling or config.indexing.null_handling_enabled):
        yield "upsertConfig.mode PARTIAL needs nulls: set tableIndexConfig.nullHandlingEnabled"
    if upsert.partial_upsert_merger_class is not None and upsert.partial_upsert_strategies:
        yield "upsertConfig.partialUpsertMergerClass and partialUpsertStrategies exclude each other"
    default = upsert.default_partial_upsert_strategy.upper()
    if default not in _STRATEGIES:
        yield f"upsertConfig.defaultPartialUpsertStrategy is '{default}'; the strategies are {', '.join(_STRATEGIES)}"
    fixed = {*schema.primary_key_columns, *comparison_columns(subject)}
    problems: list[str] = []
    where = "upsertConfig.partialUpsertStrategies"
    for spec in known_columns(schema, upsert.partial_upsert_strategies, where, problems):
        yield from _strategy(spec, upsert.partial_upsert_strategies[spec.name], where, is_fixed=spec.name in fixed)
    yield from problems
    if default in ("INCREMENT", "APPEND", "UNION"):
        for spec in schema.stored_fields:
            if spec.name not in fixed and spec.name not in upsert.partial_upsert_strategies:
                yield from _strategy(spec, default, "upsertConfig.defaultPartialUpsertStrategy", is_fixed=False)
    yield from _transforms(subject, upsert, fixed)


def _strategy(spec: FieldSpec, strategy: str, where: str, *, is_fixed: bool) -> Iterator[str]:
    if is_fixed:
        yield f"{where}: '{spec.name}' is a primary-key or comparison column, which is not merged"
    elif strategy in ("APPEND", "UNION") and spec.single_value:
        yield f"{where}: {strategy} is for multi-value columns; '{spec.name}' is single-value"
    elif strategy == "INCREMENT" and (
        not spec.single_value or spec.data_type not in _SUMMED or spec.role in (FieldRole.DATE_TIME, FieldRole.TIME)
    ):
        yield f"{where}: INCREMENT is for single numbers other than times, which '{spec.name}' is not"
    elif strategy in ("MAX", "MIN") and not spec.single_value:
        yield f"{where}: {strategy} is for single-value columns; '{spec.name}' is multi-value"


def _transforms(subject: TableSubject, upsert: UpsertConfig, fixed: set[str]) -> Iterator[str]:
    where = "upsertConfig.postPartialUpsertTransformConfigs"
    targets = [transform.column_name for transform in upsert.post_partial_upsert_transforms]
    for name in duplicates(targets):
        yield f"{where} computes '{name}' more than once"
    special = {*fixed, upsert.delete_record_column, upsert.out_of_order_record_column}
    for transform in upsert.post_partial_upsert_transforms:
        name = transform.column_name
        missing = missing_column(subject.schema, name, where)
        if missing:
            yield missing
        if name in special:
            yield f"{where}: '{name}' is a primary-key, comparison, delete or out-of-order column, which cannot be computed"
        try:
            read = subject.columns_of(transform.transform_function) if subject.columns_of else ()
            volatile = subject.volatile_in(transform.transform_function) if subject.volatile_in else ()
        except GamayError as error:
            yield f"{where}: the transformFunction of '{name}' is not an expression: {error}"
            continue
        if volatile:
            yield (
                f"{where}: the transformFunction of '{name}' calls {', '.join(volatile)}, which returns a different value "
                "on every replica"
            )
        if name in read:
            yield f"{where}: the transformFunction of '{name}' reads '{name}' itself"
        for column in read:
            if column not in subject.schema:
                yield f"{where}: the transformFunction of '{name}' reads '{column}', which the schema does not have"


def _dedup_time(subject: TableSubject) -> Iterator[str]:
    dedup = subject.config.active_dedup
    if dedup is None:
        return
    name = dedup.dedup_time_column or subject.config.time_column
    if dedup.dedup_time_column is not None:
        missing = missing_column(subject.schema, dedup.dedup_time_column, "dedupConfig.dedupTimeColumn")
        if missing:
            yield missing
            return
    if dedup.metadata_ttl < 0:
        yield "dedupConfig.metadataTTL must not be negative"
    if dedup.metadata_ttl > 0 and (name is None or _type_of(subject, name) not in _COMPARED):
        yield f"dedupConfig.metadataTTL needs a numeric dedupTimeColumn or time column, which '{name}' is not"


def _dedup_tiers(subject: TableSubject) -> Iterator[str]:
    """Check tiers: segments move to tiers by age; those that have moved must not be needed to recognise a key again."""
    dedup, tiers, time = subject.config.active_dedup, subject.config.tiers, subject.config.time_column
    if dedup is None or dedup.metadata_ttl <= 0 or not tiers:
        return
    if dedup.dedup_time_column not in (None, time):
        yield (
            f"dedupConfig.dedupTimeColumn is '{dedup.dedup_time_column}'; with metadataTTL and tierConfigs it must be the "
            f"time column, '{time}'"
        )
    for tier in tiers:
        if tier.segment_selector_type != "time":
            yield f"dedupConfig.metadataTTL needs tiers that select segments by time; '{tier.name}' selects fixed ones"
    form = subject.schema.field(time).format if time is not None and time in subject.schema else None
    ages = list(_ages(tiers))
    if form is not None and form.kind is not DateTimeKind.SIMPLE_DATE_FORMAT and ages:
        ttl_ms = dedup.metadata_ttl * form.size * form.unit.value / TimeUnit.MILLISECONDS.value
        if ttl_ms >= min(ages):
            yield (
                f"dedupConfig.metadataTTL is {ttl_ms:.0f} ms; it must be below the smallest segmentAge of tierConfigs, "
                f"{min(ages)} ms"
            )


def _ages(tiers: Sequence[TierConfig]) -> Iterator[int]:
    for tier in tiers:
        try:
            yield parse_period(tier.segment_age or "")
        except InvalidConfigError:
            continue  # the rule of tiers reports it


UPSERT_RULES: tuple[TableRule, ...] = (
    _tables_with_keys,
    _offline,
    _comparison,
    _columns,
    _modes,
    _partial,
    _dedup_time,
    _dedup_tiers,
)
