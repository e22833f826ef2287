"""What is counted of one partition of a table with `upsertConfig`: `gamay.server.metrics.keys` gives it to alerts."""

from dataclasses import dataclass


@dataclass(slots=True)
class UpsertCounters:
    """How often something happened since the start, and the last times of what is done at each commit.

    snapshots_missed: snapshots that could not be written; snapshots_unreadable: that were there and could not be used.
    snapshot_segments, snapshot_keys: how many segments have a snapshot, and how many rows are valid in these.
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
