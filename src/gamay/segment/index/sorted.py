"""Sorted index: the first doc of each dictionary id, for a single-value column whose rows ascend.

sorted.starts := i32[cardinality + 1]: id d occupies docs starts[d] … starts[d + 1] - 1
"""

import numpy as np

from gamay.segment.encode.checks import BufferChecker
from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.encode.metadata import ColumnMeta, Encoding
from gamay.segment.index.spi import IndexedRows, StoredColumn
from gamay.segment.spi import SORTED, Ids

STARTS = f"{SORTED.name}.starts"


class SortedType:
    """Implements `ColumnIndexType`. Every column with a dictionary whose rows ascend has the index."""

    key = SORTED

    def write(self, writer: BufferWriter, rows: IndexedRows) -> list[BufferMeta]:
        if rows.counts is None or not rows.is_sorted:
            return []
        starts = np.zeros(len(rows.counts) + 1, np.int32)
        np.cumsum(rows.counts, out=starts[1:])
        return [writer.add(STARTS, [starts])]

    def read(self, file: BufferFile, buffers: dict[str, BufferMeta], column: StoredColumn) -> "SortedStarts":
        return SortedStarts(file.array(buffers[STARTS], np.int32))

    def check(self, checker: BufferChecker, meta: ColumnMeta, num_docs: int) -> None:
        checker.expect(STARTS, meta.single_value and meta.encoding is Encoding.DICTIONARY, "not of ids")
        checker.offsets(STARTS, checker.array(STARTS, np.int32, (meta.stats.cardinality or 0) + 1), num_docs)


# Read


class SortedStarts:
    """Implements `segment.spi.SortedIndex`."""

    def __init__(self, starts: Ids) -> None:
        self._starts = starts

    @property
    def starts(self) -> Ids:
        return self._starts
