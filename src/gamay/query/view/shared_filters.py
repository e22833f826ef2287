"""Scans shared by several filters of a query, such as WHERE and FILTER clauses, so that no row is tested twice."""

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from gamay.base.arrays import Mask
from gamay.kernels.tuning import AGGREGATED_BLOCK_ROWS
from gamay.query.bind.predicate import Leaf
from gamay.query.view.counters import ScannedEntries
from gamay.query.view.matches import DocIds

if TYPE_CHECKING:
    from gamay.query.filter.scan import Scan

# the most rows to remember: no block is larger
_SPAN_MAX = 2 * AGGREGATED_BLOCK_ROWS


class SharedFilters:
    """The state that the filters of a query share in one segment.

    leaves: how each predicate is answered. entries: counts the values that are read.
    """

    def __init__(self) -> None:
        self.leaves: dict[Leaf, Any] = {}
        self.entries = ScannedEntries()


class _Memory(threading.local):
    """The latest results of one thread: the flags of rows from `start` on, those that are known; None if all are."""

    start = 0
    flags: Mask = np.zeros(0, np.bool_)
    known: Mask | None = None

    def has(self, first: int, last: int) -> bool:
        """Whether the flags of all rows of [first, last) are known."""
        return self.known is None and self.start <= first and last <= self.start + len(self.flags)

    def touches(self, first: int, last: int) -> bool:
        """Whether some flags of [first, last) may be known, and there is room for all of them."""
        stop = self.start + len(self.flags)
        return self.start < last and first < stop and max(last, stop) - min(first, self.start) <= _SPAN_MAX

    def cover(self, first: int, last: int) -> None:
        """Make room for the rows [first, last)."""
        stop = self.start + len(self.flags)
        low, high = (min(first, self.start), max(last, stop)) if self.touches(first, last) else (first, last)
        flags, known = np.zeros((2, high - low), np.bool_)
        if low <= self.start and stop <= high:
            old = slice(self.start - low, stop - low)
            flags[old], known[old] = self.flags, True if self.known is None else self.known
        self.start, self.flags, self.known = low, flags, known


class SharedScan:
    """Scan that forwards to `scan` only for rows whose result the thread does not remember.

    The rows of a block are tested and then used by one thread, so that it asks again for its latest results.
    """

    def __init__(self, scan: "Scan") -> None:
        self._scan = scan
        self._memory = _Memory()
        self.cost = scan.cost

    def mask(self, first: int, last: int) -> Mask:
        memory = self._memory
        if not memory.has(first, last):
            if not memory.touches(first, last):
                flags = self._scan.mask(first, last)
                if last - first <= _SPAN_MAX:
                    memory.start, memory.flags, memory.known = first, flags.copy(), None
                return flags
            return self.mask_at(np.arange(first, last, dtype=np.int32))
        return memory.flags[first - memory.start : last - memory.start].copy()

    def mask_at(self, docs: DocIds) -> Mask:
        if len(docs) == 0 or docs[-1] - docs[0] >= _SPAN_MAX:
            return self._scan.mask_at(docs)
        memory, first, last = self._memory, int(docs[0]), int(docs[-1]) + 1
        if not memory.has(first, last):
            memory.cover(first, last)
            known = memory.known
            assert known is not None
            missing = docs[~known[docs - memory.start]]
            if len(missing):
                memory.flags[missing - memory.start] = self._scan.mask_at(missing)
                known[missing - memory.start] = True
        return memory.flags[docs - memory.start]
