"""Rules for table configs, apart from ingestion and indexes; each yields a sentence for every violation."""

import math
from collections.abc import Iterator

from gamay.base.errors import nearest
from gamay.model.rules.subject import TableRule, TableSubject, complaint, duplicates, missing_column
from gamay.model.table.sections import (
    REPLICA_GROUP_STRATEGY,
    ROUTING_TABLE_BUILDERS,
    ReplicaGroupPartitionConfig,
    TierConfig,
)
from gamay.model.table.table_name import TableType, name_problems
from gamay.model.types import FieldRole
from gamay.model.units import TimeUnit, parse_data_size, parse_period

_IMPLICIT = "IMPLICIT_REALTIME_TABLE_PARTITION_SELECTOR"
_INSTANCE_KINDS = ("OFFLINE", "CONSUMING", "COMPLETED")


def _names(subject: TableSubject) -> Iterator[str]:
    config, schema = subject.config, subject.schema
    yield from name_problems(config.raw_name)
    if config.table_type is TableType.REALTIME and config.raw_name.endswith("_"):
        yield f"the table name '{config.raw_name}' ends with '_', which would merge with the following '__' in segment names"
    if schema.name != config.raw_name:
        yield f"the schema is named '{schema.name}'; the schema of table '{config.raw_name}' must have the table's name"


def _time_column(subject: TableSubject) -> Iterator[str]:
    config, schema = subject.config, subject.schema
    name = config.time_column
    if name is None:
        if config.table_type is TableType.REALTIME:
            primary = next((f.name for f in schema.fields if f.date_time_type == "PRIMARY"), None)
            hint = f", such as '{primary}', the schema's PRIMARY date-time column" if primary else ""
            yield f"segmentsConfig.timeColumnName is missing; a REALTIME table needs one{hint}"
        return
    missing = missing_column(schema, name, "segmentsConfig.timeColumnName")
    if missing:
        yield missing
    elif schema.field(name).role not in (FieldRole.DATE_TIME, FieldRole.TIME):
        times = [f.name for f in schema.fields if f.role in (FieldRole.DATE_TIME, FieldRole.TIME)]
        yield (
            f"segmentsConfig.timeColumnName is '{name}', a {schema.field(name).role.value} column; it must be a "
            "date-time column "
            f"({', '.join(times) or 'the schema has none'})"
        )


def _replication(subject: TableSubject) -> Iterator[str]:
    segments = subject.config.segments
    for key, count in (("replication", segments.replication), ("replicasPerPartition", segments.replicas_per_partition)):
        if count is not None and count < 1:
            yield f"segmentsConfig.{key} is {count}; it must be at least 1"
    scheme = segments.peer_segment_download_scheme
    if scheme is None:
        return
    if scheme.lower() not in ("http", "https"):
        yield f"segmentsConfig.peerSegmentDownloadScheme is '{scheme}'; it must be http or https"
    if subject.config.replication < 2:
        yield "segmentsConfig.peerSegmentDownloadScheme needs a replication of at least 2: with one replica there is no peer"


def _positive(text: str, where: str) -> Iterator[str]:
    if not (text.strip().isascii() and text.strip().isdigit() and int(text) > 0):
        yield f"{where} is '{text}'; it must be a whole number above 0"


def _retention(subject: TableSubject) -> Iterator[str]:
    segments = subject.config.segments
    if segments.retention_time_unit is not None:
        yield from complaint(lambda: TimeUnit.parse(segments.retention_time_unit or ""), "segmentsConfig.retentionTimeUnit")
    if segments.retention_time_value is not None:
        yield from _positive(segments.retention_time_value, "segmentsConfig.retentionTimeValue")
    for key, period in (
        ("deletedSegmentsRetentionPeriod", segments.deleted_segments_retention_period),
        ("replacedSegmentsRetentionPeriod", segments.replaced_segments_retention_period),
        ("lineageEntryCleanupRetentionPeriod", segments.lineage_entry_cleanup_retention_period),
    ):
        if period is not None:
            yield from complaint(lambda text=period: parse_period(text), f"segmentsConfig.{key}")  # type: ignore[misc]
    unit, value = segments.untracked_segments_retention_time_unit, segments.untracked_segments_retention_time_value
    if (unit is None) != (value is None):
        yield "segmentsConfig.untrackedSegmentsRetentionTimeUnit and ...TimeValue belong together; give both or neither"
    if unit is not None:
        yield from complaint(lambda: TimeUnit.parse(unit), "segmentsConfig.untrackedSegmentsRetentionTimeUnit")
    if value is not None:
        yield from _positive(value, "segmentsConfig.untrackedSegmentsRetentionTimeValue")
    if segments.untracked_segments_deletion_batch_size is not None and segments.untracked_segments_deletion_batch_size < 1:
        yield "segmentsConfig.untrackedSegmentsDeletionBatchSize must be at least 1"


