"""The small sections of a table config: retention, tenants, routing, query limits, quota, tiers, assignment."""

from collections.abc import Mapping
from dataclasses import dataclass

from gamay.model.parse import (
    EMPTY_MAP,
    FLAG,
    INTEGER,
    INTEGER_TEXT,
    REQUIRED,
    TEXT,
    TEXT_MAP,
    choice,
    key,
    list_of,
    map_of,
    section,
)

DEFAULT_TENANT = "DefaultTenant"
"""The tenant of tables that name none."""
BALANCED_STRATEGY, REPLICA_GROUP_STRATEGY = "BalanceNumSegmentAssignmentStrategy", "ReplicaGroupSegmentAssignmentStrategy"
"""The valid values of the older `segmentAssignmentStrategy`."""
ROUTING_TABLE_BUILDERS = (
    "DefaultOffline", "DefaultRealtime", "BalancedRandom", "LargeCluster", "KafkaLowLevel", "KafkaHighLevel",
    "PartitionAwareOffline", "PartitionAwareRealtime",
)  # fmt: skip
"""The valid values of the older `routingTableBuilderName`; the first five are equivalent to its absence."""


@dataclass(frozen=True)
class CompletionConfig:
    """How replicas that do not commit get a completed segment."""

    completion_mode: str = key("completionMode", choice("DEFAULT", "DOWNLOAD"), "DEFAULT")


@dataclass(frozen=True)
class ReplicaGroupStrategyConfig:
    """The older form of replica groups, with `segmentAssignmentStrategy` ReplicaGroupSegmentAssignmentStrategy.

    num_instances_per_partition: in each replica group; without a partition_column, the size of a replica group.
    """

    partition_column: str | None = key("partitionColumn", TEXT)
    num_instances_per_partition: int = key("numInstancesPerPartition", INTEGER, 0)


@dataclass(frozen=True)
class SegmentsConfig:
    """`segmentsConfig`: time column, replicas, retention. Units and periods are kept as text, which validation checks."""

    time_column_name: str | None = key("timeColumnName", TEXT)
    time_type: str | None = key("timeType", TEXT)
    replication: int | None = key("replication", INTEGER_TEXT)
    replicas_per_partition: int | None = key("replicasPerPartition", INTEGER_TEXT)
    retention_time_unit: str | None = key("retentionTimeUnit", TEXT)
    retention_time_value: str | None = key("retentionTimeValue", TEXT)
    deleted_segments_retention_period: str | None = key("deletedSegmentsRetentionPeriod", TEXT)
    replaced_segments_retention_period: str | None = key("replacedSegmentsRetentionPeriod", TEXT)
    lineage_entry_cleanup_retention_period: str | None = key("lineageEntryCleanupRetentionPeriod", TEXT)
    untracked_segments_retention_time_unit: str | None = key("untrackedSegmentsRetentionTimeUnit", TEXT)
    untracked_segments_retention_time_value: str | None = key("untrackedSegmentsRetentionTimeValue", TEXT)
    untracked_segments_deletion_batch_size: int | None = key("untrackedSegmentsDeletionBatchSize", INTEGER_TEXT)
    segment_push_type: str | None = key("segmentPushType", choice("APPEND", "REFRESH"))
    segment_push_frequency: str | None = key("segmentPushFrequency", TEXT, aliases=["pushFrequency"])
    segment_assignment_strategy: str | None = key("segmentAssignmentStrategy", TEXT)
    peer_segment_download_scheme: str | None = key("peerSegmentDownloadScheme", TEXT)
    completion_config: CompletionConfig | None = key("completionConfig", section(CompletionConfig))
    crypter_class_name: str | None = key("crypterClassName", TEXT)
    replica_group_strategy: ReplicaGroupStrategyConfig | None = key(
        "replicaGroupStrategyConfig", section(ReplicaGroupStrategyConfig)
    )
    minimize_data_movement: bool | None = key("minimizeDataMovement", FLAG)

    @property
    def asks_for_replica_groups(self) -> bool:
        """Whether segments are assigned by `replicaGroupStrategyConfig`, which OFFLINE tables support."""
        return (self.segment_assignment_strategy or "").lower() == REPLICA_GROUP_STRATEGY.lower()


