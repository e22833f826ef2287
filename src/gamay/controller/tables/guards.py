"""Rules that a cluster enforces in every table config: replicas, and the size of dimension tables."""

from collections.abc import Mapping
from dataclasses import replace

from gamay.base.errors import InvalidConfigError
from gamay.model.cluster_settings import DIMENSION_TABLE_SIZE, TABLE_MIN_REPLICAS
from gamay.model.table.table_config import TableConfig
from gamay.model.units import parse_data_size


def guarded(config: TableConfig, settings: Mapping[str, str]) -> TableConfig:
    """Return the config with at least the cluster's minimum of replicas, and with a storage quota for a dimension table.

    settings: the cluster's. Raises InvalidConfigError for a dimension table whose quota is larger than the cluster
    allows.
    """
    return _of_bounded_size(_with_replicas(config, TABLE_MIN_REPLICAS.whole(settings)), settings)


def _with_replicas(config: TableConfig, least: int) -> TableConfig:
    segments = config.segments
    older = segments.replicas_per_partition
    raised = replace(
        segments,
        replication=max(segments.replication or least, least),
        replicas_per_partition=None if older is None else max(older, least),
    )
    return replace(config, segments=raised)


def _of_bounded_size(config: TableConfig, settings: Mapping[str, str]) -> TableConfig:
    if not config.is_dim_table:
        return config
    largest = DIMENSION_TABLE_SIZE.text(settings)
    if config.quota.storage is None:
        return replace(config, quota=replace(config.quota, storage=largest))
    if parse_data_size(config.quota.storage) > parse_data_size(largest):
        raise InvalidConfigError(
            f"Invalid storage quota: {config.quota.storage} of the dimension table {config.typed_name}, max allowed size: "
            f"{largest} ({DIMENSION_TABLE_SIZE.name})"
        )
    return config
