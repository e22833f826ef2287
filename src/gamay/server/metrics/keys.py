"""Metrics of tables with primary keys, with Pinot's names."""

from collections.abc import Iterator

from gamay.base.metrics import Measured, MetricKind
from gamay.upsert.partitions.partition import PartitionUpsert
from gamay.upsert.spi import KeyedTable
from gamay.upsert.tables.dedup import TableDedup
from gamay.upsert.tables.table import TableUpsert

_PREFIX = "pinot_server_"


def measure_keys(labels: dict[str, str], keys: KeyedTable | None) -> Iterator[Measured]:
    """Yield the metrics of each partition of a table; labels: of the table. Nothing for tables without primary keys."""
    if isinstance(keys, TableUpsert):
        for partition_id, partition in sorted(keys.partitions().items()):
            yield from _upsert({**labels, "partition": str(partition_id)}, partition)
        if keys.num_bounded is not None:
            bounded = "Sums of INCREMENT that stayed at the bound of their type"
            yield Measured(f"{_PREFIX}partialUpsertSumsBounded", keys.num_bounded, bounded, labels, MetricKind.COUNTER)
    elif isinstance(keys, TableDedup):
        for partition_id, dedup in sorted(keys.partitions().items()):
            of = {**labels, "partition": str(partition_id)}
            yield Measured(f"{_PREFIX}dedupPrimaryKeysCount", dedup.num_keys, "Primary keys that are held", of)
            yield Measured(f"{_PREFIX}primaryKeysMemoryBytes", dedup.num_bytes, "Bytes of the primary-key index", of)
            for name, value, text in (
                ("realtimeDedupDropped", dedup.num_dropped, "Rows whose key was there"),
                ("metadataTtlPrimaryKeysRemoved", dedup.num_expired, "Keys beyond metadataTTL that were removed"),
            ):
                yield Measured(f"{_PREFIX}{name}", value, text, of, MetricKind.COUNTER)


def _upsert(of: dict[str, str], partition: PartitionUpsert) -> Iterator[Measured]:
    counters, is_partial = partition.counters, partition.settings.is_partial
    for name, value, text in (
        ("upsertPrimaryKeysCount", partition.num_keys, "Primary keys that are held"),
        ("primaryKeysMemoryBytes", partition.num_bytes, "Bytes of the primary-key index and of the sets of rows"),
        ("upsertValidDocIdSnapshotCount", counters.snapshot_segments, "Segments whose valid rows are on disk"),
        ("upsertPrimaryKeysInSnapshotCount", counters.snapshot_keys, "Valid rows in these snapshots"),
        ("upsertPreloadTimeMs", counters.preload_ms, "Milliseconds of loading segments by their snapshots"),
        ("upsertSnapshotTimeMs", counters.snapshot_ms, "Milliseconds of storing the snapshots the last time"),
        ("upsertRemoveExpiredPrimaryKeysTimeMs", counters.expiry_ms, "Milliseconds of removing keys the last time"),
    ):
        yield Measured(f"{_PREFIX}{name}", value, text, of)
    not_replaced = "partialUpsertKeysNotReplaced" if is_partial else "realtimeUpsertInconsistentRows"
    for name, value, text in (
        ("partialUpsertOutOfOrder" if is_partial else "upsertOutOfOrder", counters.out_of_order, "Rows out of order"),
        ("upsertRowsRejected", counters.rejected, "Rows that could not be compared or merged: see the dead letters"),
        ("upsertLateRowsSkipped", counters.skipped, "Rows that isSkipLateEvent left out"),
        (not_replaced, counters.keys_not_replaced, "Keys that a committed segment lacked: replicas may differ in them"),
        ("metadataTtlPrimaryKeysRemoved", counters.ttl_removed, "Keys beyond metadataTTL that were removed"),
        ("deletedKeysTtlPrimaryKeysRemoved", counters.deleted_ttl_removed, "Deleted keys that were removed"),
        ("upsertMissedValidDocIdSnapshotCount", counters.snapshots_missed, "Snapshots that could not be written"),
        ("upsertPreloadFailure", counters.snapshots_unreadable, "Snapshots that could not be read"),
    ):
        yield Measured(f"{_PREFIX}{name}", value, text, of, MetricKind.COUNTER)