@dataclass(frozen=True)
class TagOverrideConfig:
    """Server tags for consuming and completed segments, if they differ from the tenant's."""

    realtime_consuming: str | None = key("realtimeConsuming", TEXT)
    realtime_completed: str | None = key("realtimeCompleted", TEXT)


@dataclass(frozen=True)
class TenantsConfig:
    """`tenants`: the tenants of the table's brokers and servers."""

    broker: str = key("broker", TEXT, DEFAULT_TENANT)
    server: str = key("server", TEXT, DEFAULT_TENANT)
    tag_override: TagOverrideConfig | None = key("tagOverrideConfig", section(TagOverrideConfig))


@dataclass(frozen=True)
class RoutingConfig:
    """`routing`: how a broker chooses segments and servers.

    segment_pruner_types: the criteria of segment pruning; None allows all, an empty list none.
    """

    routing_table_builder_name: str | None = key("routingTableBuilderName", TEXT)
    segment_pruner_types: tuple[str, ...] | None = key("segmentPrunerTypes", list_of(choice("partition", "time", "empty")))
    instance_selector_type: str | None = key(
        "instanceSelectorType", choice("balanced", "replicaGroup", "strictReplicaGroup", "multiStageReplicaGroup")
    )
    use_fixed_replica: bool | None = key("useFixedReplica", FLAG)


@dataclass(frozen=True)
class QueryConfig:
    """`query`: limits of the table's queries; None for the cluster's limit."""

    timeout_ms: int | None = key("timeoutMs", INTEGER)
    disable_groovy: bool | None = key("disableGroovy", FLAG)
    use_approximate_function: bool | None = key("useApproximateFunction", FLAG)
    expression_override_map: Mapping[str, str] = key("expressionOverrideMap", TEXT_MAP, EMPTY_MAP)
    max_query_response_size_bytes: int | None = key("maxQueryResponseSizeBytes", INTEGER)
    max_server_response_size_bytes: int | None = key("maxServerResponseSizeBytes", INTEGER)
    max_query_memory_bytes: int | None = key("maxQueryMemoryBytes", INTEGER)
    max_entries_scanned_in_filter: int | None = key("maxEntriesScannedInFilter", INTEGER)
    max_docs_scanned: int | None = key("maxDocsScanned", INTEGER)
    max_entries_scanned_post_filter: int | None = key("maxEntriesScannedPostFilter", INTEGER)
    scan_killing_mode: str | None = key("scanKillingMode", choice("disabled", "logOnly", "enforce"))
    num_groups_limit: int | None = key("numGroupsLimit", INTEGER)
    num_groups_warning_limit: int | None = key("numGroupsWarningLimit", INTEGER)
    min_segment_group_trim_size: int | None = key("minSegmentGroupTrimSize", INTEGER)
    min_server_group_trim_size: int | None = key("minServerGroupTrimSize", INTEGER)
    min_broker_group_trim_size: int | None = key("minBrokerGroupTrimSize", INTEGER)
    group_trim_threshold: int | None = key("groupTrimThreshold", INTEGER)

    @property
    def group_limits(self) -> Mapping[str, int | None]:
        """The limits on groups, by the query options of the same names."""
        return {
            "numGroupsLimit": self.num_groups_limit,
            "numGroupsWarningLimit": self.num_groups_warning_limit,
            "minSegmentGroupTrimSize": self.min_segment_group_trim_size,
            "minServerGroupTrimSize": self.min_server_group_trim_size,
            "minBrokerGroupTrimSize": self.min_broker_group_trim_size,
            "groupTrimThreshold": self.group_trim_threshold,
        }


@dataclass(frozen=True)
class QuotaConfig:
    """`quota`: storage (a data size) and queries a second (a number as text)."""

    storage: str | None = key("storage", TEXT)
    max_queries_per_second: str | None = key("maxQueriesPerSecond", TEXT)


@dataclass(frozen=True)
class TaskConfig:
    """`task`: maintenance tasks by type."""

    task_types: Mapping[str, Mapping[str, str]] = key("taskTypeConfigsMap", map_of(TEXT_MAP), EMPTY_MAP, always=True)
    concurrent_scheduling_enabled: bool | None = key("concurrentSchedulingEnabled", FLAG)


