"""The facts about a segment that routing and pruning use, read from its record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import orjson

from gamay.cluster.records.column_stats import decode_bounds, partitions_of_stream
from gamay.cluster.records.llc_name import partition_of
from gamay.cluster.records.records import IN_PROGRESS
from gamay.cluster.records.time_boundary import ROUNDED_KEY, rounded_ms
from gamay.cluster.store.znrecord import ZNRecord
from gamay.query.prune.by_records import ColumnRange, SegmentRecordStats

_NO_RANGE: ColumnRange = (None, None, None)


@dataclass(slots=True)
class SegmentFacts:
    """Facts about one segment. stats: for pruning. end_time_ms: -1 if unknown. rounded_ms: see `time_boundary.ROUNDED_KEY`,
    0 for none. new_until_ms: until then servers may take to load it.

    was_served: whether a server ever had it; if so, its absence is a failure, however new it is. is_held: whether servers
    may still have it, regardless of the records; false once the table was disabled. partition: the one it belongs to, known
    for tables with primary keys. consumed: the partitions expected in its columns, for a consuming segment, from its table's
    config and the stream partition.
    """

    stats: SegmentRecordStats
    end_time_ms: int
    new_until_ms: int
    was_served: bool = False
    is_held: bool = False
    partition: int | None = None
    consumed: Mapping[str, ColumnRange] = field(default_factory=dict)
    rounded_ms: int = 0

    def from_stream(self, num_partitions: int) -> SegmentRecordStats:
        """Return the known statistics of the rows that a consuming segment has or will have.

        num_partitions: current number of the stream; if it differs from that at the segment's start, keys may have moved.
        """
        columns: dict[str, ColumnRange] = {}
        for name, (low, high, partitions) in self.consumed.items():
            if partitions is not None and partitions.num_partitions == num_partitions:
                columns[name] = low, high, partitions
        return SegmentRecordStats(self.stats.name, None, columns)


def unknown_facts(name: str) -> SegmentFacts:
    """Return the facts about a segment with a damaged record: none, so that it is never pruned, nor new."""
    return SegmentFacts(SegmentRecordStats(name, None, {}), -1, 0)


def facts_of(name: str, document: ZNRecord, new_ms: int) -> SegmentFacts:
    """Return the facts in a segment's record, which may be damaged. new_ms: how long a segment is new."""
    try:
        return _facts_of(name, document, new_ms)
    except (ValueError, KeyError, TypeError, AttributeError):
        return unknown_facts(name)


def _facts_of(name: str, document: ZNRecord, new_ms: int) -> SegmentFacts:
    fields = document.simple
    since_ms = int(fields.get("segment.push.time", -1))
    if since_ms <= 0:
        since_ms = int(fields.get("segment.creation.time", -1))
    end_ms = int(fields.get("segment.end.time", -1))
    num_docs = int(fields.get("segment.total.docs", -1))
    # The cluster's Partitioning has the fields of the engine's PartitionInfo, which the cluster must not import.
    columns = cast(dict[str, ColumnRange], decode_bounds(fields.get("gamay.segment.columns", "")))
    # missing values are unknown and never prune
    stats = SegmentRecordStats(name, num_docs if num_docs >= 0 else None, columns)
    facts = SegmentFacts(stats, end_ms, since_ms + new_ms)
    if ROUNDED_KEY in fields.get("custom.map", ""):
        facts.rounded_ms = rounded_ms(orjson.loads(fields["custom.map"]))
    if fields.get("segment.realtime.status") == IN_PROGRESS:
        partitions = partitions_of_stream(fields.get("segment.partition.metadata", ""))
        consumed = {column: (None, None, partition) for column, partition in partitions.items()}
        facts.consumed = cast(dict[str, ColumnRange], consumed)
    return facts


def partition_held(stats: SegmentRecordStats, keys: Sequence[str]) -> int | None:
    """Return the partition of a segment as servers do: from its name, else from the partition of a primary-key column.

    keys: the columns of the primary key. None if neither determines it.
    """
    by_name = partition_of(stats.name)
    if by_name is not None:
        return by_name
    for key in keys:
        _, _, partitioning = stats.columns.get(key, _NO_RANGE)
        if partitioning is not None and len(partitioning.partitions) == 1:
            return next(iter(partitioning.partitions))
    return None
