"""Counters of one partition of a table with `upsertConfig`; `gamay.server.metrics.keys` exports them as metrics."""

from dataclasses import dataclass


@dataclass(slots=True)
class UpsertCounters:
    """Counters since the start, and the last durations of the work at each commit.

    snapshots_missed: snapshots that could not be written; snapshots_unreadable: existing ones that could not be used.
    snapshot_segments, snapshot_keys: the number of segments with a snapshot, and of valid rows in these.
    """

    out_of_order: int = 0
    rejected: int = 0
    skipped: int = 0
    keys_not_replaced: int = 0
    ttl_removed: int = 0
    deleted_ttl_removed: int = 0
    snapshots_missed: int = 0
    snapshots_unreadable: int = 0
    snapshot_segments: int = 0
    snapshot_keys: int = 0
    snapshot_ms: float = 0
    expiry_ms: float = 0
    preload_ms: float = 0
