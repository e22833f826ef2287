"""Null docs of a growing column: one bit a row, and the bitmap that readers get."""

import numpy as np
from pyroaring import BitMap

from gamay.kernels.hash.arrival import set_bits
from gamay.segment.index.bitmaps import bitmap_of
from gamay.segment.mutable.buffers import BufferFolder, GrowingArray, MemoryUse
from gamay.segment.spi import Ids


class NullBits:
    """The rows without a value. No room is taken before there is one."""

    def __init__(self, buffers: BufferFolder) -> None:
        self._buffers = buffers
        self._bits: GrowingArray | None = None
        self.count = 0
        # (rows, null docs among them) as last asked for; readers replace it, and any of their answers may stay
        self._known: tuple[int, BitMap] = (0, BitMap())

    def mark(self, nulls: "Ids | None", num_docs: int) -> None:
        """Add rows behind the first `num_docs`: bool flags, None when none of them is null."""
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
            # beyond what has been reserved there are no nulls
            flags = np.unpackbits(self._bits.readable[first >> 3 : (num_docs + 7) >> 3], bitorder="little")[
                : num_docs - first
            ]
            found = found | bitmap_of(np.flatnonzero(flags) + first)
        self._known = (num_docs, found)
        return found

    def memory(self) -> MemoryUse:
        """Return what the bits take."""
        return MemoryUse(0, 0) if self._bits is None else self._bits.memory