def _dimension_table(subject: TableSubject) -> Iterator[str]:
    config = subject.config
    if not config.is_dim_table:
        return
    if config.table_type is not TableType.OFFLINE:
        yield "isDimTable is true; a dimension table must be an OFFLINE table"
    elif not config.replaces_all:
        yield (
            "isDimTable is true; ingestionConfig.batchIngestionConfig.segmentIngestionType (of old: "
            "segmentsConfig.segmentPushType) must be REFRESH, or not be given"
        )
    if not subject.schema.primary_key_columns:
        yield "isDimTable is true; the schema of a dimension table needs primaryKeyColumns"
    assignment = config.segment_assignment.get("OFFLINE")
    if assignment is not None and assignment.strategy not in (None, "allservers"):
        yield f"isDimTable is true; the OFFLINE segmentAssignmentStrategy '{assignment.strategy}' must be allservers"


def _materialized_view(subject: TableSubject) -> Iterator[str]:
    config = subject.config
    if not config.is_materialized_view:
        return
    if config.table_type is not TableType.OFFLINE:
        yield "isMaterializedView is true; a materialized view must be an OFFLINE table"
    task = config.task.task_types.get("MaterializedViewTask", {}) if config.task else {}
    if not task.get("definedSQL", "").strip():
        yield "isMaterializedView is true; task.taskTypeConfigsMap.MaterializedViewTask needs a definedSQL"


def _quota(subject: TableSubject) -> Iterator[str]:
    quota = subject.config.quota
    if quota.storage is not None:
        yield from complaint(lambda: parse_data_size(quota.storage or ""), "quota.storage")
    if quota.max_queries_per_second is not None:
        try:
            rate = float(quota.max_queries_per_second)
        except ValueError:
            rate = math.nan
        if not (math.isfinite(rate) and rate > 0):
            yield f"quota.maxQueriesPerSecond is '{quota.max_queries_per_second}'; it must be a number above 0"


def _query_limits(subject: TableSubject) -> Iterator[str]:
    query = subject.config.query
    for key, limit in (
        ("timeoutMs", query.timeout_ms),
        ("maxQueryResponseSizeBytes", query.max_query_response_size_bytes),
        ("maxServerResponseSizeBytes", query.max_server_response_size_bytes),
        ("maxEntriesScannedInFilter", query.max_entries_scanned_in_filter),
        ("maxQueryMemoryBytes", query.max_query_memory_bytes),
        ("maxDocsScanned", query.max_docs_scanned),
        ("maxEntriesScannedPostFilter", query.max_entries_scanned_post_filter),
        ("numGroupsLimit", query.num_groups_limit),
        ("numGroupsWarningLimit", query.num_groups_warning_limit),
    ):
        if limit is not None and limit <= 0:
            yield f"query.{key} is {limit}; it must be above 0"


def _tenants(subject: TableSubject) -> Iterator[str]:
    override = subject.config.tenants.tag_override
    if override is None:
        return
    for key, tag in (("realtimeConsuming", override.realtime_consuming), ("realtimeCompleted", override.realtime_completed)):
        if tag is not None and not tag.endswith(("_OFFLINE", "_REALTIME")):
            yield f"tenants.tagOverrideConfig.{key} is '{tag}'; it must be a server tag that ends in _OFFLINE or _REALTIME"


def _tiers(subject: TableSubject) -> Iterator[str]:
    for name in duplicates(tier.name for tier in subject.config.tiers):
        yield f"tierConfigs has the name '{name}' more than once"
    for tier in subject.config.tiers:
        yield from _tier(tier)


def _tier(tier: TierConfig) -> Iterator[str]:
    if tier.segment_selector_type == "time":
        if tier.segment_age is None:
            yield f"the tier '{tier.name}' selects segments by time and needs a segmentAge, such as 30d"
        else:
            yield from complaint(lambda: parse_period(tier.segment_age or ""), f"segmentAge of the tier '{tier.name}'")
    elif not tier.segment_list:
        yield f"the tier '{tier.name}' selects fixed segments and needs a segmentList"
    if tier.server_tag is None or not tier.server_tag.endswith(("_OFFLINE", "_REALTIME")):
        yield f"the tier '{tier.name}' needs a serverTag that ends in _OFFLINE or _REALTIME, not '{tier.server_tag}'"


