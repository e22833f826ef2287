"""What a consumer asks of a table with primary keys before it appends a batch to its consuming segment, and after.

    rows = keys.prepare(batch)      # decides, merges, drops; what queries see does not change yet
    segment.append(rows.batch)      # the rows become doc ids rows.first_doc, rows.first_doc + 1, …
    keys.publish(rows)              # replaced rows stop to count and the new ones begin to, in one step
                                    # or, where the append failed: keys.undo(rows)

Only one thread calls these for a partition, in the order of the stream. Between `prepare` and `publish` nothing else of the
partition is called. Tables without upsertConfig and dedupConfig have no such object.
"""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class PreparedRows:
    """A batch as it is to be appended, all of it.

    batch: conformed rows: merged ones for PARTIAL, `outOfOrderRecordColumn` filled in, without the rows that are dropped.
    first_doc: the doc id that its first row must get: how many rows were prepared for this segment before.
    kept: int64 [batch.num_rows], ascending: which row of the input each row is; so offsets can be told of those dropped.
    num_dropped: duplicates of a dedup table, or out-of-order rows with dropOutOfOrderRecord, or late ones that are skipped.
    num_out_of_order: rows that came with a smaller comparison value than the row that counts, dropped or not.
    num_rejected: rows that have no comparison value, or more than one of several; `rejected` are these rows of the input.
    effect: what `publish` needs; nobody else looks into it.
    """

    batch: pa.RecordBatch
    first_doc: int
    kept: "np.ndarray[Any, np.dtype[np.int64]]"
    num_dropped: int
    num_out_of_order: int
    num_rejected: int
    rejected: "np.ndarray[Any, np.dtype[np.int64]]"
    effect: Any


class ConsumingKeys(Protocol):
    """The primary keys of one consuming segment of one partition."""

    def prepare(self, batch: pa.RecordBatch) -> PreparedRows:
        """Look up the keys of a conformed batch and decide about each row, in its order.

        After an exception the segment must be consumed again from its start offset.
        """
        ...

    def publish(self, rows: PreparedRows) -> None:
        """Let the appended rows count, and those that they replace no longer; call it after the append."""
        ...

    def undo(self, rows: PreparedRows) -> None:
        """Forget rows that were prepared and could not be appended; what they would have replaced goes on to count."""
        ...
