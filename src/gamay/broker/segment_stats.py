"""From a segment's record to what pruning needs of it."""

from typing import Any, cast

from gamay.cluster.column_stats import decode_columns
from gamay.cluster.records import SegmentRecord
from gamay.query.prune import ColumnRange, SegmentRecordStats


def stats_of(record: SegmentRecord) -> SegmentRecordStats:
    """Return the bounds and partitions of the record's columns; what it does not tell is unknown and never prunes."""
    columns = {
        # The cluster's Partitioning has the fields of the engine's PartitionInfo, which the cluster must not know.
        name: ColumnRange(summary.minimum, summary.maximum, cast(Any, summary.partition))
        for name, summary in decode_columns(record.column_stats).items()
    }
    return SegmentRecordStats(record.name, record.total_docs if record.total_docs >= 0 else None, columns)