def _assignment(subject: TableSubject) -> Iterator[str]:
    config = subject.config
    kinds = (*_INSTANCE_KINDS, *(tier.name for tier in config.tiers))
    for section, given, accepted in (
        ("instanceAssignmentConfigMap", config.instance_assignment, kinds),
        ("segmentAssignmentConfigMap", config.segment_assignment, kinds),
        ("instancePartitionsMap", config.instance_partitions, _INSTANCE_KINDS),
    ):
        for kind in given:
            if kind not in accepted:
                yield f"{section} has the key '{kind}'; the keys are {', '.join(accepted)}.{nearest(kind, accepted)}"
    for kind, assignment in config.instance_assignment.items():
        mirrored = assignment.partition_selector == "MIRROR_SERVER_SET_PARTITION_SELECTOR"
        if mirrored != (kind in config.instance_partitions) and (mirrored or kind in config.instance_partitions):
            yield (
                f"instancePartitionsMap and instanceAssignmentConfigMap of {kind}: "
                + ("MIRROR_SERVER_SET_PARTITION_SELECTOR needs both" if mirrored else "give only one of them")
            )
        if assignment.partition_selector == _IMPLICIT:
            yield from _implicit_partitions(config.table_type, kind, assignment.replica_group_partition)
    yield from _replica_group_strategy(subject)


def _replica_group_strategy(subject: TableSubject) -> Iterator[str]:
    config = subject.config
    strategy = config.segments.replica_group_strategy
    if strategy is None:
        if config.segments.asks_for_replica_groups and config.table_type is TableType.OFFLINE:
            yield (
                f"segmentsConfig.segmentAssignmentStrategy {REPLICA_GROUP_STRATEGY} needs replicaGroupStrategyConfig, or "
                "give instanceAssignmentConfigMap instead"
            )
        return
    if strategy.num_instances_per_partition < 1:
        yield "segmentsConfig.replicaGroupStrategyConfig.numInstancesPerPartition must be at least 1"
    if config.instance_assignment:
        yield "segmentsConfig.replicaGroupStrategyConfig and instanceAssignmentConfigMap exclude each other; keep the latter"
    if strategy.partition_column is not None:
        where = "segmentsConfig.replicaGroupStrategyConfig.partitionColumn"
        yield from filter(None, [missing_column(subject.schema, strategy.partition_column, where)])
        partitioned = config.indexing.segment_partition
        if config.segments.asks_for_replica_groups and (
            partitioned is None or strategy.partition_column not in partitioned.columns
        ):
            yield f"{where} '{strategy.partition_column}' is not a column of tableIndexConfig.segmentPartitionConfig"


def _implicit_partitions(table_type: TableType, kind: str, wanted: ReplicaGroupPartitionConfig) -> Iterator[str]:
    """Check partitions that are those of the stream: there must be one, and no other setting may define their number."""
    where = f"instanceAssignmentConfigMap.{kind}: {_IMPLICIT}"
    if table_type is not TableType.REALTIME or kind != "CONSUMING":
        yield f"{where} is for CONSUMING of REALTIME tables only"
    if not wanted.replica_group_based:
        yield f"{where} needs replicaGroupBased: true"
    if wanted.num_partitions != 0:
        yield f"{where} uses the partitions of the stream; remove numPartitions"
    if wanted.num_instances_per_partition not in (0, 1):
        yield f"{where} has one instance per partition; remove numInstancesPerPartition"


def _routing(subject: TableSubject) -> Iterator[str]:
    name = subject.config.routing.routing_table_builder_name
    if name is not None and name not in ROUTING_TABLE_BUILDERS:
        known = ", ".join(ROUTING_TABLE_BUILDERS)
        yield (
            f"routing.routingTableBuilderName is '{name}'; known are {known}.{nearest(name, ROUTING_TABLE_BUILDERS)} "
            "Leave it out and give instanceSelectorType"
        )


def _encryption(subject: TableSubject) -> Iterator[str]:
    if subject.config.segments.crypter_class_name is not None:
        yield "segmentsConfig.crypterClassName: encryption of segment files is not supported; remove the key"


TABLE_RULES: tuple[TableRule, ...] = (
    _names,
    _time_column,
    _replication,
    _retention,
    _assignment,
    _dimension_table,
    _materialized_view,
    _quota,
    _query_limits,
    _tenants,
    _tiers,
    _routing,
    _encryption,
)
