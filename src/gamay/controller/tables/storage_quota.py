"""The storage quota of a table: `quota.storage`, for one replica."""

from collections.abc import Mapping

from gamay.base.errors import GamayError
from gamay.cluster.records.registry import Registry
from gamay.model.table.table_config import TableConfig
from gamay.model.units import parse_data_size


class StorageQuotaError(GamayError):
    """Segments with which a table would exceed its storage quota."""

    http_status = 403


def excess(registry: Registry, config: TableConfig, coming: Mapping[str, int] | None = None) -> str | None:
    """Return a sentence if a table exceeds its quota, or None.

    coming: name -> bytes of segments to be added or refreshed. Sizes are the archives' sizes in the records, so further
    disk usage of replicas does not count.
    """
    if config.quota.storage is None:
        return None
    used = stored_bytes(registry, config.typed_name, coming)
    if used <= parse_data_size(config.quota.storage):
        return None
    stores = "stores" if coming is None else "would store"
    return f"table {config.typed_name} {stores} {used:,} bytes, and its quota.storage is {config.quota.storage}"


def stored_bytes(registry: Registry, table: str, coming: Mapping[str, int] | None = None) -> int:
    """Return the bytes of one replica of a typed table by its records, including `coming` segments."""
    sizes = {record.name: record.size_bytes for record in registry.segments(table)} | dict(coming or {})
    return sum(max(0, size) for size in sizes.values())


def check_room(registry: Registry, config: TableConfig, coming: Mapping[str, int]) -> None:
    """Raise StorageQuotaError if the table would exceed its quota with additional segments. coming: name -> bytes."""
    if problem := excess(registry, config, coming):
        raise StorageQuotaError(f"{problem}; delete segments, or raise the quota")
