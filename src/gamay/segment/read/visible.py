"""Segments with invalid docs: what queries see of a table with primary keys.

A writer maintains the valid docs as a bitmap and returns copies; a copy never changes, so queries need no lock.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
from pyroaring import BitMap

from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.spi import Column, DocIds, Segment


class VisibleDocs:
    """An immutable snapshot of the valid docs of a segment.

    bits: uint8, doc d is bit d & 7 of byte d >> 3; must not be modified. Docs beyond them are invalid.
    """

    def __init__(self, bits: "np.ndarray[Any, np.dtype[np.uint8]]", num_docs: int) -> None:
        self.bits = bits
        self.num_docs = num_docs

    @cached_property
    def mask(self) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        """Whether each row is valid: bool [num_docs]; must not be written to."""
        known = np.unpackbits(self.bits, count=self._num_known, bitorder="little").view(np.bool_)
        return (
            known if len(known) == self.num_docs else np.concatenate((known, np.zeros(self.num_docs - len(known), np.bool_)))
        )

    @cached_property
    def count(self) -> int:
        """The number of valid rows."""
        num_words, rest = divmod(self._num_known, 64)
        words = self.bits[: 8 * num_words].view(np.uint64)
        last = int.from_bytes(self.bits[8 * num_words : 8 * num_words + 8].tobytes(), "little")
        return int(np.bitwise_count(words).sum()) + (last & ((1 << rest) - 1)).bit_count()

    @property
    def _num_known(self) -> int:
        """The number of rows that the bits cover."""
        return min(self.num_docs, 8 * len(self.bits))

    @cached_property
    def docs(self) -> DocIds:
        """The doc ids, ascending."""
        return np.flatnonzero(self.mask).astype(np.int32)

    def bitmap(self) -> BitMap:
        """Return the rows as a roaring bitmap, the form of snapshots on disk."""
        return bitmap_of(self.docs)

    def upto(self, num_docs: int) -> "VisibleDocs":
        """Return the valid docs for a growing segment at a moment when it has `num_docs` rows."""
        return self if num_docs == self.num_docs else VisibleDocs(self.bits, num_docs)


class VisibleSegment:
    """A segment with its valid docs; implements `segment.spi.Segment`, whose columns have all rows.

    kept: cached results of queries, see `ImmutableSegment`; none for a consuming segment.
    """

    def __init__(self, segment: Segment, visible: VisibleDocs) -> None:
        self.name = segment.name
        self.num_docs = segment.num_docs
        self.column_names = segment.column_names
        self.metadata: Mapping[str, Any] = segment.metadata
        self.visible = visible.upto(segment.num_docs)
        self.kept: dict[Any, Any] = getattr(segment, "kept", {})
        self._segment = segment

    def column(self, name: str) -> Column:
        """Return a column with all its rows; raises KeyError when the segment does not have it."""
        return self._segment.column(name)
