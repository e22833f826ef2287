"""How much a table may store: `quota.storage`, of one replica."""

from gamay.cluster.registry import Registry
from gamay.model.table_config import TableConfig
from gamay.model.units import parse_data_size


def excess(registry: Registry, config: TableConfig) -> str | None:
    """Return by how much a table exceeds its quota, in words; None when it does not.

    Sizes are those of the archives in the records, so what replicas need of them beside that does not count.
    """
    if config.quota.storage is None:
        return None
    allowed = parse_data_size(config.quota.storage)
    used = sum(max(0, record.size_bytes) for record in registry.segments(config.typed_name))
    if used <= allowed:
        return None
    return f"table {config.typed_name} stores {used:,} bytes, and its quota.storage is {config.quota.storage}"
