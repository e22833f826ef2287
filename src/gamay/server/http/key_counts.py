"""The numbers of primary keys on a server, for memory planning."""

from collections.abc import Mapping
from typing import Any

from gamay.server.instance.instance import ServerInstance


def upsert_keys(instance: ServerInstance, table: str) -> Mapping[str, int]:
    """Return the number of primary keys of each partition of a typed table with `upsertConfig`; empty for others."""
    keys = instance.upserts.upsert(table)
    return {} if keys is None else {str(number): found.num_keys for number, found in sorted(keys.partitions().items())}


def instance_keys(instance: ServerInstance, now_ms: int) -> dict[str, Any]:
    """Return the numbers of primary keys of all upsert and dedup tables."""
    held = {table: keys for table in instance.tables() if (keys := instance.upserts.of(table, None)) is not None}
    return {
        "instanceId": instance.id,
        "numPrimaryKeys": sum(part.num_keys for keys in held.values() for part in keys.partitions().values()),
        "upsertAndDedupTables": sorted(held),
        "lastUpdatedTimeInEpochMs": now_ms,
    }
