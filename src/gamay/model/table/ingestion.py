"""`ingestionConfig`, `upsertConfig` and `dedupConfig`: from input records to rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gamay.model.parse import (
    EMPTY_MAP,
    FLAG,
    INTEGER,
    NUMBER,
    OBJECT,
    REQUIRED,
    TEXT,
    TEXT_MAP,
    VERBATIM,
    choice,
    key,
    list_of,
    map_of,
    section,
)

ENABLEMENT = choice("ENABLE", "DISABLE", "DEFAULT")  # DEFAULT: that of the instance


@dataclass(frozen=True)
class BatchIngestionConfig:
    """`batchIngestionConfig`: how files become segments.

    The default of `segmentIngestionType` is APPEND, for dimension tables REFRESH.
    """

    segment_ingestion_type: str | None = key("segmentIngestionType", choice("APPEND", "REFRESH"))
    segment_ingestion_frequency: str | None = key("segmentIngestionFrequency", choice("HOURLY", "DAILY"))
    consistent_data_push: bool = key("consistentDataPush", FLAG, False)
    batch_config_maps: tuple[Mapping[str, str], ...] = key("batchConfigMaps", list_of(TEXT_MAP), ())


@dataclass(frozen=True)
class StreamIngestionConfig:
    """`streamIngestionConfig`: one map of stream properties for each topic, and settings of consumption."""

    stream_config_maps: tuple[Mapping[str, str], ...] = key("streamConfigMaps", list_of(TEXT_MAP), ())
    column_major_segment_builder_enabled: bool = key("columnMajorSegmentBuilderEnabled", FLAG, True)
    track_filtered_message_offsets: bool = key("trackFilteredMessageOffsets", FLAG, False)
    pauseless_consumption_enabled: bool = key("pauselessConsumptionEnabled", FLAG, False)
    enforce_consumption_in_order: bool = key("enforceConsumptionInOrder", FLAG, False)
    use_ideal_state_to_calculate_previous_segment: bool = key("useIdealStateToCalculatePreviousSegment", FLAG, False)
    parallel_segment_consumption_policy: str | None = key(
        "parallelSegmentConsumptionPolicy",
        choice("ALLOW_ALWAYS", "ALLOW_DURING_BUILD_ONLY", "ALLOW_DURING_DOWNLOAD_ONLY", "DISALLOW_ALWAYS"),
    )
    disaster_recovery_mode: str = key("disasterRecoveryMode", choice("DEFAULT", "ALWAYS"), "DEFAULT")
    realtime_offset_auto_reset_handler_class: str | None = key("realtimeOffsetAutoResetHandlerClass", TEXT)
    drop_record_on_partition_mismatch: bool = key("dropRecordOnPartitionMismatch", FLAG, False)
    oom_protection: str = key("oomProtection", ENABLEMENT, "DEFAULT")


@dataclass(frozen=True)
class SourceFieldConfig:
    """The type of an input field, if its file does not declare it."""

    name: str = key("name", TEXT, REQUIRED)
    data_type: str = key("dataType", TEXT, REQUIRED)
    pre_complex_type_transform: bool = key("preComplexTypeTransform", FLAG, False)


@dataclass(frozen=True)
class FilterConfig:
    """Rows for which the expression is true are dropped."""

    filter_function: str | None = key("filterFunction", TEXT)


@dataclass(frozen=True)
class EnrichmentConfig:
    """Columns derived from others before the transforms."""

    enricher_type: str = key("enricherType", TEXT, REQUIRED)
    properties: Any = key("properties", VERBATIM)
    pre_complex_type_transform: bool = key("preComplexTypeTransform", FLAG, False)


@dataclass(frozen=True)
class TransformConfig:
    """A column and the expression that computes it if the input has no value."""

    column_name: str = key("columnName", TEXT, REQUIRED)
    transform_function: str = key("transformFunction", TEXT, REQUIRED)


@dataclass(frozen=True)
class ComplexTypeConfig:
    """How nested input is flattened."""

    fields_to_unnest: tuple[str, ...] = key("fieldsToUnnest", list_of(TEXT), ())
    delimiter: str = key("delimiter", TEXT, ".")
    collection_not_unnested_to_json: str = key(
        "collectionNotUnnestedToJson", choice("NONE", "NON_PRIMITIVE", "ALL"), "NON_PRIMITIVE"
    )
    prefixes_to_rename: Mapping[str, str] = key("prefixesToRename", TEXT_MAP, EMPTY_MAP)


@dataclass(frozen=True)
class AggregationConfig:
    """A metric that is aggregated while a segment consumes."""

    column_name: str = key("columnName", TEXT, REQUIRED)
    aggregation_function: str = key("aggregationFunction", TEXT, REQUIRED)


@dataclass(frozen=True)
class IngestionConfig:
    """`ingestionConfig`: from input record to row."""

    batch: BatchIngestionConfig | None = key("batchIngestionConfig", section(BatchIngestionConfig))
    stream: StreamIngestionConfig | None = key("streamIngestionConfig", section(StreamIngestionConfig))
    source_fields: tuple[SourceFieldConfig, ...] = key("sourceFieldConfigs", list_of(section(SourceFieldConfig)), ())
    filter: FilterConfig | None = key("filterConfig", section(FilterConfig))
    enrichments: tuple[EnrichmentConfig, ...] = key("enrichmentConfigs", list_of(section(EnrichmentConfig)), ())
    transforms: tuple[TransformConfig, ...] = key("transformConfigs", list_of(section(TransformConfig)), ())
    complex_type: ComplexTypeConfig | None = key("complexTypeConfig", section(ComplexTypeConfig))
    schema_conforming_transformer: Mapping[str, Any] | None = key(
        "schemaConformingTransformerConfig", OBJECT, aliases=["schemaConformingTransformerV2Config"]
    )
    aggregations: tuple[AggregationConfig, ...] = key("aggregationConfigs", list_of(section(AggregationConfig)), ())
    continue_on_error: bool = key("continueOnError", FLAG, False)
    max_consecutive_record_fetch_failures_allowed: int = key("maxConsecutiveRecordFetchFailuresAllowed", INTEGER, 0)
    retry_on_segment_build_precheck_failure: bool = key("retryOnSegmentBuildPrecheckFailure", FLAG, False)
    row_time_value_check: bool = key("rowTimeValueCheck", FLAG, False)
    segment_time_value_check: bool = key("segmentTimeValueCheck", FLAG, True)
    ingestion_exception_log_rate_limit_per_min: int = key("ingestionExceptionLogRateLimitPerMin", INTEGER, 5)

    @property
    def filter_function(self) -> str | None:
        """The text of the expression whose true rows are dropped."""
        return self.filter.filter_function if self.filter else None


# --- upsert and deduplication -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UpsertConfig:
    """`upsertConfig`: the latest row of each primary key wins."""

    mode: str = key("mode", choice("FULL", "PARTIAL", "NONE"), "FULL")
    hash_function: str = key("hashFunction", choice("NONE", "MD5", "MURMUR3", "UUID", "XXHASH", "XXH128"), "NONE")
    comparison_columns: tuple[str, ...] = key("comparisonColumns", list_of(TEXT), ())
    comparison_column: str | None = key("comparisonColumn", TEXT)
    partial_upsert_strategies: Mapping[str, str] = key(
        "partialUpsertStrategies",
        map_of(choice("OVERWRITE", "IGNORE", "INCREMENT", "APPEND", "UNION", "MAX", "MIN", "FORCE_OVERWRITE")),
        EMPTY_MAP,
    )
    default_partial_upsert_strategy: str = key("defaultPartialUpsertStrategy", TEXT, "OVERWRITE")
    partial_upsert_merger_class: str | None = key("partialUpsertMergerClass", TEXT)
    post_partial_upsert_transforms: tuple[TransformConfig, ...] = key(
        "postPartialUpsertTransformConfigs", list_of(section(TransformConfig)), ()
    )
    delete_record_column: str | None = key("deleteRecordColumn", TEXT)
    drop_out_of_order_record: bool = key("dropOutOfOrderRecord", FLAG, False)
    out_of_order_record_column: str | None = key("outOfOrderRecordColumn", TEXT)
    snapshot: str = key("snapshot", ENABLEMENT, "DEFAULT")
    enable_snapshot: bool | None = key("enableSnapshot", FLAG)
    preload: str = key("preload", ENABLEMENT, "DEFAULT")
    enable_preload: bool | None = key("enablePreload", FLAG)
    metadata_ttl: float = key("metadataTTL", NUMBER, 0)
    is_skip_late_event: bool = key("isSkipLateEvent", FLAG, False, aliases=["isSkipLateEvents"])
    ttl_unit: str | None = key("TtlUnit", TEXT)
    ttl_value: float | None = key("TtlValue", NUMBER)
    deleted_keys_ttl: float = key("deletedKeysTTL", NUMBER, 0)
    enable_deleted_keys_compaction_consistency: bool = key("enableDeletedKeysCompactionConsistency", FLAG, False)
    enable_commit_time_compaction: bool = key("enableCommitTimeCompaction", FLAG, False)
    consistency_mode: str = key("consistencyMode", choice("NONE", "SYNC", "SNAPSHOT"), "NONE")
    upsert_view_refresh_interval_ms: int = key("upsertViewRefreshIntervalMs", INTEGER, 3000)
    new_segment_tracking_time_ms: int = key("newSegmentTrackingTimeMs", INTEGER, 10000)
    metadata_manager_class: str | None = key("metadataManagerClass", TEXT)
    metadata_manager_configs: Mapping[str, str] = key("metadataManagerConfigs", TEXT_MAP, EMPTY_MAP)
    allow_partial_upsert_consumption_during_commit: bool = key("allowPartialUpsertConsumptionDuringCommit", FLAG, False)


@dataclass(frozen=True)
class DedupConfig:
    """`dedupConfig`: the first row of each primary key wins."""

    dedup_enabled: bool = key("dedupEnabled", FLAG, True)
    hash_function: str = key("hashFunction", choice("NONE", "MD5", "MURMUR3", "UUID", "XXHASH", "XXH128"), "NONE")
    metadata_ttl: float = key("metadataTTL", NUMBER, 0)
    dedup_time_column: str | None = key("dedupTimeColumn", TEXT)
    preload: str = key("preload", ENABLEMENT, "DEFAULT")
    enable_preload: bool | None = key("enablePreload", FLAG)
    ignore_non_default_tiers: str = key("ignoreNonDefaultTiers", ENABLEMENT, "DEFAULT")
    metadata_manager_class: str | None = key("metadataManagerClass", TEXT)
    metadata_manager_configs: Mapping[str, str] = key("metadataManagerConfigs", TEXT_MAP, EMPTY_MAP)
    allow_dedup_consumption_during_commit: bool = key("allowDedupConsumptionDuringCommit", FLAG, False)
