"""Sorted index: where the docs of each dictionary id begin, for a single-value column whose rows ascend.

sorted.starts := i32[cardinality + 1]: id d occupies docs starts[d] … starts[d + 1] - 1
"""

import numpy as np

from gamay.segment.encode.format import BufferFile, BufferMeta, BufferWriter
from gamay.segment.spi import Ids

KIND = "sorted.starts"


# Build


def write_sorted(writer: BufferWriter, counts: Ids) -> BufferMeta:
    """Write the index; `counts` int64 [cardinality] tells how often each id occurs."""
    starts = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=starts[1:])
    return writer.add(KIND, [starts])


# Read


class SortedStarts:
    """Implements `segment.spi.SortedIndex`."""

    def __init__(self, starts: Ids) -> None:
        self._starts = starts

    @classmethod
    def read(cls, file: BufferFile, buffers: dict[str, BufferMeta]) -> "SortedStarts | None":
        """Open the index, if the column has it."""
        return cls(file.array(buffers[KIND], np.int32)) if KIND in buffers else None

    @property
    def starts(self) -> Ids:
        return self._starts
