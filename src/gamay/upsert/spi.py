"""What a consumer asks of a table with primary keys before it appends a batch to its consuming segment, and after.

    rows = keys.prepare(batch)      # decides, merges, drops; what queries see does not change yet
    segment.append(rows.batch)      # the rows become doc ids rows.first_doc, rows.first_doc + 1, …
    keys.publish(rows)              # replaced rows stop to count and the new ones begin to, in one step
                                    # or, where the append failed: keys.undo(rows)

Only one thread calls these for a partition, in the order of the stream. Between `prepare` and `publish` nothing else of the
partition is called. Tables without upsertConfig and dedupConfig have no such object.
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
"""Makes a segment visible to queries, with the rows of it that count; None: all of them."""


@dataclass(frozen=True, slots=True)
class SegmentSource:
    """A segment that does not change, as the server has loaded it. created_ms: in the cluster's record; for OFFLINE tables
    the time of its push. tier: that it was moved to, empty for none.
    """

    segment: Segment
    crc: int
    created_ms: int
    tier: str = ""


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """A batch as it is to be appended, all of it.

    batch: conformed rows: merged ones for PARTIAL, `outOfOrderRecordColumn` filled in, without the rows that are dropped.
    first_doc: the doc id that its first row must get: how many rows were prepared for this segment before.
    kept: int64 [batch.num_rows], ascending: which row of the input each row is; so offsets can be told of those dropped.
    num_dropped: duplicates of a dedup table, or out-of-order rows with dropOutOfOrderRecord, or late ones that are skipped.
    num_out_of_order: rows that came with a smaller comparison value than the valid row, dropped or not.
    rejected: the rows of the input that cannot be taken, and why: without a comparison value, with more than one of several,
    or refused by the table's merger class.
    effect: what `publish` needs; nobody else looks into it.
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
        """Look up the keys of a conformed batch and decide about each row, in its order.

        After an exception the segment must be consumed again from its start offset.
        """
        ...

    def publish(self, rows: PreparedRows) -> None:
        """Make the appended rows valid, and those that they replace invalid; call it after the append."""
        ...

    def undo(self, rows: PreparedRows) -> None:
        """Forget rows that were prepared and could not be appended; what they would have replaced goes on to count."""
        ...

    def counting(self) -> "np.ndarray[Any, np.dtype[np.int32]] | None":
        """Return the published valid rows, those that delete their key among them, ascending; None: all do."""
        ...


class KeyedPartition(Protocol):
    """The primary keys of one partition of a table on one server."""

    @property
    def num_keys(self) -> int:
        """How many primary keys are held."""
        ...


class KeyedTable(Protocol):
    """The primary keys of a table on one server, as every segment that comes or goes passes through them."""

    def partitions(self) -> Mapping[int, KeyedPartition]:
        """Return the partitions that have a segment here, by id."""
        ...

    def has_snapshot(self, source: SegmentSource) -> bool:
        """Whether the rows of a segment that count are known from disk, so that it is loaded first."""
        ...

    def partition_id(self, segment: Segment) -> int:
        """Return the partition that a segment belongs to. Raises InvalidConfigError when it has rows of several."""
        ...

    def load(self, source: SegmentSource, install: KeyedInstall) -> object:
        """Add a segment, or put it in the place of the one with its name, and let queries see it by `install`."""
        ...

    def expect(self, sources: "Sequence[SegmentSource]") -> None:
        """Get ready for segments that are to be loaded."""
        ...

    def remove(self, name: str, install: Callable[[], None]) -> None:
        """Forget a segment; `install` takes it from the sight of queries."""
        ...

    def settle(self, partition_id: int) -> None:
        """Store what is to be stored of a partition, and forget what may be forgotten."""
        ...

    def must_wait(
        self, partition_id: int, name: str, phase_of: Callable[[str], Phase], absent: Collection[str] = ()
    ) -> bool:
        """Whether a consuming segment must not begin yet, because of those before it that are not sealed yet.

        absent: segments that are to be here and are neither loaded nor consumed, also such as are not sealed.
        """
        ...

    def consume(
        self, partition_id: int, name: str, created_ms: int, read: Callable[[], Segment], install: KeyedInstall
    ) -> ConsumingKeys:
        """Begin a consuming segment from its first row; `read` gives its rows as they are now."""
        ...
