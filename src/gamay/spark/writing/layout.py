"""The layout of a write: the partitioning of rows into segments, and their order within segments."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gamay.base.errors import InvalidConfigError, nearest
from gamay.model.schema.schema import Schema
from gamay.model.table.table_config import TableConfig
from gamay.model.table.table_name import TableType
from gamay.model.types import DataType
from gamay.spark.source_options import WriteOptions

_PARTS_OF_CONSUMED = 4  # <table>__<partition>__<sequence>__<time>
_SOME_PARTITIONS = ".partition.ids"  # the key for the partitions to consume, if not all


@dataclass(frozen=True, slots=True)
class WriteLayout:
    """The layout of segments.

    partition_column: the column by which rows are partitioned, one partition per segment; None for no partitioning.
    sort_columns: the sort order of rows. names_partition: whether names of segments contain their partition, from which
    REALTIME tables derive the partition of keys.
    """

    partition_column: str | None
    sort_columns: tuple[str, ...]
    names_partition: bool

    @classmethod
    def of(cls, options: WriteOptions, schema: Schema, config: TableConfig) -> "WriteLayout":
        """Return the layout by the options, or else by the table's config.

        Raises InvalidConfigError for columns that are unknown or do not fit the config, and for a REALTIME table with
        primary keys whose partitions are not configured.
        """
        is_realtime = config.table_type is TableType.REALTIME
        by = _partition_column(options, schema, config)
        if by is None and is_realtime and config.has_keys:
            raise InvalidConfigError(
                f"table '{config.typed_name}' has primary keys, and rows must go to the partitions of its stream: say "
                f"in its segmentPartitionConfig how a column of the primary key tells them"
            )
        return cls(by, _sort_columns(options, schema, config), is_realtime)

    def name(self, base: str, table: str, partition: int, now_ms: int) -> str:
        """Return the name of a segment. base: its unique part. table: the raw name.

        >>> WriteLayout(None, (), True).name("trips_job-1_0", "trips", 3, 0)
        'trips_job-1_0__trips__3__19700101T0000Z__spark'
        """
        if not self.names_partition:
            return base
        time = datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%MZ")
        return f"{base}__{table}__{partition}__{time}__spark"


def check_stream_partitions(layout: WriteLayout, config: TableConfig, segments: Iterable[str]) -> None:
    """Raise InvalidConfigError if a REALTIME table's config partitions keys differently than its stream.

    segments: the names of the table's segments; the consumed ones contain the partitions of the stream.
    """
    partitioning = config.indexing.segment_partition
    if not config.has_keys or layout.partition_column is None or partitioning is None:
        return
    wanted = partitioning.columns[layout.partition_column].num_partitions
    consumed = [name.split("__") for name in segments if name.startswith(f"{config.raw_name}__")]
    found = {int(parts[1]) for parts in consumed if len(parts) == _PARTS_OF_CONSUMED and parts[1].isdecimal()}
    is_part = any(key.endswith(_SOME_PARTITIONS) for stream in _streams(config) for key in stream)
    has = max(found, default=wanted - 1) + 1
    if has > wanted or (has < wanted and not is_part):
        raise InvalidConfigError(
            f"the stream of table '{config.typed_name}' has {has} partitions, but segmentPartitionConfig has "
            f"numPartitions {wanted} for '{layout.partition_column}': keys would miss their rows; let it be {has}"
        )


def _streams(config: TableConfig) -> Sequence[Mapping[str, str]]:
    stream = config.ingestion.stream
    return () if stream is None else stream.stream_config_maps


def _partition_column(options: WriteOptions, schema: Schema, config: TableConfig) -> str | None:
    partitioning = config.indexing.segment_partition
    configured = [] if partitioning is None else list(partitioning.columns)
    if options.partition_by is None:
        keyed = [name for name in configured if name in schema.primary_key_columns]
        if config.has_keys and config.table_type is TableType.REALTIME and len(keyed) > 1:
            raise InvalidConfigError(
                f"table '{config.typed_name}' says of {', '.join(keyed)} how they are partitioned: say by .option("
                f"'partitionBy', …) which of them tells the partition of its stream"
            )
        return next(iter(keyed), None) if config.has_keys else None
    _check_columns("partitionBy", (options.partition_by,), schema, config)
    if options.partition_by not in configured:
        raise InvalidConfigError(
            f"partitionBy: table '{config.typed_name}' does not say how '{options.partition_by}' is partitioned; its "
            f"segmentPartitionConfig must have the column, as "
            f'{{"columnPartitionMap": {{"{options.partition_by}": {{"functionName": "Murmur", "numPartitions": 8}}}}}}'
        )
    if config.has_keys and options.partition_by not in schema.primary_key_columns:
        raise InvalidConfigError(
            f"partitionBy: '{options.partition_by}' is no column of the primary key of table '{config.typed_name}', by "
            f"which its rows are partitioned"
        )
    return options.partition_by


def _sort_columns(options: WriteOptions, schema: Schema, config: TableConfig) -> tuple[str, ...]:
    own = config.sorted_column
    if not options.sort_by:
        return (own,) if own is not None and own in schema and schema.field(own).single_value else ()
    _check_columns("sortBy", options.sort_by, schema, config)
    if own is not None and options.sort_by[0] != own:
        raise InvalidConfigError(
            f"sortBy: rows of table '{config.typed_name}' are in the order of '{own}' (sortedColumn); name it first"
        )
    return options.sort_by


def _check_columns(option: str, names: tuple[str, ...], schema: Schema, config: TableConfig) -> None:
    stored = [spec.name for spec in schema.stored_fields]
    for name in names:
        if name not in stored:
            raise InvalidConfigError(f"{option}: table '{config.typed_name}' has no column '{name}'.{nearest(name, stored)}")
        if not schema.field(name).single_value:
            raise InvalidConfigError(f"{option}: column '{name}' has several values in a row")
        if schema.field(name).data_type is DataType.MAP:
            raise InvalidConfigError(f"{option}: column '{name}' is a MAP, and maps have no order")
