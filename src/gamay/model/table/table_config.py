"""The declarations about one table, beyond its columns."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gamay.base.errors import InvalidConfigError
from gamay.model.index.column_index import ColumnIndexConfig, column_index
from gamay.model.index.indexing import BloomConfig, FieldConfig, IndexingConfig, PartitionConfig, SegmentPartitionConfig
from gamay.model.index.timestamp_index import TimestampColumn, timestamp_columns
from gamay.model.parse import (
    EMPTY_MAP,
    FLAG,
    REQUIRED,
    TEXT,
    TEXT_MAP,
    Parsed,
    key,
    list_of,
    map_of,
    member,
    read_document,
    section,
    write_section,
)
from gamay.model.schema.schema import FieldSpec, Schema
from gamay.model.table.ingestion import (
    BatchIngestionConfig,
    ComplexTypeConfig,
    DedupConfig,
    FilterConfig,
    IngestionConfig,
    StreamIngestionConfig,
    TransformConfig,
    UpsertConfig,
)
from gamay.model.table.sections import (
    DimensionTableConfig,
    InstanceAssignmentConfig,
    MetadataConfig,
    NamedProperties,
    QueryConfig,
    QuotaConfig,
    ReplicaGroupPartitionConfig,
    RoutingConfig,
    SegmentAssignmentConfig,
    SegmentsConfig,
    TagPoolConfig,
    TaskConfig,
    TenantsConfig,
    TierConfig,
)
from gamay.model.table.table_name import TableType, raw_table_name, typed_table_name
from gamay.model.types import FieldRole

__all__ = [
    "BatchIngestionConfig",
    "BloomConfig",
    "ColumnIndexConfig",
    "ComplexTypeConfig",
    "FieldConfig",
    "FilterConfig",
    "IndexingConfig",
    "IngestionConfig",
    "PartitionConfig",
    "QueryConfig",
    "QuotaConfig",
    "RoutingConfig",
    "SegmentPartitionConfig",
    "SegmentsConfig",
    "StreamIngestionConfig",
    "TableConfig",
    "TableType",
    "TenantsConfig",
    "TransformConfig",
    "UpsertConfig",
]


@dataclass(frozen=True)
class TableConfig:
    """A table config; its parts are named by their subject, with their JSON keys beside them.

    Parsing checks the form only; `validation.validate_table_config` checks the meaning.
    """

    typed_name: str = key("tableName", TEXT, REQUIRED)
    table_type: TableType = key("tableType", member(TableType), REQUIRED)
    segments: SegmentsConfig = key("segmentsConfig", section(SegmentsConfig), REQUIRED)
    tenants: TenantsConfig = key("tenants", section(TenantsConfig), REQUIRED)
    indexing: IndexingConfig = key("tableIndexConfig", section(IndexingConfig), REQUIRED)
    ingestion: IngestionConfig = key("ingestionConfig", section(IngestionConfig), IngestionConfig())
    field_configs: tuple[FieldConfig, ...] = key("fieldConfigList", list_of(section(FieldConfig)), ())
    metadata: MetadataConfig | None = key("metadata", section(MetadataConfig))
    is_dim_table: bool = key("isDimTable", FLAG, False)
    is_materialized_view: bool = key("isMaterializedView", FLAG, False)
    quota: QuotaConfig = key("quota", section(QuotaConfig), QuotaConfig())
    task: TaskConfig | None = key("task", section(TaskConfig))
    routing: RoutingConfig = key("routing", section(RoutingConfig), RoutingConfig())
    query: QueryConfig = key("query", section(QueryConfig), QueryConfig())
    instance_assignment: Mapping[str, InstanceAssignmentConfig] = key(
        "instanceAssignmentConfigMap", map_of(section(InstanceAssignmentConfig)), EMPTY_MAP
    )
    instance_partitions: Mapping[str, str] = key("instancePartitionsMap", TEXT_MAP, EMPTY_MAP)
    segment_assignment: Mapping[str, SegmentAssignmentConfig] = key(
        "segmentAssignmentConfigMap", map_of(section(SegmentAssignmentConfig)), EMPTY_MAP
    )
    upsert: UpsertConfig | None = key("upsertConfig", section(UpsertConfig))
    dedup: DedupConfig | None = key("dedupConfig", section(DedupConfig))
    dimension_table: DimensionTableConfig | None = key("dimensionTableConfig", section(DimensionTableConfig))
    tiers: tuple[TierConfig, ...] = key("tierConfigs", list_of(section(TierConfig)), ())
    tuners: tuple[NamedProperties, ...] = key("tunerConfigs", list_of(section(NamedProperties)), ())
    samplers: tuple[NamedProperties, ...] = key("tableSamplers", list_of(section(NamedProperties)), ())
    description: str | None = key("description", TEXT)
    tags: tuple[str, ...] = key("tags", list_of(TEXT), ())

    @classmethod
    def from_json(cls, document: Any) -> Parsed["TableConfig"]:
        """Parse table config JSON (a dict); raises InvalidConfigError with all formal problems."""
        name = document.get("tableName") if isinstance(document, dict) else None
        what = f"the table config of '{name}'" if name else "the table config"
        parsed = read_document(cls, document, what)
        config = parsed.value
        try:
            typed = dataclasses.replace(config, typed_name=typed_table_name(config.typed_name, config.table_type))
        except InvalidConfigError as error:
            raise InvalidConfigError(f"{what} is not valid: /tableName: {error}") from None
        return Parsed(typed, parsed.unrecognized, parsed.suggestions)

    @classmethod
    def offline(cls, name: str, **parts: Any) -> "TableConfig":
        """Return the minimal config of an OFFLINE table: one replica, everything else by default or from `parts`."""
        plain = cls(
            typed_name=typed_table_name(name, TableType.OFFLINE),
            table_type=TableType.OFFLINE,
            segments=SegmentsConfig(replication=1),
            tenants=TenantsConfig(),
            indexing=IndexingConfig(),
        )
        return dataclasses.replace(plain, **parts)

    def to_json(self) -> dict[str, Any]:
        """Return the config in Pinot's form, with the effective value of every scalar that has a default."""
        return write_section(self)

    @property
    def effective_assignment(self) -> Mapping[str, InstanceAssignmentConfig]:
        """`instanceAssignmentConfigMap`, or the equivalent of the older `replicaGroupStrategyConfig` of an OFFLINE table."""
        groups, segments = self.segments.replica_group_strategy, self.segments
        if groups is None or not segments.asks_for_replica_groups or self.table_type is not TableType.OFFLINE:
            return self.instance_assignment
        column, partitions = groups.partition_column, self.indexing.segment_partition
        size = groups.num_instances_per_partition
        by_partition = {} if partitions is None or column is None else partitions.columns
        divided = ReplicaGroupPartitionConfig(
            replica_group_based=True,
            num_replica_groups=self.replication,
            num_instances_per_replica_group=size if column is None else 0,
            num_partitions=by_partition[column].num_partitions if column is not None and column in by_partition else 0,
            num_instances_per_partition=0 if column is None else size,
        )
        assignment = InstanceAssignmentConfig(
            TagPoolConfig(f"{self.tenants.server}_OFFLINE"),
            divided,
            minimize_data_movement=bool(segments.minimize_data_movement),
        )
        return {"OFFLINE": assignment}

    @property
    def active_upsert(self) -> UpsertConfig | None:
        """`upsertConfig`, None if its mode is NONE."""
        return None if self.upsert is None or self.upsert.mode == "NONE" else self.upsert

    @property
    def active_dedup(self) -> DedupConfig | None:
        """`dedupConfig`, None if it is disabled."""
        return None if self.dedup is None or not self.dedup.dedup_enabled else self.dedup

    @property
    def has_keys(self) -> bool:
        """Whether rows are distinguished by primary keys: they replace each other, or duplicates are dropped."""
        return self.active_upsert is not None or self.active_dedup is not None

    @property
    def raw_name(self) -> str:
        """The table's name without its type."""
        return raw_table_name(self.typed_name)

    @property
    def time_column(self) -> str | None:
        """The column by which segments are pruned and retained."""
        return self.segments.time_column_name

    @property
    def sorted_column(self) -> str | None:
        """The column that consuming segments are sorted by when they are committed: the first one listed."""
        return self.indexing.sorted_columns[0] if self.indexing.sorted_columns else None

    @property
    def replication(self) -> int:
        """The number of replicas of each segment; for a REALTIME table the older `replicasPerPartition` takes precedence."""
        older = self.segments.replicas_per_partition if self.table_type is TableType.REALTIME else None
        return older or self.segments.replication or 1

    @property
    def replaces_all(self) -> bool:
        """Whether a push replaces all rows (REFRESH) instead of adding some (APPEND).

        `batchIngestionConfig` or the older `segmentPushType` decide; the default is REFRESH for dimension tables only.
        """
        batch = self.ingestion.batch
        kind = self.segments.segment_push_type if batch is None else batch.segment_ingestion_type
        return self.table_type is TableType.OFFLINE and (kind == "REFRESH" or (kind is None and self.is_dim_table))

    @property
    def compared_columns(self) -> tuple[str, ...]:
        """The columns that determine which row of a key is the latest, or how long a key is remembered."""
        upsert, dedup = self.active_upsert, self.active_dedup
        named = () if upsert is None else upsert.comparison_columns or (upsert.comparison_column or self.time_column,)
        return tuple(filter(None, (*named, dedup and (dedup.dedup_time_column or self.time_column))))

    def keeps_bounds(self, schema: Schema, column: str) -> bool:
        """Whether segments store the least and the greatest value of the column, by `columnMinMaxValueGeneratorMode`.

        Those of the time column and of `compared_columns` are always stored: retention, time boundaries and TTLs need them.
        """
        if column in (self.time_column, *self.compared_columns):
            return True
        mode, role = self.indexing.column_min_max_value_generator_mode, schema.field(column).role
        if mode == "NON_METRIC":
            return role is not FieldRole.METRIC
        return role in (FieldRole.TIME, FieldRole.DATE_TIME) if mode == "TIME" else mode != "NONE"

    def null_handling(self, schema: Schema, column: str) -> bool:
        """Whether the column records which of its values were null."""
        if schema.enable_column_based_null_handling:
            return not schema.field(column).not_null
        return self.indexing.null_handling_enabled

    def field_config(self, column: str) -> FieldConfig | None:
        """Return the column's entry of `fieldConfigList`."""
        return next((f for f in self.field_configs if f.name == column), None)

    def column_index(self, schema: Schema, column: str) -> ColumnIndexConfig:
        """Return all declarations about the column's encoding and indexes, merged."""
        return column_index(self.indexing, self.field_config(column), schema.field(column))

    def timestamp_columns(self, schema: Schema, spec: FieldSpec) -> list[TimestampColumn]:
        """Return the columns that a timestamp index derives from a column of the schema."""
        return list(timestamp_columns(schema, self.field_config(spec.name), spec))
