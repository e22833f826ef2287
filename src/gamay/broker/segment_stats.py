"""From a segment's record to what routing and pruning need of it."""

from dataclasses import dataclass
from typing import Any, cast

from gamay.cluster.column_stats import decode_columns
from gamay.cluster.records import SegmentRecord
from gamay.query.prune import ColumnRange, SegmentRecordStats


@dataclass(frozen=True, slots=True)
class SegmentFacts:
    """stats: for pruning. end_time_ms: -1 when unknown. new_until_ms: until then servers may take to load it."""

    stats: SegmentRecordStats
    end_time_ms: int
    new_until_ms: int


def facts_of(record: SegmentRecord, new_ms: int) -> SegmentFacts:
    """Return what the record tells. new_ms: for how long a segment is new."""
    since_ms = record.push_time_ms if record.push_time_ms > 0 else record.creation_time_ms
    return SegmentFacts(stats_of(record), record.end_time_ms, since_ms + new_ms)


def stats_of(record: SegmentRecord) -> SegmentRecordStats:
    """Return the bounds and partitions of the record's columns; what it does not tell is unknown and never prunes."""
    columns = {
        # The cluster's Partitioning has the fields of the engine's PartitionInfo, which the cluster must not know.
        name: ColumnRange(summary.minimum, summary.maximum, cast(Any, summary.partition))
        for name, summary in decode_columns(record.column_stats).items()
    }
    return SegmentRecordStats(record.name, record.total_docs if record.total_docs >= 0 else None, columns)