@dataclass(frozen=True)
class TierConfig:
    """One storage tier: which segments are stored where."""

    name: str = key("name", TEXT, REQUIRED)
    segment_selector_type: str = key("segmentSelectorType", choice("time", "fixed"), REQUIRED)
    storage_type: str = key("storageType", choice("pinot_server"), REQUIRED)
    segment_age: str | None = key("segmentAge", TEXT)
    segment_list: tuple[str, ...] = key("segmentList", list_of(TEXT), ())
    server_tag: str | None = key("serverTag", TEXT)
    tier_backend: str | None = key("tierBackend", TEXT)
    tier_backend_properties: Mapping[str, str] = key("tierBackendProperties", TEXT_MAP, EMPTY_MAP)


@dataclass(frozen=True)
class NamedProperties:
    """An entry of `tunerConfigs` or `tableSamplers`."""

    name: str = key("name", TEXT, REQUIRED)
    type: str | None = key("type", TEXT)
    properties: Mapping[str, str] = key("properties", TEXT_MAP, EMPTY_MAP)


@dataclass(frozen=True)
class MetadataConfig:
    """`metadata`: free-form remarks."""

    custom_configs: Mapping[str, str] = key("customConfigs", TEXT_MAP, EMPTY_MAP, always=True)


@dataclass(frozen=True)
class DimensionTableConfig:
    """`dimensionTableConfig`: how a dimension table is held in memory."""

    disable_preload: bool = key("disablePreload", FLAG, False)
    error_on_duplicate_primary_key: bool = key("errorOnDuplicatePrimaryKey", FLAG, False)


# --- which instances, which segments -------------------------------------------------------------------------------


@dataclass(frozen=True)
class TagPoolConfig:
    """The instances that may be selected."""

    tag: str = key("tag", TEXT, REQUIRED)
    pool_based: bool = key("poolBased", FLAG, False)
    num_pools: int = key("numPools", INTEGER, 0)
    pools: tuple[int, ...] = key("pools", list_of(INTEGER), ())


@dataclass(frozen=True)
class ReplicaGroupPartitionConfig:
    """How the selected instances are divided; 0 means as many as exist."""

    replica_group_based: bool = key("replicaGroupBased", FLAG, False)
    num_instances: int = key("numInstances", INTEGER, 0)
    num_replica_groups: int = key("numReplicaGroups", INTEGER, 0)
    num_instances_per_replica_group: int = key("numInstancesPerReplicaGroup", INTEGER, 0)
    num_partitions: int = key("numPartitions", INTEGER, 0)
    num_instances_per_partition: int = key("numInstancesPerPartition", INTEGER, 0)
    partition_column: str | None = key("partitionColumn", TEXT)
    minimize_data_movement: bool = key("minimizeDataMovement", FLAG, False)


@dataclass(frozen=True)
class ConstraintConfig:
    """Further conditions on the selection of instances."""

    constraints: tuple[str, ...] = key("constraints", list_of(TEXT), ())


@dataclass(frozen=True)
class InstanceAssignmentConfig:
    """How instances are selected for segments of one kind (OFFLINE, CONSUMING, COMPLETED, or a tier)."""

    tag_pool: TagPoolConfig = key("tagPoolConfig", section(TagPoolConfig), REQUIRED)
    replica_group_partition: ReplicaGroupPartitionConfig = key(
        "replicaGroupPartitionConfig", section(ReplicaGroupPartitionConfig), REQUIRED
    )
    constraint: ConstraintConfig | None = key("constraintConfig", section(ConstraintConfig))
    partition_selector: str = key(
        "partitionSelector",
        choice(
            "INSTANCE_REPLICA_GROUP_PARTITION_SELECTOR",
            "FD_AWARE_INSTANCE_PARTITION_SELECTOR",
            "MIRROR_SERVER_SET_PARTITION_SELECTOR",
            "IMPLICIT_REALTIME_TABLE_PARTITION_SELECTOR",
        ),
        "INSTANCE_REPLICA_GROUP_PARTITION_SELECTOR",
    )
    minimize_data_movement: bool = key("minimizeDataMovement", FLAG, False)


@dataclass(frozen=True)
class SegmentAssignmentConfig:
    """How segments are assigned to the selected instances."""

    strategy: str | None = key(
        "segmentAssignmentStrategy",
        choice("balanced", "roundrobin", "replicagroup", "roundrobinreplicagroup", "allservers"),
    )
