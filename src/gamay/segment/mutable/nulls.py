"""Null docs of a growing column: one bit per row, and a bitmap for readers."""

import numpy as np
from pyroaring import BitMap

from gamay.kernels.hash.arrival import set_bits
from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.mutable.buffers import BufferFolder, GrowingArray, MemoryUse
from gamay.segment.spi import Ids


class NullBits:
    """The null rows. Uses no memory before the first one."""

    def __init__(self, buffers: BufferFolder) -> None:
        self._buffers = buffers
        self._bits: GrowingArray | None = None
        self.count = 0
        # (rows, null docs among them) of the last request; readers race to replace it, and any result is valid
        self._known: tuple[int, BitMap] = (0, BitMap())

    def mark(self, nulls: "Ids | None", num_docs: int) -> None:
        """Add rows after the first `num_docs`: bool flags, None if none of them is null."""
        if nulls is None:
            return
        if self._bits is None:
            self._bits = self._buffers.array(np.uint8)
        needed = (num_docs + len(nulls) + 7) >> 3
        self._bits.reserve(needed)
        self._bits.used = needed
        set_bits(nulls, num_docs, self._bits.array)
        self.count += int(np.count_nonzero(nulls))

    def docs(self, num_docs: int) -> BitMap:
        """Return the null docs of the first `num_docs` rows, which have been added before."""
        known, found = self._known
        if known == num_docs:
            return found
        if known > num_docs:
            known, found = 0, BitMap()
        if self._bits is not None:
            first = known & ~7
            # there are no nulls beyond the reserved bits
            flags = np.unpackbits(self._bits.readable[first >> 3 : (num_docs + 7) >> 3], bitorder="little")[
                : num_docs - first
            ]
            found = found | bitmap_of(np.flatnonzero(flags) + first)
        self._known = (num_docs, found)
        return found

    def memory(self) -> MemoryUse:
        """Return the memory use of the bits."""
        return MemoryUse(0, 0) if self._bits is None else self._bits.memory
