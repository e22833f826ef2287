"""Inverted index of a growing column: a linked list of positions for each id."""

from typing import Any

import numpy as np
from pyroaring import BitMap

from gamay.kernels.encode.postings import link, walk
from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.mutable.buffers import BufferFolder, MemoryUse
from gamay.segment.spi import Ids

# Following a chain costs about as much per position as scanning this number of ids, so frequent ids are found by a scan.
_SCANNED_PER_STEP = 16
_STEPS_MIN = 1024


class ChainedPostings:
    """The writer's index: 4 bytes per value and 4 per id."""

    def __init__(self, buffers: BufferFolder, num_values: int, cardinality: int) -> None:
        self._heads = buffers.array(np.uint32, cardinality)
        self._links = buffers.array(np.uint32, num_values)

    def append(self, ids: Ids, cardinality: int) -> None:
        """Add the ids of the next values."""
        start, end = self._links.used, self._links.used + len(ids)
        self._heads.reserve(cardinality)
        self._links.reserve(end)
        link(ids, start, self._heads.array, self._links.array)
        self._heads.used, self._links.used = cardinality, end

    def positions(self, wanted: Ids, num_values: int) -> "Ids | None":
        """Return the positions below `num_values` of some ids, unordered; None if a scan is cheaper."""
        # most lookups find few rows, for which allocating a large array would cost more than following the chain
        for room in (_STEPS_MIN, num_values // _SCANNED_PER_STEP):
            out = np.empty(room, np.uint32)
            found = int(walk(wanted, num_values, self._heads.readable, self._links.readable, out))
            if found >= 0:
                return out[:found]
        return None

    def memory(self) -> MemoryUse:
        """Return the memory use of heads and links."""
        return self._heads.memory + self._links.memory


class ViewPostings:
    """The docs of each id among the rows of a view; implements `segment.spi.InvertedIndex`."""

    def __init__(self, postings: ChainedPostings, ids: Ids, offsets: "Ids | None", cardinality: int) -> None:
        """ids: of all values of the view; offsets: of each row's values, None for single-value columns."""
        self._postings = postings
        self._ids = ids
        self._offsets = offsets
        self._cardinality = cardinality

    def docs(self, dict_id: int) -> BitMap:
        """Return the docs of one id."""
        return self.docs_of_any(np.array([dict_id], np.int32))

    def docs_of_any(self, dict_ids: Ids) -> BitMap:
        """Return the union of the docs of several ids."""
        positions: Any = self._postings.positions(np.asarray(dict_ids, np.int32), len(self._ids))
        if positions is None:
            wanted = np.zeros(self._cardinality, np.bool_)
            wanted[dict_ids] = True
            positions = np.flatnonzero(wanted[self._ids])
        else:
            positions = np.sort(positions)
        if self._offsets is not None:
            positions = np.searchsorted(self._offsets, positions, side="right") - 1
        return bitmap_of(positions)
