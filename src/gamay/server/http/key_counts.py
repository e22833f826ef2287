"""How many primary keys a server holds, told to whoever plans its memory."""

from collections.abc import Mapping
from typing import Any

from gamay.server.instance.instance import ServerInstance


def upsert_keys(instance: ServerInstance, table: str) -> Mapping[str, int]:
    """Return the primary keys of each partition of a typed table with `upsertConfig`; nothing for others."""
    keys = instance.upserts.upsert(table)
    return {} if keys is None else {str(number): found.num_keys for number, found in sorted(keys.partitions().items())}


def instance_keys(instance: ServerInstance, now_ms: int) -> dict[str, Any]:
    """Return the primary keys of all tables whose rows replace each other, or that drop repeated ones."""
    held = {table: keys for table in instance.tables() if (keys := instance.upserts.of(table, None)) is not None}
    return {
        "instanceId": instance.id,
        "numPrimaryKeys": sum(part.num_keys for keys in held.values() for part in keys.partitions().values()),
        "upsertAndDedupTables": sorted(held),
        "lastUpdatedTimeInEpochMs": now_ms,
    }
