"""Building blocks of buffer checks: sizes, ascending offsets, and sets of docs."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from gamay.base.errors import CorruptSegmentError
from gamay.kernels.sketch.roaring import is_roaring
from gamay.segment.encode.format import BufferFile, BufferMeta
from gamay.segment.spi import Ids


class BufferChecker:
    """Checker of the buffers of one column or index; each method raises CorruptSegmentError if its condition fails."""

    def __init__(self, file: BufferFile, buffers: Mapping[str, BufferMeta], owner: str) -> None:
        """owner: the name of the column or index, for messages."""
        self._file = file
        self._buffers = buffers
        self._owner = owner

    def expect(self, kind: str, holds: Any, problem: str) -> None:
        """Raise CorruptSegmentError, naming the buffer, unless `holds` is true."""
        if not holds:
            raise CorruptSegmentError(f"{self._file.path}: {self._owner}, {kind}: {problem}")

    def array(self, kind: str, dtype: Any, length: int | None = None) -> Ids:
        """Return a buffer, which must have `length` elements if that is given."""
        buffer = self._buffers.get(kind)
        if buffer is None:
            raise CorruptSegmentError(f"{self._file.path}: {self._owner} has no buffer '{kind}'")
        width = np.dtype(dtype).itemsize
        fits = buffer.size % width == 0 if length is None else buffer.size == length * width
        self.expect(
            kind, fits, f"{buffer.size} bytes, expected {'a multiple of' if length is None else length} times {width}"
        )
        return self._file.array(buffer, dtype)

    def offsets(self, kind: str, offsets: Ids, end: int, *, is_exact: bool = True) -> None:
        """Check that offsets ascend from 0 to `end` or, if not `is_exact`, to at most `end`."""
        ascends = len(offsets) > 0 and offsets[0] == 0 and bool((offsets[1:] >= offsets[:-1]).all())
        ends = ascends and (offsets[-1] == end if is_exact else offsets[-1] <= end)
        self.expect(kind, ends, f"offsets do not ascend from 0 to {end}")

    def sets(self, kind: str, count: int, num_members: int) -> None:
        """Check `count` sets of `gamay.segment.index.bitmaps`, whose members lie below `num_members`."""
        starts = self.array(f"{kind}.starts", np.int64, count + 1)
        counts = self.array(f"{kind}.counts", np.int32, count)
        raw = self.array(f"{kind}.sets", np.uint8)
        self.offsets(f"{kind}.starts", starts, len(raw))
        sizes, wanted = np.diff(starts), 4 * counts.astype(np.int64)
        fits = (counts >= 0) & (sizes <= wanted) & (starts[:-1] % 4 == 0)
        self.expect(f"{kind}.counts", fits.all(), "sets of docs of another size than their number of docs")
        bitmaps = np.flatnonzero(sizes < wanted)
        for first, last in pairwise([-1, *bitmaps.tolist(), count]):
            self._lists(f"{kind}.sets", raw, starts[first + 1 : last + 1], num_members)
            if last < count:
                self.bitmap(f"{kind}.sets", raw[starts[last] : starts[last + 1]], int(counts[last]), num_members)

    def _lists(self, kind: str, raw: Ids, starts: Ids, num_members: int) -> None:
        """Check adjacent sets that are stored as lists of members."""
        if len(starts) == 0 or starts[0] == starts[-1]:
            return
        docs = raw[starts[0] : starts[-1]].view(np.uint32)
        begins = np.zeros(len(docs) + 1, np.bool_)
        begins[(starts - starts[0]) >> 2] = True
        ascends = (docs[1:] > docs[:-1]) | begins[1 : len(docs)]
        self.expect(kind, docs.max() < num_members and ascends.all(), "docs that do not ascend within the segment")

    def bitmap(self, kind: str, raw: Ids, count: int, num_members: int) -> None:
        """Check a roaring bitmap of `count` members below `num_members`."""
        self.expect(kind, is_roaring(raw, num_members, count), "a roaring bitmap that is damaged")
