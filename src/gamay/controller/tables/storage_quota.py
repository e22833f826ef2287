"""How much a table may store: `quota.storage`, of one replica."""

from collections.abc import Mapping

from gamay.base.errors import GamayError
from gamay.cluster.records.registry import Registry
from gamay.model.table.table_config import TableConfig
from gamay.model.units import parse_data_size


class StorageQuotaError(GamayError):
    """Segments that would make a table store more than it may."""

    http_status = 403


def excess(registry: Registry, config: TableConfig, coming: Mapping[str, int] | None = None) -> str | None:
    """Return by how much a table exceeds its quota, in words; None when it does not.

    coming: bytes of segments that are to be added, or to take the place of those of their names. Sizes are those of the
    archives in the records, so what replicas need of them beside that does not count.
    """
    if config.quota.storage is None:
        return None
    used = stored_bytes(registry, config.typed_name, coming)
    if used <= parse_data_size(config.quota.storage):
        return None
    stores = "stores" if coming is None else "would store"
    return f"table {config.typed_name} {stores} {used:,} bytes, and its quota.storage is {config.quota.storage}"


def stored_bytes(registry: Registry, table: str, coming: Mapping[str, int] | None = None) -> int:
    """Return the bytes that one replica of a typed table has, as its records say, or would have with those `coming`."""
    sizes = {record.name: record.size_bytes for record in registry.segments(table)} | dict(coming or {})
    return sum(max(0, size) for size in sizes.values())


def check_room(registry: Registry, config: TableConfig, coming: Mapping[str, int]) -> None:
    """Raise StorageQuotaError when a table may not store these segments, name -> bytes, as well."""
    if problem := excess(registry, config, coming):
        raise StorageQuotaError(f"{problem}; delete segments, or raise the quota")
