"""The interface of a consumer to a table with primary keys, around each append to its consuming segment.

    rows = keys.prepare(batch)      # decides, merges, drops; not yet visible to queries
    segment.append(rows.batch)      # the rows become doc ids rows.first_doc, rows.first_doc + 1, …
    keys.publish(rows)              # atomically makes replaced rows invalid and the new ones valid
                                    # or, if the append failed: keys.undo(rows)

Only one thread calls these for a partition, in the order of the stream. Between `prepare` and `publish` no other operation
of the partition runs. Tables without upsertConfig and dedupConfig have no such object.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from gamay.segment.spi import Segment
from gamay.upsert.config.parallel import Phase
from gamay.upsert.rows.valid_docs import SegmentDocs

KeyedInstall: TypeAlias = "Callable[[SegmentDocs | None], None]"
"""Publishes a segment to queries, with its valid docs; None: all are valid."""


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """An immutable segment as loaded by the server. created_ms: in the cluster's record; for OFFLINE tables
    the time of its push. tier: the tier that it was moved to, empty for none.
    """

    segment: Segment
    crc: int
    created_ms: int
    tier: str = ""


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """A batch that is ready to be appended as a whole.

    batch: the rows: merged for PARTIAL, with `outOfOrderRecordColumn` filled in, without the rows that are dropped.
    first_doc: the doc id that its first row must get: the number of rows prepared for this segment before.
    kept: int64 [batch.num_rows], ascending: the input row of each row, to map offsets.
    num_dropped: duplicates of a dedup table, or out-of-order rows with dropOutOfOrderRecord, or skipped late ones.
    num_out_of_order: rows with a smaller comparison value than the valid row, dropped or not.
    rejected: the input rows that cannot be accepted, with reasons: no comparison value, more than one of several,
    or rejected by the table's merger class.
    effect: opaque data for `publish`.
    """

    batch: pa.RecordBatch
    first_doc: int
    kept: "np.ndarray[Any, np.dtype[np.int64]]"
    num_dropped: int
    num_out_of_order: int
    rejected: Mapping[int, str]
    effect: Any


class ConsumingKeys(Protocol):
    """The primary keys of one consuming segment of one partition."""

    def prepare(self, batch: pa.RecordBatch) -> PreparedRows:
        """Look up the keys of a batch and decide on each row, in order.

        After an exception the segment must be consumed again from its start offset.
        """
        ...

    def publish(self, rows: PreparedRows) -> None:
        """Make the appended rows valid, and the rows that they replace invalid; to be called after the append."""
        ...

    def undo(self, rows: PreparedRows) -> None:
        """Roll back rows that were prepared and could not be appended; the rows that they would have replaced stay valid."""
        ...

    def counting(self) -> "np.ndarray[Any, np.dtype[np.int32]] | None":
        """Return the published valid rows, including those that delete their key, ascending; None: all are valid."""
        ...


class KeyedPartition(Protocol):
    """The primary keys of one partition of a table on one server."""

    @property
    def num_keys(self) -> int:
        """The number of primary keys."""
        ...


class KeyedTable(Protocol):
    """The primary keys of a table on one server; every segment is added and removed through this interface."""

    def partitions(self) -> Mapping[int, KeyedPartition]:
        """Return the partitions that have a segment here, by id."""
        ...

    def has_snapshot(self, source: SegmentSource) -> bool:
        """Whether the valid docs of a segment are stored on disk, so that it should be loaded first."""
        ...

    def partition_id(self, segment: Segment) -> int:
        """Return the partition that a segment belongs to. Raises InvalidConfigError if it has rows of several."""
        ...

    def load(self, source: SegmentSource, install: KeyedInstall) -> object:
        """Add a segment, or replace the one of its name, and publish it to queries by `install`."""
        ...

    def expect(self, sources: "Sequence[SegmentSource]") -> None:
        """Prepare for segments that will be loaded."""
        ...

    def remove(self, name: str, install: Callable[[], None]) -> None:
        """Remove a segment; `install` hides it from queries."""
        ...

    def settle(self, partition_id: int) -> None:
        """Store the state of a partition, and remove expired keys."""
        ...

    def must_wait(
        self, partition_id: int, name: str, phase_of: Callable[[str], Phase], absent: Collection[str] = ()
    ) -> bool:
        """Whether a consuming segment must not start yet, because earlier ones are not sealed yet.

        absent: segments assigned to this server, sealed or not, that are neither loaded nor consumed.
        """
        ...

    def consume(
        self, partition_id: int, name: str, created_ms: int, read: Callable[[], Segment], install: KeyedInstall
    ) -> ConsumingKeys:
        """Start a consuming segment from its first row. read: returns a view of its current rows."""
        ...
